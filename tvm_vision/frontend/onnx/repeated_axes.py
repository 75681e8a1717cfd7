"""Axes that a node names twice: onnxruntime takes each once, and TVM refuses the node."""

from __future__ import annotations

import numpy as np
import onnx

from .graph import GraphEditor, Unsupported, attribute, given, with_attributes

# What ONNX's inference takes with an axis named twice, too.
_OPERATORS = frozenset(
    {f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod")}
    | {"ReduceSum", "ReduceSumSquare", "Squeeze"}
)


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
