"""Scatters as gathers: each element of the result finds what was written to it.

Written one after the other, as operators of TVM do it, a thread of a GPU waits for each update
before the next. Here no element waits for another. Of several updates of one place the last counts,
as when they are written in turn; a place outside the tensor is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

# By name of a reduction: of what is there and an update, of all updates of a place, and the update
# that changes nothing, by type.
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[str], Any]]] = {
    "add": (lambda a, b: a + b, te.sum, lambda dtype: tirx.const(0, dtype)),
    "mul": (
        lambda a, b: a * b,
        te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="product"),
        lambda dtype: tirx.const(1, dtype),
    ),
    "min": (tirx.min, te.min, lambda dtype: te.max_value(dtype)),
    "max": (tirx.max, te.max, lambda dtype: te.min_value(dtype)),
}


@dataclass(frozen=True)
class Steps:
    """Places along an axis: the first, how far apart they are, and how many."""

    first: int
    step: int
    count: int


def targets_of(indices: te.Tensor, sizes: Sequence[int]) -> te.Tensor:
    """Places of updates, counted through axes of these sizes: int32 (m,), of indices (m, axes).

    -1: outside of an axis. Negative indices are outside.
    """

    def target(m: Any) -> Any:
        place: Any = tirx.const(0, "int32")
        inside = []
        for axis, size in enumerate(sizes):
            index = indices[m, axis]
            inside.append(tirx.all(index >= 0, index < size))
            place = place * size + index.astype("int32")
        return tirx.Select(tirx.all(*inside), place, tirx.const(-1, "int32"))

    return te.compute(indices.shape[:1], target, name="targets")


def latest_of(targets: te.Tensor, count: int) -> te.Tensor:
    """The last update of each place: int32 (before, count, after), of targets (before, m, after);
    -1: of a place that has none."""
    before, updates, after = targets.shape
    m = te.reduce_axis((0, updates), "m")
    none = tirx.const(-1, "int32")

    def latest(b: Any, place: Any, c: Any) -> Any:
        here = targets[b, m, c] == place.astype(targets.dtype)
        return te.max(tirx.Select(here, m.astype("int32"), none), axis=m)

    return te.compute((before, count, after), latest, name="latest")


def put(data: te.Tensor, latest: te.Tensor, updates: te.Tensor, reduction: str) -> te.Tensor:
    """Data with an update, where there is one, in its place or added to it.

    data: (before, count, after, inner). latest: int32 (before, count, after). updates: (before, m,
    after, inner).
    """

    def value(b: Any, place: Any, c: Any, i: Any) -> Any:
        update = updates[b, tirx.max(latest[b, place, c], 0), c, i]
        old = data[b, place, c, i]
        new = update if reduction == "update" else REDUCTIONS[reduction][0](old, update)
        return tirx.if_then_else(latest[b, place, c] >= 0, new, old)

    return te.compute(data.shape, value, name="put")


def put_all(data: te.Tensor, targets: te.Tensor, updates: te.Tensor, reduction: str) -> te.Tensor:
    """Data with all updates of each place added to it, or the like.

    data: (before, count, after, inner). targets: (before, m, after). updates: (before, m, after,
    inner). reduction: of REDUCTIONS.
    """
    both, together, nothing = REDUCTIONS[reduction]
    m = te.reduce_axis((0, targets.shape[1]), "m")

    def all_of(b: Any, place: Any, c: Any, i: Any) -> Any:
        here = targets[b, m, c] == place.astype(targets.dtype)
        return together(tirx.Select(here, updates[b, m, c, i], nothing(data.dtype)), axis=m)

    found = te.compute(data.shape, all_of, name="updates_of_place")
    return te.compute(data.shape, lambda *at: both(data(*at), found(*at)), name="put_all")


def put_grid(
    data: te.Tensor, updates: te.Tensor, grid: Sequence[Steps], reduction: str
) -> te.Tensor:
    """Data with updates at the places of a grid over its first axes.

    updates: of as many elements along each of these axes as the grid has steps.
    """

    def value(*at: Any) -> Any:
        inside, where = [], []
        for index, size, steps in zip(at, data.shape, grid, strict=False):
            if steps == Steps(0, 1, int(size)):
                where.append(index)
                continue
            along = index - steps.first
            inside += [index >= steps.first, along < steps.step * steps.count]
            if steps.step > 1:
                inside.append(tirx.floormod(along, steps.step) == 0)
            number = tirx.floordiv(along, steps.step)
            where.append(tirx.max(0, tirx.min(number, steps.count - 1)))
        update = updates(*where, *at[len(grid) :])
        new = update if reduction == "update" else REDUCTIONS[reduction][0](data(*at), update)
        return tirx.if_then_else(tirx.all(*inside), new, data(*at)) if inside else new

    return te.compute(data.shape, value, name="put_grid")
