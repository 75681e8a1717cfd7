"""Rewrites of constants, comparisons, reductions and integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from .einsum import einsum
from .fold import MAX_ELEMENTS
from .graph import (
    GraphEditor,
    NodeBuilder,
    Rewrite,
    Unsupported,
    attribute,
    attributes,
    constant_input,
    constant_value,
)
from .rewrites_types import half_in_single, in_float
from .slices import put_starts_plainly

Nodes = Sequence[onnx.NodeProto] | None


def constant(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TVM reads the attribute ``value`` of a Constant and none of its other forms."""
    value = constant_value(node)
    if value is None:
        return None
    tensor = onnx.numpy_helper.from_array(value, node.output[0])
    return [helper.make_node("Constant", [], node.output[:], value=tensor)]


def is_inf(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TVM's IsInf finds both infinities, whatever is asked for."""
    positive, negative = (attribute(node, f"detect_{sign}", 1) for sign in ("positive", "negative"))
    if positive and negative:
        return None
    steps = NodeBuilder(graph, node)
    zero = np.zeros((), graph.dtype(node.input[0]))
    if not positive and not negative:
        return steps.finish(steps("Less", node.input[0], node.input[0]))
    sided = steps("Greater" if positive else "Less", node.input[0], zero)
    return steps.finish(steps("And", steps("IsInf", node.input[0]), sided))


def strict_order(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Less and Greater of unsigned numbers."""
    dtype = graph.dtype(node.input[0])
    if not _ends_simplifier(dtype):
        return None
    steps = NodeBuilder(graph, node)
    less, than = node.input if node.op_type == "Less" else reversed(node.input)
    return steps.finish(_less(steps, less, than, dtype))


def _ends_simplifier(dtype: np.dtype) -> bool:
    """Whether TVM's simplifier ends at a strict comparison of numbers whose bounds it knows, as
    those of a bool: it subtracts one bound from the other, below zero."""
    return np.issubdtype(dtype, np.unsignedinteger) and dtype.itemsize > 1


def _less(steps: NodeBuilder, less: str, than: str | np.ndarray, dtype: np.dtype) -> str:
    """Whether a number is less than another."""
    if not _ends_simplifier(dtype):
        return steps("Less", less, than)
    return steps("Not", steps("Equal", steps("Min", less, than), than))


def bit_shift(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A shift by the width or more, or by less than none, is whatever the device makes of it."""
    dtype = graph.dtype(node.input[0])
    width = np.array(dtype.itemsize * 8, dtype)
    amount = graph.constant(node.input[1])
    if amount is not None and np.all((amount >= 0) & (amount < width)):
        return None
    steps = NodeBuilder(graph, node)
    inside = _less(steps, node.input[1], width, dtype)
    signed = np.issubdtype(dtype, np.signedinteger)
    if signed:
        enough = steps("GreaterOrEqual", node.input[1], np.zeros((), dtype))
        inside = steps("And", inside, enough)
    direction = attribute(node, "direction")
    # A signed number shifted right out of its width leaves its sign behind.
    keeps_sign = signed and direction == "RIGHT"
    beyond = np.array(width - 1 if keeps_sign else 0, dtype)
    amount_used = steps("Where", inside, node.input[1], beyond)
    shifted = steps("BitShift", node.input[0], amount_used, direction=direction)
    if keeps_sign:
        return steps.finish(shifted)
    return steps.finish(steps("Where", inside, shifted, np.zeros((), dtype)))


def one_hot(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """OneHot as a comparison with every class; TVM wants the two values to be constants, and gives
    float64 of those that are float32."""
    depth = graph.constant(node.input[1])
    if depth is None:
        return None
    count = int(depth.item())
    rank = len(graph.shape(node.input[0])) + 1
    axis = attribute(node, "axis", -1) % rank
    shape = [1] * rank
    shape[axis] = count
    steps = NodeBuilder(graph, node)
    classes = np.arange(count, dtype=np.int64).reshape(shape)
    index = steps.axes("Unsqueeze", steps.cast(node.input[0], np.int64), [axis])
    # Negative indices count from the end.
    below = steps("Less", index, np.zeros((), np.int64))
    index = steps("Where", below, steps("Add", index, np.array(count, np.int64)), index)
    off, on = (
        steps("Gather", node.input[2], np.array(which, np.int64), axis=0) for which in (0, 1)
    )
    return steps.finish(steps("Where", steps("Equal", index, classes), on, off))


def axes_as_list(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Squeeze and Unsqueeze with their axes as a list; TVM fails where one axis is a scalar."""
    axes = graph.constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if axes is None or axes.ndim:
        return None
    steps = NodeBuilder(graph, node)
    return steps.finish(steps(node.op_type, node.input[0], axes.reshape(1)))


def slice_of_inputs(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Slice with its places as inputs, which are attributes before opset 10, that TVM ignores; and
    where it goes backwards, with the places that onnxruntime starts at."""
    starts = attribute(node, "starts")
    if starts is None:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        return [copy] if put_starts_plainly(copy, graph) else None
    places = [starts, attribute(node, "ends"), attribute(node, "axes", range(len(starts)))]
    steps = NodeBuilder(graph, node)
    return steps.finish(steps("Slice", node.input[0], *(np.array(p, np.int64) for p in places)))


def lp_normalization(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x divided by its norm along an axis; 0 where the norm is 0."""
    order, axis = attribute(node, "p", 2), attribute(node, "axis", -1)
    steps = NodeBuilder(graph, node)
    dtype = graph.dtype(node.input[0])
    terms = steps("Abs", node.input[0]) if order == 1 else steps("Mul", *[node.input[0]] * 2)
    norm = steps.axes("ReduceSum", terms, [axis], keepdims=1)
    norm = norm if order == 1 else steps("Sqrt", norm)
    is_zero = steps("Equal", norm, np.zeros((), dtype))
    divisor = steps("Where", is_zero, np.ones((), dtype), norm)
    return steps.finish(steps("Div", node.input[0], divisor))


def reduce_extreme(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ReduceMax and ReduceMin: TVM starts them from a finite number, and has none for bools."""
    dtype = graph.dtype(node.input[0])
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    steps = NodeBuilder(graph, node)
    if dtype == np.bool_:
        numbers = steps.cast(node.input[0], np.uint8)
        reduced = steps(node.op_type, numbers, *node.input[1:], **attributes)
        return steps.finish(steps("Not", steps("Equal", reduced, np.zeros((), np.uint8))))
    if not np.issubdtype(dtype, np.floating):
        return None
    if dtype == np.float16:  # whose last number is what masks are made of, and none of float32's
        return half_in_single(node, graph)
    # Where nothing but infinities went in, an infinity has to come out: that is what TVM's first
    # number stands for, and the same number of the tensor goes in as its neighbour.
    sign = -1 if node.op_type == "ReduceMax" else 1
    limit, infinity = (np.array(sign * x, dtype) for x in (np.finfo(dtype).max, np.inf))
    beside = np.nextafter(limit, np.zeros((), dtype))
    value = steps("Where", steps("Equal", node.input[0], limit), beside, node.input[0])
    reduced = steps(node.op_type, value, *node.input[1:], **attributes)
    found = steps("Where", steps("Equal", reduced, beside), limit, reduced)
    return steps.finish(steps("Where", steps("Equal", reduced, limit), infinity, found))


def log_sum_exp(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The logarithm of a sum of powers, less the largest of them: TVM takes an infinity from itself
    where that is the largest, or where halves are that nothing else lies among."""
    dtype, rank = graph.dtype(node.input[0]), len(graph.shape(node.input[0]))
    if not np.issubdtype(dtype, np.floating):
        return in_float(node, graph)
    given = constant_input(node, graph, 1)
    named = attribute(node, "axes") if given is None else [int(axis) for axis in given]
    axes = [axis % rank for axis in named or range(rank)]
    steps, value = NodeBuilder(graph, node), node.input[0]
    work = np.dtype(np.float32) if dtype == np.float16 else dtype
    value = value if work == dtype else steps.cast(value, work)
    ends = (np.array(end, work) for end in (np.finfo(work).min, np.finfo(work).max))
    largest = steps("Clip", steps.axes("ReduceMax", value, axes, keepdims=1), *ends)
    powers = steps("Exp", steps("Sub", value, largest))
    result = steps("Log", steps.axes("ReduceSum", powers, axes, keepdims=1))
    result = steps("Add", result, largest)
    if not attribute(node, "keepdims", 1):
        result = steps.axes("Squeeze", result, axes)
    return steps.finish(result if work == dtype else steps.cast(result, dtype))


def standardized(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """MeanVarianceNormalization by what differs from the mean: ONNX's body has the mean of squares
    less the square of the mean, of which rounding leaves little where numbers lie far from 0. Axes
    that the tensor does not have, as those of an image are the default, are left out."""
    steps, x, dtype = NodeBuilder(graph, node), node.input[0], graph.dtype(node.input[0])
    rank = len(graph.shape(x))
    named = [axis for axis in attribute(node, "axes", [0, 2, 3]) if -rank <= axis < rank]
    axes = list(dict.fromkeys(axis % rank for axis in named))
    apart = steps("Sub", x, steps.axes("ReduceMean", x, axes, keepdims=1))
    variance = steps.axes("ReduceMean", steps("Mul", apart, apart), axes, keepdims=1)
    deviation = steps("Add", steps("Sqrt", variance), np.array(1e-9, dtype))
    return steps.finish(steps("Div", apart, deviation))


def product(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Real numbers times nothing but 0 as zeros that are a constant: TVM simplifies the product to
    0 within a kernel, and ends the process where something is divided by that."""
    factors = [graph.constant(name) for name in node.input]
    zero = any(f is not None and f.dtype.kind == "f" and not np.any(f) for f in factors)
    try:
        shape = graph.shape(node.output[0])
    except Unsupported:
        return None
    if not zero or math.prod(shape) > MAX_ELEMENTS:
        return None
    zeros = np.zeros(shape, graph.dtype(node.output[0]))
    tensor = onnx.numpy_helper.from_array(zeros, node.output[0])
    return [helper.make_node("Constant", [], node.output[:], value=tensor)]


def scattered(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ScatterElements of fewer places than its data has, along another axis than its own: only the
    part that has places is scattered into. TVM counts through the data by the sizes of the places.
    """
    data, places = (graph.shape(name) for name in node.input[:2])
    axis = attribute(node, "axis", 0) % len(data)
    # The first axis of each stretch that TVM counts through may be of any size.
    fewer = [
        number
        for number, (size, count) in enumerate(zip(data, places, strict=True))
        if count < size and number not in (0, axis, axis + 1)
    ]
    if not fewer:
        return None
    steps, value, rests = NodeBuilder(graph, node), node.input[0], []
    for number in fewer:
        rests.append(steps.part(value, places[number], data[number], number))
        value = steps.part(value, 0, places[number], number)
    options = attributes(node, "axis reduction")
    value = steps(node.op_type, value, *node.input[1:], **options)
    for number, rest in zip(reversed(fewer), reversed(rests), strict=True):
        value = steps("Concat", value, rest, axis=number)
    return steps.finish(value)


MATH_REWRITES: dict[str, Rewrite] = {
    "BitShift": bit_shift,
    "Constant": constant,
    "Einsum": einsum,
    "Greater": strict_order,
    "IsInf": is_inf,
    "Less": strict_order,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": standardized,
    "Mul": product,
    "OneHot": one_hot,
    # By logarithms and roots, which TVM has for real numbers alone.
    "ReduceL2": in_float,
    "ReduceLogSum": in_float,
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": reduce_extreme,
    "ReduceMin": reduce_extreme,
    "Scatter": scattered,
    "ScatterElements": scattered,
    "Slice": slice_of_inputs,
    "Squeeze": axes_as_list,
    "Unsqueeze": axes_as_list,
}
