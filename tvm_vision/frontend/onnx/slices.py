"""Slices that go backwards, as onnxruntime reads them, in places that ONNX's own tools and TVM read
in the same way."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from .graph import GraphEditor, Unsupported, given, nodes_and_constants

STARTS, ENDS, AXES, STEPS = range(1, 5)
# Ends that stand for the end of an axis, of either type: backwards it is the beginning.
TO_THE_END = [np.iinfo(kind).max for kind in ("int32", "int64")]


def put_ends_plainly(graph: onnx.GraphProto) -> None:
    """What goes backwards to "the end", in place, to what is before all: to the other tools the end
    is a place like any other, behind which nothing is left to go to."""
    for inner, node, known in nodes_and_constants(graph):
        if node.op_type == "Slice" and given(node, STEPS):
            places = _ends(*(known.get(node.input[place]) for place in (ENDS, STEPS)))
            if places is not None:
                name = f"{node.output[0]}/ends"
                inner.initializer.append(numpy_helper.from_array(places, name))
                node.input[ENDS] = name


def _ends(ends: onnx.TensorProto | None, steps: onnx.TensorProto | None) -> np.ndarray | None:
    """The ends in the other form; None where they are none of these, or not known."""
    if ends is None or steps is None or list(ends.dims) != list(steps.dims):
        return None
    places, strides = numpy_helper.to_array(ends), numpy_helper.to_array(steps)
    backwards = np.isin(places, TO_THE_END) & (strides < 0)
    if not np.any(backwards):
        return None
    return np.where(backwards, np.iinfo(places.dtype).min, places)


def put_starts_plainly(node: onnx.NodeProto, graph: GraphEditor) -> bool:
    """What goes backwards from before the first element, in place, from that on; False where there
    is no such thing. NumPy, and TVM, have nothing left of the tensor there.

    node: any; of a Slice whose places or sizes are not known nothing is said.
    """
    if node.op_type != "Slice" or node.domain or not given(node, STEPS):
        return False
    starts, steps = (graph.constant(node.input[place]) for place in (STARTS, STEPS))
    axes = graph.constant(node.input[AXES]) if given(node, AXES) else None
    if starts is None or steps is None or starts.shape != steps.shape:
        return False
    if axes is None and given(node, AXES):
        return False
    try:
        sizes = np.array(graph.shape(node.input[0]), np.int64)
    except Unsupported:
        return False
    of = np.arange(starts.size) if axes is None else axes
    if of.shape != starts.shape or np.any((of < -sizes.size) | (of >= sizes.size)):
        return False
    before = (steps < 0) & (starts < -sizes[of])
    if not np.any(before):
        return False
    places = np.where(before, 0, starts).astype(starts.dtype)
    node.input[STARTS] = graph.make_constant(places, node.name or node.output[0])
    return True
