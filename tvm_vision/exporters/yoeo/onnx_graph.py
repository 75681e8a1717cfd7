"""A YOEO network as an ONNX graph, straight from its configuration and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from ...errors import InputError
from .config import YoeoConfig
from .layers import (
    BATCH_NORM_EPSILON,
    LEAKY_SLOPE,
    Convolution,
    MaxPool,
    Route,
    SegmentationHead,
    Shape,
    Shortcut,
    Upsample,
    YoloHead,
)
from .parameters import PREFIX, State

INPUT = "InputLayer"
DETECTIONS, SEGMENTATIONS = "Detections", "Segmentations"
RAW_HEAD = "Head{}"
# The last opset whose Resize wants its second input even where it is not used.
RESIZE_WITH_REGION = 12


class YoeoGraph:
    """Writes the nodes of a network, layer by layer; ``graph`` then has all of it.

    Batch norms are folded into the convolutions before them, in float64. Values are called after
    the layers: "conv_3", "leaky_3", "route_4".
    """

    def __init__(
        self,
        config: YoeoConfig,
        state: State,
        *,
        size: tuple[int, int],
        raw_heads: bool,
        opset: int,
        fp16_storage: bool,
    ) -> None:
        """state: checked weights. size: height and width of the input. raw_heads: the yolo layers'
        inputs are the outputs. fp16_storage: weights are float16, each with a Cast behind it."""
        self._config, self._state = config, state
        self._opset, self._fp16_storage = opset, fp16_storage
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._shapes = config.shapes(size)
        self._strides = config.strides(size)
        self._values: list[str] = []
        self._boxes: list[str] = []
        self._heads = 0
        for index in range(len(config.layers)):
            self._values.append(self._layer(index, raw_heads))
        if self._boxes:
            self._finish_detections()
        self._outputs.sort(key=lambda output: output.name == SEGMENTATIONS)

    def graph(self) -> onnx.GraphProto:
        """The graph: InputLayer float32 [1, channels, height, width] to the outputs."""
        image = helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, (1, *self._shapes[0]))
        return helper.make_graph(
            self._nodes, "yoeo", [image], self._outputs, initializer=self._initializers
        )

    def _layer(self, index: int, raw_heads: bool) -> str:
        """Writes a layer; the name of its result, "" for heads."""
        layer = self._config.layers[index]
        inputs = [self._values[source] if source >= 0 else INPUT for source in layer.inputs]
        first = inputs[0]
        if isinstance(layer, Convolution):
            return self._convolution(index, layer, first)
        if isinstance(layer, MaxPool):
            return self._max_pool(index, layer, first)
        if isinstance(layer, Upsample):
            return self._upsample(index, layer, first)
        if isinstance(layer, Route):
            return self._route(index, layer, inputs)
        if isinstance(layer, Shortcut):
            return self._node("Add", inputs, f"shortcut_{index}")
        if isinstance(layer, SegmentationHead):
            self._segmentation(index, first)
        elif isinstance(layer, YoloHead):
            shape = self._config.input_shape(index, self._shapes)
            if raw_heads:
                name = self._node("Identity", [first], RAW_HEAD.format(self._heads))
                self._output(name, onnx.TensorProto.FLOAT, (1, *shape))
            else:
                self._boxes.append(self._decode(index, layer, first, shape))
            self._heads += 1
        return ""

    def _convolution(self, index: int, layer: Convolution, source: str) -> str:
        kernel, bias = self._folded(index, layer)
        value = self._node(
            "Conv",
            [source, self._weight(f"kernel_{index}", kernel), self._weight(f"bias_{index}", bias)],
            f"conv_{index}",
            kernel_shape=[layer.size] * 2,
            strides=[layer.stride] * 2,
            pads=[layer.padding] * 4,
        )
        if layer.activation == "leaky":
            return self._node("LeakyRelu", [value], f"leaky_{index}", alpha=LEAKY_SLOPE)
        if layer.activation == "mish":
            # x * tanh(ln(1 + exp(x))); the operator Mish came with opset 18.
            soft = self._node("Softplus", [value], f"mish_{index}/softplus")
            share = self._node("Tanh", [soft], f"mish_{index}/tanh")
            return self._node("Mul", [value, share], f"mish_{index}")
        return value

    def _folded(self, index: int, layer: Convolution) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Kernel and bias that do what convolution and batch norm do together."""
        prefix = f"{PREFIX}{index}."
        kernel = self._state[f"{prefix}conv_{index}.weight"]
        if not layer.batch_normalize:
            return kernel, self._state[f"{prefix}conv_{index}.bias"]
        bias, gain, mean, variance = (
            self._state[f"{prefix}batch_norm_{index}.{name}"].astype(np.float64)
            for name in ("bias", "weight", "running_mean", "running_var")
        )
        scale = gain / np.sqrt(variance + BATCH_NORM_EPSILON)
        folded = kernel.astype(np.float64) * scale[:, None, None, None]
        return folded.astype(np.float32), (bias - mean * scale).astype(np.float32)

    def _max_pool(self, index: int, layer: MaxPool, source: str) -> str:
        if layer.pads_with_zeros:
            source = self._zero_padded(index, source)
        return self._node(
            "MaxPool",
            [source],
            f"maxpool_{index}",
            kernel_shape=[layer.size] * 2,
            strides=[layer.stride] * 2,
            pads=[layer.padding] * 4,
        )

    def _zero_padded(self, index: int, source: str) -> str:
        """With a column of zeros on the right and then a row below.

        Not by Pad: onnxruntime and older versions of onnxsim make such a Pad part of the MaxPool
        behind it, whose padding is of no value, and get the edges of negative values wrong.
        """
        channels, height, width = self._config.input_shape(index, self._shapes)
        name = f"padding_{index}"
        for part, shape, axis in (("column", (height, 1), 3), ("row", (1, width + 1), 2)):
            zeros = np.zeros((1, channels, *shape), np.float32)
            edge = self._constant(f"{name}/{part}_of_zeros", zeros)
            source = self._node("Concat", [source, edge], f"{name}/{part}", axis=axis)
        return source

    def _upsample(self, index: int, layer: Upsample, source: str) -> str:
        region = ""
        if self._opset <= RESIZE_WITH_REGION:
            region = self._constant(f"upsample_{index}/region", np.zeros(0, np.float32))
        scales = np.array([1, 1, layer.stride, layer.stride], np.float32)
        return self._node(
            "Resize",
            [source, region, self._constant(f"upsample_{index}/scales", scales)],
            f"upsample_{index}",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def _route(self, index: int, layer: Route, inputs: Sequence[str]) -> str:
        joined = inputs[0]
        if len(inputs) > 1:
            joined = self._node("Concat", inputs, f"route_{index}", axis=1)
        if layer.groups == 1:
            return joined
        size = self._shapes[index + 1][0]
        return self._slice(
            joined, f"group_{index}", layer.group * size, (layer.group + 1) * size, axis=1
        )

    def _segmentation(self, index: int, source: str) -> None:
        best = self._node("ArgMax", [source], f"seg_{index}/argmax", axis=1, keepdims=0)
        name = self._node("Cast", [best], SEGMENTATIONS, to=onnx.TensorProto.UINT8)
        _, height, width = self._config.input_shape(index, self._shapes)
        self._output(name, onnx.TensorProto.UINT8, (1, height, width))

    def _decode(self, index: int, layer: YoloHead, source: str, shape: Shape) -> str:
        """Boxes [1, anchors * rows * columns, values] of a yolo layer, in the order (anchor, y, x).

        Centre (sigmoid(t) + place in the grid) * stride, size exp(t) * anchor, the rest sigmoid.
        """
        prefix = f"yolo_{index}"
        _, rows, columns = shape
        anchors, places = len(layer.anchors), rows * columns
        stride = self._strides[self._heads]

        split = self._reshape(source, f"{prefix}/split", (1, anchors, layer.values, places))
        last = self._node("Transpose", [split], f"{prefix}/values_last", perm=[0, 1, 3, 2])
        values = self._reshape(last, f"{prefix}/values", (1, anchors * places, layer.values))

        y, x = np.mgrid[:rows, :columns].astype(np.float32)
        grid = np.tile(np.stack((x.ravel(), y.ravel()), -1), (anchors, 1))[np.newaxis]
        table = self._state[f"{PREFIX}{index}.yolo_{index}.anchor_grid"].reshape(anchors, 2)
        sizes = np.repeat(table, places, axis=0)[np.newaxis]

        centre = self._node("Sigmoid", [self._slice(values, f"{prefix}/xy", 0, 2, axis=2)])
        centre = self._node("Add", [centre, self._constant(f"{prefix}/grid", grid)])
        pixels = self._constant(f"{prefix}/stride", np.array(stride, np.float32))
        centre = self._node("Mul", [centre, pixels], f"{prefix}/centres")
        size = self._node("Exp", [self._slice(values, f"{prefix}/wh", 2, 4, axis=2)])
        size = self._node("Mul", [size, self._constant(f"{prefix}/anchors", sizes)])
        rest = self._slice(values, f"{prefix}/rest", 4, layer.values, axis=2)
        scores = self._node("Sigmoid", [rest], f"{prefix}/scores")
        return self._node("Concat", [centre, size, scores], f"{prefix}/boxes", axis=2)

    def _finish_detections(self) -> None:
        if len(self._boxes) > 1:
            name = self._node("Concat", self._boxes, DETECTIONS, axis=1)
        else:
            name = self._node("Identity", self._boxes, DETECTIONS)
        count = sum(
            len(layer.anchors) * shape[1] * shape[2]
            for layer, shape in zip(self._config.layers, self._shapes[1:], strict=True)
            if isinstance(layer, YoloHead)
        )
        self._output(name, onnx.TensorProto.FLOAT, (1, count, self._config.heads[0].values))

    def _slice(self, source: str, name: str, start: int, end: int, *, axis: int) -> str:
        limits = [
            self._indices(f"{name}/{part}", [value])
            for part, value in (("start", start), ("end", end), ("axis", axis))
        ]
        return self._node("Slice", [source, *limits], name)

    def _reshape(self, source: str, name: str, shape: Sequence[int]) -> str:
        return self._node("Reshape", [source, self._indices(f"{name}/shape", shape)], name)

    def _node(self, kind: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        """One node with one result, both of that name."""
        name = name or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def _weight(self, name: str, array: npt.NDArray[Any]) -> str:
        if not self._fp16_storage:
            return self._constant(name, array)
        with np.errstate(over="ignore"):
            half = array.astype(np.float16)
        if not np.isfinite(half).all():
            raise InputError(
                f"weights up to 65504 are needed to store them as float16, and '{name}' has "
                f"{np.abs(array).max():g}: store them as float32"
            )
        stored = self._constant(f"{name}/half", half)
        return self._node("Cast", [stored], name, to=onnx.TensorProto.FLOAT)

    def _indices(self, name: str, values: Sequence[int]) -> str:
        return self._constant(name, np.array(values, np.int64))

    def _constant(self, name: str, array: npt.NDArray[Any]) -> str:
        self._initializers.append(numpy_helper.from_array(array, name))
        return name

    def _output(self, name: str, dtype: int, shape: Sequence[int]) -> None:
        self._outputs.append(helper.make_tensor_value_info(name, dtype, shape))
