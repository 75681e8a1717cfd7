"""Operators whose results have as many rows as data says."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ...refusals import Remedy
from ..graph import Unsupported, attribute
from .compaction import MOST_ROWS, compacted, segments
from .extents import Extent
from .first_rows import first_rows
from .graph import REMEDY, BoundedGraph
from .masks import is_true, real_and_true
from .rules import Results, Rule, given
from .unique import unique

SUPPRESSION = "NonMaxSuppression"
# No float32 is less, but for the infinite one.
_LEAST = np.array(np.finfo(np.float32).min)
_INT32 = np.iinfo(np.int32)


def non_zero(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """NonZero: the places of what is not zero, (rank, count), by row."""
    (value,) = graph.inputs(node)
    shape = graph.shape(value)
    wanted = real_and_true(graph, is_true(graph, value))
    below = [graph.extents(value)[0]] if len(shape) == 1 else []
    places, count = compacted(graph, graph.reshape(wanted, [math.prod(shape)]), below)
    size = max(len(shape), 1)
    rows = []
    for axis in range(size):
        behind = math.prod(shape[axis + 1 :])
        place = graph("Div", places, np.array(behind, np.int64)) if behind > 1 else places
        if axis:
            place = graph("Mod", place, np.array(shape[axis], np.int64))
        rows.append(graph.reshape(place, [1, graph.shape(place)[0]]))
    found = rows[0] if len(rows) == 1 else graph("Concat", *rows, axis=0)
    return [graph.set_axes(found, {1: count})]


def compress(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Compress: the rows for which a condition is true."""
    value, condition = graph.inputs(node)
    axis = attribute(node, "axis")
    shape = graph.shape(value)
    if axis is None:
        if set(graph.axes(value)) - {0}:
            raise Unsupported("rows whose number depends on the data are merged", REMEDY)
        value = graph.reshape(value, [math.prod(shape)])
        axis = 0
    axis %= max(len(shape), 1)
    size, known = graph.shape(value)[axis], graph.constant(condition)
    if known is not None and axis not in graph.axes(value):
        rows = np.flatnonzero(known.reshape(-1)[:size])
        return [graph("Gather", value, rows, axis=axis, rows=graph.axes(value))]
    condition = _for_rows(condition, size, graph)
    wanted = graph.masked(condition, 0, False)
    places, count = compacted(graph, wanted, [graph.extents(condition)[0]])
    return [graph.taken(value, axis, places, count)]


def _for_rows(condition: str, size: int, graph: BoundedGraph) -> str:
    """A condition of any shape as onnxruntime reads it: its elements in their order, of which those
    beyond the rows stand for nothing."""
    shape = graph.shape(condition)
    if len(shape) == 1 and shape[0] <= size:
        return condition
    if set(graph.axes(condition)) - {0}:
        raise Unsupported("a condition on rows whose number depends on the data", REMEDY)
    elements = graph.reshape(graph.masked(condition, 0, False), [math.prod(shape)])
    return graph.part(elements, 0, 0, min(size, math.prod(shape)))


def suppression(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """NonMaxSuppression: rows of image, class and box, by image, class and falling score."""
    boxes, scores = (graph.tensor(name) for name in graph.inputs(node)[:2])
    (images, classes, count), limit = graph.shape(scores), _limit(node, graph)
    real = _boxes_that_are_real(graph, boxes, scores)
    size = min(graph.shape(boxes)[1], count)
    boxes, scores = graph.part(boxes, 1, 0, size), graph.part(scores, 2, 0, size)
    groups = images * classes
    read = rows_wanted(node, graph)
    if read:
        limit = graph.smaller(limit, Extent(read))
    most = min(size, graph.ranges.most(limit))
    if groups * most > MOST_ROWS:
        raise Unsupported(
            f"up to {groups * most} boxes ({images} images of {classes} classes, {most} boxes of "
            f"each), and {MOST_ROWS} are the most there can be",
            Remedy("export the model with a smaller max_output_boxes_per_class", REMEDY),
        )
    if graph.dtype(scores) != np.float32:
        boxes, scores = graph.cast(boxes, np.float32), graph.cast(scores, np.float32)
    if attribute(node, "center_point_box", 0):
        boxes = _corners(graph, boxes)
    limits = _pair(graph, _narrow(graph, real), _narrow(graph, limit), np.int32)
    if given(node, 4):
        least = graph.inputs(node)[4]
    else:
        least, scores = (
            graph.constant_of(np.array(-np.inf, np.float32)),
            graph("Max", scores, _LEAST),
        )
    overlap = (
        graph.inputs(node)[3] if given(node, 3) else graph.constant_of(np.array(0, np.float32))
    )
    thresholds = _pair(graph, overlap, least, np.float32)
    types = [(np.int32, (groups, most)), (np.int32, (groups,))]
    kept, counts = graph.own(
        "Suppression", boxes, scores, limits, thresholds, types=types, most=most
    )
    return [_selected(graph, kept, counts, classes, [real] if groups == 1 else [])]


def rows_wanted(node: onnx.NodeProto, graph: BoundedGraph) -> int | None:
    """How many of a suppression's rows need to be found, by which it differs from others; None
    where all do."""
    images, classes, _ = graph.shape(graph.tensor(graph.inputs(node)[1]))
    # Of several classes the rows of one follow those of another.
    return first_rows(node.output[0], graph) if images * classes == 1 else None


def _limit(node: onnx.NodeProto, graph: BoundedGraph) -> Extent:
    """How many boxes of a class may be kept."""
    numbers = graph.numbers(graph.inputs(node)[2]) if given(node, 2) else None
    if numbers is None:
        raise Unsupported(
            "its max_output_boxes_per_class is not given or computed at run time",
            Remedy("export the model with it", REMEDY),
        )
    (limit,) = numbers.flat
    if graph.ranges.most(limit) < 1:
        raise Unsupported("its max_output_boxes_per_class is 0, and no box comes out", REMEDY)
    return limit


def _boxes_that_are_real(graph: BoundedGraph, boxes: str, scores: str) -> Extent:
    if set(graph.axes(boxes)) - {1} or set(graph.axes(scores)) - {2}:
        raise Unsupported("images or classes whose number depends on the data", REMEDY)
    real, others = graph.extents(boxes)[1], graph.extents(scores)[2]
    if real != others:
        raise Unsupported("numbers of boxes and scores that are not known to be equal", REMEDY)
    return real


def _narrow(graph: BoundedGraph, extent: Extent) -> str:
    """An extent as a scalar of int32, the largest of them where it is larger."""
    limit = Extent(int(_INT32.max))
    return graph.cast(graph.scalar(graph.smaller(extent, limit)), np.int32)


def _pair(graph: BoundedGraph, first: str, second: str, dtype: type) -> str:
    parts = [graph.reshape(graph.cast(part, dtype), [1]) for part in (first, second)]
    return graph("Concat", *parts, axis=0)


def _corners(graph: BoundedGraph, boxes: str) -> str:
    """Two corners of boxes that are given by center and size."""
    center, size = graph.part(boxes, 2, 0, 2), graph.part(boxes, 2, 2, 4)
    half = graph("Div", size, np.array(2, np.float32))
    return graph("Concat", graph("Sub", center, half), graph("Add", center, half), axis=2)


def _selected(
    graph: BoundedGraph, kept: str, counts: str, classes: int, below: list[Extent]
) -> str:
    """Rows of image, class and box of what is kept of each class."""
    groups, most = graph.shape(kept)
    if groups == 1:
        total = graph.cast(graph.reshape(counts, []), np.int64)
        boxes = graph.reshape(graph.cast(kept, np.int64), [most, 1])
        extent = graph.count(total, 0, most, below)
        zeros = np.zeros((most, 2), np.int64)
        return graph("Concat", zeros, boxes, axis=1, rows={0: extent})
    group, place, extent = segments(graph, counts, most)
    size = groups * most
    flat = graph("Add", graph("Mul", group, np.array(most, np.int64)), place)
    boxes = graph("Gather", graph.reshape(graph.cast(kept, np.int64), [size]), flat, axis=0)
    columns = [boxes]
    for operator in ("Mod", "Div"):
        columns.insert(0, graph(operator, group, np.array(classes, np.int64)))
    return graph(
        "Concat", *(graph.reshape(c, [size, 1]) for c in columns), axis=1, rows={0: extent}
    )


SOURCES: dict[str, Rule] = {
    "Compress": compress,
    SUPPRESSION: suppression,
    "NonZero": non_zero,
    "Unique": unique,
}
