"""Arg max and arg min: the places numpy finds, counted in int32 whatever their type is. Quotients
by a number, and truths that are compared."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.covering import covering
from support.relax_models import module_of
from tvm_vision.compiler import compile_model, prepare

OP = relax.op
GPU = {"kind": "vulkan", "max_threads_per_block": 256, "max_shared_memory_per_block": 16384,
       "supports_int64": True, "supports_8bit_buffer": True, "supports_int8": True}  # fmt: skip
# Few values, so that many are equal: the first counts.
IMAGE = np.random.default_rng(4).integers(0, 4, (2, 7, 5, 6)).astype("float32")


def shader(last: str | None, **options: Any) -> str:
    def network(builder: relax.BlockBuilder, x: Any) -> Any:
        places = builder.emit(OP.argmax(x, 1))
        return OP.astype(places, last) if last else places

    module, signature = module_of(network, IMAGE.shape)
    made = compile_model(module, signature, target=Target(GPU, host="llvm"), **options)
    return made.library.source()


@pytest.mark.parametrize("loads", ["branch", "select"])
@pytest.mark.parametrize("last", ["int32", "uint8", "float32"])
def test_no_int64_where_the_network_ends_in_another_type(last: str, loads: str) -> None:
    assert "int64" not in shader(last, guarded_loads=loads)


def test_an_int64_result_is_int64_where_it_is_stored_alone() -> None:
    text = shader(None)
    assert text.count("int64_t") == 2, text  # the buffer, and the conversion


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("largest", "axis", "keepdims"), covering([True, False], [0, 1, -1, None], [False, True])
)
def test_places_are_those_of_numpy(largest: bool, axis: int | None, keepdims: bool) -> None:
    function = OP.argmax if largest else OP.argmin
    module, signature = module_of(lambda b, x: b.emit(function(x, axis, keepdims)), IMAGE.shape)
    executor = executor_of(compile_model(module, signature, target="vulkan"))
    executor.run(**{signature.inputs[0].name: IMAGE})
    (found,) = executor.outputs().values()
    expected = (np.argmax if largest else np.argmin)(IMAGE, axis=axis, keepdims=keepdims)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("target", ["vulkan", "llvm"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 5000), 1), ((1, 7001), None), ((2, 3, 40, 50), None), ((2, 4099, 3), 1)],
)
def test_of_equal_values_of_a_long_row_the_first_counts(
    shape: tuple[int, ...], axis: int | None, target: str, largest: bool
) -> None:
    """A workgroup takes a row, and puts together what its threads found in parts of it."""
    values = np.random.default_rng(5).integers(0, 9, shape).astype("float32")
    function = OP.argmax if largest else OP.argmin
    module, signature = module_of(lambda b, x: b.emit(function(x, axis)), shape)
    device = tvm.cpu(0) if target == "llvm" else tvm.vulkan(0)
    executor = executor_of(compile_model(module, signature, target=target), device)
    executor.run(**{signature.inputs[0].name: values})
    (found,) = executor.outputs().values()
    expected = (np.argmax if largest else np.argmin)(values, axis=axis)
    np.testing.assert_array_equal(found, expected)


def test_of_more_values_than_int32_counts_places_are_int64() -> None:
    module, _ = module_of(lambda b, x: b.emit(OP.argmax(x, 1)), (1, 1 << 31))
    graph = prepare(module, target=Target(GPU, host="llvm"))
    (function,) = graph.functions.values()
    assert "int32" not in str(function)


@pytest.mark.parametrize(
    ("divisor", "multiplied"),
    [(np.float32(1.4142135), True), (np.float32(0), True), (np.float32(1e-39), False),
     (np.float32(3e38), False), (np.full((6,), 3, "float32"), False)],
)  # fmt: skip
def test_a_quotient_by_a_number_is_a_product(divisor: Any, multiplied: bool) -> None:
    """But where the inverse is no normal number: too large, or denormal, which devices drop."""
    module, signature = module_of(
        lambda b, x: b.emit(OP.divide(x, relax.const(divisor))), IMAGE.shape
    )
    made = compile_model(module, signature, target=Target(GPU, host="llvm"))
    assert ("/" not in re.sub(r"//.*", "", made.library.source())) == multiplied


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("divisor", [3.0, 0.0, -0.0])
def test_quotients_are_right_to_the_last_bit_but_one(divisor: float) -> None:
    """Those by 0 too, which are infinite, or none of 0."""
    module, signature = module_of(
        lambda b, x: b.emit(OP.divide(x, relax.const(np.float32(divisor)))), IMAGE.shape
    )
    executor = executor_of(compile_model(module, signature, target="vulkan"))
    executor.run(**{signature.inputs[0].name: IMAGE})
    (found,) = executor.outputs().values()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, IMAGE / np.float32(divisor), rtol=2.0**-22)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("operator", [OP.equal, OP.not_equal])
def test_truths_are_compared(operator: Any, target: str) -> None:
    rows = np.arange(5)[:, None] < 3

    def network(builder: relax.BlockBuilder, x: Any) -> Any:
        large = builder.emit(OP.greater(x, relax.const(np.float32(1))))
        return builder.emit(operator(large, relax.const(rows)))

    module, signature = module_of(network, IMAGE.shape)
    made = compile_model(module, signature, target=target)
    executor = executor_of(made, tvm.cpu(0) if target == "llvm" else None)
    executor.run(**{signature.inputs[0].name: IMAGE})
    (found,) = executor.outputs().values()
    same = (IMAGE > 1) == rows
    np.testing.assert_array_equal(found, same if operator is OP.equal else ~same)
