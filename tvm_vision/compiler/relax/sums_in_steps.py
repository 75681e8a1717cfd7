"""Long sums with hardly any result in two steps, so that more than a workgroup each adds them up.

The mean of an image of a megapixel is one row to a schedule, which a workgroup takes: 256 threads
of a GPU walk over what thousands could. Here the axes of a row are taken apart, the inner part is
summed to hundreds of results, and these to the ones that are wanted. The place of the largest of a
row, and a softmax along it, are of such sums, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm import relax

from tvm_vision.topi.arg_reduce import MOST as MOST_PLACES
from tvm_vision.topi.arg_reduce import arg_reduce, best_of_parts, place_in_row
from tvm_vision.topi.moments import mean_of_parts, moments_of_parts, variance_of_parts

from .legalize import call_of_places, name_of_places
from .operators import fixed_shape, operator_of
from .rewriting import bindings_of, rewritten

# More rows have a workgroup each, and shorter ones are over before another launch begins.
MOST_ROWS = 4
LEAST_TERMS = 1 << 16
# A normalization's mean and variance are two sums one after the other, or two launches in steps;
# of rows half as long all of a normalization is one kernel (whole_rows.py). More rows gain by it,
# too, as long as they leave most of a device idle.
LEAST_OF_MOMENTS = 1 << 15
IDLE = 4  # so many times the rows that are would occupy a device
MOST_PARTS = 1 << 10  # of all rows
# Rows that lie beside each other, channels that come last, share a workgroup: how many do, how many
# terms of all of them are worth two steps, and of how many workgroups at most.
LINE, LEAST_IN_LINES, MOST_LINES = 8, 1 << 18, 8
_SUMS = {
    "relax.sum": relax.op.sum,
    "relax.mean": relax.op.mean,
    "relax.max": relax.op.max,
    "relax.min": relax.op.min,
}
_PLACES = {"relax.argmax": True, "relax.argmin": False}  # whether of the largest
_SOFTMAX, _LOG_SOFTMAX = "relax.nn.softmax", "relax.nn.log_softmax"
_MEAN, _VARIANCE = "relax.mean", "relax.variance"


def sums_in_steps(mod: tvm.IRModule, groups: int) -> tvm.IRModule:
    """``main`` with its longest sums, means, variances and maxima in two steps, and what is made of
    such: places of maxima, and softmax.

    Args:
        groups: workgroups of sums that occupy the device.
    """
    return rewritten(mod, _LongSums(mod, groups))


@dataclass(frozen=True)
class _Row:
    """A long row of a tensor, and into how many parts it goes.

    Attributes:
        shape: of the tensor.
        first, last: the axes that the row begins and ends with, of those that are cut.
        parts: of one size.
        again: from which axis on it goes along all others, too; behind the last where it does not.
    """

    shape: tuple[int, ...]
    first: int
    last: int
    parts: int
    again: int

    @property
    def terms(self) -> int:
        """Of the axes that are cut."""
        return math.prod(self.shape[self.first : self.last + 1])

    def parted(self, emit: Any, x: Any) -> Any:
        """``x`` with its row as two axes, the parts and what they consist of, and axes of one
        element where others of the row were."""
        others = [1] * (self.last - self.first)
        row = [self.parts, self.terms // self.parts, *others]
        return emit(
            relax.op.reshape(x, [*self.shape[: self.first], *row, *self.shape[self.last + 1 :]])
        )

    def flat(self, emit: Any, x: Any) -> Any:
        """``x`` as (before, parts, terms of a part, after), with another axis of what the row goes
        along behind those."""
        before, kept = self.shape[: self.first], self.shape[self.last + 1 : self.again]
        flat = [math.prod(before), self.parts, self.terms // self.parts, math.prod(kept)]
        flat += [math.prod(self.shape[self.again :])] if self.again < len(self.shape) else []
        return emit(relax.op.reshape(x, flat))


@relax.expr_functor.mutator
class _LongSums(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, groups: int) -> None:
        super().__init__(mod)
        self._groups = groups
        self._varying = {
            key
            for _, call in bindings_of(mod["main"])
            if operator_of(call) == _VARIANCE and (key := self._key(call)) is not None
        }
        self._moments: dict[Any, Any] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        of = call
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        if name in (_MEAN, _VARIANCE) and (key := self._key(of)) in self._varying:
            return self._of_moments(key, call)
        if name in _SUMS:
            axes = call.attrs.axis
        elif name in (*_PLACES, _SOFTMAX, _LOG_SOFTMAX):
            axes = None if call.attrs.axis is None else [call.attrs.axis]
        else:
            return call
        row = _row_along(call.args[0], axes, _is_long)
        # Places beyond int32 are TVM's own.
        if row is None or (name in _PLACES and row.terms > MOST_PLACES):
            return call
        if name in _SUMS:
            return self._of_sum(call, row)
        return self._of_places(call, row) if name in _PLACES else self._of_softmax(call, row)

    def _of_sum(self, call: relax.Call, row: _Row) -> relax.Expr:
        emit, operator = self.builder_.emit, _SUMS[operator_of(call)]
        x = emit(operator(row.parted(emit, call.args[0]), [row.first + 1]))
        return operator(x, call.attrs.axis, keepdims=call.attrs.keepdims)

    def _of_places(self, call: relax.Call, row: _Row) -> relax.Expr:
        """Of the best of each part the best."""
        builder, largest = self.builder_, _PLACES[operator_of(call)]
        name = name_of_places(largest)

        def places_along(axis: int, of: Any, name: str) -> Any:
            places = partial(arg_reduce, axis=axis, keepdims=False, largest=largest)
            return builder.emit(call_of_places(builder, places, of, name))

        x = row.flat(builder.emit, call.args[0])
        places = places_along(2, x, f"{name}_of_parts")
        part = places_along(1, builder.emit_te(best_of_parts, x, places), name)
        shape = [int(size) for size in call.ty.shape]
        return builder.call_te(place_in_row, part, places, row.terms // row.parts, shape)

    def _of_softmax(self, call: relax.Call, row: _Row) -> relax.Expr:
        """By the largest of the row and the sum of all exponentials, which are computed twice: to
        keep them would be another pass over memory."""
        emit, shape = self.builder_.emit, fixed_shape(call)
        x = row.parted(emit, call.args[0])

        def whole(operator: Any, of: Any) -> Any:
            parts = emit(operator(of, [row.first + 1], keepdims=True))
            return emit(operator(parts, [row.first], keepdims=True))

        def less(by: Any) -> Any:
            return emit(relax.op.subtract(x, by))

        most = whole(relax.op.max, x)
        total = whole(relax.op.sum, emit(relax.op.exp(less(most))))
        if operator_of(call) == _SOFTMAX:
            result = relax.op.divide(emit(relax.op.exp(less(most))), total)
        else:
            result = relax.op.subtract(less(most), emit(relax.op.log(total)))
        return relax.op.reshape(emit(result), shape)

    def _of_moments(self, key: Any, call: relax.Call) -> relax.Expr:
        """A mean or variance, where a variance of these rows is wanted."""
        if key not in self._moments:
            row = key[1]
            x = row.flat(self.builder_.emit, call.args[0])
            self._moments[key] = self.builder_.emit_te(moments_of_parts, x)
        shape = [int(size) for size in call.ty.shape]
        whole = variance_of_parts if operator_of(call) == _VARIANCE else mean_of_parts
        return self.builder_.call_te(whole, self._moments[key], shape)

    def _key(self, call: Any) -> tuple[Any, _Row] | None:
        """What a mean or variance goes along; None where that is no long row."""
        row = _row_of_moments(call.args[0], call.attrs.axis, self._groups)
        return None if row is None else (call.args[0], row)


def varies_in_steps(x: Any, axes: Iterable[Any], groups: int) -> bool:
    """Whether ``sums_in_steps`` takes the mean and variance of a tensor along these axes apart.

    Args:
        groups: workgroups of sums that occupy the device.
    """
    return _row_of_moments(x, list(axes), groups) is not None


def _row_of_moments(x: Any, axes: Sequence[Any] | None, groups: int) -> _Row | None:
    """The long rows of a tensor along axes, None for all of them, whose mean and variance are taken
    apart; None for others."""
    is_long = _varies_long(groups)
    return _row_along(x, axes, is_long) or _row_of_group(x, axes, is_long)


def _is_long(rows: int, terms: int) -> bool:
    return rows <= MOST_ROWS and terms >= LEAST_TERMS


def _varies_long(groups: int) -> Callable[[int, int], bool]:
    most_rows = max(MOST_ROWS, groups // IDLE)
    return lambda rows, terms: rows <= most_rows and terms >= LEAST_OF_MOMENTS


def _row_along(
    x: Any, axes: Iterable[Any] | None, is_long: Callable[[int, int], bool]
) -> _Row | None:
    """The long rows of a tensor along axes, None for all of them; None for others, and where axes
    between those of the row are kept.

    Args:
        is_long: whether so many rows of so many terms are worth two steps.
    """
    shape = fixed_shape(x)
    gone = _summed(shape, axes)
    if shape is None or not gone:
        return None
    terms = math.prod(shape[axis] for axis in gone)
    if math.prod(shape[gone[0] : gone[-1] + 1]) != terms:
        return None
    before, after = math.prod(shape[: gone[0]]), math.prod(shape[gone[-1] + 1 :])
    groups = before * -(-after // LINE) if after > 1 else before
    few = is_long(before * after, terms)
    lines = after > 1 and groups <= MOST_LINES
    if not few and not (lines and terms * min(after, LINE) >= LEAST_IN_LINES):
        return None
    return _cut(shape, gone[0], gone[-1], len(shape), groups)


def _row_of_group(
    x: Any, axes: Iterable[Any] | None, is_long: Callable[[int, int], bool]
) -> _Row | None:
    """The long rows of a tensor along axes that lie around others, and of which the last is the
    tensor's: groups of channels that come last. None for other axes, and for short rows."""
    shape = fixed_shape(x)
    gone = _summed(shape, axes)
    if shape is None or not gone:
        return None
    kept = [axis for axis in range(gone[0], len(shape)) if shape[axis] > 1 and axis not in gone]
    if not kept or max(kept) > gone[-1] or set(gone).intersection(range(kept[0], kept[-1])):
        return None
    terms = math.prod(shape[axis] for axis in gone)
    rows = math.prod(shape) // terms
    last = max(axis for axis in gone if axis < kept[0])
    return _cut(shape, gone[0], last, kept[-1] + 1, rows) if is_long(rows, terms) else None


def _summed(shape: tuple[int, ...] | None, axes: Iterable[Any] | None) -> list[int]:
    """Those of axes that are more than one element, in order; None stands for all of a shape."""
    if shape is None:
        return []
    places = range(len(shape)) if axes is None else [int(axis) % len(shape) for axis in axes]
    return sorted({axis for axis in places if shape[axis] > 1})


def _cut(shape: tuple[int, ...], first: int, last: int, again: int, groups: int) -> _Row | None:
    """A row in as many parts as there may be beside those of ``groups`` in all; None for one."""
    terms = math.prod(shape[first : last + 1])
    parts = max(n for n in range(1, max(1, MOST_PARTS // groups) + 1) if terms % n == 0)
    return _Row(shape, first, last, parts, again) if parts > 1 else None
