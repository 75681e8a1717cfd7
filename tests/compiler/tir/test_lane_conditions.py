"""Conditions that are the same for all lanes: without the lane, and as true as with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim
from tvm.target import Target

from support.lowering import HOST
from tvm_vision.compiler.tir.lane_conditions import without_lanes

LANES = 4
CONDITIONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def choosing(condition: Any) -> tirx.PrimFunc:
    """Stores 1 where a condition of a place x and a lane v holds, and else 0."""
    out = tirx.decl_buffer((64 * LANES,), "int32", "out")
    x, v = tirx.Var("x", "int32"), tirx.Var("v", "int32")
    value = tirx.if_then_else(condition(x, v), tirx.const(1, "int32"), tirx.const(0, "int32"))
    store = tirx.BufferStore(out, value, [x * LANES + v])
    body: Any = tirx.For(v, 0, LANES, tirx.ForKind.VECTORIZED, store)
    body = tirx.For(x, 0, 64, tirx.ForKind.SERIAL, body)
    return tirx.PrimFunc([out], body).with_attr("global_symbol", "main")


def names_lane(function: tirx.PrimFunc) -> bool:
    found: list[Any] = []
    kinds = (prim.LT, prim.LE, prim.GT, prim.GE)

    def see(condition: Any) -> None:
        tvm_ffi.structural_walk(condition, (ir.Var, found.append))

    tvm_ffi.structural_walk(function.body, (kinds, see))
    return any(variable.name == "v" for variable in found)


def values(functions: list[tirx.PrimFunc]) -> list[np.ndarray]:
    """What each of them writes; they are compiled together."""
    named = {f"f{i}": f.with_attr("global_symbol", f"f{i}") for i, f in enumerate(functions)}
    built = tvm.compile(tvm.IRModule(named), target=Target(HOST))
    found = []
    for name in named:
        out = tvm.runtime.empty((64 * LANES,), "int32")
        built[name](out)
        found.append(out.numpy())
    return found


@pytest.mark.parametrize("sign", CONDITIONS)
@pytest.mark.parametrize("order", ["lane first", "bound first"])
def test_as_true_as_before(sign: str, order: str) -> None:
    def function(bound: int) -> tirx.PrimFunc:
        def condition(x: Any, v: Any) -> Any:
            sides = (x * LANES + v, tirx.const(bound, "int32"))
            return CONDITIONS[sign](*(sides if order == "lane first" else sides[::-1]))

        return choosing(condition)

    functions = [function(bound) for bound in range(90, 108)]
    changed = [without_lanes(each) for each in functions]
    wanted = values(functions)
    np.testing.assert_array_equal(values(changed), wanted)
    for each, result in zip(changed, wanted, strict=True):
        together = [set(lanes) for lanes in result.reshape(-1, LANES)]
        assert names_lane(each) == any(len(lanes) > 1 for lanes in together)


def test_what_differs_from_lane_to_lane_stays() -> None:
    function = choosing(lambda x, v: x * 3 + v * 2 < 40)
    assert tvm_ffi.structural_equal(without_lanes(function), function)


@pytest.mark.parametrize("sign", CONDITIONS)
def test_of_real_numbers_stay(sign: str) -> None:
    """Of which there are some between a and a + 1."""

    def condition(x: Any, v: Any) -> Any:
        place = tirx.Cast("float32", x * LANES + v)
        return CONDITIONS[sign](place, tirx.const(39.5, "float32"))

    function = choosing(condition)
    assert tvm_ffi.structural_equal(without_lanes(function), function)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_of_tensors_stay(dtype: str) -> None:
    """Of the largest number of a type there is none more by one."""
    of = tirx.decl_buffer((64 * LANES,), dtype, "of")

    def condition(x: Any, v: Any) -> Any:
        return tirx.BufferLoad(of, [x * LANES + v]) <= tirx.const(100, dtype)

    function = choosing(condition)
    assert tvm_ffi.structural_equal(without_lanes(function), function)


def test_terms_that_vectors_divide() -> None:
    def condition(x: Any, v: Any) -> Any:
        return tirx.all(x % 16 * LANES + v >= 24, tirx.floordiv(x, 4) * 12 + x % 3 * LANES + v < 96)

    function = choosing(condition)
    changed = without_lanes(function)
    assert names_lane(function) and not names_lane(changed)
    found, wanted = values([changed, function])
    np.testing.assert_array_equal(found, wanted)
