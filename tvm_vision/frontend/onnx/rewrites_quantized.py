"""Rewrites of operators on quantized numbers to operators on real ones between DequantizeLinear and
QuantizeLinear: the one form of quantized networks, which the compiler turns into sums of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .few_bits import FEW_BITS, held_and_ends, in_bytes
from .graph import GraphEditor, NodeBuilder, Rewrite, Unsupported, attribute
from .own_operators import NARROW
from .rewrites_types import narrowed

Nodes = Sequence[onnx.NodeProto] | None
ONE_SCALE = "scales or zero points of rows or columns", "quantize per tensor"


def conv_integer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ConvInteger as a Conv of int32 values whose zero points are taken off."""
    x, w, x_zero, w_zero = _inputs(node, 4)
    steps = NodeBuilder(graph, node)
    data = _centred(steps, x, x_zero)
    kernel = _centred(steps, w, _along(steps, w_zero, len(graph.shape(x)), 0) if w_zero else "")
    return steps.finish(steps("Conv", data, kernel, **_attributes(node)))


def qlinear_conv(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """QLinearConv as a Conv of real numbers, quantized."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = _inputs(node, 9)
    steps = NodeBuilder(graph, node)
    operands = [
        steps("DequantizeLinear", x, *_scalars(steps, x_scale, x_zero)),
        _of_channels(steps, w, _scale(steps, w_scale), w_zero),
    ]
    if bias:
        operands.append(_of_channels(steps, bias, _product(steps, w_scale, x_scale), ""))
    real = steps("Conv", *operands, **_attributes(node))
    return steps.finish(steps("QuantizeLinear", real, *_scalars(steps, y_scale, y_zero)))


def qlinear_matmul(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """QLinearMatMul as a MatMul of real numbers, quantized. Rows of the first and columns of the
    second may have scales of their own, as onnxruntime's quantizer gives columns."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _inputs(node, 8)
    steps = NodeBuilder(graph, node)
    operands = [
        _of_places(steps, a, a_scale, a_zero, -2),
        _of_places(steps, b, b_scale, b_zero, -1),
    ]
    real = steps("MatMul", *operands)
    return steps.finish(steps("QuantizeLinear", real, *_scalars(steps, y_scale, y_zero)))


def _of_places(steps: NodeBuilder, value: str, scale: str, zero: str, axis: int) -> str:
    """The real numbers of a tensor with one scale and zero point, one for each place along an axis,
    or those of a tensor of as many axes, each of one place or of the numbers' own."""
    graph, rank = steps.graph, len(steps.graph.shape(value))
    shapes = [graph.shape(name) for name in (scale, zero)]
    if all(shape in ((), (1,)) for shape in shapes):
        return steps("DequantizeLinear", value, *_scalars(steps, scale, zero))
    if rank < 2 or any(len(shape) not in (0, 1, rank) for shape in shapes):
        raise Unsupported(*ONE_SCALE)
    if shapes[0] == shapes[1] and len(shapes[0]) == 1:
        return steps("DequantizeLinear", value, _scale(steps, scale), zero, axis=axis + rank)
    values = [steps.cast(name, np.float32) for name in (value, scale, zero)]
    scale, zero = (
        each if len(shape) == rank else _along(steps, each, rank, axis, like=name)
        for each, name, shape in zip(values[1:], (scale, zero), shapes, strict=True)
    )
    return steps("Mul", steps("Sub", values[0], zero), scale)


def _inputs(node: onnx.NodeProto, count: int) -> list[str]:
    return [*node.input, *[""] * (count - len(node.input))]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _scalars(steps: NodeBuilder, *names: str) -> list[str | np.ndarray]:
    """Scales and zero points of one number, which may be written as vectors of one."""
    found: list[str | np.ndarray] = []
    for name in names:
        value = _scale(steps, name)
        if isinstance(value, np.ndarray):
            if value.size != 1:
                raise Unsupported(*ONE_SCALE)
            value = value.reshape(())
        found.append(value)
    return found


def _scale(steps: NodeBuilder, name: str) -> str | np.ndarray:
    """A constant's numbers, or the name of what is none; scales of float16 are float32 then, since
    real numbers have the type of the scale."""
    value = steps.graph.constant(name)
    single = steps.graph.dtype(name) == np.float16
    if value is None:
        return steps.cast(name, np.float32) if single else name
    return value.astype(np.float32) if single else value


def _of_channels(steps: NodeBuilder, value: str, scale: str | np.ndarray, zero: str) -> str:
    """DequantizeLinear of a tensor with a scale for each place along its first axis, or for all."""
    return steps("DequantizeLinear", value, scale, *([zero] if zero else []), axis=0)


def _product(steps: NodeBuilder, one: str, other: str) -> str | np.ndarray:
    """The product of two scales, at once where both are constants."""
    first, second = _scale(steps, one), _scale(steps, other)
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.asarray(first * second, np.float32)
    return steps("Mul", first, second)


def _centred(steps: NodeBuilder, value: str, zero: str) -> str:
    """``value`` in int32 with its zero point taken off."""
    wide = steps.cast(value, np.int32)
    return steps("Sub", wide, steps.cast(zero, np.int32)) if zero else wide


def _along(steps: NodeBuilder, value: str, rank: int, axis: int, like: str = "") -> str:
    """A value for each channel, shaped so that it lies along ``axis``; one for all as it is.
    ``like`` has its shape where that is not known of it."""
    if steps.graph.shape(like or value) in ((), (1,)):
        return steps("Reshape", value, np.array([1] * rank, np.int64))
    shape = [1] * rank
    shape[axis] = -1
    return steps("Reshape", value, np.array(shape, np.int64))


def dynamic_quantize(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """DynamicQuantizeLinear in its parts; of nothing but zeros the scale is 1, as onnxruntime has
    it, where ONNX's formula divides by 0."""
    steps, zero = NodeBuilder(graph, node), np.zeros((), np.float32)
    levels = np.array(255, np.float32)
    most = steps("Max", steps("ReduceMax", node.input[0], keepdims=0), zero)
    least = steps("Min", steps("ReduceMin", node.input[0], keepdims=0), zero)
    scale = steps("Div", steps("Sub", most, least), levels)
    scale = steps("Where", steps("Equal", scale, zero), np.ones((), np.float32), scale)
    place = steps("Round", steps("Div", steps("Neg", least), scale))
    place = steps.cast(steps("Min", steps("Max", place, zero), levels), np.uint8)
    real = steps("QuantizeLinear", node.input[0], scale, place)
    for index, value in enumerate((real, scale, place)):
        if index < len(node.output) and node.output[index]:
            steps.finish(value, index)
    return steps.nodes


def dequantize_blocks(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """DequantizeLinear with a scale for each block along an axis, or of four bits; one for each
    channel is TVM's."""
    steps = NodeBuilder(graph, node)
    x, scale, zero = (in_bytes(name, graph) for name in _inputs(node, 3))
    if not attribute(node, "block_size", 0):
        dtype = graph.dtype(node.input[0])
        if dtype.name not in FEW_BITS:
            return _in_float8(node, graph, dtype)
        given = [name for name in (x, scale, zero) if name]
        return steps.finish(steps(node.op_type, *given, axis=attribute(node, "axis", 1)))
    kind = graph.dtype(scale)
    value = steps.cast(x, kind)
    if zero:
        value = steps("Sub", value, _repeated(steps, steps.cast(zero, kind), zero))
    return steps.finish(steps("Mul", value, _repeated(steps, scale, scale)))


def quantize_blocks(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """QuantizeLinear with a scale for each block along an axis, or to four bits."""
    steps = NodeBuilder(graph, node)
    x, scale, zero = (in_bytes(name, graph) for name in _inputs(node, 3))
    kind, dtype = graph.dtype(x), graph.dtype(node.output[0])
    blocks = bool(attribute(node, "block_size", 0))
    if not blocks and dtype.name not in FEW_BITS:
        return _in_float8(node, graph, dtype)
    if dtype.name not in FEW_BITS and not np.issubdtype(dtype, np.integer):
        raise Unsupported(f"blocks of {dtype}", "quantize to int8 or uint8")

    def spread(value: str, like: str) -> str:
        if blocks:
            return _repeated(steps, value, like)
        return _along(steps, value, len(graph.shape(x)), attribute(node, "axis", 1), like)

    value = steps("Round", steps("Div", x, spread(scale, scale)))
    if zero:
        value = steps("Add", value, spread(steps.cast(zero, kind), zero))
    held, *ends = held_and_ends(dtype)
    value = steps("Clip", value, *(np.array(end, kind) for end in ends))
    return steps.finish(steps.cast(value, held))


def _in_float8(node: onnx.NodeProto, graph: GraphEditor, dtype: np.dtype) -> Nodes:
    """The two of float8, which has no zero point but 0; None for those of whole numbers."""
    if dtype.name not in NARROW:
        return None
    if not attribute(node, "saturate", 1):
        raise Unsupported(f"a cast to {dtype} that does not saturate", "leave 'saturate' at 1")
    steps = NodeBuilder(graph, node)
    x, scale, _ = _inputs(node, 3)
    rank, axis = len(graph.shape(x)), attribute(node, "axis", 1)
    scale = _along(steps, steps.cast(scale, np.float32), rank, axis, like=scale)
    if node.op_type == "DequantizeLinear":
        found = steps("Mul", steps.cast(x, np.float32), scale)
        return steps.finish(steps.cast(found, graph.dtype(node.output[0])))
    return steps.finish(narrowed(steps, steps("Div", steps.cast(x, np.float32), scale), dtype))


def _repeated(steps: NodeBuilder, value: str, like: str) -> str:
    """What stands for blocks along an axis, for each of their places; ``like`` has its shape."""
    node, graph = steps.node, steps.graph
    shape, size = list(graph.shape(like)), attribute(node, "block_size")
    axis = attribute(node, "axis", 1) % len(shape)
    count = graph.shape(node.input[0])[axis]
    places = np.arange(count, dtype=np.int64) // size
    return steps("Gather", value, places, axis=axis)


QUANTIZED_REWRITES: dict[str, Rewrite] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_blocks,
    "DynamicQuantizeLinear": dynamic_quantize,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_blocks,
}
