"""Operators that make shapes, or take them: as integers that are followed, and tensors again."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ..graph import Unsupported, attribute
from .compaction import segments
from .extents import Extent
from .graph import REMEDY, BoundedGraph
from .rowwise import aligned
from .rules import Results, Rule, given

ONE = Extent(1)


def shape(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Shape: sizes as integers that are followed."""
    extents = graph.extents(graph.inputs(node)[0])
    part = extents[attribute(node, "start", 0) : attribute(node, "end")]
    return [graph.new_numbers(part)]


def size(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Size: the product of the sizes."""
    extents = graph.extents(graph.inputs(node)[0])
    return [graph.new_numbers(_product(extents))]


def _product(extents: list[Extent]) -> Extent:
    result = ONE
    for extent in extents:
        if not extent.fixed and not result.fixed:
            raise Unsupported("a product of two numbers that depend on the data", REMEDY)
        result = extent.times(result.constant) if result.fixed else result.times(extent.constant)
    return result


def constant_of_shape(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """ConstantOfShape: as large as it is at the most."""
    sizes = _wanted(graph, graph.inputs(node)[0])
    tensor = attribute(node, "value")
    value = np.zeros(1, np.float32) if tensor is None else onnx.numpy_helper.to_array(tensor)
    filled = np.full([graph.ranges.most(s) for s in sizes], value.item(), value.dtype)
    return [graph.set_axes(graph("Identity", filled), dict(enumerate(sizes)))]


def _wanted(graph: BoundedGraph, name: str) -> list[Extent]:
    """A shape that an operator takes. Raises Unsupported where its maximum is not known."""
    numbers = graph.numbers(name)
    if numbers is None:
        raise Unsupported("a size is computed from the data, and no maximum is known of it", REMEDY)
    return list(numbers.flat)


def range_(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Range, upwards one by one."""
    start, limit, delta = (graph.numbers(name) for name in graph.inputs(node))
    if start is None or limit is None or delta is None or delta.item() != ONE:
        raise Unsupported("its start, limit or step is computed from the data", REMEDY)
    extent = graph.larger(limit.item() - start.item(), Extent())
    places = graph("Identity", graph.places(graph.ranges.most(extent)))
    if start.item() != Extent():
        places = graph("Add", places, graph.scalar(start.item()))
    return [graph.cast(graph.set_axes(places, {0: extent}), graph.dtype(graph.inputs(node)[0]))]


def expand(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Expand: a broadcast to a shape."""
    value, name = graph.inputs(node)
    sizes = _wanted(graph, name)
    target = graph("Identity", np.zeros([graph.ranges.most(s) for s in sizes], bool))
    graph.set_axes(target, dict(enumerate(sizes)))
    (value, target), rows = aligned(graph, [graph.tensor(value), target])
    shapes = np.broadcast_shapes(graph.shape(value), graph.shape(target))
    return [graph("Expand", value, np.array(shapes, np.int64), rows=rows)]


def tile(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Tile: whole copies; of an axis whose rows data counts, none but the first."""
    value, name = graph.inputs(node)
    value = graph.tensor(value)
    times, extents = _wanted(graph, name), graph.extents(value)
    rows = {}
    for axis, (number, extent) in enumerate(zip(times, extents, strict=True)):
        if number == ONE:
            rows[axis] = extent
        elif not extent.fixed:
            raise Unsupported("copies of rows whose number depends on the data", REMEDY)
        else:
            rows[axis] = number.times(extent.constant)
    most = np.array([graph.ranges.most(number) for number in times], np.int64)
    return [graph("Tile", value, most, rows=rows)]


def reshape(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Reshape that leaves one axis of rows, or merges what is behind it into it or out of it."""
    value, name = graph.inputs(node)
    if value in graph.integers:
        value = graph.tensor(value)
    wanted, extents = _wanted(graph, name), graph.extents(value)
    zero_is_zero = bool(attribute(node, "allowzero", 0))
    sizes: list[Extent | None] = []
    for place, number in enumerate(wanted):
        if number == Extent(-1):
            sizes.append(None)
        else:
            copied = number == Extent() and not zero_is_zero
            sizes.append(extents[place] if copied else number)
    return [reshaped(graph, value, sizes)]


def flatten(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Flatten: a matrix."""
    (value,) = graph.inputs(node)
    extents = graph.extents(value)
    axis = attribute(node, "axis", 1)
    axis = axis + len(extents) if axis < 0 else axis
    return [reshaped(graph, value, [_product(extents[:axis]), _product(extents[axis:])])]


def reshaped(graph: BoundedGraph, value: str, sizes: list[Extent | None]) -> str:
    """A value of other sizes; one of them may be None, for what is left."""
    extents = graph.extents(value)
    bounded = [axis for axis, extent in enumerate(extents) if not extent.fixed]
    if len(bounded) != 1:
        return _kept(graph, value, extents, sizes)
    (axis,) = bounded
    total = _product(extents)
    if None in sizes:
        known = _product([s for s in sizes if s is not None])
        sizes = [_quotient(total, known) if s is None else s for s in sizes]
    wanted = [s for s in sizes if s is not None]
    places = [place for place, extent in enumerate(wanted) if not extent.fixed]
    if len(places) != 1 or _product(wanted) != total:
        raise Unsupported("a shape that does not follow from the number of its rows", REMEDY)
    (place,) = places
    before, after = ([e.constant for e in part] for part in (extents[:axis], wanted[:place]))
    behind = math.prod(e.constant for e in wanted[place + 1 :])
    inner = math.prod(e.constant for e in extents[axis + 1 :])
    elements = graph.shape(value)[axis] * inner
    if math.prod(before) != math.prod(after):
        value = _rows_first(graph, value, axis, before, after)
        elements *= math.prod(before)
    if elements % behind:
        raise Unsupported("rows that are divided into parts of other sizes", REMEDY)
    shape = [*after, elements // behind, *(e.constant for e in wanted[place + 1 :])]
    return graph.set_axes(
        graph("Reshape", value, np.array(shape, np.int64)), {place: wanted[place]}
    )


def _quotient(total: Extent, known: Extent) -> Extent:
    if known.fixed and known.constant:
        found = total.divided(known.constant)
        if found is not None:
            return found
    elif not known.fixed and not total.fixed:
        # The same count in both: what is left is the ratio of the factors.
        name, factor = known.terms[0]
        own = dict(total.terms).get(name, 0)
        if own % factor == 0 and known.times(own // factor) == total:
            return Extent(own // factor)
    raise Unsupported("a shape that does not follow from the number of its rows", REMEDY)


def _kept(
    graph: BoundedGraph, value: str, extents: list[Extent], sizes: list[Extent | None]
) -> str:
    """A Reshape that only adds or takes away axes of size 1."""
    kept = [(axis, extent) for axis, extent in enumerate(extents) if extent != ONE]
    wanted = [(place, extent) for place, extent in enumerate(sizes) if extent != ONE]
    alike = len(kept) == len(wanted) and all(
        other is None or other == extent
        for (_, extent), (_, other) in zip(kept, wanted, strict=True)
    )
    if not alike:
        raise Unsupported("a shape that does not follow from the number of its rows", REMEDY)
    shape = [1] * len(sizes)
    rows = {}
    for (axis, extent), (place, _) in zip(kept, wanted, strict=True):
        shape[place], rows[place] = graph.shape(value)[axis], extent
    return graph("Reshape", value, np.array(shape, np.int64), rows=rows)


def _rows_first(
    graph: BoundedGraph, value: str, axis: int, before: list[int], after: list[int]
) -> str:
    """The real rows of all that stands before their axis, one after the other: (rows, inner)."""
    if math.prod(after) != 1:
        raise Unsupported("rows that are divided among other axes", REMEDY)
    groups, shape = math.prod(before), graph.shape(value)
    extent = graph.extents(value)[axis]
    counts = graph(
        "Expand", graph.cast(graph.scalar(extent), np.int32), np.array([groups], np.int64)
    )
    group, place, _ = segments(graph, counts, shape[axis])
    flat = graph.reshape(value, [groups * shape[axis], math.prod(shape[axis + 1 :])])
    where = graph("Add", graph("Mul", group, np.array(shape[axis], np.int64)), place)
    return graph.reshape(
        graph("Gather", flat, where, axis=0), [groups * shape[axis], *shape[axis + 1 :]]
    )


def pad(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Pad, also by what is missing to a fixed number of rows."""
    names = graph.inputs(node)
    value = graph.tensor(names[0])
    rank = len(graph.shape(value))
    listed = attribute(node, "pads")
    numbers = [Extent(n) for n in listed] if listed is not None else _wanted(graph, names[1])
    axes = list(range(rank))
    if given(node, 3):
        known = graph.constant(names[3])
        axes = axes if known is None else [int(axis) % rank for axis in known]
    if attribute(node, "mode", "constant") != "constant":
        raise Unsupported("a mode other than constant for rows counted by the data", REMEDY)
    filling = names[2] if given(node, 2) else ""
    for place, axis in enumerate(axes):
        value = _padded(graph, value, axis, numbers[place], numbers[place + len(axes)], filling)
    return [value]


def _padded(
    graph: BoundedGraph, value: str, axis: int, begin: Extent, end: Extent, filling: str
) -> str:
    if begin == end == Extent():
        return value
    if not begin.fixed or begin.constant < 0:
        raise Unsupported("a number of rows before the first that depends on the data", REMEDY)
    extents, shape = graph.extents(value), graph.shape(value)
    inner, whole = begin + extents[axis], begin + extents[axis] + end
    most = graph.ranges.most(whole)
    if begin.constant:
        front = (*shape[:axis], begin.constant, *shape[axis + 1 :])
        empty = np.zeros(front, graph.dtype(value))
        value = graph("Concat", empty, value, axis=axis, rows=graph.axes(value))
    value = graph.to_size(value, axis, most)
    rows = {**graph.axes(value), axis: whole}
    places = graph.places(most)
    inside = graph("Less", places, graph.scalar(inner))
    if begin.constant:
        inside = graph("And", inside, places >= begin.constant)
    inside = graph.reshape(inside, [most if a == axis else 1 for a in range(len(shape))])
    other = graph.reshape(filling, []) if filling else np.array(0, graph.dtype(value))
    return graph.set_axes(graph("Where", inside, value, other), rows)


SHAPES: dict[str, Rule] = {
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "Flatten": flatten,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Tile": tile,
}
