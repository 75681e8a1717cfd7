"""The kernels whose candidates are ranked and timed: layers of the test networks, one by one.

One ONNX model holds them all, each with an input of its own, so that each becomes what it is in a
network: with its bias and its activation, by Winograd where that pays, in the layout of the device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_END = "|"  # of a layer's name in that of a node


@dataclass(frozen=True)
class Layer:
    """One layer of a network: an operator on an input ``shape``, and where it is from.

    Attributes:
        kind: "conv", "depthwise", "dense", "attention" (a product of two inputs), "pool",
            "softmax", "norm", "upsampled" (a convolution of a resized image) or "add".
        outputs: channels, or columns of a product.
        kernel: height and width of windows.
    """

    of: str
    kind: str
    shape: tuple[int, ...]
    outputs: int = 0
    kernel: int = 1
    stride: int = 1

    @property
    def name(self) -> str:
        """For people, and to choose by."""
        sizes = "x".join(map(str, self.shape[self.shape[0] == 1 :]))
        window = f" {self.kernel}x{self.kernel}" if self.kernel > 1 else ""
        step = f" by {self.stride}" if self.stride > 1 else ""
        to = f" to {self.outputs}" if self.outputs else ""
        return f"{self.of}: {self.kind}{window}{step} {sizes}{to}"


# The order is that of measuring: what is first is known when the time is short.
LAYERS = (
    Layer("resnet18", "conv", (1, 64, 56, 56), 64, 3),
    Layer("resnet18", "conv", (1, 512, 7, 7), 512, 3),
    Layer("mobilenet_v2", "conv", (1, 24, 56, 56), 144),
    Layer("mobilenet_v2", "depthwise", (1, 144, 56, 56), 144, 3),
    Layer("vit", "dense", (197, 768), 768),
    Layer("resnet18", "conv", (1, 128, 28, 28), 128, 3),
    Layer("yoeo", "conv", (1, 32, 208, 208), 64, 3, 2),
    Layer("squeezenet1_1", "conv", (1, 512, 13, 13), 1000),
    Layer("vit", "attention", (12, 197, 64), 197),
    Layer("resnet18", "conv", (1, 3, 224, 224), 64, 7, 2),
    Layer("yoeo", "conv", (1, 640, 26, 26), 256, 3),
    Layer("mobilenet_v2", "conv", (1, 320, 7, 7), 1280),
    Layer("mobilenet_v2", "depthwise", (1, 384, 14, 14), 384, 3),
    Layer("resnet18", "conv", (1, 64, 56, 56), 128, 3, 2),
    Layer("resnet18", "dense", (1, 512), 1000),
    Layer("yoeo", "conv", (1, 64, 104, 104), 64, 3),
    Layer("squeezenet1_1", "conv", (1, 16, 55, 55), 64, 3),
    Layer("squeezenet1_1", "conv", (1, 64, 55, 55), 16),
    Layer("mobilenet_v2", "conv", (1, 192, 14, 14), 64),
    Layer("mobilenet_v2", "depthwise", (1, 96, 112, 112), 96, 3, 2),
    Layer("resnet18", "conv", (1, 256, 14, 14), 256, 3),
    Layer("yoeo", "conv", (1, 256, 13, 13), 512, 3),
    Layer("yoeo", "upsampled", (1, 128, 52, 52), 64, 3),
    Layer("vit", "softmax", (12, 197, 197)),
    Layer("vit", "norm", (1, 197, 768)),
    Layer("resnet18", "pool", (1, 64, 112, 112), 0, 3, 2),
    Layer("mobilenet_v2", "conv", (1, 96, 56, 56), 24),
    Layer("resnet18", "add", (1, 64, 56, 56)),
)


def model_of(layers: tuple[Layer, ...]) -> onnx.ModelProto:
    """All layers side by side, each node named so that ``layer_of`` finds its layer."""
    made = _Model()
    for number, layer in enumerate(layers):
        made.add(layer, f"x{number}")
    graph = helper.make_graph(made.nodes, "layers", made.inputs, made.outputs, made.weights)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def layer_of(nodes: Iterable[str]) -> str:
    """The name of the layer that a kernel's nodes are of; "" for a kernel that is of none, as what
    turns an input to another layout."""
    return next((node.split(_END)[0] for node in nodes if _END in node), "")


class _Model:
    """Collects what the layers are made of."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self._random = np.random.default_rng(3)
        self._layer = ""

    def add(self, layer: Layer, x: str) -> None:
        """The nodes of one layer, from input ``x``."""
        self._layer = layer.name
        self._input(x, layer.shape)
        y = getattr(self, f"_{layer.kind}")(layer, x)
        self.outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, None))

    def _input(self, name: str, shape: tuple[int, ...]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def _constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def _weights(self, *shape: int) -> str:
        return self._constant(self._random.uniform(-0.1, 0.1, shape).astype("float32"))

    def _node(self, kind: str, *inputs: str, **attributes: object) -> str:
        output = f"y{len(self.nodes)}"
        name = f"{self._layer}{_END}{output}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def _conv(self, layer: Layer, x: str, groups: int = 1) -> str:
        side, cin = layer.kernel, layer.shape[1] // groups
        y = self._node(
            "Conv", x, self._weights(layer.outputs, cin, side, side), self._weights(layer.outputs),
            kernel_shape=[side] * 2, strides=[layer.stride] * 2, pads=[(side - 1) // 2] * 4,
            group=groups,
        )  # fmt: skip
        return self._node("Relu", y)

    def _depthwise(self, layer: Layer, x: str) -> str:
        return self._conv(layer, x, layer.shape[1])

    def _upsampled(self, layer: Layer, x: str) -> str:
        scales = self._constant(np.array([1, 1, 2, 2], "float32"))
        how = {"mode": "nearest", "nearest_mode": "floor"}
        how["coordinate_transformation_mode"] = "asymmetric"
        return self._conv(layer, self._node("Resize", x, "", scales, **how))

    def _dense(self, layer: Layer, x: str) -> str:
        weights = self._weights(layer.shape[-1], layer.outputs)
        return self._node("Relu", self._node("Gemm", x, weights, self._weights(layer.outputs)))

    def _attention(self, layer: Layer, x: str) -> str:
        heads, _, each = layer.shape
        return self._node("MatMul", x, self._input(f"{x}_keys", (heads, each, layer.outputs)))

    def _softmax(self, layer: Layer, x: str) -> str:
        return self._node("Softmax", x, axis=-1)

    def _norm(self, layer: Layer, x: str) -> str:
        width = layer.shape[-1]
        return self._node("LayerNormalization", x, self._weights(width), self._weights(width))

    def _pool(self, layer: Layer, x: str) -> str:
        side = layer.kernel
        pads = [(side - 1) // 2] * 4
        steps = [layer.stride] * 2
        return self._node("MaxPool", x, kernel_shape=[side] * 2, strides=steps, pads=pads)

    def _add(self, layer: Layer, x: str) -> str:
        return self._node("Relu", self._node("Add", x, self._input(f"{x}_other", layer.shape)))
