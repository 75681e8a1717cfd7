"""Images of sensor_msgs as OpenCV has them: uint8 [height, width, 3] in BGR. Without ROS.

Messages are taken by their fields, so that those of rclpy and of rosbags will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError

Image = npt.NDArray[np.uint8]
Pixels = npt.NDArray[Any]


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
    "16UC1": Encoding(1, _GRAY, item=2),
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


def image_from(message: Any) -> Image:
    """A sensor_msgs/Image as BGR; for bgr8 a view of the message's data, else a copy.

    Rows may be padded (``step``); values of 16 bits are read by ``is_bigendian`` and lose their
    lower 8 bits.

    Raises UnknownEncodingError, and InputError where size, step and data do not fit together.
    """
    encoding = ENCODINGS.get(message.encoding)
    if encoding is None:
        raise UnknownEncodingError(
            f"an image in one of {', '.join(sorted(ENCODINGS))} is needed, found encoding "
            f"'{message.encoding}': convert it before, for example with image_proc"
        )
    height, width = int(message.height), int(message.width)
    _check_size(message.encoding, encoding, height, width)
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


def image_from_compressed(message: Any) -> Image:
    """A sensor_msgs/CompressedImage, JPEG or PNG, as BGR.

    Raises UnknownEncodingError for depth images, InputError for data that is no image.
    """
    if "compressedDepth" in message.format:
        raise UnknownEncodingError(
            f"a JPEG or PNG is needed, found a depth image ('{message.format}'): subscribe to the "
            "color image"
        )
    data = np.frombuffer(message.data, np.uint8)
    try:
        image = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except cv2.error:
        image = None
    if image is None:
        raise InputError(
            f"a JPEG or PNG is needed, found {data.size} bytes of '{message.format}' that OpenCV "
            "does not read: check the camera driver"
        )
    return image.astype(np.uint8, copy=False)


def any_image(message: Any) -> Image:
    """Either kind of message as BGR; a compressed one has a ``format``."""
    return image_from_compressed(message) if hasattr(message, "format") else image_from(message)
