"""Arrays of every type that numpy has, wherever an executor takes one: right, or one clear line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi

from support import small_graph as small
from tvm_vision.errors import InputError, PackageError

TYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f8", "longdouble", "complex64",
    "complex128", "clongdouble", "<i4", ">i4", ">f4", ">f8", ">c8", "O", "U4", "U0", "S3", "V4",
    "V0", "M8", "M8[s]", "m8", "m8[us]", "f4,i4", "3f4", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "float4_e2m1fn", "int2", "int4", "uint2", "uint4",
]  # fmt: skip


def array(name: str) -> np.ndarray:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    return np.zeros(small.N, dtype)


def assert_line(error: InputError, what: str) -> None:
    line = str(error)
    assert line.startswith(f"{what} must be ") and ", found " in line, line
    assert "\n" not in line and line.isprintable(), line


@pytest.mark.parametrize("name", TYPES)
def test_of_another_type(executor: Any, name: str) -> None:
    uses = {
        "input x": [
            lambda: executor.set_input("x", array(name)),
            lambda: executor.set_input(0, array(name)),
            lambda: executor.run(x=array(name)),
        ],
        "parameter w": [lambda: executor.load_params({"w": array(name)})],
    }
    for what, calls in uses.items():
        for call in calls:
            with pytest.raises(InputError) as error:
                call()
            assert_line(error.value, what)
    executor.run(x=small.frame(1))
    small.assert_frame(executor, small.frame(1))


def _empty(name: str, device: Any) -> Any:
    return tvm.runtime.empty((small.N,), name, device)


TENSORS: dict[str, Callable[..., Any]] = {
    "complex64": lambda device: tvm_ffi.from_dlpack(array("complex64")),
    "complex128": lambda device: tvm_ffi.from_dlpack(array("complex128")),
    **{
        name: partial(_empty, name)
        for name in ("float64", "bool", "bfloat16", "float8_e4m3fn", "int64")
    },
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("on_device", [False, True])
def test_tensor_of_another_type(executor: Any, name: str, on_device: bool) -> None:
    value = TENSORS[name](executor.device if on_device else tvm.cpu(0))
    for what, call in (
        ("input x", lambda: executor.set_input("x", value)),
        ("parameter w", lambda: executor.load_params({"w": value})),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert_line(error.value, what)
        assert name in str(error.value)


@pytest.mark.parametrize("value", [None, 1.0, "frame", b"frame", [0.0], object()])
def test_no_array(executor: Any, value: Any) -> None:
    with pytest.raises(InputError, match="input x must be a numpy array or a tensor, found"):
        executor.set_input("x", value)
    with pytest.raises(InputError, match="parameter w must be a numpy array or a tensor, found"):
        executor.load_params({"w": value})


@pytest.mark.parametrize("key", [1.5, b"x", (0,), 2**70])
def test_no_name(executor: Any, key: Any) -> None:
    with pytest.raises(InputError, match="an input goes by its number or name, found"):
        executor.set_input(key, small.frame(1))
    with pytest.raises(InputError, match="an output goes by its number or name, found"):
        executor.get_output(key)


@pytest.mark.parametrize("type_name", ["vulkan", "cpu"])
def test_parameters_on_a_device(executor: Any, type_name: str) -> None:
    where = tvm.vulkan(0) if type_name == "vulkan" else tvm.cpu(0)
    executor.load_params({"w": tvm.runtime.tensor(small.WEIGHTS, where)})
    executor.run(x=small.frame(2))
    small.assert_frame(executor, small.frame(2))


@pytest.mark.parametrize("dtype", ["int4", "uint1", "float4_e2m1fn", "handle0", "int8x3", "void"])
def test_types_without_whole_bytes_in_a_graph(built: Any, dtype: str) -> None:
    def change(graph: dict[str, Any]) -> None:
        graph["tensors"][5]["dtype"] = dtype

    library, device = built
    try:
        made = small.graph_executor.create(
            small.damaged(change), small.library_module(library), device
        )
    except PackageError as error:
        assert "\n" not in str(error)
    else:
        # A type of whole bytes: the kernel says that it is not its own.
        made.load_params({"w": small.WEIGHTS})
        with pytest.raises(PackageError, match="of one compilation"):
            made.run(x=small.frame(1))
