"""Images of sensor_msgs as OpenCV has them: uint8 [height, width, 3] in BGR. Without ROS.

Messages are taken by their fields, so that those of rclpy and of rosbags will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError

from .image_headers import MOST_PIXELS, size_of

Image = npt.NDArray[np.uint8]
Pixels = npt.NDArray[Any]
# OpenCV's names of numbers in rows, which say nothing of what they are.
_NUMBERS = re.compile(r"(8|16|32|64)[USF]C\d+")


class UnknownEncodingError(InputError):
    """An image is encoded in a way that is not read here."""


@dataclass(frozen=True)
class Encoding:
    """How the rows of an image lie in memory, and how they become BGR.

    channels: values a pixel. item: bytes a value. to_bgr: from [height, width, channels] (no last
    axis for one channel) of uint8. rows: rows in memory for two rows of the image. even: the sides
    that must be even, of "width" and "height".
    """

    channels: int
    to_bgr: Callable[[Pixels], Image]
    item: int = 1
    rows: int = 2
    even: tuple[str, ...] = ()


def _color(code: int) -> Callable[[Pixels], Image]:
    return lambda pixels: cv2.cvtColor(pixels, code).astype(np.uint8, copy=False)


def _as_it_is(pixels: Pixels) -> Image:
    return pixels


# OpenCV names a Bayer pattern by the second row's second and third pixel, ROS by the first row.
_BAYER = {
    "rggb": cv2.COLOR_BayerBG2BGR,
    "bggr": cv2.COLOR_BayerRG2BGR,
    "gbrg": cv2.COLOR_BayerGR2BGR,
    "grbg": cv2.COLOR_BayerGB2BGR,
}
_UYVY = Encoding(2, _color(cv2.COLOR_YUV2BGR_UYVY), even=("width",))
_YUYV = Encoding(2, _color(cv2.COLOR_YUV2BGR_YUYV), even=("width",))
_GRAY = _color(cv2.COLOR_GRAY2BGR)
_RGB = _color(cv2.COLOR_RGB2BGR)

ENCODINGS: dict[str, Encoding] = {
    "bgr8": Encoding(3, _as_it_is),
    # OpenCV's order where the message does not say one.
    "8UC3": Encoding(3, _as_it_is),
    "rgb8": Encoding(3, _RGB),
    "mono8": Encoding(1, _GRAY),
    "8UC1": Encoding(1, _GRAY),
    "bgra8": Encoding(4, _color(cv2.COLOR_BGRA2BGR)),
    "8UC4": Encoding(4, _color(cv2.COLOR_BGRA2BGR)),
    "rgba8": Encoding(4, _color(cv2.COLOR_RGBA2BGR)),
    "mono16": Encoding(1, _GRAY, item=2),
    "bgr16": Encoding(3, _as_it_is, item=2),
    "16UC3": Encoding(3, _as_it_is, item=2),
    "rgb16": Encoding(3, _RGB, item=2),
    **{f"bayer_{name}8": Encoding(1, _color(code)) for name, code in _BAYER.items()},
    **{f"bayer_{name}16": Encoding(1, _color(code), item=2) for name, code in _BAYER.items()},
    "yuv422": _UYVY,
    "uyvy": _UYVY,
    "yuv422_yuy2": _YUYV,
    "yuyv": _YUYV,
    # All of Y, then a row of half the height with U and V in turns.
    "nv12": Encoding(1, _color(cv2.COLOR_YUV2BGR_NV12), rows=3, even=("width", "height")),
    "nv21": Encoding(1, _color(cv2.COLOR_YUV2BGR_NV21), rows=3, even=("width", "height")),
}


def image_from(message: Any, most_pixels: int = MOST_PIXELS) -> Image:
    """A sensor_msgs/Image as BGR; for bgr8 a view of the message's data, else a copy.

    Rows may be padded (``step``); values of 16 bits are read by ``is_bigendian`` and lose their
    lower 8 bits.

    Raises UnknownEncodingError, and InputError where size, step and data do not fit together, or
    where it has more than ``most_pixels``.
    """
    encoding = ENCODINGS.get(message.encoding)
    if encoding is None:
        raise UnknownEncodingError(_unknown(message.encoding))
    height, width = int(message.height), int(message.width)
    _check_size(message.encoding, encoding, height, width)
    _check_pixels(width, height, most_pixels)
    rows = height * encoding.rows // 2
    pixel = encoding.channels * encoding.item
    # Some drivers leave step at 0 and write rows without padding.
    step = int(message.step) or width * pixel
    data = np.frombuffer(message.data, np.uint8)
    needed = step * (rows - 1) + width * pixel
    if step < width * pixel:
        raise InputError(
            f"rows of at least {width * pixel} bytes are needed for {width} pixels of "
            f"{message.encoding}, found a step of {step}: check the camera driver"
        )
    if data.size < needed:
        raise InputError(
            f"{needed} bytes are needed for {width} x {height} {message.encoding} with a step of "
            f"{step}, found {data.size}: check the camera driver"
        )
    order = ">" if message.is_bigendian else "<"
    pixels: Pixels = np.ndarray(
        (rows, width, encoding.channels),
        np.dtype(f"{order}u{encoding.item}"),
        buffer=data,
        strides=(step, pixel, encoding.item),
    )
    if encoding.item == 2:
        pixels = (pixels >> 8).astype(np.uint8)
    return encoding.to_bgr(pixels[..., 0] if encoding.channels == 1 else pixels)


def _check_size(name: str, encoding: Encoding, height: int, width: int) -> None:
    if height < 1 or width < 1:
        raise InputError(
            f"an image of at least 1 x 1 pixel is needed, found {width} x {height}: check the "
            "camera driver"
        )
    if name.startswith("bayer_") and min(height, width) < 2:
        raise InputError(f"{name} needs at least 2 x 2 pixels, found {width} x {height}")
    for side, size in (("width", width), ("height", height)):
        if side in encoding.even and size % 2:
            raise InputError(f"{name} needs an even {side}, found {width} x {height}")


def _unknown(encoding: str) -> str:
    """Why it is not read, and what to do."""
    # Depth by REP 118; a driver that has seen light in it calls it mono16.
    depth = {"16UC1": "depth in millimetres", "32FC1": "depth in metres"}.get(encoding)
    if depth or _NUMBERS.fullmatch(encoding):
        meaning = depth or "numbers of any meaning"
        return (
            f"a picture is needed, found encoding '{encoding}', which is {meaning}: set "
            "image_topic to the camera's color or mono image"
        )
    return (
        f"an image in one of {', '.join(sorted(ENCODINGS))} is needed, found encoding "
        f"'{encoding}': convert it before, for example with image_proc"
    )


def _check_pixels(width: int, height: int, most: int) -> None:
    if width * height > most:
        raise InputError(
            f"an image of at most {most} pixels (max_image_pixels) is needed, found {width} x "
            f"{height}: let the camera send a smaller one, or raise the limit"
        )


def image_from_compressed(message: Any, most_pixels: int = MOST_PIXELS) -> Image:
    """A sensor_msgs/CompressedImage, JPEG or PNG, as BGR.

    Raises UnknownEncodingError for depth images, InputError for data that is no image, and, before
    it is decoded, for one of more than ``most_pixels``.
    """
    if "compressedDepth" in message.format:
        raise UnknownEncodingError(
            f"a JPEG or PNG is needed, found a depth image ('{message.format}'): subscribe to the "
            "color image"
        )
    data = np.frombuffer(message.data, np.uint8)
    size = size_of(data.data)
    if size is not None:
        _check_pixels(*size, most_pixels)
    try:
        # Of other kinds the size is not known before: they are not decoded.
        image = cv2.imdecode(data, cv2.IMREAD_COLOR) if size is not None else None
    except cv2.error:
        image = None
    if image is None:
        raise InputError(
            f"a JPEG or PNG is needed, found {data.size} bytes of '{message.format}' that are "
            "none, or broken: check the camera driver"
        )
    return image.astype(np.uint8, copy=False)


def any_image(message: Any, most_pixels: int = MOST_PIXELS) -> Image:
    """Either kind of message as BGR; a compressed one has a ``format``, and an image of the node's
    own camera, which is no message, its ``pixels``."""
    if hasattr(message, "pixels"):
        own: Image = message.pixels
        _check_pixels(own.shape[1], own.shape[0], most_pixels)
        return own
    read = image_from_compressed if hasattr(message, "format") else image_from
    return read(message, most_pixels)
