"""Operators of quantized networks of onnxruntime's own domain, put as ONNX's.

Those of its quantizer's operator format compute in real numbers between DequantizeLinear and
QuantizeLinear, as they do here. Products of bytes are ONNX's MatMulInteger.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from .graph import GraphEditor, NodeBuilder, Unsupported, attribute, attributes, given

Nodes = list[onnx.NodeProto]
CONSTANT = "make it a constant"
BITS_OF_A_BYTE = 8
ONE = np.array(1, np.float32)
END = np.iinfo(np.int64).max
WINDOWS = "auto_pad ceil_mode kernel_shape pads strides"
FROM_ONE_AXIS = 13  # the opset from which Softmax is over one axis


def _real(build: NodeBuilder, node: onnx.NodeProto, first: int) -> str:
    """The real numbers of a value, whose scale and zero point follow it."""
    inputs = [name for name in node.input[first : first + 3] if name]
    return build("DequantizeLinear", *inputs)


def _rounded(build: NodeBuilder, node: onnx.NodeProto, x: str, first: int) -> Nodes:
    """The result: x by the scale and the zero point from input ``first`` on."""
    ends = [name for name in node.input[first : first + 2] if name]
    return build.finish(build("QuantizeLinear", x, *ends))


def _nearest(build: NodeBuilder, node: onnx.NodeProto, steps: str, zero: str) -> Nodes:
    """The result: ``steps`` of its scale and the zero point, then to the nearest byte.

    Its sums and products add the zero point before they round, which tells for a half beside an
    odd one.
    """
    if not zero:
        return build.finish(build("QuantizeLinear", steps, ONE))
    found = build("Add", steps, build.cast(zero, np.float32))
    return build.finish(build("QuantizeLinear", found, ONE, build("Sub", zero, zero)))


def _in_steps(build: NodeBuilder, node: onnx.NodeProto, first: int, scale: str | np.ndarray) -> str:
    """The numbers of a value by this scale instead of its own."""
    zero = given(node, first + 2)
    return build("DequantizeLinear", node.input[first], scale, *([zero] if zero else []))


def _sum(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Each by the ratio of its scale and the result's, as onnxruntime computes on x86: halves are
    exact where the ratios are."""
    build = NodeBuilder(graph, node)
    one, other = (
        _in_steps(build, node, first, build("Div", node.input[first + 1], node.input[6]))
        for first in (0, 3)
    )
    return _nearest(build, node, build("Add", one, other), given(node, 7))


def _times(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The product of bytes without their zero points, a whole number, by one factor."""
    build = NodeBuilder(graph, node)
    one, other = (_in_steps(build, node, first, ONE) for first in (0, 3))
    factor = build("Div", build("Mul", node.input[1], node.input[4]), node.input[6])
    return _nearest(build, node, build("Mul", build("Mul", one, other), factor), given(node, 7))


def _of_one(operator: str, names: str = "") -> Callable[[onnx.NodeProto, GraphEditor], Nodes]:
    """An operator of one value, with the attributes of these names; the channels of an image may be
    last."""

    def put(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
        build = NodeBuilder(graph, node)
        x = _channels_first(build, node, _real(build, node, 0), operator, names)
        return _rounded(build, node, x, 3)

    return put


def _channels_first(
    build: NodeBuilder, node: onnx.NodeProto, x: str, operator: str, names: str
) -> str:
    """An operator of an image, whose channels are last where the node says so."""
    last = attribute(node, "channels_last", 0) or node.op_type.startswith("Nhwc")
    x = build("Transpose", x, perm=[0, 3, 1, 2]) if last else x
    x = build(operator, x, **attributes(node, names))
    return build("Transpose", x, perm=[0, 2, 3, 1]) if last else x


def _mean_pool(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The means of real numbers, in steps of the result."""
    build = NodeBuilder(graph, node)
    names = f"{WINDOWS} count_include_pad"
    mean = _channels_first(build, node, _real(build, node, 0), "AveragePool", names)
    return _nearest(build, node, build("Div", mean, node.input[3]), given(node, 4))


def _global_mean(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The sum of bytes without their zero point, a whole number, by one factor.

    How many axes there are is not known yet, so that the sum is the mean by its count, rounded.
    """
    build, last = NodeBuilder(graph, node), attribute(node, "channels_last", 0)
    sizes = build.part(build("Shape", node.input[0]), 1 if last else 2, -1 if last else END, 0)
    count = build.cast(build.axes("ReduceProd", sizes, [0], keepdims=0), np.float32)
    mean = _channels_first(build, node, _in_steps(build, node, 0, ONE), "GlobalAveragePool", "")
    total = build("Round", build("Mul", mean, count))
    factor = build("Div", node.input[1], build("Mul", node.input[3], count))
    zero = given(node, 4)
    ends = [ONE, zero] if zero else [ONE]
    return build.finish(build("QuantizeLinear", build("Mul", total, factor), *ends))


def _max_pool(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The largest bytes of windows, channels last."""
    build = NodeBuilder(graph, node)
    return build.finish(
        _channels_first(build, node, node.input[0], "MaxPool", f"{WINDOWS} dilations")
    )


def _convolution(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ONNX's, of weights that lie as there, and an image whose channels may be last."""
    build, weights = NodeBuilder(graph, node), graph.constant(node.input[3])
    last, rank = attribute(node, "channels_last", 0), 4 if weights is None else weights.ndim
    image, *others = node.input
    if last:
        image = build("Transpose", image, perm=[0, rank - 1, *range(1, rank - 1)])
    names = "auto_pad dilations group kernel_shape pads strides"
    found = build("QLinearConv", image, *others, **attributes(node, names))
    if last:
        found = build("Transpose", found, perm=[0, *range(2, rank), 1])
    return build.finish(found)


def _softmax(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Softmax of the opset that the node names, whatever the file's is: before 13 over all axes
    from ``axis`` on, then over that axis alone."""
    build, axis = NodeBuilder(graph, node), attribute(node, "axis", -1)
    x = _real(build, node, 0)
    of_one = attribute(node, "opset", FROM_ONE_AXIS) >= FROM_ONE_AXIS
    if of_one == (graph.opset >= FROM_ONE_AXIS):
        found = build("Softmax", x, axis=axis)
    elif of_one:
        powers = build("Exp", build("Sub", x, build.axes("ReduceMax", x, [axis], keepdims=1)))
        found = build("Div", powers, build.axes("ReduceSum", powers, [axis], keepdims=1))
    else:
        rows = build("Softmax", build("Flatten", x, axis=axis), axis=1)
        found = build("Reshape", rows, build("Shape", x))
    return _rounded(build, node, found, 3)


def _concatenated(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Scale and zero point of the result come first."""
    build = NodeBuilder(graph, node)
    parts = [_real(build, node, first) for first in range(2, len(node.input), 3)]
    return _rounded(build, node, build("Concat", *parts, axis=attribute(node, "axis")), 0)


def _chosen(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    build = NodeBuilder(graph, node)
    found = build("Where", node.input[0], _real(build, node, 1), _real(build, node, 4))
    return _rounded(build, node, found, 7)


def _product(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A · B of bytes, times both scales, plus a bias. DynamicQuantizeMatMul finds the bytes of A
    by itself."""
    build = NodeBuilder(graph, node)
    if node.op_type == "DynamicQuantizeMatMul":
        a, scale, zero = (
            graph.fresh(f"{node.output[0]}/{part}") for part in ("a", "scale", "zero")
        )
        rounding = onnx.helper.make_node("DynamicQuantizeLinear", [node.input[0]], [a, scale, zero])
        build.nodes.append(rounding)
        b, scale_b, zero_b, bias = node.input[1], node.input[2], given(node, 3), given(node, 4)
    else:
        a, b, scale, scale_b = node.input[:4]
        zero, zero_b, bias = (given(node, index) for index in (4, 5, 6))
    zeros = [zero, zero_b] if zero_b else [zero]
    found = build("MatMulInteger", a, b, *(zeros if any(zeros) else []))
    found = build("Mul", build.cast(found, np.float32), build("Mul", scale, scale_b))
    return build.finish(build("Add", found, bias) if bias else found)


def _gemm(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """alpha · A · B + C of bytes, C in steps of the product; real numbers where the result has no
    scale."""
    build = NodeBuilder(graph, node)
    a, scale, zero, b, scale_b, zero_b = node.input[:6]
    a, b = (
        build("Transpose", name, perm=[1, 0]) if attribute(node, f"trans{side}", 0) else name
        for side, name in (("A", a), ("B", b))
    )
    found, bias = build("MatMulInteger", a, b, zero, zero_b), given(node, 6)
    found = build.cast(build("Add", found, bias) if bias else found, np.float32)
    factor = build("Mul", scale, scale_b)
    if attribute(node, "alpha", 1.0) != 1:
        factor = build("Mul", factor, np.array(attribute(node, "alpha"), np.float32))
    if not given(node, 7):
        return build.finish(build("Mul", found, factor))
    steps = build("Mul", found, build("Div", factor, node.input[7]))
    return build.finish(build("QuantizeLinear", steps, ONE, *filter(None, [given(node, 8)])))


def _of_few_bits(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """MatMulNBits: the weight, of 2, 4 or 8 bits in blocks along k, becomes real when imported.

    B is (n, blocks, block's bytes), the lowest bits first; scales are (n, blocks), and so are zero
    points, packed alike, 2 ** (bits - 1) where there are none. Where the terms are in an order of
    their own g_idx says of each which block's scale and zero point it has.
    """
    bits, rows = attribute(node, "bits", 4), attribute(node, "N")
    terms, block = attribute(node, "K"), attribute(node, "block_size")
    if bits not in (2, 4, BITS_OF_A_BYTE):
        raise Unsupported(f"weights of {bits} bits", "use 2, 4 or 8 bits")
    names = [given(node, place) for place in range(1, 5)]
    weight, scale, zero, order = (graph.constant(name) if name else None for name in names)
    late = any(
        name and found is None
        for name, found in zip(names, (weight, scale, zero, order), strict=True)
    )
    if weight is None or scale is None or late:
        raise Unsupported("its weight is computed at run time", CONSTANT)
    blocks = -(-terms // block)
    of = np.arange(terms) // block if order is None else order[:terms]
    if np.any((of < 0) | (of >= blocks)):
        raise Unsupported(f"terms of blocks {of.min()} to {of.max()} of {blocks}", "correct g_idx")
    scale = scale.reshape(rows, blocks)
    if zero is None:
        offset = np.full(scale.shape, 1 << (bits - 1), scale.dtype)
    elif zero.dtype == scale.dtype:
        offset = zero.reshape(rows, blocks)
    else:
        offset = _unpacked(zero.reshape(rows, -1), bits)[:, :blocks].astype(scale.dtype)
    steps = _unpacked(weight.reshape(rows, -1), bits)[:, :terms].astype(scale.dtype)
    real = (steps - offset[:, of]) * scale[:, of]
    build = NodeBuilder(graph, node)
    found = build("MatMul", node.input[0], np.ascontiguousarray(real.T))
    bias = given(node, 5)
    return build.finish(build("Add", found, bias) if bias else found)


def _rows_of_blocks(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """GatherBlockQuantized: rows of a table of few bits in blocks along an axis, which becomes real
    when imported.

    The table is of 4 bits, or of bytes that hold one number or two, the lower four bits first; each
    block has a scale and a zero point, the latter packed as the table, 0 where there is none, or
    half of what the bits count for bytes.
    """
    table, scale = (graph.constant(node.input[index]) for index in (0, 2))
    zero = graph.constant(given(node, 3)) if given(node, 3) else None
    if table is None or scale is None or (given(node, 3) and zero is None):
        raise Unsupported("its table is computed at run time", CONSTANT)
    axis, block = attribute(node, "quantize_axis", 1), attribute(node, "block_size", 128)
    bits, of_bytes = attribute(node, "bits", 4), table.dtype == np.uint8
    if bits not in (4, BITS_OF_A_BYTE) or axis % table.ndim not in (0, table.ndim - 1):
        raise Unsupported(f"a table of {bits} bits along axis {axis}", "use 4 or 8 bits")
    if of_bytes:
        table = _unpacked(table, bits)
        zero = None if zero is None else _unpacked(zero, bits)
    axis %= table.ndim
    places = np.arange(table.shape[axis]) // block
    offset = np.array(1 << (bits - 1) if of_bytes else 0, scale.dtype)
    if zero is not None:
        offset = zero.astype(scale.dtype).take(places, axis)
    real = (table.astype(scale.dtype) - offset) * scale.take(places, axis)
    build = NodeBuilder(graph, node)
    axis = attribute(node, "gather_axis", 0)
    return build.finish(build("Gather", np.ascontiguousarray(real), node.input[1], axis=axis))


def _unpacked(values: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of ``bits`` bits out of bytes, along the last axis."""
    values = values.view(np.uint8)
    if bits == BITS_OF_A_BYTE:
        return values
    parts = [values >> shift & (1 << bits) - 1 for shift in range(0, BITS_OF_A_BYTE, bits)]
    return np.stack(parts, axis=-1).reshape(*values.shape[:-1], -1)


QUANTIZED: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "DynamicQuantizeMatMul": _product,
    "GatherBlockQuantized": _rows_of_blocks,
    "MatMulIntegerToFloat": _product,
    "MatMulNBits": _of_few_bits,
    "NhwcMaxPool": _max_pool,
    "QGemm": _gemm,
    "QLinearAdd": _sum,
    "QLinearAveragePool": _mean_pool,
    "QLinearConcat": _concatenated,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _global_mean,
    "QLinearLeakyRelu": _of_one("LeakyRelu", "alpha"),
    "QLinearMul": _times,
    "QLinearSigmoid": _of_one("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _chosen,
}
