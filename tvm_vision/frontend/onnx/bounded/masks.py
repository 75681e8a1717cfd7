"""How many elements of a mask are true: alike for its sum and for its places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx

from ..graph import Unsupported, attribute
from .extents import Extent
from .graph import BoundedGraph
from .rules import axes_of

# The same elements, or each as often as the others.
_LAID_OUT = frozenset("Expand Flatten Identity Reshape Squeeze Tile Transpose Unsqueeze".split())


def is_true(graph: BoundedGraph, value: str) -> str:
    """What of a value is not zero, as bool."""
    dtype = graph.dtype(value)
    if dtype == np.bool_:
        return value
    mask = _cast_from_bool(graph, value)
    if mask:
        return mask
    if dtype in (np.uint8, np.int8, np.int16, np.uint16):
        value = graph.cast(value, np.int32)
    zero = np.zeros((), graph.dtype(value))
    rows = graph.axes(value)
    return graph("Not", graph("Equal", value, zero, rows=rows), rows=rows)


def _cast_from_bool(graph: BoundedGraph, value: str) -> str:
    """The mask that a value is as numbers; "" where it is none."""
    node = graph.producer(value)
    if node is None or node.op_type != "Cast" or graph.dtype(node.input[0]) != np.bool_:
        return ""
    return str(node.input[0])


def true_count(
    graph: BoundedGraph,
    mask: str,
    below: Sequence[Extent] = (),
    total: Callable[[], str] | None = None,
) -> Extent:
    """How many elements of a mask, all of whose rows are real, are true.

    below: what the number cannot exceed, beside the number of elements.
    total: gives it as an int64 scalar where that is cheaper than a sum of the mask.
    """
    factor = 1
    while (source := _laid_out(graph, mask)) is not None:
        factor *= math.prod(graph.shape(mask)) // math.prod(graph.shape(source))
        mask = source
    size = math.prod(graph.shape(mask))

    def counted() -> Extent:
        if factor == 1 and total is not None:
            return graph.count(total(), 0, size, below)
        flat = graph.cast(graph.reshape(mask, [size]), np.int32)
        found = graph.cast(graph.on_axes("ReduceSum", flat, [0], keepdims=0), np.int64)
        return graph.count(found, 0, size, below if factor == 1 else ())

    found: Extent = graph.once(("true", mask), counted)
    return found.times(factor)


def _laid_out(graph: BoundedGraph, mask: str) -> str | None:
    """The mask that this one has the elements of, each equally often."""
    node = graph.producer(mask)
    if node is None or node.op_type not in _LAID_OUT:
        return None
    source = str(node.input[0])
    whole = not graph.axes(mask) and not graph.axes(source)
    size = math.prod(graph.shape(source))
    return source if whole and size else None


def counted_mask(node: onnx.NodeProto, graph: BoundedGraph) -> str | None:
    """The sum of a whole mask as an integer that is followed; None for other nodes. Exporters
    compute so how many places are taken from a tensor or written to it."""
    if node.op_type != "ReduceSum" or node.input[0] in graph.refused:
        return None
    try:
        value = graph.inputs(node)[0]
        mask = _cast_from_bool(graph, value) if graph.dtype(value) == np.int64 else ""
        rank = len(graph.shape(value))
        axes = axes_of(node, graph)
    except Unsupported:
        return None
    if axes is None and attribute(node, "noop_with_empty_axes", 0):
        return None
    if not mask or {axis % rank for axis in axes or range(rank)} != set(range(rank)):
        return None
    below = [graph.extents(mask)[0]] if rank == 1 else []
    count = true_count(graph, real_and_true(graph, mask), below)
    return graph.new_numbers(np.full([1] * rank if attribute(node, "keepdims", 1) else [], count))


def real_and_true(graph: BoundedGraph, mask: str) -> str:
    """A mask that is false where rows are not real."""
    for axis in graph.axes(mask):
        mask = graph.masked(mask, axis, False)
    return mask
