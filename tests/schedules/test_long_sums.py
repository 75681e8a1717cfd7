"""A processor's sums over many numbers are exact, of any shape, along any axes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from tvm_vision.compiler.target import parse_target
from tvm_vision.schedules import cpu_schedules
from tvm_vision.schedules.cpu.long_sums import MANY

HERE = parse_target("llvm")
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

    x = te.placeholder((8, 64 * MANY), "float32", "x")
    y = te.placeholder((64 * MANY, 64), "float32", "y")
    short = te.placeholder((8, 7, 7), "float32", "short")
    assert parts(x, topi.sum(x, 1)) > 0
    assert parts(short, topi.sum(short, (1, 2))) == 0
    assert parts(x, y, topi.matmul(x, y)) == 0
    assert parts(x, topi.max(x, 1)) == 0
