"""Rewrites of powers, remainders, determinants, orders and activations that TVM's importer has in a
form that loses digits or misses types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..refusals import Cut, Remedy
from .fold import RANDOM
from .graph import (
    GraphEditor,
    NodeBuilder,
    Rewrite,
    Unsupported,
    attribute,
    constant_input,
    given,
    with_attributes,
)

Nodes = Sequence[onnx.NodeProto] | None
# Powers of whole numbers above this are products of squares, not of the number itself.
FEW_FACTORS = 8
# Determinants of larger matrices are sums of too many products to be exact.
LARGEST_BY_MINORS = 4
LARGEST_DET = 32  # some 20 nodes for each row
# The version of TopK that takes the number as an input, which TVM reads as an attribute.
LARGEST_AS_INPUT = 10
CLIP_BOUNDS_AS_INPUTS = 11  # the opset from which on they are no attributes


def power(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Powers by a few are products, as those of integers are, which TVM has none for: of real
    numbers a processor would call a function for each, and TVM warn of it. Else exponents in the
    type of the base."""
    dtype, kind = graph.dtype(node.input[0]), graph.dtype(node.input[1])
    exponent, real = graph.constant(node.input[1]), np.issubdtype(dtype, np.floating)
    steps = NodeBuilder(graph, node)
    one: Any = None
    # One number in more axes than the base has gives the result those.
    if exponent is not None and exponent.size == 1:
        one = exponent.item() if exponent.ndim <= len(graph.shape(node.input[0])) else None
    # Squares of real numbers are no calls, and other rewrites look for them.
    if one in range(3 if real else 1, FEW_FACTORS + 1):
        value = node.input[0]
        for _ in range(int(one) - 1):
            value = steps("Mul", value, node.input[0])
        return steps.finish(value if steps.nodes else steps("Identity", value))
    if real:
        if kind == dtype:
            return None
        exponents = steps.cast(node.input[1], dtype)
        return steps.finish(steps("Pow", node.input[0], exponents))
    if exponent is not None and np.any(exponent != np.floor(exponent)):
        raise Unsupported(f"a fractional power of {dtype}", "cast to float first")
    if exponent is None and np.issubdtype(kind, np.floating):
        raise Unsupported(f"a power of {dtype} by {kind} at run time", "cast to float first")
    return steps.finish(_by_squares(steps, dtype, exponent))


def _by_squares(steps: NodeBuilder, dtype: np.dtype, exponent: np.ndarray | None) -> str:
    """base to the power of whole numbers: a factor for each binary digit. A negative power of a
    whole number is 0, but of 1 and -1."""
    base, wide, width = steps.node.input[0], np.dtype(np.int64), dtype.itemsize * 8
    zero, one, two = np.zeros((), dtype), np.ones((), dtype), np.array(2, wide)
    powers = steps.cast(steps.node.input[1], wide)
    left = steps("Abs", powers)
    # So large a power fits the type of 0, 1 and -1 alone, whose powers have two values.
    most = steps("Add", steps("Mod", left, two), np.array(width - 2, wide))
    left = steps("Where", steps("Less", left, np.array(width, wide)), left, most)
    value, square = steps("Identity", one), base
    for digit in range(width.bit_length() - 1):
        if digit:
            square = steps("Mul", square, square)
        is_odd = steps("Equal", steps("Mod", left, two), np.ones((), wide))
        value = steps("Where", is_odd, steps("Mul", value, square), value)
        left = steps("Div", left, two)
    if exponent is not None and not np.any(exponent < 0):
        return value
    unit = steps("Equal", steps("Mul", base, base), one)
    small = steps("Where", unit, value, zero)
    return steps("Where", steps("Less", powers, np.zeros((), wide)), small, value)


def modulo(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The remainder with the sign of the divisor, of real numbers: that of fmod, moved."""
    dtype = graph.dtype(node.input[0])
    if attribute(node, "fmod", 0) or not np.issubdtype(dtype, np.floating):
        return None
    steps, zero = NodeBuilder(graph, node), np.zeros((), dtype)
    divisor = node.input[1]
    rest = steps("Mod", node.input[0], divisor, fmod=1)
    signs = [steps("Less", value, zero) for value in (rest, divisor)]
    moves = steps("And", steps("Xor", *signs), steps("Not", steps("Equal", rest, zero)))
    return steps.finish(steps("Where", moves, steps("Add", rest, divisor), rest))


def mish(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x tanh(log(1 + exp x)) with n = exp(-|x|): x (1 + 2n) / (1 + 2n + 2n²) where x > 0, else
    x (n² + 2n) / (n² + 2n + 2). exp x would be more than fp16 has, and 1 + n without the digits of
    a small n."""
    steps, dtype = NodeBuilder(graph, node), graph.dtype(node.input[0])
    x, (zero, one, two) = node.input[0], (np.array(i, dtype) for i in range(3))
    n = steps("Exp", steps("Neg", steps("Abs", x)))
    square, double = steps("Mul", n, n), steps("Mul", n, two)
    above = steps("Greater", x, zero)
    top = steps("Add", steps("Where", above, one, square), double)
    rest = steps("Where", above, steps("Mul", square, two), two)
    return steps.finish(steps("Mul", x, steps("Div", top, steps("Add", top, rest))))


def clip(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Bounds that are left out are the ends of the type, so that infinity becomes the largest
    number there is; TVM leaves it."""
    dtype, before = graph.dtype(node.input[0]), graph.opset < CLIP_BOUNDS_AS_INPUTS
    names = ("min", "max")
    missing = [
        name
        for place, name in enumerate(names, 1)
        if (attribute(node, name) is None if before else not given(node, place))
    ]
    if not missing or not np.issubdtype(dtype, np.floating):
        return None
    ends = {name: np.array(getattr(np.finfo(dtype), name), dtype) for name in names}
    if before:
        return [with_attributes(node, **{name: float(ends[name]) for name in missing})]
    steps = NodeBuilder(graph, node)
    bounds = [
        ends[name] if name in missing else node.input[place] for place, name in enumerate(names, 1)
    ]
    return steps.finish(steps("Clip", node.input[0], *bounds))


def shrink(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Values moved towards 0 by a bias, and 0 between -lambd and lambd, in real numbers: TVM rounds
    lambd to the type of the values, and -lambd has none where that is unsigned."""
    dtype, steps = graph.dtype(node.input[0]), NodeBuilder(graph, node)
    if np.issubdtype(dtype, np.floating):
        return None
    limit, bias = (
        np.array(attribute(node, name, default), np.float32)
        for name, default in (("lambd", 0.5), ("bias", 0.0))
    )
    value = steps.cast(node.input[0], np.float32)
    above, below = steps("Greater", value, limit), steps("Less", value, -limit)
    low = steps("Where", below, steps("Add", value, bias), np.zeros((), np.float32))
    moved = steps("Where", above, steps("Sub", value, bias), low)
    return steps.finish(steps.cast(moved, dtype))


def thresholded_relu(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Values above alpha, and 0 for all others: TVM multiplies these by 0, of which an infinity
    becomes NaN."""
    dtype, steps = graph.dtype(node.input[0]), NodeBuilder(graph, node)
    alpha = np.array(attribute(node, "alpha", 1.0), dtype)
    above = steps("Greater", node.input[0], alpha)
    return steps.finish(steps("Where", above, node.input[0], np.zeros((), dtype)))


def eye_like(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Ones along a diagonal: a constant, whose type TVM takes from the input alone."""
    rows, columns = graph.shape(node.input[0])
    kind = attribute(node, "dtype")
    dtype = helper.tensor_dtype_to_np_dtype(kind) if kind else graph.dtype(node.input[0])
    value = np.eye(rows, columns, attribute(node, "k", 0), dtype)
    tensor = onnx.numpy_helper.from_array(value, node.output[0])
    return [helper.make_node("Constant", [], node.output[:], value=tensor)]


def determinant(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The determinants of small matrices, by minors, and of larger ones by elimination."""
    *batch, size, _ = graph.shape(node.input[0])
    if size > LARGEST_DET:
        raise Unsupported(
            f"matrices of {size} by {size}", f"use at most {LARGEST_DET} by {LARGEST_DET}"
        )
    steps = NodeBuilder(graph, node)
    if size > LARGEST_BY_MINORS:
        matrix = steps.reshape(node.input[0], (-1, size, size))
        value = steps.reshape(_eliminated(steps, matrix, size, graph.dtype(node.input[0])), batch)
        return steps.finish(value)
    flat = steps.reshape(node.input[0], (*batch, size * size))
    cells = [
        [steps("Gather", flat, np.array(row * size + column, np.int64), axis=-1) for column in
         range(size)]
        for row in range(size)
    ]  # fmt: skip
    value = _minors(steps, cells)
    return steps.finish(steps("Identity", value))


def _minors(steps: NodeBuilder, cells: list[list[str]]) -> str:
    """The determinant of a matrix of values, along its first row."""
    if len(cells) == 1:
        return cells[0][0]
    total = ""
    for column, cell in enumerate(cells[0]):
        minor = [row[:column] + row[column + 1 :] for row in cells[1:]]
        term = steps("Mul", cell, _minors(steps, minor))
        total = steps("Sub" if column % 2 else "Add", total, term) if total else term
    return total


def _eliminated(steps: NodeBuilder, matrix: str, size: int, dtype: np.dtype) -> str:
    """The determinants [n] of matrices [n, size, size], by Gauss' elimination.

    Each step takes the row whose first number is the largest, which changes places with the first
    one, for a small one would leave only rounding of the others.
    """
    zero, one = np.zeros((), dtype), np.ones((), dtype)
    total = ""
    for left in range(size, 1, -1):
        rows = np.arange(left).reshape(1, left, 1)
        place = steps("ArgMax", steps("Abs", steps.part(matrix, 0, 1, 2)), axis=1, keepdims=1)
        taken = steps("Equal", rows, place)
        pivots = steps("Where", taken, matrix, zero)
        pivots = steps.axes("ReduceSum", pivots, [1], keepdims=1)
        others = steps.part(steps("Where", taken, steps.part(matrix, 0, 1, 1), matrix), 1, left, 1)
        pivot = steps.part(pivots, 0, 1, 2)
        divisor = steps("Where", steps("Equal", pivot, zero), one, pivot)
        factors = steps("Div", steps.part(others, 0, 1, 2), divisor)
        gone = steps("Mul", factors, steps.part(pivots, 1, left, 2))
        matrix = steps("Sub", steps.part(others, 1, left, 2), gone)
        moved = steps("Equal", place, np.zeros((), np.int64))
        signed = steps("Where", moved, pivot, steps("Neg", pivot))
        total = steps("Mul", total, signed) if total else signed
    return steps("Mul", total, matrix)


def top_k(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TopK in order, which is one of those that an unsorted one may have; of numbers that
    processors have no sort for by others in the same order: those of 16 bits by wider ones,
    unsigned ones of 64 bits by signed ones."""
    if graph.opset == LARGEST_AS_INPUT and attribute(node, "k") is None:
        count = constant_input(node, graph, 1)
        return None if count is None else [with_attributes(node, k=int(count.item()))]
    dtype = graph.dtype(node.input[0])
    if dtype not in (np.int16, np.uint16, np.uint64):
        return [with_attributes(node, "sorted")] if not attribute(node, "sorted", 1) else None
    steps = NodeBuilder(graph, node)
    wide = steps.cast(node.input[0], np.int64 if dtype == np.uint64 else np.int32)
    # An addition would overflow, which has no meaning where TVM makes machine code.
    sign = np.array(np.iinfo(np.int64).min)
    if dtype == np.uint64:
        wide = steps("BitwiseXor", wide, sign)
    values, places = (graph.fresh(f"{node.name}/{kind}") for kind in ("values", "places"))
    sorted_ = with_attributes(node, "sorted")
    sorted_.input[0] = wide
    sorted_.output[:] = [values, places]
    steps.nodes.append(sorted_)
    if dtype == np.uint64:
        values = steps("BitwiseXor", values, sign)
    steps.finish(steps.cast(values, dtype))
    return steps.finish(steps("Identity", places), 1)


def random_numbers(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """None are drawn: ONNX says not which, and onnxruntime's are its own."""
    raise Unsupported(
        "its numbers are drawn at random",
        Remedy("make them an input of the model", Cut()),
    )


NUMBER_REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(RANDOM, random_numbers),
    "Clip": clip,
    "Det": determinant,
    "EyeLike": eye_like,
    "Mish": mish,
    "Mod": modulo,
    "Pow": power,
    "Shrink": shrink,
    "ThresholdedRelu": thresholded_relu,
    "TopK": top_k,
}
