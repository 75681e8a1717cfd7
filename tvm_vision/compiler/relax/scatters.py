"""ScatterND and ScatterElements as gathers (topi/scatter.py), or written in turn on a processor:
what an index outside of the tensor would write is left out everywhere.

Indices that are numbers, as exporters write an assignment to a slice, say beforehand what lies
where: no index is left to read where the places form a grid, and nothing is left to do where they
are all there are. Of those that data decide a GPU finds the last by an atomic maximum, and sorts
them where they are added up and many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ...topi.scatter import (
    REDUCTIONS,
    Steps,
    latest_among,
    put,
    put_all,
    put_few,
    put_grid,
    put_in_turn,
    put_sorted,
    targets_along,
    targets_of,
)
from .along_axis import in_rows
from .fold_constants import numbers_behind
from .operators import fixed_shape, operator_of
from .rewriting import rewritten
from .sorting import sorted_rows

# So few updates are looked at by each place itself: a second kernel takes longer.
FEW = 8
# More comparisons, of each element with each update, take longer than to sort the updates, by the
# models of renoir, phoenix and tgl (benchmarks/schedules/places.md).
MOST_COMPARED = 1 << 23


def scatters_as_gathers(mod: tvm.IRModule, *, on_gpu: bool) -> tvm.IRModule:
    """``mod`` with scatters of kernels of ours. on_gpu: whether those whose places data decide are
    gathers, too."""
    return rewritten(mod, _Scatters(mod, on_gpu))


@relax.expr_functor.mutator
class _Scatters(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, on_gpu: bool) -> None:
        super().__init__(mod)
        self._on_gpu = on_gpu

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        kind = operator_of(call)
        if kind not in ("relax.scatter_nd", "relax.scatter_elements"):
            return call
        shapes = [fixed_shape(argument) for argument in call.args]
        reduction = str(call.attrs.reduction)
        known = reduction == "update" or reduction in REDUCTIONS
        if not known or any(shape is None or not math.prod(shape) for shape in shapes):
            return call
        numbers = numbers_behind(call.args[1], self.lookup_binding)
        new = self._points if kind == "relax.scatter_nd" else self._elements
        found = new(call, shapes, numbers, reduction)
        return call if found is None else found

    def _points(
        self, call: relax.Call, shapes: Sequence[Any], numbers: np.ndarray | None, reduction: str
    ) -> relax.Expr | None:
        """ScatterND: an index has a number for each of the first axes."""
        data, indices, _ = shapes
        axes = indices[-1]
        places, inner = data[:axes], math.prod(data[axes:])
        count, many = math.prod(places), math.prod(indices[:-1])
        whole = [1, count, 1, inner]
        if numbers is not None:
            points = numbers.reshape(-1, axes)
            grid = _grid_of(points, places)
            if grid is not None:
                return self._put_grid(call, grid, data[axes:], reduction)
            rows = _flat(points, places).reshape(1, many, 1)
            if reduction == "update" or _are_apart(rows):
                return self._put(call, whole, many, _latest(rows, count), reduction)
        points = self._reshaped(call.args[1], [many, axes])
        targets = self.builder_.emit_te(
            targets_of, points, places, primfunc_name_hint="scatter_targets"
        )
        return self._found(call, whole, many, targets, reduction)

    def _elements(
        self, call: relax.Call, shapes: Sequence[Any], numbers: np.ndarray | None, reduction: str
    ) -> relax.Expr | None:
        """ScatterElements: an index is a place along one axis."""
        data, indices, _ = shapes
        axis = int(call.attrs.axis) % len(data)
        before, count, after = math.prod(data[:axis]), data[axis], math.prod(data[axis + 1 :])
        many = indices[axis]
        short = [0 if a == axis else data[a] - indices[a] for a in range(len(data))]
        if min(short) < 0:
            return None
        if any(short):
            call, numbers = self._as_wide(call, short, numbers, outside=count)
        whole = [before, count, after, 1]
        if numbers is not None:
            rows = _rows(numbers.reshape(before, many, after), count)
            if reduction == "update" or _are_apart(rows):
                return self._put(call, whole, many, _latest(rows, count), reduction)
        places = self._reshaped(call.args[1], [before, many, after])
        targets = self.builder_.emit_te(
            targets_along, places, count, primfunc_name_hint="scatter_targets"
        )
        return self._found(call, whole, many, targets, reduction)

    def _as_wide(
        self, call: relax.Call, short: Sequence[int], numbers: np.ndarray | None, outside: int
    ) -> tuple[relax.Call, np.ndarray | None]:
        """ScatterElements of as many rows of updates as the tensor has: what is put beside those
        that there are goes nowhere. short: how many are missing along each axis."""
        data, *given = call.args
        widths = [width for missing in short for width in (0, missing)]
        wide = [
            self.builder_.emit(relax.op.nn.pad(value, widths, pad_value=filled))
            for value, filled in zip(given, (outside, 0), strict=True)
        ]
        if numbers is not None:
            around = [(0, missing) for missing in short]
            numbers = np.pad(numbers, around, constant_values=outside)
        return relax.Call(call.op, [data, *wide], call.attrs, call.ty_args), numbers

    def _put_grid(
        self, call: relax.Call, grid: Sequence[Steps], inner: Sequence[int], reduction: str
    ) -> relax.Expr:
        counts = [steps.count for steps in grid]
        data = call.args[0]
        updates = self._reshaped(call.args[2], [*counts, *inner])
        if reduction == "update" and (*counts, *inner) == fixed_shape(data):
            return updates
        made = partial(put_grid, grid=grid, reduction=reduction)
        return self.builder_.call_te(made, data, updates, primfunc_name_hint="scatter_grid")

    def _found(
        self,
        call: relax.Call,
        whole: Sequence[int],
        many: int,
        targets: Any,
        reduction: str,
    ) -> relax.Expr:
        """With places that are known when the network runs. whole: see ``put``."""
        before, count, after, inner = whole
        targets = self._reshaped(targets, [before, many, after])
        few = self._on_gpu and many <= FEW
        if self._on_gpu and reduction == "update" and not few:
            latest = self.builder_.emit_te(
                latest_among, targets, count, primfunc_name_hint="scatter_latest"
            )
            return self._put(call, whole, many, latest, reduction)
        data = self._reshaped(call.args[0], whole)
        updates = self._reshaped(call.args[2], [before, many, after, inner])
        given = [data, targets, updates]
        kernel: Callable[..., Any] = put_in_turn
        if few:
            kernel = put_few
        elif self._on_gpu and math.prod(whole) * many > MOST_COMPARED:
            rows, _ = in_rows(targets, (before, many, after), 1, self.builder_.emit)
            keys = self.builder_.emit(relax.op.astype(rows, "uint32"))
            # Those outside, -1, come behind all others.
            ordered = sorted_rows(self.builder_, keys, count.bit_length())
            kernel, given = put_sorted, [data, *ordered, updates]
        elif self._on_gpu:
            kernel = put_all
        made = self.builder_.emit_te(
            kernel, *given, reduction, primfunc_name_hint=f"scatter_{reduction}"
        )
        return self._shaped(made, call)

    def _put(
        self, call: relax.Call, whole: Sequence[int], many: int, latest: Any, reduction: str
    ) -> relax.Expr:
        before, _, after, inner = whole
        if isinstance(latest, np.ndarray):
            latest = relax.const(latest, "int32")
        data = self._reshaped(call.args[0], whole)
        updates = self._reshaped(call.args[2], [before, many, after, inner])
        made = self.builder_.emit_te(
            put, data, latest, updates, reduction, primfunc_name_hint="scatter_put"
        )
        return self._shaped(made, call)

    def _reshaped(self, value: Any, shape: Sequence[int]) -> Any:
        return self.builder_.emit(relax.op.reshape(value, list(shape)))

    def _shaped(self, value: Any, call: relax.Call) -> relax.Expr:
        return relax.op.reshape(value, call.args[0].ty.shape)


def _grid_of(points: np.ndarray, places: Sequence[int]) -> list[Steps] | None:
    """The grid that points (m, axes) are, one after another; None for any others."""
    found = []
    for axis, size in enumerate(places):
        numbers = np.unique(points[:, axis])
        steps = np.unique(np.diff(numbers)) if len(numbers) > 1 else np.array([1])
        if len(steps) > 1 or numbers[0] < 0 or numbers[-1] >= size:
            return None
        found.append(Steps(int(numbers[0]), int(steps[0]), len(numbers)))
    if math.prod(steps.count for steps in found) != len(points):
        return None
    axes = [each.first + each.step * np.arange(each.count) for each in found]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(points.shape)
    return found if (grid == points).all() else None


def _flat(points: np.ndarray, places: Sequence[int]) -> np.ndarray:
    """Places counted through the axes, -1 for those outside."""
    outside = np.any((points < 0) | (points >= np.array(places)), axis=1)
    inside = np.where(outside[:, np.newaxis], 0, points)
    return np.where(outside, -1, np.ravel_multi_index(tuple(inside.T), tuple(places)))


def _rows(indices: Any, count: int) -> Any:
    """Indices along an axis of ``count`` from its beginning, -1 for those outside."""
    found = np.where(indices < 0, indices + count, indices)
    return np.where((found >= 0) & (found < count), found, -1)


def _latest(rows: np.ndarray, count: int) -> np.ndarray:
    """What ``latest_among`` finds, of numbers (before, m, after) of which those outside are -1."""
    before, _, after = rows.shape
    found = np.full((before, count + 1, after), -1, np.int32)  # the last takes what is outside
    b, m, c = np.indices(rows.shape)
    np.maximum.at(found, (b, rows, c), m.astype(np.int32))
    return found[:, :-1]


def _are_apart(rows: np.ndarray) -> bool:
    """Whether no place of a row (before, m, after) has two updates."""
    by_row = np.sort(np.moveaxis(rows, 1, -1), axis=-1)
    return not np.any((by_row[..., 1:] == by_row[..., :-1]) & (by_row[..., 1:] >= 0))
