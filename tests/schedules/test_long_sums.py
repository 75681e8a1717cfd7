"""A processor's sums over many numbers are exact, of any shape, along any axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from support.compiled import this_processor
from tvm_vision.schedules import cpu_schedules
from tvm_vision.schedules.cpu.long_sums import MANY

HERE = this_processor()
# One after the other 65,536 numbers of 0.1 are off by 6e-4 of their sum.
BOUND = 1e-5
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1, 2, 256, 256), (2, 3)),
    ((1, 2, 256, 256), (0, 1, 2, 3)),
    ((300, 200, 3), (0, 1)),  # channels last: results are neighbours
    ((1, 1, 250, 260, 16), (2, 3)),
    ((65536,), (0,)),
    ((2, 131), (0, 1)),
    ((3, 1, 10007), (2,)),  # a prime
    ((499, 998), (0, 1)),
    ((4096, 5), (0,)),
    ((5, 1, 4096, 1), (1, 2, 3)),
    ((3, 8192), (1,)),  # by vectors side by side
    ((3, 8191), (1,)),
]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_sums_of_one_sign(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = te.placeholder(shape, "float32", "x")
    mean = topi.sum(x, axes, keepdims=True)
    apart = te.compute(shape, lambda *i: tirx.exp(x(*i) * 0.5), "apart")
    function = te.create_prim_func([x, mean, topi.sum(apart, axes)])
    function = function.with_attr("global_symbol", "f")
    scheduled = cpu_schedules(tvm.IRModule({"f": function}), HERE)
    library = tvm.tirx.build(scheduled, target=HERE)
    given = np.full(shape, 0.1, "float32")
    expected = [given.astype("float64").sum(axes, keepdims=True)]
    expected.append(np.exp(given.astype("float64") * 0.5).sum(axes))
    results = [tvm.runtime.tensor(np.empty(e.shape, "float32")) for e in expected]
    library["f"](tvm.runtime.tensor(given), *results)
    for found, exact in zip(results, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), exact, rtol=BOUND)


def test_short_sums_and_products_keep_their_loops() -> None:
    def parts(*tensors: te.Tensor) -> int:
        function = te.create_prim_func(list(tensors))
        scheduled = cpu_schedules(tvm.IRModule({"f": function}), HERE)["f"]
        return str(scheduled).count("_rf")

    # Of float32 they are rows.
    x = te.placeholder((8, 64 * MANY), "float64", "x")
    y = te.placeholder((64 * MANY, 64), "float64", "y")
    short = te.placeholder((8, 7, 7), "float32", "short")
    assert parts(x, topi.sum(x, 1)) > 0
    assert parts(short, topi.sum(short, (1, 2))) == 0
    assert parts(x, y, topi.matmul(x, y)) == 0
    assert parts(x, topi.max(x, 1)) > 0
    assert parts(y, topi.max(y, 0)) == 0


@pytest.mark.parametrize("shape", [(64, 300, 24), (1, 70_000)])
@pytest.mark.parametrize("largest", [topi.max, topi.sum])
def test_threads_share_what_is_large(shape: tuple[int, ...], largest: Any) -> None:
    """A block that was in two before its loops were shared got no threads."""
    x = te.placeholder(shape, "float32", "x")
    function = te.create_prim_func([x, largest(x, 1)])
    scheduled = cpu_schedules(tvm.IRModule({"f": function}), HERE)["f"]
    assert "T.parallel" in scheduled.script()


@pytest.mark.parametrize("columns", [8193, 9000, 70_003])
def test_long_rows_are_as_exact_as_short_ones(columns: int) -> None:
    """Numbers of one sign, of which more than a lane may add up are in each lane."""
    x = te.placeholder([tirx.IntImm("int64", n) for n in (3, columns)], "float32", "x")
    function = te.create_prim_func([x, topi.sum(x, 1)]).with_attr("global_symbol", "f")
    given = np.random.default_rng(1).uniform(1.0, 2.0, (3, columns)).astype("float32")
    (found,) = ran(function, given, (3,))
    np.testing.assert_allclose(found, given.astype("float64").sum(1), rtol=BOUND)
    x = te.placeholder([tirx.IntImm("int64", n) for n in (3, columns)], "float32", "x")
    function = te.create_prim_func([x, topi.nn.log_softmax(x)]).with_attr("global_symbol", "f")
    (found,) = ran(function, given, given.shape)
    exact = given - np.log(np.exp(given.astype("float64")).sum(1, keepdims=True))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def ran(function: tirx.PrimFunc, given: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    module = cpu_schedules(tvm.IRModule({"f": function}), HERE)
    with HERE:
        library = tvm.tirx.build(module, target=HERE)
    result = tvm.runtime.tensor(np.full(shape, np.nan, "float32"))
    library["f"](tvm.runtime.tensor(given), result)
    return [result.numpy()]
