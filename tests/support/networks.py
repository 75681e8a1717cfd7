"""Vision networks as ONNX models with fixed random weights, built without PyTorch.

Layer structure of the published networks (SqueezeNet 1.1, ResNet-18, MobileNetV2, ShuffleNetV2
1.0x, EfficientNet-Lite0) with batch norms folded; a YOEO-like one: an encoder, two detection
heads and a segmentation decoder with upsampling and an arg max; a small one of a block of each,
for tests of what any network shows; and a small transformer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Collects ONNX nodes; values are (name, shape) pairs, weights are He-scaled uniform noise."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray | np.generic) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: object) -> str:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def conv(
        self,
        x: str,
        cin: int,
        cout: int,
        k: int = 1,
        stride: int = 1,
        groups: int = 1,
        act: str = "",
    ) -> str:
        fan = cin // groups * k * k
        bound = np.sqrt(3.0 * 1.7 / fan)
        w = self.random.uniform(-bound, bound, (cout, cin // groups, k, k)).astype("float32")
        b = self.random.uniform(-0.1, 0.1, cout).astype("float32")
        pad = (k - 1) // 2
        y = self.node(
            "Conv",
            [x, self.constant(w), self.constant(b)],
            kernel_shape=[k, k],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=groups,
        )
        return self.activation(y, act)

    def activation(self, x: str, act: str) -> str:
        if act == "relu6":
            low, high = np.float32(0), np.float32(6)
            return self.node("Clip", [x, self.constant(low), self.constant(high)])
        if act == "leaky":
            return self.node("LeakyRelu", [x], alpha=0.1)
        if act == "swish":
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        return self.node("Relu", [x]) if act == "relu" else x

    def pool(self, x: str, k: int, stride: int, pad: int = 0, ceil: int = 0) -> str:
        return self.node(
            "MaxPool",
            [x],
            kernel_shape=[k, k],
            strides=[stride] * 2,
            pads=[pad] * 4,
            ceil_mode=ceil,
        )

    def head(self, x: str, cin: int, classes: int = 1000) -> str:
        flat = self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1)
        bound = np.sqrt(3.0 / cin)
        w = self.random.uniform(-bound, bound, (classes, cin)).astype("float32")
        b = self.random.uniform(-0.1, 0.1, classes).astype("float32")
        return self.node("Gemm", [flat, self.constant(w), self.constant(b)], transB=1)

    def model(self, size: int, outputs: list[tuple[str, int]]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, size, size])],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
            self.weights,
        )
        opset = [helper.make_opsetid("", 13)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _fire(b: Builder, x: str, cin: int, squeeze: int, expand: int) -> str:
    s = b.conv(x, cin, squeeze, act="relu")
    return b.node("Concat", [b.conv(s, squeeze, expand, k, act="relu") for k in (1, 3)], axis=1)


def squeezenet1_1(size: int = 224) -> onnx.ModelProto:
    b = Builder(1)
    x = b.pool(b.conv("input", 3, 64, 3, 2, act="relu"), 3, 2, ceil=1)
    cin = 64
    for squeeze, expand, pool in (
        (16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True),
        (48, 192, False), (48, 192, False), (64, 256, False), (64, 256, False),
    ):  # fmt: skip
        x, cin = _fire(b, x, cin, squeeze, expand), 2 * expand
        if pool:
            x = b.pool(x, 3, 2, ceil=1)
    x = b.node("GlobalAveragePool", [b.conv(x, cin, 1000, act="relu")])
    return b.model(size, [(b.node("Flatten", [x], axis=1), TensorProto.FLOAT)])


def _residual(b: Builder, x: str, cin: int, width: int, stride: int) -> str:
    y = b.conv(b.conv(x, cin, width, 3, stride, act="relu"), width, width, 3)
    short = x if stride == 1 and cin == width else b.conv(x, cin, width, 1, stride)
    return b.node("Relu", [b.node("Add", [y, short])])


def resnet18(size: int = 224) -> onnx.ModelProto:
    b = Builder(2)
    x = b.pool(b.conv("input", 3, 64, 7, 2, act="relu"), 3, 2, 1)
    cin = 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and width > 64 else 1
            x, cin = _residual(b, x, cin, width, stride), width
    return b.model(size, [(b.head(x, cin), TensorProto.FLOAT)])


def _inverted_residual(
    b: Builder, x: str, cin: int, cout: int, k: int, stride: int, t: int, act: str = "relu6"
) -> str:
    hidden = cin * t
    y = b.conv(x, cin, hidden, act=act) if t != 1 else x
    y = b.conv(y, hidden, hidden, k, stride, hidden, act=act)
    if act == "swish":
        y = _squeeze_excite(b, y, hidden, max(1, cin // 4))
    y = b.conv(y, hidden, cout)
    return b.node("Add", [x, y]) if stride == 1 and cin == cout else y


def _squeeze_excite(b: Builder, x: str, channels: int, squeezed: int) -> str:
    gate = b.conv(b.node("GlobalAveragePool", [x]), channels, squeezed, act="swish")
    gate = b.node("Sigmoid", [b.conv(gate, squeezed, channels)])
    return b.node("Mul", [gate, x])


def mobilenet_v2(size: int = 224, stages: int = 7) -> onnx.ModelProto:
    """stages: how many groups of blocks it has, from the first."""
    b = Builder(3)
    x, cin = b.conv("input", 3, 32, 3, 2, act="relu6"), 32
    for t, cout, repeat, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )[:stages]:  # fmt: skip
        for i in range(repeat):
            x = _inverted_residual(b, x, cin, cout, 3, stride if i == 0 else 1, t)
            cin = cout
    return b.model(size, [(b.head(b.conv(x, cin, 1280, act="relu6"), 1280), TensorProto.FLOAT)])


def efficientnet_lite0(size: int = 224, act: str = "relu6", stages: int = 7) -> onnx.ModelProto:
    """stages: how many groups of blocks it has, from the first."""
    b = Builder(4)
    x, cin = b.conv("input", 3, 32, 3, 2, act=act), 32
    for t, cout, repeat, stride, k in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    )[:stages]:  # fmt: skip
        for i in range(repeat):
            x = _inverted_residual(b, x, cin, cout, k, stride if i == 0 else 1, t, act)
            cin = cout
    return b.model(size, [(b.head(b.conv(x, cin, 1280, act=act), 1280), TensorProto.FLOAT)])


def efficientnet_b0(size: int = 224, stages: int = 7) -> onnx.ModelProto:
    """The same blocks with gates: one value a channel, made of all pixels, times all pixels."""
    return efficientnet_lite0(size, "swish", stages)


def _shuffle(b: Builder, x: str, channels: int, size: int) -> str:
    shape = b.constant(np.array([1, 2, channels // 2, size, size]))
    y = b.node("Transpose", [b.node("Reshape", [x, shape])], perm=[0, 2, 1, 3, 4])
    return b.node("Reshape", [y, b.constant(np.array([1, channels, size, size]))])


def _shuffle_unit(b: Builder, x: str, cin: int, cout: int, edge: int, stride: int) -> str:
    """edge: of the result."""
    half = cout // 2
    if stride == 2:
        left = b.conv(b.conv(x, cin, cin, 3, 2, cin), cin, half, act="relu")
        right, width = x, cin
    else:
        left = b.node("Split", [x, b.constant(np.array([half, half]))], outputs=2, axis=1)
        right, width = left[:-1] + "1", half
    y = b.conv(right, width, half, act="relu")
    y = b.conv(b.conv(y, half, half, 3, stride, half), half, half, act="relu")
    return _shuffle(b, b.node("Concat", [left, y], axis=1), cout, edge)


def shufflenet_v2(size: int = 224) -> onnx.ModelProto:
    b = Builder(5)
    x, cin, edge = b.pool(b.conv("input", 3, 24, 3, 2, act="relu"), 3, 2, 1), 24, size // 4
    for cout, repeat in ((116, 4), (232, 8), (464, 4)):
        edge //= 2
        for i in range(repeat):
            x = _shuffle_unit(b, x, cin, cout, edge, 2 if i == 0 else 1)
            cin = cout
    return b.model(size, [(b.head(b.conv(x, cin, 1024, act="relu"), 1024), TensorProto.FLOAT)])


def _upsample(b: Builder, x: str) -> str:
    scales = b.constant(np.array([1, 1, 2, 2], "float32"))
    return b.node(
        "Resize", [x, "", scales], mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip


def yoeo_like(size: int = 128) -> onnx.ModelProto:
    b = Builder(6)
    skips, x, cin = [], "input", 3
    for cout in (16, 32, 64, 128, 256):
        x = b.conv(x, cin, cout, 3, 2, act="leaky")
        half = b.conv(x, cout, cout // 2, 3, act="leaky")
        x = b.node("Concat", [half, b.conv(half, cout // 2, cout // 2, 3, act="leaky")], axis=1)
        skips.append((x, cout))
        cin = cout
    deep = b.conv(x, 256, 24, 1)
    up = _upsample(b, b.conv(x, 256, 64, 1, act="leaky"))
    fine = b.conv(b.node("Concat", [up, skips[3][0]], axis=1), 64 + 128, 24, 3)
    rows = []
    for head, edge in ((deep, size // 32), (fine, size // 16)):
        split = b.node("Reshape", [head, b.constant(np.array([1, 3, 8, edge, edge]))])
        moved = b.node("Transpose", [split], perm=[0, 1, 3, 4, 2])
        rows.append(
            b.node("Reshape", [b.node("Sigmoid", [moved]), b.constant(np.array([1, -1, 8]))])
        )
    detections = b.node("Concat", rows, axis=1)
    y, width = x, 256
    for skip, channels in reversed(skips[:-1]):
        y = b.node("Concat", [_upsample(b, y), skip], axis=1)
        y, width = b.conv(y, width + channels, channels, 3, act="leaky"), channels
    logits = b.conv(_upsample(b, y), width, 3, 3)
    best = b.node("ArgMax", [logits], axis=1, keepdims=0)
    mask = b.node("Cast", [best], to=TensorProto.UINT8)
    return b.model(size, [(detections, TensorProto.FLOAT), (mask, TensorProto.UINT8)])


def blocks(size: int = 64) -> onnx.ModelProto:
    """One block of each of the classifiers, a fifth of their kernels."""
    b = Builder(7)
    x = b.pool(b.conv("input", 3, 32, 3, 2, act="relu"), 3, 2, 1)
    x = _residual(b, _fire(b, x, 32, 16, 32), 64, 64, 1)
    x = _inverted_residual(b, x, 64, 64, 3, 1, 2)
    x = _shuffle_unit(b, x, 64, 96, size // 8, 2)
    x = _shuffle_unit(b, x, 96, 96, size // 8, 1)
    return b.model(size, [(b.head(x, 96, 100), TensorProto.FLOAT)])


def _linear(b: Builder, x: str, cin: int, cout: int) -> str:
    bound = np.sqrt(3.0 / cin)
    weights = b.random.uniform(-bound, bound, (cin, cout)).astype("float32")
    bias = b.random.uniform(-0.1, 0.1, cout).astype("float32")
    return b.node("Add", [b.node("MatMul", [x, b.constant(weights)]), b.constant(bias)])


def _layer_norm(b: Builder, x: str) -> str:
    apart = b.node("Sub", [x, b.node("ReduceMean", [x], axes=[-1])])
    squares = b.node("Pow", [apart, b.constant(np.float32(2))])
    variance = b.node("ReduceMean", [squares], axes=[-1])
    spread = b.node("Sqrt", [b.node("Add", [variance, b.constant(np.float32(1e-6))])])
    return b.node("Div", [apart, spread])


def _gelu(b: Builder, x: str) -> str:
    erf = b.node("Erf", [b.node("Div", [x, b.constant(np.float32(2**0.5))])])
    twice = b.node("Mul", [x, b.node("Add", [erf, b.constant(np.float32(1))])])
    return b.node("Mul", [twice, b.constant(np.float32(0.5))])


def transformer(size: int = 64, layers: int = 2) -> onnx.ModelProto:
    """A small ViT as exporters of opset 13 write it: normalizations and GELU in many nodes."""
    b = Builder(8)
    width, heads = 64, 4
    tokens = (size // 8) ** 2

    def turned(x: str, shape: list[int], order: list[int]) -> str:
        parts = b.node("Reshape", [x, b.constant(np.array(shape))])
        return b.node("Transpose", [parts], perm=order)

    image = b.node("Conv", ["input", b.constant(_patches(b, width))], strides=[8, 8])
    x = turned(image, [1, width, tokens], [0, 2, 1])
    for _ in range(layers):
        normal = _layer_norm(b, x)
        query, key, value = (
            turned(_linear(b, normal, width, width), [1, tokens, heads, width // heads], order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = b.node("MatMul", [query, key])
        scaled = b.node("Mul", [scores, b.constant(np.float32((width // heads) ** -0.5))])
        mixed = b.node("MatMul", [b.node("Softmax", [scaled], axis=-1), value])
        joined = b.node("Transpose", [mixed], perm=[0, 2, 1, 3])
        rows = b.node("Reshape", [joined, b.constant(np.array([1, tokens, width]))])
        x = b.node("Add", [x, _linear(b, rows, width, width)])
        wide = _gelu(b, _linear(b, _layer_norm(b, x), width, 4 * width))
        x = b.node("Add", [x, _linear(b, wide, 4 * width, width)])
    mean = b.node("ReduceMean", [_layer_norm(b, x)], axes=[1], keepdims=0)
    return b.model(size, [(_linear(b, mean, width, 10), TensorProto.FLOAT)])


def _patches(b: Builder, width: int) -> np.ndarray:
    return b.random.uniform(-0.2, 0.2, (width, 3, 8, 8)).astype("float32")


NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    "squeezenet1_1": squeezenet1_1,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "shufflenet_v2": shufflenet_v2,
    "yoeo_like": yoeo_like,
    "efficientnet_lite0": efficientnet_lite0,
    "blocks": blocks,
}


def mainly(*names: str) -> list[Any]:
    """All networks as parameters of a test; those that are not named are left to the full set."""
    return [
        name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS
    ]


# For TVM's virtual machine; the graph executor runs the others (test_compile_model.py).
RUN = mainly("blocks")


def reference(model: onnx.ModelProto, image: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime computes for an input (1, 3, H, W) float32."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"input": image})
