"""Axes of reductions and Squeeze: those that a node names twice, which onnxruntime takes once and
TVM refuses; and none, where TVM passes on what onnxruntime computes with."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import (
    GraphEditor,
    NodeBuilder,
    Unsupported,
    attribute,
    given,
    nodes_and_constants,
    with_attributes,
)

# What reductions come to over no axis, where that is not the number itself.
_OF_ONE = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceSumSquare": "Mul"}
# What ONNX's inference takes with an axis named twice, too.
_OPERATORS = frozenset(
    {f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod")}
    | {"ReduceSum", "ReduceSumSquare", "Squeeze"}
)


def leave_out_no_axes(graph: onnx.GraphProto) -> None:
    """Leave out, in place, the axes of a Squeeze that are a list of none: all of size 1 go then, as
    without a list, and to ONNX's own tools none does."""
    for _, node, known in nodes_and_constants(graph):
        if node.op_type == "Squeeze" and given(node, 1):
            axes = known.get(node.input[1])
            if axes is not None and list(axes.dims) == [0]:
                del node.input[1:]


def name_axes_once(node: onnx.NodeProto, graph: GraphEditor) -> None:
    """Leave out, in place, the axes that a reduction or Squeeze names again, from the front or from
    the end. Of axes that are not known nothing is said."""
    if node.op_type not in _OPERATORS or node.domain:
        return
    listed = attribute(node, "axes")
    axes = graph.constant(node.input[1]) if given(node, 1) else None
    found = listed if axes is None else axes.reshape(-1).tolist()
    if not found or len(found) < 2:
        return
    try:
        rank = len(graph.shape(node.input[0]))
    except Unsupported:
        return
    # Axes beyond the tensor are told of elsewhere.
    if any(not -rank <= axis < rank for axis in found):
        return
    kept = list(dict.fromkeys(axis % rank for axis in found))
    if len(kept) == len(found):
        return
    if axes is None:
        node.CopyFrom(with_attributes(node, axes=kept))
    else:
        node.input[1] = graph.make_constant(np.array(kept, np.int64), node.name or node.output[0])


def over_no_axis(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto] | None:
    """A reduction that reduces nothing, as ``noop_with_empty_axes`` says of one without axes: what
    it does to each number by itself. None for others."""
    if node.op_type not in _OPERATORS or not attribute(node, "noop_with_empty_axes", 0):
        return None
    axes = graph.constant(node.input[1]) if given(node, 1) else np.zeros(0)
    if axes is None or axes.size:
        return None
    steps, value = NodeBuilder(graph, node), node.input[0]
    dtype, operator = graph.dtype(value), _OF_ONE.get(node.op_type, "Identity")
    if operator == "Mul":
        return steps.finish(steps(operator, value, value))
    if operator == "Log" and not np.issubdtype(dtype, np.floating):
        return steps.finish(steps.cast(steps(operator, steps.cast(value, np.float32)), dtype))
    return steps.finish(steps(operator, value))
