"""Long sums with hardly any result in two steps, so that more than a workgroup each adds them up.

The mean of an image of a megapixel is one row to a schedule, which a workgroup takes: 256 threads
of a GPU walk over what thousands could. Here the axes of a row are taken apart, the inner part is
summed to hundreds of results, and these to the ones that are wanted.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import rewritten

# More rows have a workgroup each, and shorter ones are over before another launch begins.
MOST_ROWS = 4
LEAST_TERMS = 1 << 16
LEAST_OF_VARIANCE = 1 << 17  # it takes two launches more
MOST_PARTS = 1 << 10
# Rows that lie beside each other, channels that come last, share a workgroup: how many do, how many
# terms of all of them are worth two steps, and of how many workgroups at most.
LINE, LEAST_IN_LINES, MOST_LINES = 8, 1 << 18, 8
_SUMS = {
    "relax.sum": relax.op.sum,
    "relax.mean": relax.op.mean,
    "relax.max": relax.op.max,
    "relax.min": relax.op.min,
}
_VARIANCE = "relax.variance"


def sums_in_steps(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with its longest sums, means, variances and maxima in two steps."""
    return rewritten(mod, _LongSums(mod))


@relax.expr_functor.mutator
class _LongSums(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        taken = _row_of(call) if name in _SUMS or name == _VARIANCE else None
        if taken is None:
            return call
        before, parts, terms, after = taken
        emit = self.builder_.emit
        x = emit(relax.op.reshape(call.args[0], [before, parts, terms // parts, after]))
        if name == _VARIANCE:
            # That within parts of one size, and that of their means.
            within = emit(relax.op.mean(emit(relax.op.variance(x, [2])), [1]))
            among = emit(relax.op.variance(emit(relax.op.mean(x, [2])), [1]))
            x = emit(relax.op.add(within, among))
        else:
            x = emit(_SUMS[name](emit(_SUMS[name](x, [2])), [1]))
        return relax.op.reshape(x, [int(size) for size in call.ty.shape])


def _row_of(call: Any) -> tuple[int, int, int, int] | None:
    """What lies around a long row, (before, parts, terms, after), and into how many parts it goes;
    None for others, and where axes between those of the row are kept."""
    shape = fixed_shape(call.args[0])
    if shape is None:
        return None
    axes = range(len(shape)) if call.attrs.axis is None else map(int, call.attrs.axis)
    gone = sorted({axis % len(shape) for axis in axes if shape[axis] > 1})
    terms = math.prod(shape[axis] for axis in gone)
    least = LEAST_OF_VARIANCE if operator_of(call) == _VARIANCE else LEAST_TERMS
    if not gone or math.prod(shape[gone[0] : gone[-1] + 1]) != terms:
        return None
    before, after = math.prod(shape[: gone[0]]), math.prod(shape[gone[-1] + 1 :])
    few = before * after <= MOST_ROWS and terms >= least
    lines = after > 1 and before * -(-after // LINE) <= MOST_LINES
    if not few and not (lines and terms * min(after, LINE) >= LEAST_IN_LINES):
        return None
    parts = max(n for n in range(1, MOST_PARTS + 1) if terms % n == 0)
    return (before, parts, terms, after) if parts > 1 else None
