"""Results of a branch that data chooses, which may have different numbers of rows."""

from __future__ import annotations

import onnx

from ..graph import Unsupported
from .extents import Extent
from .graph import BoundedGraph
from .rules import Results

DIFFERS = "its condition depends on the data, and its branches give {} and {}"
REMEDY = "make constants of what decides it, or export the model without control flow"


def needed_by(node: onnx.NodeProto, graph: BoundedGraph) -> list[str]:
    """What a choice needs: of a condition that is known, only what it chooses."""
    condition, *values = graph.inputs(node)
    known = None if condition in graph.refused else graph.constant(condition)
    return [condition, *values] if known is None else [values[0 if known.item() else 1]]


def choice(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """One of two values by a condition, of as many rows as that one has."""
    needed = needed_by(node, graph)
    if len(needed) == 1:
        return needed
    condition, *values = (graph.tensor(name) for name in needed)
    condition = graph.reshape(condition, [])
    extents = [graph.extents(value) for value in values]
    if len(extents[0]) != len(extents[1]) or graph.dtype(values[0]) != graph.dtype(values[1]):
        kinds = (f"{graph.dtype(value)}{list(graph.shape(value))}" for value in values)
        raise Unsupported(DIFFERS.format(*kinds), REMEDY)
    rows = {}
    for axis, (one, other) in enumerate(zip(*extents, strict=True)):
        size = max(graph.shape(value)[axis] for value in values)
        values = [graph.to_size(value, axis, size) for value in values]
        rows[axis] = one if one == other else _chosen(graph, condition, one, other)
    return [graph.set_axes(graph("Where", condition, *values), rows)]


def _chosen(graph: BoundedGraph, condition: str, one: Extent, other: Extent) -> Extent:
    name = graph("Where", condition, graph.scalar(one), graph.scalar(other))
    ranges = graph.ranges
    least, most = min(map(ranges.least, (one, other))), max(map(ranges.most, (one, other)))
    below = [
        larger
        for larger, smaller in ((one, other), (other, one))
        if ranges.no_more(smaller, larger)
    ]
    return graph.count(name, least, most, below)
