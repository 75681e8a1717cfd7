"""Layers that onnxruntime fuses, of its own domain, put as ONNX's: activations, norms, products,
and what turns queries and keys by their places. Attention is in contributed_attention.py.

What each computes is said by onnxruntime's documentation of its contributed operators.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import numpy as np
import onnx

from .graph import GraphEditor, NodeBuilder, Unsupported, attribute, attributes, given

Nodes = list[onnx.NodeProto]
LAYER_NORM_OPSET = 17  # since when ONNX has LayerNormalization itself
# Since when ONNX's checker takes an operator that onnxruntime takes in older files, too.
OWN_SINCE = {"GroupNormalization": 21, "LayerNormalization": LAYER_NORM_OPSET}
HEADS_RANK = 4  # of batch, heads, length and width
# What is fused with convolutions and products, and the attributes that say more of it.
ACTIVATIONS = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ""),
    **dict.fromkeys(("Elu", "LeakyRelu", "ThresholdedRelu"), "alpha"),
    "HardSigmoid": "alpha beta",
    "Selu": "alpha gamma",
}
WIDE = np.float32  # what numbers of float16 are summed in
EPSILON = 1e-12  # of norms with a residual, where they say none
PLAIN = "let the model be saved without onnxruntime's optimizations, or with basic ones alone"


def none_of(node: onnx.NodeProto, **inputs: int) -> None:
    for name, index in inputs.items():
        if given(node, index):
            raise Unsupported(f"its input '{name.replace('_', ' ')}' is given", PLAIN)


def _real(graph: GraphEditor, node: onnx.NodeProto) -> np.dtype:
    """The type that a node computes in: that of an input, or else of the model's weights.

    What onnxruntime writes says no types between nodes.
    """
    for name in filter(None, node.input):
        try:
            dtype = graph.dtype(name)
        except Unsupported:
            continue
        if dtype.kind == "f":
            return dtype
    return graph.weights_dtype()


class LayerBuilder(NodeBuilder):
    """A NodeBuilder whose numbers are of the type that the node computes in."""

    def __init__(self, graph: GraphEditor, node: onnx.NodeProto) -> None:
        super().__init__(graph, node)
        self.dtype = _real(graph, node)

    def number(self, value: float) -> np.ndarray:
        return np.array(value, self.dtype)

    def sum(self, *values: str) -> str:
        """The sum of the values that are given."""
        total, *others = filter(None, values)
        for other in others:
            total = self("Add", total, other)
        return total

    def gelu(self, x: str) -> str:
        """x · ½ (1 + erf(x / √2))."""
        inner = self("Erf", self("Div", x, self.number(math.sqrt(2))))
        return self("Mul", self("Mul", x, self("Add", inner, self.number(1))), self.number(0.5))

    def norm(self, x: str, scale: str, shift: str, epsilon: float, axis: int, mean: bool) -> str:
        """Layer normalization, by the root of the mean of squares alone where ``mean`` is false."""
        if mean and self.graph.opset >= LAYER_NORM_OPSET:
            inputs = [name for name in (x, scale, shift) if name]
            return self("LayerNormalization", *inputs, axis=axis, epsilon=epsilon)
        return self.norm_of_steps(x, scale, shift, epsilon, axis, mean)[0]

    def norm_of_steps(
        self, x: str, scale: str, shift: str, epsilon: float, axis: int, mean: bool
    ) -> list[str]:
        """The same without ONNX's operator, and behind it the mean, where there is one, and one
        over the deviation: of float16 both are float32, as all that they are computed with."""
        axes, kept = self._last_axes(x, axis), []
        narrow = self.dtype == np.float16
        if narrow:
            x = self.cast(x, WIDE)
        if mean:
            kept = [self.axes("ReduceMean", x, axes, keepdims=1)]
            x = self("Sub", x, kept[0])
        square = self.axes("ReduceMean", self("Mul", x, x), axes, keepdims=1)
        root = self("Sqrt", self("Add", square, np.array(epsilon, WIDE if narrow else self.dtype)))
        found = self("Div", x, root)
        if narrow:
            found = self.cast(found, self.dtype)
        found = self.sum(self("Mul", found, scale), shift)
        return [found, *kept, self("Reciprocal", root)]

    def _last_axes(self, x: str, first: int) -> list[int]:
        if first == -1:
            return [-1]
        rank = len(self.graph.shape(x))
        if not -rank <= first < rank:
            raise Unsupported(f"it normalizes {rank} axes from {first} on", "export it again")
        return list(range(first % rank, rank))

    def transposed(self, x: str) -> str:
        """The last two axes of x turned; a vector as it is, as onnxruntime has it."""
        try:
            rank = len(self.graph.shape(x))
        except Unsupported:
            return self("Einsum", x, equation="...ij->...ji")
        if rank == 1:
            return x
        return self("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])

    def heads(self, x: str, count: int) -> str:
        """(batch, length, width) as (batch, heads, length, width / heads), which may be so."""
        if self.in_heads(x):
            return x
        return self("Transpose", self.reshape(x, (0, 0, count, -1)), perm=[0, 2, 1, 3])

    def in_heads(self, x: str) -> bool:
        """Whether x is (batch, heads, length, width / heads), as far as is known."""
        with contextlib.suppress(Unsupported):
            return len(self.graph.shape(x)) == HEADS_RANK
        return False

    def places(self, x: str, axis: int, axes: list[int]) -> str:
        """0, 1, 2, ... along an axis of x, with other axes of size 1."""
        zero, one = np.array(0, np.int64), np.array(1, np.int64)
        size = self("Gather", self("Shape", x), np.array(axis, np.int64))
        return self.axes("Unsqueeze", self("Range", zero, size, one), axes)


def _gelu(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Gelu, and BiasGelu, whose second input is added first."""
    build = LayerBuilder(graph, node)
    return build.finish(build.gelu(build.sum(node.input[0], given(node, 1))))


def _fast_gelu(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x · ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    build = LayerBuilder(graph, node)
    x = build.sum(node.input[0], given(node, 1))
    cube = build("Mul", build("Mul", x, x), x)
    inner = build("Add", x, build("Mul", cube, build.number(0.044715)))
    inner = build("Tanh", build("Mul", inner, build.number(math.sqrt(2 / math.pi))))
    half = build("Mul", x, build.number(0.5))
    return build.finish(build("Mul", half, build("Add", inner, build.number(1))))


def _quick_gelu(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x · sigmoid(alpha · x)."""
    build, x = LayerBuilder(graph, node), node.input[0]
    alpha = build.number(attribute(node, "alpha", 1.702))
    return build.finish(build("Mul", x, build("Sigmoid", build("Mul", x, alpha))))


def _activated(build: LayerBuilder, x: str, node: onnx.NodeProto) -> str:
    """x behind the activation that a fused convolution or product names: its numbers in order, or
    each by its name."""
    kind = attribute(node, "activation", "")
    numbers = list(attribute(node, "activation_params", []))
    if not kind:
        return x
    if kind == "Clip" and len(numbers) == 2:
        low, high = map(build.number, numbers)
        return build("Max", build("Min", x, high), low)
    if kind not in ACTIVATIONS:
        raise Unsupported(f"its activation is {kind} with {len(numbers)} numbers", PLAIN)
    names = ACTIVATIONS[kind].split()
    options = dict(zip(names, numbers, strict=False))
    for name in names:
        named = attribute(node, f"activation_{name}")
        options |= {} if named is None else {name: named}
    return build(kind, x, **options)


def _conv(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A convolution, then perhaps a sum and an activation."""
    build = LayerBuilder(graph, node)
    inputs = [name for name in node.input[:3] if name]
    options = attributes(node, "auto_pad dilations group kernel_shape pads strides")
    total = build.sum(build("Conv", *inputs, **options), given(node, 3))
    return build.finish(_activated(build, total, node))


def _gemm(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    build = LayerBuilder(graph, node)
    inputs = [name for name in node.input[:3] if name]
    found = build("Gemm", *inputs, **attributes(node, "alpha beta transA transB"))
    return build.finish(_activated(build, found, node))


def _matmul(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """alpha · A · B, either of them turned."""
    build = LayerBuilder(graph, node)
    factors = [_factor(build, name, side) for side, name in zip("AB", node.input, strict=False)]
    found, alpha = build("MatMul", *factors), attribute(node, "alpha", 1.0)
    return build.finish(found if alpha == 1 else build("Mul", found, build.number(alpha)))


def _factor(build: LayerBuilder, name: str, side: str) -> str:
    """A or B as the product takes it: batches first, and its last two axes in their order."""
    turned = attribute(build.node, f"trans{side}", 0)
    if not attribute(build.node, f"transBatch{side}", 0):
        return build.transposed(name) if turned else name
    rank = len(build.graph.shape(name))
    last = [rank - 1, 0] if turned else [0, rank - 1]
    return build("Transpose", name, perm=[*range(1, rank - 1), *last])


def _embedded(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """EmbedLayerNormalization: the norm of the sum of the rows for words, places and segments.

    Its second result is how many words of each line a mask has 1 for, 0 without one.
    """
    build = LayerBuilder(graph, node)
    words, segments, mask = node.input[0], given(node, 1), given(node, 7)
    places = given(node, 8) or build.places(words, 1, [0])
    total = build.sum(build("Gather", node.input[2], words), build("Gather", node.input[3], places))
    if segments:
        total = build.sum(total, build("Gather", node.input[4], segments))
    epsilon = attribute(node, "epsilon", EPSILON)
    build.finish(build.norm(total, node.input[5], node.input[6], epsilon, -1, True))
    if len(node.output) > 1 and node.output[1]:
        kept = build("Sub", words, words)
        if mask:
            kept = build("Equal", mask, np.array(1, np.int32))
        kept = build.cast(kept, np.int32)
        build.finish(build.axes("ReduceSum", kept, [1], keepdims=0), 1)
    if len(node.output) > 2 and node.output[2]:
        build.finish(total, 2)
    return build.nodes


def _norm(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """LayerNormalization of models older than it, and SimplifiedLayerNormalization."""
    build = LayerBuilder(graph, node)
    epsilon, axis = attribute(node, "epsilon", 1e-5), attribute(node, "axis", -1)
    mean = node.op_type == "LayerNormalization"
    form = node.input[0], node.input[1], given(node, 2), epsilon, axis, mean
    if not any(node.output[1:]):
        return build.finish(build.norm(*form))
    for place, found in enumerate(build.norm_of_steps(*form)):
        if len(node.output) > place and node.output[place]:
            build.finish(found, place)
    return build.nodes


def _skip_norm(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The norm of input + skip (+ bias); the sum is its fourth result."""
    if any(node.output[1:3]):
        raise Unsupported("its mean or deviation is read", PLAIN)
    build, mean = LayerBuilder(graph, node), node.op_type == "SkipLayerNormalization"
    shift, bias = (given(node, 3), given(node, 4)) if mean else ("", given(node, 3))
    total = build.sum(node.input[0], node.input[1], bias)
    epsilon = attribute(node, "epsilon", EPSILON)
    nodes = build.finish(build.norm(total, node.input[2], shift, epsilon, -1, mean))
    return build.finish(total, 3) if len(node.output) > 3 and node.output[3] else nodes


def rotary(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The first elements of each head turned, in pairs, by angles of its place.

    x is (batch, length, heads · width) or (batch, heads, length, width); cosines and sines are
    (places, half of what is turned); places are (batch, length), or one, of the first element.
    """
    if attribute(node, "is_packed_batching", 0):
        raise Unsupported("its batch is packed", PLAIN)
    build, x = LayerBuilder(graph, node), node.input[0]
    shape, half = graph.shape(x), graph.shape(node.input[2])[-1]
    flat = len(shape) == 3
    if flat:
        heads = attribute(node, "num_heads", 0) or shape[-1] // (2 * half)
        x = build.reshape(x, (0, 0, heads, -1))
    width = shape[-1] // heads if flat else shape[-1]
    places = node.input[1]
    if len(graph.shape(places)) == 1:
        steps = build.places(node.input[0], 1 if flat else 2, [0])
        places = build("Add", steps, places)
    cos, sin = (
        build.axes("Unsqueeze", build("Gather", table, places), [2 if flat else 1])
        for table in node.input[2:4]
    )
    turned = x if 2 * half == width else build.part(x, 0, 2 * half, -1)
    paired = attribute(node, "interleaved", 0)
    if paired:
        pairs = build.reshape(turned, (0, 0, 0, half, 2))
        one, other = (build("Gather", pairs, np.array(i, np.int64), axis=-1) for i in (0, 1))
    else:
        one, other = build.part(turned, 0, half, -1), build.part(turned, half, 2 * half, -1)
    real = build("Sub", build("Mul", one, cos), build("Mul", other, sin))
    imaginary = build("Add", build("Mul", one, sin), build("Mul", other, cos))
    if paired:
        parts = [build.axes("Unsqueeze", part, [4]) for part in (real, imaginary)]
        found = build.reshape(build("Concat", *parts, axis=4), (0, 0, 0, 2 * half))
    else:
        found = build("Concat", real, imaginary, axis=-1)
    if 2 * half < width:
        found = build("Concat", found, build.part(x, 2 * half, width, -1), axis=-1)
    return build.finish(build.reshape(found, (0, 0, -1)) if flat else found)


def _group_norm(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """GroupNormalization before opset 21, of a scale and a shift for each group: a group's numbers
    as those of one channel."""
    build, x = NodeBuilder(graph, node), node.input[0]
    groups = build.reshape(x, (0, attribute(node, "num_groups"), -1))
    epsilon = attribute(node, "epsilon", 1e-5)
    found = build("InstanceNormalization", groups, *node.input[1:3], epsilon=epsilon)
    return build.finish(build("Reshape", found, build("Shape", x)))


LAYERS: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "BiasGelu": _gelu,
    "EmbedLayerNormalization": _embedded,
    "FastGelu": _fast_gelu,
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "Gelu": _gelu,
    "QuickGelu": _quick_gelu,
    "RotaryEmbedding": rotary,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "TransposeMatMul": _matmul,
}
# Onnxruntime takes these without a domain, and ONNX's checker does not know them there.
WITHOUT_DOMAIN: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "GroupNormalization": _group_norm,
    "LayerNormalization": _norm,
    "SimplifiedLayerNormalization": _norm,
}
