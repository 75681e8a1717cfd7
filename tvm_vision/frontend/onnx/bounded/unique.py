"""Unique: rows in order, of which the first of each kind are counted."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ...refusals import Remedy
from ..graph import Unsupported, attribute
from .compaction import compacted
from .extents import Extent
from .graph import REMEDY, BoundedGraph
from .rules import Results

# Numbers of a row, by each of which all rows are sorted.
MOST_NUMBERS = 16
_ZERO, _ONE = np.array(0, np.int64), np.array(1, np.int64)


def unique(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Unique: what there is, where it is first, which of it each row is, and how often it is."""
    value, axis = _with_axis(node, graph)
    size, extent = graph.shape(value)[axis], graph.extents(value)[axis]
    if not size:
        raise Unsupported("it has nothing to look at", REMEDY)
    if size == 1:
        zero, one = (graph("Identity", np.full(1, number, np.int64)) for number in (0, 1))
        return [value, *(graph.set_axes(number, {0: extent}) for number in (zero, zero, one))]
    rows = _rows(graph, value, axis)
    order = _in_order(graph, rows, extent)
    is_first = _first_of_each(graph, graph("Gather", rows, order, axis=0), extent)
    # Of each row in order, which kind it is; and of each kind, where it begins.
    kinds = _counted(graph, is_first)
    begins, count = compacted(graph, is_first, [extent])
    often = _lengths(graph, begins, count, extent)
    first = graph.taken(order, 0, begins, count)
    kind = _put_back(graph, order, kinds)
    if not attribute(node, "sorted", 1):  # but as they come
        comes_first = graph.cast(_put_back(graph, order, graph.cast(is_first, np.int64)), np.bool_)
        numbers, of_first = _counted(graph, comes_first), graph("Gather", first, kind, axis=0)
        first, count = compacted(graph, comes_first, [extent])
        often = graph("Gather", often, graph("Gather", kind, first, axis=0), axis=0)
        kind = graph("Gather", numbers, of_first, axis=0)
    return [
        graph.taken(value, axis, first, count),
        graph.set_axes(graph("Identity", first), {0: count}),
        graph.set_axes(kind, {0: extent}),
        graph.set_axes(graph("Identity", often), {0: count}),
    ]


def _with_axis(node: onnx.NodeProto, graph: BoundedGraph) -> tuple[str, int]:
    """What is looked at, and along which axis."""
    value, axis = graph.tensor(graph.inputs(node)[0]), attribute(node, "axis")
    shape = graph.shape(value)
    if axis is None and len(shape) != 1:
        if graph.axes(value):
            raise Unsupported("rows whose number depends on the data are merged", REMEDY)
        value, shape = graph.reshape(value, [math.prod(shape)]), (math.prod(shape),)
    axis = (axis or 0) % len(shape)
    if set(graph.axes(value)) - {axis}:
        raise Unsupported("rows whose number depends on the data are not those it counts", REMEDY)
    return value, axis


def _rows(graph: BoundedGraph, value: str, axis: int) -> str:
    """What is compared, (rows, numbers), of a type that can be sorted."""
    shape = graph.shape(value)
    numbers = math.prod(shape) // shape[axis]
    if numbers > MOST_NUMBERS:
        raise Unsupported(
            f"rows of {numbers} numbers, and {MOST_NUMBERS} are the most that are compared",
            Remedy("make one number of each row before it", REMEDY),
        )
    if axis:
        others = [place for place in range(len(shape)) if place != axis]
        value = graph("Transpose", value, perm=[axis, *others])
    rows = graph.reshape(value, [shape[axis], numbers])
    return graph.cast(rows, np.int32) if graph.dtype(rows) == np.bool_ else rows


def _in_order(graph: BoundedGraph, rows: str, extent: Extent) -> str:
    """The places of rows by rising numbers, the first counting most, int64; rows that are not real
    come last. Each sort leaves the order of what is equal to it."""
    size, numbers = graph.shape(rows)
    keys = [graph.reshape(graph.part(rows, 1, n, n + 1), [size]) for n in reversed(range(numbers))]
    if not extent.fixed:
        keys.append(graph.cast(graph("Not", graph.real(extent, size)), np.int32))
    order = ""
    for key in keys:
        found = graph("Gather", key, order, axis=0) if order else key
        _, places = graph.several(
            "TopK", found, np.array([size], np.int64), results=2, axis=0, largest=0
        )
        order = graph("Gather", order, places, axis=0) if order else places
    return order


def _first_of_each(graph: BoundedGraph, rows: str, extent: Extent) -> str:
    """Which of rows in order differ from the one before, (rows,) of bool."""
    size = graph.shape(rows)[0]
    found = graph("Identity", np.ones(1, np.bool_))
    if size > 1:
        pair = graph.part(rows, 0, 1, size), graph.part(rows, 0, 0, size - 1)
        differ = graph.cast(graph("Not", graph("Equal", *pair)), np.int32)
        some = graph.on_axes("ReduceSum", differ, [1], keepdims=0)
        found = graph("Concat", found, graph.cast(some, np.bool_), axis=0)
    return found if extent.fixed else graph("And", found, graph.real(extent, size))


def _counted(graph: BoundedGraph, wanted: str) -> str:
    """How many true values lie up to each place, less one: int64."""
    return graph("Sub", graph("CumSum", graph.cast(wanted, np.int64), _ZERO), _ONE)


def _put_back(graph: BoundedGraph, order: str, values: str) -> str:
    """What is known of rows in order, (rows,) of int64, by the rows as they come."""
    nothing = np.zeros(graph.shape(order), np.int64)
    return graph("ScatterElements", nothing, order, values, axis=0)


def _lengths(graph: BoundedGraph, begins: str, count: Extent, extent: Extent) -> str:
    """From each of ``count`` rising places to the next, the last one to the end of all rows."""
    (size,) = graph.shape(begins)
    end = graph.reshape(graph.scalar(extent), [1])
    known = graph("Where", graph.real(count, size), begins, end)
    return graph("Sub", graph("Concat", graph.part(known, 0, 1, size), end, axis=0), known)
