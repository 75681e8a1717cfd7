"""Depth images as image_transport's compressedDepth sends them. Without ROS.

Twelve bytes stand before the PNG: a number, and the two by which depth in metres was made whole
numbers (compressed_depth_image_transport, ConfigHeader).
"""

from __future__ import annotations

import struct
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError

from .image_headers import MOST_PIXELS, PNG, size_of

Depth = npt.NDArray[np.float32]
_CONFIG = struct.Struct("<iff")
_MILLIMETRE = np.float32(1e-3)


def depth_from_compressed(message: Any, most_pixels: int = MOST_PIXELS) -> Depth:
    """A depth image in metres, float32 [height, width], NaN where it is not known.

    message: sensor_msgs/CompressedImage of the transport compressedDepth. Raises InputError for
    another, for one that is broken, and for one of more than ``most_pixels``.
    """
    encoding = message.format.partition(";")[0].strip()
    if "compressedDepth" not in message.format or encoding not in ("16UC1", "32FC1"):
        raise InputError(
            f"a depth image of the transport compressedDepth is needed, found '{message.format}': "
            "subscribe to the depth image"
        )
    data = np.frombuffer(message.data, np.uint8).data
    body = data[_CONFIG.size :]
    size = size_of(body) if bytes(body[: len(PNG)]) == PNG else None
    if size is None:
        raise InputError(
            f"a PNG is needed in '{message.format}', found {len(data)} bytes that have none, or a "
            "broken one: set the publisher's format to png"
        )
    _check_size(*size, most_pixels)
    whole = cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_UNCHANGED)
    if whole is None or whole.dtype != np.uint16 or whole.ndim != 2:
        raise InputError(
            f"a PNG of one channel of 16 bits is needed in '{message.format}': check the publisher"
        )
    unknown = np.float32(np.nan)
    if encoding == "16UC1":
        return np.where(whole > 0, whole * _MILLIMETRE, unknown).astype(np.float32)
    _, a, b = _CONFIG.unpack_from(data)
    # Inverse depth: near things are finer than far ones.
    with np.errstate(divide="ignore", invalid="ignore"):
        metres = np.float32(a) / (whole.astype(np.float32) - np.float32(b))
    return np.where(whole > 0, metres, unknown).astype(np.float32)


def _check_size(width: int, height: int, most: int) -> None:
    if width < 1 or height < 1 or width * height > most:
        raise InputError(
            f"a depth image of 1 to {most} pixels (max_image_pixels) is needed, found {width} x "
            f"{height}: let the camera send a smaller one, or raise the limit"
        )
