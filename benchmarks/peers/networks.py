"""The networks that engines are compared on: ONNX with fixed random weights, from one place.

Those that the tests have too come from ``tests/support/networks.py``; ResNet-50 (its 3×3
convolutions have the stride) and YOEO, by the structure of its default ``yoeo.cfg``, are built
here. Those of the demo have its trained weights, and are timed from a photo to boxes and a mask
(``frames.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

# The networks that the tests check are those timed here.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
import support.networks as shared
from support.networks import Builder

ANCHORS = ((17, 32), (13, 171), (37, 67), (30, 224), (69, 112), (116, 212))
CLASSES = 3


@dataclass(frozen=True)
class Network:
    """``build(size)`` gives the model, whose one input is float32 [1, 3, size, size].

    of_photos: a frame is not the network alone, but goes from a photo to boxes and a mask.
    """

    title: str
    build: Callable[[int], onnx.ModelProto]
    size: int = 224
    of_photos: bool = False

    def model(self) -> onnx.ModelProto:
        return self.build(self.size)

    def image(self) -> np.ndarray:
        """What every engine is given: the same noise, float32 in 0 to 1, or the photo, prepared."""
        if self.of_photos:
            from . import frames

            return frames.Frames(self.model()).prepare(frames.photo())[0]
        return np.random.default_rng(1).random((1, 3, self.size, self.size), "float32")


def resnet50(size: int) -> onnx.ModelProto:
    b = Builder(7)
    x = b.pool(b.conv("input", 3, 64, 7, 2, act="relu"), 3, 2, 1)
    cin = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            y = b.conv(b.conv(x, cin, width, act="relu"), width, width, 3, stride, act="relu")
            y = b.conv(y, width, 4 * width)
            short = x if cin == 4 * width else b.conv(x, cin, 4 * width, 1, stride)
            x, cin = b.node("Relu", [b.node("Add", [y, short])]), 4 * width
    return b.model(size, [(b.head(x, cin), TensorProto.FLOAT)])


def yoeo(size: int) -> onnx.ModelProto:
    """Detections [1, n, 8] as YOEO's own model decodes them, and the mask as uint8."""
    b, heads, logits = _yoeo_trunk()
    strides = (32, 16)
    rows = [
        _decoded(b, head, size // stride, stride, ANCHORS[first : first + 3])
        for head, stride, first in zip(heads, strides, (3, 0), strict=True)
    ]
    best = b.node("ArgMax", [logits], axis=1, keepdims=0)
    mask = b.node("Cast", [best], to=TensorProto.UINT8)
    detections = b.node("Concat", rows, axis=1)
    return b.model(size, [(detections, TensorProto.FLOAT), (mask, TensorProto.UINT8)])


def yoeo_raw(size: int) -> onnx.ModelProto:
    """What the convolutions give, for engines that have neither arg max nor the decoding."""
    b, heads, logits = _yoeo_trunk()
    return b.model(size, [(name, TensorProto.FLOAT) for name in (*heads, logits)])


def _yoeo_trunk() -> tuple[Builder, tuple[str, str], str]:
    """The convolutions of yoeo.cfg: two detection heads (strides 32, 16) and the class logits."""
    b = Builder(8)

    def conv(x: str, cin: int, cout: int, k: int = 3, stride: int = 1) -> str:
        return b.conv(x, cin, cout, k, stride, act="leaky")

    def stage(x: str, cin: int, width: int) -> tuple[str, str]:
        """Half of what a convolution gives goes through three more, beside the whole."""
        whole = conv(x, cin, width)
        split = b.constant(np.array([width // 2] * 2))
        half = b.node("Split", [whole, split], outputs=2, axis=1)[:-1] + "1"
        first = conv(half, width // 2, width // 2)
        second = conv(first, width // 2, width // 2)
        joined = conv(b.node("Concat", [second, first], axis=1), width, width, 1)
        return whole, b.node("Concat", [whole, joined], axis=1)

    stem = conv("input", 3, 32, stride=2)
    fine, x = stage(conv(stem, 32, 64, stride=2), 64, 64)
    middle, x = stage(b.pool(x, 2, 2), 128, 128)
    coarse, joined = stage(b.pool(x, 2, 2), 256, 256)
    neck = conv(conv(b.pool(joined, 2, 2), 512, 512), 512, 256, 1)
    deep = b.conv(conv(neck, 256, 512), 512, 3 * (CLASSES + 5))
    up = _twice(b, conv(neck, 256, 128, 1))
    near = conv(b.node("Concat", [up, joined], axis=1), 128 + 512, 256)
    near = b.conv(near, 256, 3 * (CLASSES + 5))
    y, width = coarse, 256
    for skip, channels in ((middle, 128), (fine, 64), (stem, 32)):
        y = b.node("Concat", [conv(_twice(b, y), width, channels), skip], axis=1)
        width = 2 * channels
    return b, (deep, near), conv(conv(_twice(b, y), width, 32), 32, 3, 1)


def _twice(b: Builder, x: str) -> str:
    scales = b.constant(np.array([1, 1, 2, 2], "float32"))
    return b.node(
        "Resize", [x, "", scales], mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip


def _decoded(
    b: Builder, head: str, edge: int, stride: int, anchors: tuple[tuple[int, int], ...]
) -> str:
    """Boxes in pixels: centres from sigmoids in their cell, sizes as anchors times exponentials."""
    shape = b.constant(np.array([1, 3, CLASSES + 5, edge, edge]))
    moved = b.node("Transpose", [b.node("Reshape", [head, shape])], perm=[0, 1, 3, 4, 2])
    split = b.constant(np.array([2, 2, CLASSES + 1]))
    centre = b.node("Split", [moved, split], outputs=3, axis=4)
    size, rest = (centre[:-1] + digit for digit in "12")
    rows, columns = np.mgrid[:edge, :edge]
    grid = np.stack([columns, rows], -1).reshape(1, 1, edge, edge, 2).astype("float32")
    centre = b.node("Add", [b.node("Sigmoid", [centre]), b.constant(grid)])
    centre = b.node("Mul", [centre, b.constant(np.float32(stride))])
    pixels = np.array(anchors, "float32").reshape(1, 3, 1, 1, 2)
    size = b.node("Mul", [b.node("Exp", [size]), b.constant(pixels)])
    boxes = b.node("Concat", [centre, size, b.node("Sigmoid", [rest])], axis=4)
    return b.node("Reshape", [boxes, b.constant(np.array([1, -1, CLASSES + 5]))])


def _of_photos(name: str) -> Callable[[int], onnx.ModelProto]:
    """A network of ``frames``, whose OpenCV the others do without."""

    def build(size: int) -> onnx.ModelProto:
        from . import frames

        model: onnx.ModelProto = getattr(frames, name)(size)
        return model

    return build


NETWORKS: dict[str, Network] = {
    "squeezenet1_1": Network("SqueezeNet 1.1", shared.squeezenet1_1),
    "shufflenet_v2": Network("ShuffleNetV2 1.0", shared.shufflenet_v2),
    "mobilenet_v2": Network("MobileNetV2", shared.mobilenet_v2),
    "efficientnet_lite0": Network("EfficientNet-Lite0", shared.efficientnet_lite0),
    "resnet18": Network("ResNet-18", shared.resnet18),
    "resnet50": Network("ResNet-50", resnet50),
    "yoeo": Network("YOEO 416", yoeo, 416),
    "yoeo_raw": Network("YOEO 416, raw heads", yoeo_raw, 416),
    "demo": Network("Demo, photo to result", _of_photos("decoded"), 512, True),
    "demo_raw": Network("Demo, photo to result, raw heads", _of_photos("raw"), 512, True),
    "demo_camera": Network("Demo, camera's bytes to result", _of_photos("of_camera"), 512, True),
}
