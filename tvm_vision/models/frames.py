"""From a frame to a network's input: the whole image, letterboxed or stretched.

YOEO pads to the input's aspect first, centred, with zeros, and resizes then. Resizing first gives
the same image for a third of the work; sizes are rounded to whole pixels, and ``Letterbox`` has the
exact scale of each axis, so that boxes go back to where they were.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..package import Preprocessing

Image = npt.NDArray[np.uint8]
INTERPOLATIONS = {
    "linear": cv2.INTER_LINEAR,
    "cubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "nearest": cv2.INTER_NEAREST_EXACT,
}
# Channels -> what makes three of them in the same order.
CONVERSIONS = {1: cv2.COLOR_GRAY2BGR, 4: cv2.COLOR_BGRA2BGR}
# Order and number of channels -> what makes grey of them.
GRAY_CONVERSIONS = {
    ("bgr", 3): cv2.COLOR_BGR2GRAY, ("bgr", 4): cv2.COLOR_BGRA2GRAY,
    ("rgb", 3): cv2.COLOR_RGB2GRAY, ("rgb", 4): cv2.COLOR_RGBA2GRAY,
}  # fmt: skip
ALIGNMENT = 64


@dataclass(frozen=True)
class Letterbox:
    """Where a frame lies in the network's input, in pixels.

    image: height and width of the frame. top, left, height, width: of its place in the input; the
    rest of the input is of one colour.
    """

    image: tuple[int, int]
    top: int
    left: int
    height: int
    width: int

    @classmethod
    def fit(
        cls, image: tuple[int, int], size: tuple[int, int], *, corner: bool = False
    ) -> Letterbox:
        """The largest place in the middle of ``size`` that keeps the aspect of ``image``; in its
        upper left ``corner``, where that is wanted.

        Both (height, width). No side becomes less than one pixel, however long the other is.
        """
        scale = min(size[0] / image[0], size[1] / image[1])
        height = min(size[0], max(1, round(image[0] * scale)))
        width = min(size[1], max(1, round(image[1] * scale)))
        top, left = (0, 0) if corner else ((size[0] - height) // 2, (size[1] - width) // 2)
        return cls(image, top, left, height, width)

    @classmethod
    def of(cls, image: tuple[int, int], config: Preprocessing) -> Letterbox:
        """Where a package's preprocessing puts a frame of height and width ``image``."""
        if config.stretch:
            return cls(image, 0, 0, *config.size)
        return cls.fit(image, config.size, corner=config.pad_corner)

    def to_image(self, boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Boxes [n, 4], x1, y1, x2, y2, of the input -> of the frame, cut at its edges; pixels."""
        rows, columns = self.image
        placed = self.points_to_image(boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        return np.clip(placed, 0, np.array([columns, rows] * 2, np.float32))

    def points_to_image(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Points [..., 2], x, y, of the input -> of the frame, pixels; not cut at its edges."""
        offset = np.array([self.left, self.top], np.float32)
        return (points - offset) * self.scale

    @property
    def scale(self) -> npt.NDArray[np.float32]:
        """Pixels of the frame in one pixel of the input, along x and along y."""
        rows, columns = self.image
        return np.array([columns / self.width, rows / self.height], np.float32)

    def mask_to_image(self, mask: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """A class for each pixel of the input -> for each of the frame: that of the nearest."""
        place = mask[self.top : self.top + self.height, self.left : self.left + self.width]
        rows, columns = self.image
        scaled = cv2.resize(place, (columns, rows), interpolation=cv2.INTER_NEAREST_EXACT)
        return scaled.astype(np.uint8, copy=False)


class Preprocessor:
    """Writes frames into one array that it keeps: ``tensor``, float32 [1, 3, height, width], or
    [1, 1, height, width] for networks of grey images."""

    def __init__(self, config: Preprocessing) -> None:
        """config: of the package; ``size`` is that of the input, ``letterbox`` or ``stretch`` is
        set.

        Raises InputError for preprocessing that cuts something off the frame.
        """
        if not (config.letterbox or config.stretch) or config.crop != 1.0:
            raise InputError(
                "the preprocessing of a network that says where something is must be a letterbox "
                "or a stretch, without crop: compile it again"
            )
        self.size = config.size
        self.tensor = _aligned((1, config.channels, *config.size), np.float32)
        self._config = config
        self._interpolation = INTERPOLATIONS[config.interpolation]
        self._order = "gray" if config.channels == 1 else "bgr"
        turned = config.color_order == "rgb"
        # Channel of the image, its plane of the tensor, factor and offset, x * f + o, and border.
        self._planes = [
            (
                config.channels - 1 - plane if turned else plane,
                self.tensor[0, plane],
                np.float32(1.0 / config.std[plane]),
                np.float32((0.0 - config.mean[plane]) / config.std[plane]),
                np.float32((config.pad_value - config.mean[plane]) / config.std[plane]),
            )
            for plane in range(config.channels)
        ]
        self._last: Letterbox | None = None

    def __call__(self, image: Image) -> Letterbox:
        """Write a frame into ``tensor``; returns where it lies in it.

        image: uint8 [height, width, 3] in BGR; [height, width] or one channel (grey) and four (BGR
        and alpha, which is ignored) are taken too.

        Raises InputError for anything else.
        """
        check_image(image)
        box = Letterbox.of((image.shape[0], image.shape[1]), self._config)
        if box != self._last:
            # The frames of a camera are of one size: the border is painted once.
            for _, plane, _, _, border in self._planes:
                plane.fill(border)
            self._last = box
        scaled = cv2.resize(image, (box.width, box.height), interpolation=self._interpolation)
        colors = cv2.split(in_order(scaled, "bgr", self._order))
        rows = slice(box.top, box.top + box.height)
        columns = slice(box.left, box.left + box.width)
        for source, plane, factor, offset, _ in self._planes:
            place = plane[rows, columns]
            np.multiply(colors[source], factor, out=place, dtype=np.float32)
            if offset:
                np.add(place, offset, out=place)
        return box


class CameraFrames:
    """Takes frames of one size as they are, for a package that prepares them on its device.

    ``tensor``: uint8 [1, height, width, 3], BGR.
    """

    def __init__(self, frame: tuple[int, int], config: Preprocessing) -> None:
        """frame: height and width of the frames. config: what the device does to them."""
        self.frame = frame
        self.tensor = _aligned((1, *frame, 3), np.uint8)
        self._letterbox = Letterbox.of(frame, config)

    def __call__(self, image: Image) -> Letterbox:
        """As that of a Preprocessor. Raises InputError for an image of another size too."""
        check_image(image)
        if image.shape[:2] != self.frame:
            wanted, found = ("x".join(map(str, size)) for size in (self.frame, image.shape[:2]))
            raise InputError(
                f"frames of {wanted} (height x width) are needed, for which the network was "
                f"compiled, found {found}: compile it with --camera-size {found}, or without"
            )
        channels = 1 if image.ndim == 2 else image.shape[2]
        if channels == 3:
            np.copyto(self.tensor[0], image)
        else:
            cv2.cvtColor(image, CONVERSIONS[channels], dst=self.tensor[0])
        return self._letterbox


def in_order(image: Image, order: str, wanted: str) -> Image:
    """An image with its channels, of which three are in an ``order`` of rgb or bgr, in another, or
    in ``gray``: [height, width, 3 or 1]. One with alpha, which is ignored, has four, and a grey one
    one or none; a view of it where that will do.

    Grey is the luma of ITU-R BT.601, 0.299 R + 0.587 G + 0.114 B, as OpenCV computes it of bytes.
    """
    channels = 1 if image.ndim == 2 else image.shape[2]
    if channels == 1 and wanted == "gray":
        return image.reshape(*image.shape[:2], 1)
    if wanted == "gray":
        convert = GRAY_CONVERSIONS[order, channels]
        return cv2.cvtColor(image, convert)[..., np.newaxis].astype(np.uint8, copy=False)
    if channels != 3:
        image = cv2.cvtColor(image, CONVERSIONS[channels]).astype(np.uint8, copy=False)
    return image if order == wanted else image[..., ::-1]


def in_layout(tensor: npt.NDArray[Any], layout: str) -> npt.NDArray[Any]:
    """A view of a tensor [batch, channels, height, width] with its axes in the order of ``layout``,
    "NCHW", "NHWC" or, of one channel, "NHW"."""
    if layout == "NHW":
        return tensor[:, 0]
    return tensor.transpose(["NCHW".index(axis) for axis in layout])


def _aligned(shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
    """An array that begins at a multiple of 64 bytes, which TVM takes as it is (DLPack)."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def check_image(image: Image) -> None:
    """Raise InputError for what is no image."""
    if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.size:
        if image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (1, 3, 4)):
            return
    if isinstance(image, (str, os.PathLike)):
        raise InputError(
            f"an image of uint8 [height, width, 3] in BGR is needed, found the name '{image}': "
            "read it with OpenCV, or give it to stream, which takes images, videos and cameras"
        )
    is_array = isinstance(image, np.ndarray)
    found = f"{image.dtype} {list(image.shape)}" if is_array else type(image).__name__
    raise InputError(
        f"an image of uint8 [height, width, 3] in BGR is needed, found {found}: read it with "
        "OpenCV, or convert it (cv2.cvtColor, astype)"
    )
