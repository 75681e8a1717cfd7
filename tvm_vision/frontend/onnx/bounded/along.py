"""Operators over an axis of which only the first rows are real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from ...refusals import Remedy
from ..graph import Unsupported, attribute
from .compaction import joined
from .extents import Extent, as_extents
from .graph import REMEDY, BoundedGraph
from .rules import Results, Rule, axes_of, fixed, given


def top_k(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """TopK: rows that are not real come last."""
    value, wanted = graph.inputs(node)
    axis = attribute(node, "axis", -1) % len(graph.shape(value))
    numbers = graph.numbers(wanted)
    if numbers is None:
        raise Unsupported("its k is computed at run time", Remedy("make it a constant", REMEDY))
    extent = graph.smaller(numbers.item(), graph.extents(value)[axis])
    largest = bool(attribute(node, "largest", 1))
    rows = {**graph.axes(value), axis: extent}
    value = graph.masked(value, axis, _extreme(graph.dtype(value), not largest))
    most = np.array([min(graph.ranges.most(extent), graph.shape(value)[axis])], np.int64)
    return graph.several("TopK", value, most, results=2, rows=rows, axis=axis, largest=int(largest))


def _extreme(dtype: np.dtype, high: bool) -> Any:
    """The largest or smallest value of a type."""
    if np.issubdtype(dtype, np.floating):
        return np.inf if high else -np.inf
    if dtype == np.bool_:
        return high
    return np.iinfo(dtype).max if high else np.iinfo(dtype).min


# What changes nothing in a reduction.
_NEUTRAL: dict[str, Callable[[np.dtype], Any]] = {
    "ReduceMax": lambda dtype: _extreme(dtype, high=False),
    "ReduceMin": lambda dtype: _extreme(dtype, high=True),
    "ReduceProd": lambda dtype: 1,
    "ReduceLogSumExp": lambda dtype: -np.inf,
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"),
        lambda dtype: 0,
    ),
}


def reduce(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """A reduction: what is not real changes nothing."""
    values = graph.inputs(node)
    shape = graph.shape(values[0])
    wanted = axes_of(node, graph)
    if not wanted:
        if attribute(node, "noop_with_empty_axes", 0):
            return graph.again(node, values, graph.axes(values[0]))
        wanted = list(range(len(shape)))
    over = {axis % len(shape) for axis in wanted}
    keep = bool(attribute(node, "keepdims", 1))
    rows = graph.axes(values[0])
    merged = [axis for axis in over if axis in rows]
    neutral = _NEUTRAL[node.op_type](graph.dtype(values[0]))
    for axis in merged:
        values[0] = graph.masked(values[0], axis, neutral)
    left = _left(rows, over, len(shape), keep)
    if node.op_type == "ReduceMean" and merged:
        return [_mean(graph, values[0], over, rows, keep, left)]
    return graph.again(node, values, left)


def _left(rows: Any, over: set[int], rank: int, keep: bool) -> dict[int, Extent]:
    kept = [axis for axis in range(rank) if keep or axis not in over]
    return {place: rows[a] for place, a in enumerate(kept) if a in rows and a not in over}


def _mean(graph: BoundedGraph, value: str, over: set[int], rows: Any, keep: bool, left: Any) -> str:
    """The sum, divided by the number of rows that are real."""
    dtype, shape = graph.dtype(value), graph.shape(value)
    total = graph.on_axes("ReduceSum", value, sorted(over), keepdims=int(keep))
    number = ""
    for axis in sorted(over):
        size = graph.cast(graph.scalar(rows.get(axis, Extent(shape[axis]))), dtype)
        number = graph("Mul", number, size) if number else size
    return graph("Div", total, number, rows=left)


def arg_extreme(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """ArgMax and ArgMin."""
    (value,) = graph.inputs(node)
    rank = len(graph.shape(value))
    axis = attribute(node, "axis", 0) % rank
    rows = graph.axes(value)
    fill = _extreme(graph.dtype(value), node.op_type == "ArgMin")
    value = graph.masked(value, axis, fill)
    keep = bool(attribute(node, "keepdims", 1))
    return graph.again(node, [value], _left(rows, {axis}, rank, keep))


def cum_sum(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """CumSum: what is not real stands behind, or in reverse counts nothing."""
    value, where = graph.inputs(node)
    rank = len(graph.shape(value))
    axis = int(fixed(node, graph, 1).item()) % rank
    if attribute(node, "reverse", 0):
        value = graph.masked(value, axis, 0)
    return graph.again(node, [value, where], graph.axes(value))


def gather(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Gather: negative places count from the last row that is real."""
    value, places = (graph.tensor(name) for name in graph.inputs(node))
    rank = len(graph.shape(value))
    axis = attribute(node, "axis", 0) % rank
    rows, of_places = graph.axes(value), graph.axes(places)
    places = _counted(graph, places, rows.get(axis))
    more = len(graph.shape(places)) - 1
    found = {a + (more if a > axis else 0): e for a, e in rows.items() if a != axis}
    found |= {axis + a: extent for a, extent in of_places.items()}
    return [graph("Gather", value, places, axis=axis, rows=found)]


def _counted(graph: BoundedGraph, places: str, extent: Extent | None) -> str:
    """Places, negative ones from the end of rows that are real."""
    known = graph.constant(places)
    if extent is None or (known is not None and np.all(known >= 0)):
        return places
    rows = graph.axes(places)
    wide = graph.cast(places, np.int64)
    other = graph("Add", wide, graph.scalar(extent), rows=rows)
    below = graph("Less", wide, np.array(0, np.int64), rows=rows)
    return graph("Where", below, other, wide, rows=rows)


def gather_elements(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """GatherElements: as many results as places."""
    value, places = (graph.tensor(name) for name in graph.inputs(node))
    axis = attribute(node, "axis", 0) % len(graph.shape(value))
    rows = graph.axes(places)
    places = _counted(graph, places, graph.axes(value).get(axis))
    return graph.again(node, [value, places], rows)


def gather_nd(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """GatherND: a place is the last axis of the places."""
    value, places = (graph.tensor(name) for name in graph.inputs(node))
    rank, shape = len(graph.shape(places)), graph.shape(places)
    batch = attribute(node, "batch_dims", 0)
    rows = dict(graph.axes(places))
    if rank - 1 in rows:
        raise Unsupported("places whose number of axes depends on the data", REMEDY)
    for axis, extent in graph.axes(value).items():
        if axis >= batch + shape[-1]:
            rows[rank - 1 + axis - batch - shape[-1]] = extent
        elif axis < batch:
            raise Unsupported("batches whose number depends on the data", REMEDY)
    return graph.again(node, [value, places], rows)


def concat(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Concat, along the axis or others."""
    values = [graph.tensor(name) for name in graph.inputs(node)]
    rank = len(graph.shape(values[0]))
    axis = attribute(node, "axis", 0) % rank
    rows: dict[int, Extent] = {}
    for place in range(rank):
        extents = {graph.extents(value)[place] for value in values}
        if place == axis or all(extent.fixed for extent in extents):
            continue
        if len(extents) > 1:
            raise Unsupported("its inputs have numbers of rows not known to be equal", REMEDY)
        (rows[place],) = extents
        size = min(graph.shape(value)[place] for value in values)
        values = [graph.part(value, place, 0, size) for value in values]
    return [joined(graph, values, axis, rows)]


def split(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Split: rows that data counts as slices one after the other."""
    values = graph.inputs(node)
    axis = attribute(node, "axis", 0) % len(graph.shape(values[0]))
    if axis not in graph.axes(values[0]):
        return graph.again(node, values, graph.axes(values[0]))
    value, results, first = graph.tensor(values[0]), [], Extent()
    for size in _split_sizes(node, graph, axis):
        results.append(_between(graph, value, first, first + size, axis))
        first += size
    return results


def _split_sizes(node: onnx.NodeProto, graph: BoundedGraph, axis: int) -> list[Extent]:
    """How many rows each part of a Split has: as it says, or equally many but the last."""
    listed = attribute(node, "split")
    if listed is not None:
        return list(as_extents(np.array(listed)))
    value, parts = graph.inputs(node)[0], len(node.output)
    if given(node, 1):
        numbers = graph.numbers(graph.inputs(node)[1])
        if numbers is None:
            raise Unsupported("sizes are computed from the data, no maximum is known", REMEDY)
        return list(numbers.flat)
    whole = graph.extents(value)[axis]
    size = graph.quotient(whole + Extent(parts - 1), parts)
    if size is None:
        raise Unsupported("a split of rows whose number may be below 0", REMEDY)
    return [size] * (parts - 1) + [whole - size.times(parts - 1)]


def scatter(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Scatter, ScatterElements and ScatterND of updates of which only the first are real.

    The others go to a row behind the last, which nothing reads.
    """
    value, places, updates = (graph.tensor(name) for name in graph.inputs(node))
    rows, written = graph.axes(value), graph.axes(places)
    shape = graph.shape(value)
    nd = node.op_type == "ScatterND"
    axis = 0 if nd else attribute(node, "axis", 0) % len(shape)
    if not nd:
        places = graph.set_axes(_counted(graph, places, rows.get(axis)), written)
    if graph.axes(updates) != written and not nd:
        raise Unsupported("places and updates whose numbers are not known to be equal", REMEDY)
    size = shape[axis]
    wide = graph.to_size(value, axis, size + 1)
    for place, extent in written.items():
        sizes = graph.shape(places)
        real = graph.real(extent, sizes[place])
        real = graph.reshape(real, [n if a == place else 1 for a, n in enumerate(sizes)])
        behind = np.array(size, graph.dtype(places))
        if nd and sizes[-1] > 1:
            behind = np.array([size] + [0] * (sizes[-1] - 1), graph.dtype(places))
        places = graph("Where", real, places, behind)
    (result,) = graph.again(node, [wide, places, updates])
    return [graph.set_axes(graph.part(result, axis, 0, size), rows)]


def slice_(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Slice: what is behind the last real row is not there."""
    value = graph.tensor(graph.inputs(node)[0])
    starts, ends, axes, steps = _places(node, graph)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        value = _sliced(graph, value, start, end, axis % len(graph.shape(value)), step)
    return [value]


def _places(node: onnx.NodeProto, graph: BoundedGraph) -> tuple[Any, Any, list[int], list[int]]:
    if attribute(node, "starts") is not None:
        found = [np.array(attribute(node, name)) for name in ("starts", "ends")]
        starts, ends = (list(as_extents(part).flat) for part in found)
        axes = attribute(node, "axes", list(range(len(starts))))
        return starts, ends, list(axes), [1] * len(starts)
    names = graph.inputs(node)
    numbers = [graph.numbers(name) for name in names[1:3]]
    if any(part is None for part in numbers):
        raise Unsupported("its starts or ends are computed at run time", REMEDY)
    starts, ends = (list(part.flat) for part in numbers if part is not None)
    axes = [int(a) for a in fixed(node, graph, 3)] if given(node, 3) else list(range(len(starts)))
    steps = [int(s) for s in fixed(node, graph, 4)] if given(node, 4) else [1] * len(starts)
    return starts, ends, axes, steps


def _sliced(
    graph: BoundedGraph, value: str, start: Extent, end: Extent, axis: int, step: int
) -> str:
    size, most = graph.extents(value)[axis], graph.shape(value)[axis]
    if start.fixed and end.fixed and size.fixed:
        plain = (np.array([n], np.int64) for n in (start.constant, end.constant, axis, step))
        return graph("Slice", value, *plain, rows=graph.axes(value))
    if step == -1 and graph.ranges.least(start) < 0 and graph.ranges.most(end) < -most:
        return _from_behind(graph, value, axis, size)
    if step != 1:
        raise Unsupported(f"steps of {step} over rows whose number depends on the data", REMEDY)
    # Neither is held to where rows begin and end, so that what is left is written in one way:
    # all but the first are known to be as many as all but the last.
    first, last = _from_start(graph, start, size), _from_start(graph, end, size)
    return _between(graph, value, first, last, axis)


def _between(graph: BoundedGraph, value: str, first: Extent, last: Extent, axis: int) -> str:
    """The rows from one place to another, which may lie before or behind all."""
    size, most = graph.extents(value)[axis], graph.shape(value)[axis]
    first = graph.larger(first, Extent())
    left = graph.larger(graph.smaller(last, size) - first, Extent())
    if first.fixed:
        top = min(most, graph.ranges.most(last))
        if first.constant >= top:
            raise Unsupported("no row can be left", REMEDY)
        part = graph.part(value, axis, first.constant, top)
        return graph.set_axes(part, {**graph.axes(value), axis: left})
    places = graph("Add", graph.places(min(most, graph.ranges.most(left))), graph.scalar(first))
    places = graph("Min", places, np.array(most - 1, np.int64))
    return graph.taken(value, axis, places, left)


def _from_start(graph: BoundedGraph, place: Extent, size: Extent) -> Extent:
    """A start or end of a slice as a place from the start, which may lie before or behind all."""
    if graph.ranges.most(place) < 0:
        return place + size
    if graph.ranges.least(place) < 0:
        raise Unsupported("a place that may count from the start or from the end", REMEDY)
    return place


def _from_behind(graph: BoundedGraph, value: str, axis: int, size: Extent) -> str:
    """The rows that are real, in reverse."""
    last = graph.scalar(size - Extent(1))
    places = graph("Sub", last, graph.places(graph.shape(value)[axis]))
    return graph.taken(value, axis, graph("Max", places, np.array(0, np.int64)), size)


ALONG: dict[str, Rule] = {
    **dict.fromkeys(_NEUTRAL, reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_extreme),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), scatter),
    "Concat": concat,
    "CumSum": cum_sum,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Slice": slice_,
    "Split": split,
    "TopK": top_k,
}
