"""A YOEO network in PyTorch, from its configuration, with the names of YOEO's own checkpoints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import InputError

try:
    import torch
    from torch import nn
except ImportError:
    raise InputError(
        "PyTorch is needed for YOEO's checkpoints and training, and it is not installed: "
        "pip install 'tvm_vision[export]'"
    ) from None

from .layers import (
    BATCH_NORM_EPSILON,
    LEAKY_SLOPE,
    CfgLayer,
    Convolution,
    MaxPool,
    Route,
    SegmentationHead,
    Shortcut,
    Upsample,
    YoloHead,
)

if TYPE_CHECKING:
    from .config import YoeoConfig


class Yoeo(nn.Module):
    """The network of a configuration, with PyTorch's random weights; see weights.py.

    Input: float32 [n, channels, height, width], RGB, 0 to 1, of any size that its grids divide.

    In training mode it returns (heads, logits): of each yolo layer float [n, anchors * (5 +
    classes), grid height, grid width] as the layer before it made them, and float [n, classes,
    height, width] of the seg layer.

    In evaluation mode it returns (detections, segmentation): float32 [n, boxes, 5 + classes], the
    yolo layers one after the other, each in the order (anchor, y, x): centre x and y, width and
    height in pixels of the input, objectness and the classes' scores; and uint8 [n, height, width],
    the class of each pixel. What a network lacks (yolo or seg layers) is an empty list or None in
    training, None in evaluation.
    """

    def __init__(self, config: YoeoConfig) -> None:
        super().__init__()
        self.config = config
        shapes = config.shapes()
        self.module_list = nn.ModuleList(
            _module(index, layer, config.input_shape(index, shapes)[0])
            for index, layer in enumerate(config.layers)
        )

    def forward(self, image: Any) -> tuple[Any, Any]:
        heads, logits = self.raw(image)
        if self.training:
            return heads, logits
        height = image.shape[2]
        boxes = [
            decoder(head, height // head.shape[2])
            for decoder, head in zip(self.decoders(), heads, strict=True)
        ]
        detections = torch.cat(boxes, 1) if boxes else None
        return detections, None if logits is None else logits.argmax(1).to(torch.uint8)

    def decoders(self) -> list[Decoder]:
        """Of each yolo layer the module that makes boxes of its values."""
        return [
            module[0]
            for layer, module in zip(self.config.layers, self.module_list, strict=True)
            if isinstance(layer, YoloHead)
        ]

    def raw(self, image: Any) -> tuple[list[Any], Any]:
        """(heads, logits) as in training mode, in any mode."""
        values: list[Any] = []
        heads: list[Any] = []
        logits = None
        for layer, module in zip(self.config.layers, self.module_list, strict=True):
            inputs = [image if source < 0 else values[source] for source in layer.inputs]
            if isinstance(layer, YoloHead):
                heads.append(inputs[0])
            elif isinstance(layer, SegmentationHead):
                logits = inputs[0]
            # A head keeps its place in the list, so that the numbers of the layers fit.
            values.append(None if layer.is_head else module(*inputs))
        return heads, logits


class Decoder(nn.Module):
    """From the values of a yolo layer to boxes. ``anchors``: float32 [anchors, 2], width and
    height in pixels; ``anchor_grid`` is the same, as [1, anchors, 1, 1, 2]."""

    def __init__(self, anchors: Sequence[tuple[float, float]]) -> None:
        super().__init__()
        table = torch.tensor(anchors, dtype=torch.float32).reshape(-1, 2)
        self.register_buffer("anchors", table)
        self.register_buffer("anchor_grid", table.clone().reshape(1, -1, 1, 1, 2))

    def forward(self, head: Any, stride: int) -> Any:
        """float [n, anchors * (5 + classes), y, x] -> float32 [n, anchors * y * x, 5 + classes].

        Centre (sigmoid(t) + place in the grid) * stride, size exp(t) * anchor, the rest sigmoid.
        """
        count, channels, rows, columns = head.shape
        anchors = self.anchor_grid.shape[1]
        values = head.float().reshape(count, anchors, channels // anchors, rows, columns)
        values = values.permute(0, 1, 3, 4, 2)
        y, x = torch.meshgrid(
            torch.arange(rows, device=head.device),
            torch.arange(columns, device=head.device),
            indexing="ij",
        )
        centres = (values[..., :2].sigmoid() + torch.stack((x, y), -1)) * stride
        sizes = values[..., 2:4].exp() * self.anchor_grid.float()
        boxes = torch.cat((centres, sizes, values[..., 4:].sigmoid()), -1)
        return boxes.reshape(count, anchors * rows * columns, channels // anchors)


class Concatenate(nn.Module):
    """A route: inputs one after the other along the channels, and of that one group."""

    def __init__(self, groups: int, group: int) -> None:
        super().__init__()
        self.groups, self.group = groups, group

    def forward(self, *inputs: Any) -> Any:
        joined = torch.cat(inputs, 1) if len(inputs) > 1 else inputs[0]
        size = joined.shape[1] // self.groups
        return joined[:, self.group * size : (self.group + 1) * size]


class Add(nn.Module):
    """A shortcut: the sum of two layers."""

    def forward(self, first: Any, second: Any) -> Any:
        return first + second


def _module(index: int, layer: CfgLayer, channels: int) -> nn.Module:
    """The arithmetic of a layer that reads ``channels``, under the names of YOEO's checkpoints."""
    if isinstance(layer, Route):
        return Concatenate(layer.groups, layer.group)
    if isinstance(layer, Shortcut):
        return Add()
    parts: dict[str, nn.Module] = {}
    if isinstance(layer, Convolution):
        parts["conv"] = nn.Conv2d(
            channels,
            layer.filters,
            layer.size,
            layer.stride,
            layer.padding,
            bias=not layer.batch_normalize,
        )
        if layer.batch_normalize:
            parts["batch_norm"] = nn.BatchNorm2d(layer.filters, eps=BATCH_NORM_EPSILON)
        if layer.activation == "leaky":
            parts["leaky"] = nn.LeakyReLU(LEAKY_SLOPE)
        elif layer.activation == "mish":
            parts["mish"] = nn.Mish()
    elif isinstance(layer, MaxPool):
        if layer.pads_with_zeros:
            parts["padding"] = nn.ZeroPad2d((0, 1, 0, 1))
        parts["maxpool"] = nn.MaxPool2d(layer.size, layer.stride, layer.padding)
    elif isinstance(layer, Upsample):
        parts["upsample"] = nn.Upsample(scale_factor=float(layer.stride), mode="nearest")
    elif isinstance(layer, YoloHead):
        parts["yolo"] = Decoder(layer.anchors)
    return nn.Sequential(OrderedDict((f"{name}_{index}", part) for name, part in parts.items()))
