"""The layers of a YOEO network as plain data, and the rules for what each makes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# Channels, height, width.
Shape = tuple[int, int, int]
# What the first layer reads: the image.
IMAGE = -1
BOX_FIELDS = 5  # centre x and y, width, height, objectness
LEAKY_SLOPE = 0.1
BATCH_NORM_EPSILON = 1e-5


class ShapeError(ValueError):
    """A layer cannot take what it is given; says what it needs and what it found."""


@dataclass(frozen=True)
class CfgLayer:
    """line: of its section in the file. inputs: the layers that it reads, IMAGE for the first."""

    kind: ClassVar[str]
    # Whether its result leaves the network; no other layer can read it then.
    is_head: ClassVar[bool] = False

    line: int
    inputs: tuple[int, ...]

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Shape of its result. Raises ShapeError for inputs that it cannot take."""
        raise NotImplementedError


@dataclass(frozen=True)
class Convolution(CfgLayer):
    """Padding (size - 1) // 2; batch norm or a bias; activation "linear", "leaky" or "mish"."""

    kind: ClassVar[str] = "convolutional"

    filters: int
    size: int
    stride: int
    batch_normalize: bool
    activation: str

    @property
    def padding(self) -> int:
        return (self.size - 1) // 2

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        (_, height, width) = inputs[0]
        return self.filters, *_windows(height, width, self.size, self.stride, 2 * self.padding)


@dataclass(frozen=True)
class MaxPool(CfgLayer):
    """Largest value of each window. Size 2 at stride 1 keeps the image's size: a column of zeros
    is added on the right and a row below; else the padding is (size - 1) // 2, of no value."""

    kind: ClassVar[str] = "maxpool"

    size: int
    stride: int

    @property
    def padding(self) -> int:
        return (self.size - 1) // 2

    @property
    def pads_with_zeros(self) -> bool:
        return self.size == 2 and self.stride == 1

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, height, width = inputs[0]
        added = 1 if self.pads_with_zeros else 2 * self.padding
        return channels, *_windows(height, width, self.size, self.stride, added)


@dataclass(frozen=True)
class Upsample(CfgLayer):
    """Every pixel ``stride`` times in both directions."""

    kind: ClassVar[str] = "upsample"

    stride: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, height, width = inputs[0]
        return channels, height * self.stride, width * self.stride


@dataclass(frozen=True)
class Route(CfgLayer):
    """Its inputs one after the other along the channels; of that, part ``group`` of ``groups``."""

    kind: ClassVar[str] = "route"

    groups: int
    group: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if len({shape[1:] for shape in inputs}) > 1:
            raise ShapeError(
                f"layers of one height and width are needed, found {_listed(self.inputs, inputs)}"
            )
        channels = sum(shape[0] for shape in inputs)
        if channels % self.groups:
            raise ShapeError(
                f"channels that divide into {self.groups} groups are needed, found {channels}"
            )
        return channels // self.groups, *inputs[0][1:]


@dataclass(frozen=True)
class Shortcut(CfgLayer):
    """The sum of its two inputs."""

    kind: ClassVar[str] = "shortcut"

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0] != inputs[1]:
            raise ShapeError(
                f"two layers of one shape are needed, found {_listed(self.inputs, inputs)}"
            )
        return inputs[0]


@dataclass(frozen=True)
class YoloHead(CfgLayer):
    """Boxes, at each place of a grid one for each anchor: (width, height) in network pixels."""

    kind: ClassVar[str] = "yolo"
    is_head: ClassVar[bool] = True

    anchors: tuple[tuple[float, float], ...]
    classes: int

    @property
    def values(self) -> int:
        """Numbers a box: its fields and a score for each class."""
        return BOX_FIELDS + self.classes

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        needed, found = len(self.anchors) * self.values, inputs[0][0]
        if found != needed:
            raise ShapeError(
                f"{needed} channels are needed before it, {len(self.anchors)} anchors * "
                f"({BOX_FIELDS} + {self.classes} classes), found {found}"
            )
        return inputs[0]


@dataclass(frozen=True)
class SegmentationHead(CfgLayer):
    """A class for each pixel: the channel with the largest value."""

    kind: ClassVar[str] = "seg"
    is_head: ClassVar[bool] = True

    classes: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0][0] != self.classes:
            raise ShapeError(
                f"{self.classes} channels are needed before it, one a class, found {inputs[0][0]}"
            )
        return inputs[0]


def _windows(height: int, width: int, size: int, stride: int, added: int) -> tuple[int, int]:
    if min(height, width) + added < size:
        raise ShapeError(f"{size}x{size} pixels are needed, found {height}x{width}")
    return (height + added - size) // stride + 1, (width + added - size) // stride + 1


def _listed(layers: Sequence[int], shapes: Sequence[Shape]) -> str:
    """ "layer 3 with 32x13x13, layer 5 with 32x26x26"."""
    return ", ".join(
        f"{'the image' if layer == IMAGE else f'layer {layer}'} with {'x'.join(map(str, shape))}"
        for layer, shape in zip(layers, shapes, strict=True)
    )
