"""Neighbouring statements under one condition: under it together, and as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.target import Target

from support.compiled import FIXED
from support.lowering import HOST
from support.numpy_operators import average_pool
from support.schedule_runs import fused, noise, run
from tvm_vision.compiler.kernels.lowering import lower
from tvm_vision.compiler.tir.joined_conditions import joined
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.gpu.window import WindowShape
from tvm_vision.schedules.templates import ScheduleConfig, schedule_with

COUNT = 8
I32 = "int32"


def conditions_in(function: tirx.PrimFunc) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.IfThenElse, found.append))
    return len(found)


def function_of(statements: list[Any], *buffers: Any, place: Any) -> tirx.PrimFunc:
    """Of statements for each of COUNT places."""
    body: Any = tirx.stmt_seq(*statements)
    body = tirx.For(place, 0, COUNT, tirx.ForKind.SERIAL, body)
    return tirx.PrimFunc(list(buffers), body).with_attr("global_symbol", "main")


def forms(scope: str = "global") -> dict[str, tuple[tirx.PrimFunc, int]]:
    """Functions that write ``out``, and the conditions that are left in each."""
    found = {}
    x = tirx.Var("x", I32)
    out = tirx.decl_buffer((3 * COUNT,), I32, "out", scope=scope)

    def store(at: int, value: Any) -> Any:
        return tirx.BufferStore(out, value, [x + at * COUNT])

    def below(limit: int, statement: Any, other: Any = None) -> Any:
        return tirx.IfThenElse(x < limit, statement, other)

    def add(name: str, left: int, *statements: Any) -> None:
        found[name] = (function_of(list(statements), out, place=x), left)

    one, two = tirx.const(1, I32), tirx.const(2, I32)
    add("three", 1, *(below(5, store(n, x + n)) for n in range(3)))
    add("a sum", 1, below(5, store(0, one)), below(5, store(0, out[x] + two)))
    add("pairs", 2, *(below(limit, store(n, one)) for n, limit in enumerate((5, 5, 6))))
    add("between", 2, below(5, store(0, one)), store(1, two), below(5, store(2, one)))
    add("otherwise", 2, below(5, store(0, one), store(0, two)), below(5, store(1, one)))
    of_values = [tirx.IfThenElse(out[x] < 1, store(0, out[x] + one), None) for _ in range(2)]
    add("of what is stored", 2, *of_values)
    nested = tirx.stmt_seq(below(5, store(1, one)), below(5, store(2, two)))
    add("a sequence within", 1, below(5, store(0, one)), nested)
    return found


@pytest.mark.parametrize("name", forms())
def test_joined_functions_write_the_same(name: str) -> None:
    function, left = forms()[name]
    changed = joined(function)
    assert conditions_in(changed) == left
    found = []
    for each in (function, changed):
        built = tvm.compile(tvm.IRModule({"main": each}), target=Target(HOST))
        out = tvm.runtime.tensor(np.zeros(3 * COUNT, I32))
        built["main"](out)
        found.append(out.numpy())
    np.testing.assert_array_equal(*found)


def test_what_threads_share_stays_apart() -> None:
    """A barrier may have to come between."""
    function, _ = forms("shared")["three"]
    assert conditions_in(joined(function)) == 3


def test_a_window_of_threads_with_a_rest_has_one_condition(device_info) -> None:
    """Nine terms for 3 × 7 × 11 results, of 64 threads."""
    (x,) = noise([(1, 3, 7, 11)])
    mod = fused(
        lambda of: relax.op.nn.avg_pool2d(of, [3, 3], padding=1, count_include_pad=True), [x.shape]
    )
    ((gv, function),) = (
        each for each in mod.functions_items() if isinstance(each[1], tirx.PrimFunc)
    )
    made = schedule_with(
        function, TargetLimits(256, 32768, 32), ScheduleConfig("window", WindowShape(64))
    )
    bound = made.with_attr("target", Target(FIXED, Target(HOST))).with_attr("global_symbol", "main")
    lowered = lower(tvm.IRModule({"main": bound}))
    device = [f for name, f in lowered.functions_items() if name.name_hint != "main"]
    assert sum(map(conditions_in, device)) == 1
    mod.update_func(gv, made)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    np.testing.assert_allclose(run(mod, [x]), average_pool(padded, 3, 1), rtol=1e-5, atol=1e-6)
