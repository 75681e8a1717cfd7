"""Rewrites of operators on element types that TVM has them not for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from .few_bits import FEW_BITS
from .graph import GraphEditor, NodeBuilder, Rewrite, Unsupported, attribute, constant_input
from .own_operators import NARROW, ROUNDED

Nodes = Sequence[onnx.NodeProto] | None
# Operators that processors have no function of float16 for, or TVM no result of.
NOT_IN_HALF = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh")
# Those that TVM writes with a constant in float32.
IN_SINGLE = ("Elu", "Selu")
ORDERS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
# Places, where an image lies from -1 to 1, all of whose four neighbours are outside of an image of
# any size.
FAR_OUTSIDE = 9.0


def half_in_single(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """An operator on float16 as one on float32 whose result is rounded."""
    return _in_single(node, graph, np.dtype(np.float16))


def sampled(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """GridSample of an image and places of two types, or of halves: TVM has it for one type, and
    no halves. The result is of the image's. An axis of one element, between whose corners TVM
    divides by zero where places are reflected, becomes one of two that are the same. Far places
    between whose neighbours TVM interpolates come nearer: it weighs these by powers of the distance
    to a whole number, and no int32 is near to a place beyond it."""
    image, places = (graph.dtype(name) for name in node.input)
    twice, nearer = _reflected_between_one(node, graph), _weighs_what_is_outside(node)
    if image == places and image != np.float16 and not twice and not nearer:
        return None
    steps, work = NodeBuilder(graph, node), np.dtype(np.float64 if image == np.float64 else "f4")
    pixels, where = (
        name if dtype == work else steps.cast(name, work)
        for name, dtype in zip(node.input, (image, places), strict=True)
    )
    if nearer:
        where = steps("Clip", where, *(np.array(end, work) for end in (-FAR_OUTSIDE, FAR_OUTSIDE)))
    for axis in twice:
        pixels = steps("Concat", pixels, pixels, axis=axis)
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    result = steps(node.op_type, pixels, where, **attributes)
    return steps.finish(result if image == work else steps.cast(result, image))


def _weighs_what_is_outside(node: onnx.NodeProto) -> bool:
    """Whether the weights of places outside of the image count, as they are not moved onto it."""
    cubic = attribute(node, "mode", "linear") in ("cubic", "bicubic")
    return cubic and attribute(node, "padding_mode", "zeros") != "reflection"


def _reflected_between_one(node: onnx.NodeProto, graph: GraphEditor) -> list[int]:
    """The axes of one element that places are reflected at the corners of."""
    if attribute(node, "padding_mode", "zeros") != "reflection":
        return []
    if not attribute(node, "align_corners", 0):
        return []
    shape = graph.shape(node.input[0])
    return [axis for axis in range(2, len(shape)) if shape[axis] == 1]


def in_single(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """An operator on any other type as one on float32."""
    dtype = graph.dtype(node.input[0])
    return None if dtype == np.float32 else _in_single(node, graph, dtype)


def _in_single(node: onnx.NodeProto, graph: GraphEditor, dtype: np.dtype) -> Nodes:
    if not any(name and graph.dtype(name) == dtype for name in node.input):
        return None
    steps = NodeBuilder(graph, node)
    inputs = [
        steps.cast(name, np.float32) if name and graph.dtype(name) == dtype else name
        for name in node.input
    ]
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    return steps.finish(steps.cast(steps(node.op_type, *inputs, **attributes), dtype))


def in_float(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """An operator that TVM has for real numbers alone, on whole ones."""
    dtype = graph.dtype(node.input[0])
    if np.issubdtype(dtype, np.floating):
        return None
    steps = NodeBuilder(graph, node)
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    value = steps.cast(node.input[0], np.float32)
    real = steps(node.op_type, value, *node.input[1:], **attributes)
    return steps.finish(steps.cast(real, dtype))


def equal(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Bools are the same where not one alone is true; processors compare no numbers of one bit.
    What is compared with itself is asked for NaN, which JAX's exporter does: TVM takes whatever is
    the same for equal."""
    dtype, steps = graph.dtype(node.input[0]), NodeBuilder(graph, node)
    if dtype == np.bool_:
        return steps.finish(steps("Not", steps("Xor", *node.input)))
    if np.issubdtype(dtype, np.floating) and node.input[0] == node.input[1]:
        return steps.finish(steps("Not", steps("IsNaN", node.input[0])))
    return None


def not_ordered(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """What is not less is more or the same to TVM; NaN is neither, and so Not of that is true."""
    if not any(
        made.op_type in ORDERS and np.issubdtype(graph.dtype(made.input[0]), np.floating)
        for made in graph.beside(node, ahead=False)
    ):
        return None
    steps = NodeBuilder(graph, node)
    return steps.finish(steps("Xor", node.input[0], np.array(True)))


def prelu(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x, and x times a slope below 0, of whole numbers."""
    dtype, steps = graph.dtype(node.input[0]), NodeBuilder(graph, node)
    if np.issubdtype(dtype, np.floating):
        return None
    below = steps("Less", node.input[0], np.zeros((), dtype))
    return steps.finish(steps("Where", below, steps("Mul", *node.input), node.input[0]))


def sign(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """1 where it is not 0, of numbers that have no sign."""
    dtype = graph.dtype(node.input[0])
    if not np.issubdtype(dtype, np.unsignedinteger):
        return None
    steps = NodeBuilder(graph, node)
    return steps.finish(steps("Min", node.input[0], np.ones((), dtype)))


def mean(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The mean of whole numbers, as their sum divided, without what is left over."""
    dtype, shape = graph.dtype(node.input[0]), graph.shape(node.input[0])
    if np.issubdtype(dtype, np.floating):
        return None
    given = constant_input(node, graph, 1)
    axes = attribute(node, "axes") if given is None else [int(axis) for axis in given]
    axes = [axis % len(shape) for axis in axes or range(len(shape))]
    steps = NodeBuilder(graph, node)
    total = steps.axes("ReduceSum", node.input[0], axes, keepdims=attribute(node, "keepdims", 1))
    count = np.array(math.prod(shape[axis] for axis in axes), dtype)
    return steps.finish(steps("Div", total, count))


def cast(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A cast to bfloat16 or float8 of what is rounded by then: TVM computes in float32 and rounds
    nothing where such a value is read in the same kernel; and one to four bits, in bytes."""
    source, kind = graph.dtype(node.input[0]), graph.dtype(node.output[0])
    if kind.name in FEW_BITS:
        return _lowest_bits(node, graph)
    if kind.name not in NARROW or source.name == kind.name:
        return None
    if not attribute(node, "saturate", 1):
        raise Unsupported(f"a cast to {kind} that does not saturate", "leave 'saturate' at 1")
    steps = NodeBuilder(graph, node)
    value = node.input[0] if source == np.float32 else steps.cast(node.input[0], np.float32)
    return steps.finish(narrowed(steps, value, kind))


def _lowest_bits(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A cast to whole numbers of four bits as onnxruntime has it: the nearest whole number, of two
    the one that is farther from 0, and of that the lowest four bits."""
    source, kind = graph.dtype(node.input[0]), graph.dtype(node.output[0])
    steps, value = NodeBuilder(graph, node), node.input[0]
    if not np.issubdtype(source, np.integer) and source.name not in (*FEW_BITS, "bool"):
        work = np.dtype(np.float64 if source == np.float64 else np.float32)
        value = value if source == work else steps.cast(value, work)
        far = steps("Floor", steps("Add", steps("Abs", value), np.array(0.5, work)))
        value = steps("Mul", steps("Sign", value), far)
    held, least, _ = FEW_BITS[kind.name]
    lowest = steps("BitwiseAnd", steps.cast(value, np.int32), np.array(15, np.int32))
    if least < 0:
        sign = np.array(-least, np.int32)
        lowest = steps("Sub", steps("BitwiseXor", lowest, sign), sign)
    return steps.finish(steps.cast(lowest, held))


def narrowed(steps: NodeBuilder, value: str, kind: np.dtype) -> str:
    """float32 as one of the types of ``NARROW``."""
    rounded = steps(ROUNDED, value, kind=helper.np_dtype_to_tensor_dtype(kind))
    return steps.cast(rounded, kind)


TYPE_REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(NOT_IN_HALF, half_in_single),
    "Cast": cast,
    "GridSample": sampled,
    **dict.fromkeys(IN_SINGLE, in_single),
    "Equal": equal,
    "Not": not_ordered,
    "PRelu": prelu,
    "ReduceMean": mean,
    "Sign": sign,
}
