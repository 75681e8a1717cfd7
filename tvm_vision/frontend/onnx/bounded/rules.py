"""What the rules of operators have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from ...refusals import Remedy
from ..graph import Unsupported, attribute
from .extents import Extent
from .graph import REMEDY, BoundedGraph

# The names of a node's results, in their order; "" for those that are left out.
Results = Sequence[str]
# Writes what a node of the model computes; raises Unsupported.
Rule = Callable[[onnx.NodeProto, BoundedGraph], Results]


def axes_of(node: onnx.NodeProto, graph: BoundedGraph, place: int = 1) -> list[int] | None:
    """The axes of a Squeeze, a reduction or the like, an attribute or an input; None for none."""
    given = attribute(node, "axes")
    if given is None and len(node.input) > place and node.input[place]:
        given = fixed(node, graph, place).reshape(-1)
    return None if given is None else [int(axis) for axis in given]


def fixed(node: onnx.NodeProto, graph: BoundedGraph, place: int) -> np.ndarray:
    """An input that has to be a constant. Raises Unsupported."""
    value = graph.constant(graph.inputs(node)[place])
    if value is None:
        raise Unsupported(
            f"its input {place} is computed at run time", Remedy("make it a constant", REMEDY)
        )
    return value


def given(node: onnx.NodeProto, place: int) -> bool:
    """Whether an optional input is there."""
    return len(node.input) > place and bool(node.input[place])


def of_equal_rows(
    graph: BoundedGraph, places: Sequence[tuple[str, int]]
) -> tuple[list[str], Extent]:
    """Values as tensors of one size along an axis of each, and how many of its rows are real.

    places: each value and its axis. Raises Unsupported where they are not known to be as many.
    """
    found = {graph.extents(value)[axis] for value, axis in places}
    if len(found) != 1:
        raise Unsupported("its inputs have numbers of rows that are not known to be equal", REMEDY)
    (extent,) = found
    size = min(graph.shape(value)[axis] for value, axis in places)
    values = []
    for value, axis in places:
        rows = {**graph.axes(value), axis: extent}
        values.append(graph.set_axes(graph.part(graph.tensor(value), axis, 0, size), rows))
    return values, extent
