"""Rewrites of operators on quantised numbers: sums in int32, scaled in float32, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import GraphEditor, Rewrite, Steps, Unsupported

Nodes = Sequence[onnx.NodeProto] | None


def conv_integer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ConvInteger as a Conv of int32 values whose zero points are taken off."""
    x, w, x_zero, w_zero = _inputs(node, 4)
    return (steps := Steps(graph, node)).finish(_sums(steps, x, x_zero, w, w_zero, ""))


def qlinear_conv(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """QLinearConv as a Conv of int32 values, its scales multiplied afterwards."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = _inputs(node, 9)
    steps = Steps(graph, node)
    sums = _sums(steps, x, x_zero, w, w_zero, bias)
    # One scale for each output channel lies along axis 1 of the sums.
    rank = len(graph.shape(x))
    scale = _along(steps, w_scale, rank, 1)
    return steps.finish(_requantised(steps, sums, x_scale, scale, y_scale, y_zero))


def qlinear_matmul(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """QLinearMatMul as a MatMul of int32 values, its scales multiplied afterwards."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _inputs(node, 8)
    if any(graph.shape(name) not in ((), (1,)) for name in (a_scale, b_scale, a_zero, b_zero)):
        raise Unsupported("scales or zero points of rows or columns")
    steps = Steps(graph, node)
    left, right = (_centred(steps, x, zero) for x, zero in ((a, a_zero), (b, b_zero)))
    sums = steps("MatMul", left, right)
    return steps.finish(_requantised(steps, sums, a_scale, b_scale, y_scale, y_zero))


def _inputs(node: onnx.NodeProto, count: int) -> list[str]:
    return [*node.input, *[""] * (count - len(node.input))]


def _sums(steps: Steps, x: str, x_zero: str, w: str, w_zero: str, bias: str) -> str:
    rank = len(steps.graph.shape(x))
    data = _centred(steps, x, x_zero)
    kernel = _centred(steps, w, _along(steps, w_zero, rank, 0) if w_zero else "")
    attributes = {a.name: helper.get_attribute_value(a) for a in steps.node.attribute}
    sums = steps("Conv", data, kernel, **attributes)
    return steps("Add", sums, _along(steps, bias, rank, 1)) if bias else sums


def _centred(steps: Steps, value: str, zero: str) -> str:
    """``value`` in int32 with its zero point taken off."""
    wide = steps.cast(value, np.int32)
    return steps("Sub", wide, steps.cast(zero, np.int32)) if zero else wide


def _along(steps: Steps, value: str, rank: int, axis: int) -> str:
    """A value for each channel, shaped so that it lies along ``axis``; one for all as it is."""
    if steps.graph.shape(value) in ((), (1,)):
        return steps("Reshape", value, np.array([1] * rank, np.int64))
    shape = [1] * rank
    shape[axis] = -1
    return steps("Reshape", value, np.array(shape, np.int64))


def _requantised(
    steps: Steps, sums: str, first: str, second: str, y_scale: str, y_zero: str
) -> str:
    """round(sums * first * second / y_scale) + y_zero, kept within the type of y_zero."""
    factor = steps("Div", steps("Mul", first, second), y_scale)
    dtype = steps.graph.dtype(y_zero)
    rounded = steps(
        "Round", steps("Mul", steps.cast(sums, np.float32), steps.cast(factor, np.float32))
    )
    moved = steps("Add", rounded, steps.cast(y_zero, np.float32))
    limits = np.iinfo(dtype)
    low, high = np.array(limits.min, np.float32), np.array(limits.max, np.float32)
    return steps.cast(steps("Clip", moved, low, high), dtype)


QUANTIZED_REWRITES: dict[str, Rewrite] = {
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
}
