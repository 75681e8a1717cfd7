"""What TVM would leave to the host, or call on the device, is refused where it is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.script import ir as I
from tvm.script import tirx as T

from support.lowering import HOST, device_module, schedule, target
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import build

N = 64


def doubled(x: Any) -> Any:
    return x * T.float32(2)


@T.macro
def store_doubled(buffer: Any, place: Any, value: Any) -> None:
    buffer[place] = value * T.float32(2)


@T.prim_func(s_tir=True)
def unbound(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")) -> None:
    for i in range(N):
        with T.sblock("b"):
            v = T.axis.spatial(N, i)
            B[v] = doubled(A[v])


@T.prim_func(s_tir=True)
def bound(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")) -> None:
    for i in T.thread_binding(N, thread="threadIdx.x"):
        with T.sblock("b"):
            v = T.axis.spatial(N, i)
            B[v] = doubled(A[v])


@T.prim_func(s_tir=True)
def bound_with_macro(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")) -> None:
    for i in T.thread_binding(N, thread="threadIdx.x"):
        with T.sblock("b"):
            v = T.axis.spatial(N, i)
            store_doubled(B, v, A[v])


@T.prim_func(s_tir=True)
def bound_in_part(
    A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")
) -> None:
    for i in T.thread_binding(N, thread="threadIdx.x"):
        with T.sblock("b"):
            v = T.axis.spatial(N, i)
            B[v] = doubled(A[v])
    for i in range(N):
        with T.sblock("c"):
            v = T.axis.spatial(N, i)
            C[v] = T.float32(1)


@T.prim_func(s_tir=True)
def decided_on_the_host(
    A: T.Buffer((N,), "float32"), S: T.Buffer((1,), "int32"), B: T.Buffer((N,), "float32")
) -> None:
    if S[0] > 0:
        for i in T.thread_binding(N, thread="threadIdx.x"):
            B[i] = doubled(A[i])


@I.ir_module
class CallsAFunction:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.float32) -> T.float32:
        return x * T.float32(2)

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")) -> None:
        for i in T.thread_binding(N, thread="threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(N, i)
                B[v] = CallsAFunction.twice(A[v])


@pytest.mark.parametrize(
    ("function", "touched"),
    [(unbound, "B, A"), (bound_in_part, "C"), (decided_on_the_host, "S")],
    ids=["unbound", "in part", "decides"],
)
def test_what_the_host_would_do_is_refused(function: Any, touched: str) -> None:
    with pytest.raises(UnsupportedKernelError, match=f"touches {touched} outside of any thr") as e:
        tvm.compile(function, target=target())
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("function", [bound, bound_with_macro], ids=["function", "macro"])
def test_what_threads_do_is_compiled_as_the_advice_says(function: Any) -> None:
    device = tvm.vulkan(0)
    kernel = tvm.compile(function, target=target())
    a = tvm.runtime.tensor(np.arange(N, dtype="float32"), device)
    b = tvm.runtime.tensor(np.zeros(N, "float32"), device)
    kernel(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * a.numpy())


def test_a_library_that_was_loaded_shows_its_shaders(tmp_path: Path) -> None:
    path = tmp_path / "kernels.so"
    tvm.compile(bound, target=target()).mod.export_library(str(path))
    (module,) = tvm.runtime.load_module(str(path)).imports
    assert "OpFMul %float" in module.inspect_source() or "OpFAdd %float" in module.inspect_source()
    assert module.inspect_source("glsl") == ""


def test_other_targets_are_left_alone() -> None:
    kernel = tvm.compile(unbound, target=tvm.target.Target(HOST))
    a, b = (tvm.runtime.tensor(np.full(N, x, "float32")) for x in (3.0, 0.0))
    kernel(a, b)
    assert b.numpy()[0] == 6.0


def test_a_function_that_a_kernel_calls_is_named_with_what_to_do() -> None:
    with pytest.raises(
        UnsupportedKernelError, match=r"twice .* plain Python function or as a T\.m"
    ):
        tvm.compile(CallsAFunction, target=target())


@pytest.mark.parametrize("attribute", ["tirx.kernel_launch_params", "global_symbol"])
def test_a_function_that_was_not_split_from_its_host(attribute: str) -> None:
    a = te.placeholder((N,), "float32", "a")
    function = te.create_prim_func([a, te.compute((N,), lambda i: a[i] + 1.0)])
    mod = device_module(schedule(function, target()), target())
    bare = tvm.IRModule({gv: f.without_attr(attribute) for gv, f in mod.functions_items()})
    with pytest.raises(
        UnsupportedKernelError, match=f"main_kernel lacks the attribute {attribute}"
    ):
        build.print_kernels(bare, target())


def test_code_for_the_backend_of_tvm_catches_runtime_errors() -> None:
    with pytest.raises(RuntimeError):
        tvm.compile(unbound, target=target())
