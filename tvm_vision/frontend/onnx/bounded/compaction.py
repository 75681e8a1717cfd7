"""Real rows brought together: of a mask, of groups, of several values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...refusals import Remedy
from ..graph import Unsupported
from .extents import Extent
from .graph import REMEDY, Axes, BoundedGraph
from .masks import true_count

# Rows that a tensor may have because data might fill them.
MOST_ROWS = 1 << 24
SEARCH = "SearchSorted"
_ZERO = np.array(0, np.int64)


def compacted(graph: BoundedGraph, wanted: str, below: Sequence[Extent] = ()) -> tuple[str, Extent]:
    """The places of the true values of a vector, and how many they are.

    wanted: (size,) of bool.
    below: what the number cannot exceed, beside the size.

    The places are (size,) of int64, 0 behind the last.
    """
    (size,) = graph.shape(wanted)
    if size > MOST_ROWS:
        raise Unsupported(
            f"up to {size} rows, and {MOST_ROWS} are the most there can be",
            Remedy("use a smaller input", REMEDY),
        )

    def places_and_count() -> tuple[str, Extent]:
        ends = graph("CumSum", graph.cast(wanted, np.int32), _ZERO)
        count = true_count(graph, wanted, below, lambda: graph.cast(_last(graph, ends), np.int64))
        found = _first_reaching(graph, ends, size)
        inside = graph("Where", graph.real(count, size), found, np.array(0, np.int32))
        return graph.cast(inside, np.int64), count

    # Boxes and scores are often taken by one mask, and are then known to be as many.
    return graph.once(("compacted", wanted), places_and_count)


def segments(graph: BoundedGraph, counts: str, most: int) -> tuple[str, str, Extent]:
    """Rows of several groups, one group after the other.

    counts: (groups,) of int32, how many rows each group has.
    most: the largest of these that there can be.

    The group of each row and the row's place in it, (groups · most,) of int64, and how many rows
    are real.
    """
    (groups,) = graph.shape(counts)
    size = groups * most
    ends = graph("CumSum", counts, _ZERO)
    extent = graph.count(graph.cast(_last(graph, ends), np.int64), 0, size)
    # As many groups lie before a row as end at it or before it.
    found = _first_reaching(graph, ends, size)
    group = graph.cast(graph("Min", found, np.array(groups - 1, np.int32)), np.int64)
    starts = graph.cast(graph("Sub", ends, counts), np.int64)
    place = graph("Sub", graph.places(size), graph("Gather", starts, group, axis=0))
    return group, graph("Min", place, np.array(most - 1, np.int64)), extent


def joined(graph: BoundedGraph, values: Sequence[str], axis: int, rows: Axes) -> str:
    """Values one after the other along an axis, the real rows of all first.

    rows: which are real of the other axes.
    """
    values = [value for value in values if graph.shape(value)[axis]] or list(values[:1])
    extents = [graph.extents(value)[axis] for value in values]
    whole = values[0] if len(values) == 1 else graph("Concat", *values, axis=axis)
    total = graph.joined(extents)
    if all(extent.fixed for extent in extents[:-1]):
        return graph.set_axes(whole, {**rows, axis: total})
    sizes = np.array([graph.shape(value)[axis] for value in values], np.int64)
    counts = [graph.reshape(graph.scalar(extent), [1]) for extent in extents]
    ends = graph("CumSum", graph("Concat", *counts, axis=0), _ZERO)
    graph.note_scalar(total, _last(graph, ends))
    missing = graph("Sub", sizes, graph("Concat", *counts, axis=0))
    # A row is as many places further on as rows of pieces before its own are not real.
    places = graph.places(int(sizes.sum()))
    before = graph("Less", places.reshape(-1, 1), ends)
    steps = graph.on_axes("ReduceSum", graph("Where", before, _ZERO, missing), [1], keepdims=0)
    found = graph("Min", graph("Add", steps, places), np.array(len(places) - 1, np.int64))
    return graph.taken(graph.set_axes(whole, rows), axis, found, total)


def _first_reaching(graph: BoundedGraph, ends: str, size: int) -> str:
    """The first place of rising ``ends`` that is at least 1, 2, 3, ...: (size,) of int32."""
    numbers = np.arange(1, size + 1, dtype=np.int32)
    return graph.own(SEARCH, ends, numbers, types=[(np.int32, (size,))])[0]


def _last(graph: BoundedGraph, vector: str) -> str:
    """The last element of a vector, as a scalar."""
    (size,) = graph.shape(vector)
    return graph.reshape(graph.part(vector, 0, size - 1, size), [])
