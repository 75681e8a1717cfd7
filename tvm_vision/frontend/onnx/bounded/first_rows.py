"""How many of a value's rows are read, from the first on: detection networks take the best hundred
of all boxes that suppression keeps, and the others need not be found."""

from __future__ import annotations

import onnx

from ..branches import is_choice
from ..graph import attribute
from .graph import BoundedGraph


def first_rows(value: str, graph: BoundedGraph) -> int | None:
    """A number of rows behind which nothing of a value of the model is read, through what keeps its
    rows; None where there is none."""
    if value in graph.results:
        return None
    most = 0
    for node in graph.readers.get(value, ()):
        rows = _rows_sliced(node, value, graph)
        if rows is None and _keeps_rows(node, value, graph):
            rows = first_rows(node.output[0], graph)
        if rows is None:
            return None
        most = max(most, rows)
    return most


def _keeps_rows(node: onnx.NodeProto, value: str, graph: BoundedGraph) -> bool:
    """Whether the rows of a node's result are those of ``value``, one by one."""
    if is_choice(node):
        return value not in node.input[:1]
    if list(node.input).count(value) != 1 or node.input[0] != value:
        return False
    if node.op_type in ("Cast", "Identity"):
        return True
    if node.op_type == "Gather":
        return int(attribute(node, "axis", 0)) > 0
    if node.op_type == "Slice":
        axes = _numbers(node, 3, graph)
        return axes is not None and min(axes) > 0
    if node.op_type == "Squeeze":
        axes = attribute(node, "axes") or _numbers(node, 1, graph)
        return axes is not None and min(axes) > 0
    return False


def _rows_sliced(node: onnx.NodeProto, value: str, graph: BoundedGraph) -> int | None:
    """How many of the first rows a Slice takes; None for what is none, or takes others."""
    if node.op_type != "Slice" or list(node.input).count(value) != 1 or node.input[0] != value:
        return None
    starts, ends = _numbers(node, 1, graph), _numbers(node, 2, graph)
    if starts is None or ends is None:
        return None
    axes = _numbers(node, 3, graph) if len(node.input) > 3 else list(range(len(starts)))
    steps = _numbers(node, 4, graph) if len(node.input) > 4 else [1] * len(starts)
    if axes is None or steps is None or 0 not in axes or min(axes) < 0:
        return None
    place = axes.index(0)
    if starts[place] != 0 or steps[place] != 1 or ends[place] < 0:
        return None
    return ends[place]


def _numbers(node: onnx.NodeProto, place: int, graph: BoundedGraph) -> list[int] | None:
    name = node.input[place] if len(node.input) > place else ""
    known = graph.constant(graph.name(name)) if name else None
    return None if known is None or not known.size else [int(number) for number in known.ravel()]
