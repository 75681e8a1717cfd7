"""A kernel refuses what it does not take, whatever is wrong with which argument, and reads none."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.tir.argument_checks import with_merged_checks

SHAPE = (4, 6)


def added(builder, x):
    return builder.emit(tvm.relax.op.add(x, tvm.relax.const(np.ones(SHAPE, "float32"))))


@cache
def kernel(target: str) -> Any:
    """Of two inputs and a result, each SHAPE of float32, with the module that it lives in."""
    made = compile_model(*module_of(added, SHAPE), target=target)
    (name,) = made.library.kernels
    return made.library.module[name], made.library.module


def tensors(target: str, shape: tuple[int, ...] = SHAPE, dtype: str = "float32") -> list[Any]:
    device = tvm.cpu(0) if target == "llvm" else tvm.vulkan(0)
    return [tvm.runtime.tensor(np.ones(shape, dtype), device) for _ in range(3)]


def strided() -> np.ndarray:
    return np.ones((4, 12), "float32")[:, ::2]


def elsewhere(target: str) -> Any:
    """A tensor of the right form where the kernel does not run."""
    return tensors("vulkan" if target == "llvm" else "llvm")[0]


WRONG = {
    "another length": lambda target: tensors(target, (4, 5))[0],
    "another first length": lambda target: tensors(target, (5, 6))[0],
    "fewer axes": lambda target: tensors(target, (24,))[0],
    "more axes": lambda target: tensors(target, (4, 6, 1))[0],
    "no axes": lambda target: tensors(target, ())[0],
    "another type": lambda target: tensors(target, dtype="int32")[0],
    "halves": lambda target: tensors(target, dtype="float16")[0],
    "doubles": lambda target: tensors(target, dtype="float64")[0],
    "another device": elsewhere,
    "nothing": lambda target: None,
    "a number": lambda target: 3,
    "a fraction": lambda target: 0.5,
    "text": lambda target: "tensor",
    "a list": lambda target: tvm_ffi.convert([1, 2]),
}


@pytest.fixture(params=["llvm", "vulkan"])
def target(request) -> str:
    return str(request.param)


def test_what_fits_is_computed(target):
    function, _module = kernel(target)
    given = tensors(target)
    function(*given)
    np.testing.assert_array_equal(given[2].numpy(), np.full(SHAPE, 2, "float32"))


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("wrong", WRONG)
def test_each_fact_of_each_argument_is_checked(target, wrong, position):
    function, _module = kernel(target)
    given: list[Any] = tensors(target)
    given[position] = WRONG[wrong](target)
    with pytest.raises((ValueError, TypeError), match="found other arguments"):
        function(*given)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 9])
def test_the_number_of_arguments_is_checked(target, count):
    function, _module = kernel(target)
    with pytest.raises(ValueError, match="found other arguments"):
        function(*(3 * tensors(target))[:count])


@pytest.mark.parametrize("position", range(3))
def test_gaps_are_refused(position):
    function, _module = kernel("llvm")
    given: list[Any] = tensors("llvm")
    given[position] = tvm_ffi.from_dlpack(strided())
    with pytest.raises(ValueError, match="compact"):
        function(*given)


def test_the_message_says_what_the_kernel_takes():
    function, _module = kernel("llvm")
    with pytest.raises(
        ValueError, match=r"add\(in0: Tensor\(\[4, 6\], float32\), .* needs compact"
    ):
        function(*tensors("llvm", (4, 5)))


def test_no_condition_is_lost():
    """As many comparisons as TVM wrote, in fewer checks."""
    packed = [f for _, f in _packed().functions_items()]
    for function in packed:
        assert _facts(with_merged_checks(function)) == _facts(function)
        assert len(_asserts(with_merged_checks(function))) < 0.6 * len(_asserts(function))


def _packed() -> Any:
    lengths = [2, 3, 5]
    a, b = (tvm.te.placeholder(lengths, name=name) for name in "ab")
    c = tvm.te.compute(lengths, lambda *i: a(*i) + b(*i))
    module = tvm.IRModule({"main": tvm.te.create_prim_func([a, b, c])})
    module = tirx.transform.BindTarget(tvm.target.Target("llvm", host="llvm"))(module)
    with tvm.target.Target("llvm"):
        return tvm.transform.Sequential(
            [
                tvm.s_tir.transform.ConvertBlocksToOpaque(),
                tvm.s_tir.transform.LowerOpaqueBlock(),
                tirx.transform.AnnotateEntryFunc(),
                tirx.transform.SplitHostDevice(),
                tirx.transform.MakePackedAPI(),
            ]
        )(module)


def _asserts(function: tirx.PrimFunc) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.AssertStmt, found.append))
    return found


def _facts(function: tirx.PrimFunc) -> list[str]:
    """What all checks ask together, in an order of its own."""
    facts: list[str] = []

    def split(condition: Any) -> None:
        if isinstance(condition, tvm.ir.prim.And):
            split(condition.a)
            split(condition.b)
        else:
            facts.append(str(condition))

    for check in _asserts(function):
        split(check.condition)
    return sorted(facts)
