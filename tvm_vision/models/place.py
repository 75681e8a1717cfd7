"""Values over a network's input, of any size, as values for the pixels of a frame."""

from __future__ import annotations

from typing import TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from .frames import Letterbox

Number = TypeVar("Number", np.uint8, np.float32)


def place_in_frame(
    values: npt.NDArray[Number],
    letterbox: Letterbox,
    size: tuple[int, int],
    interpolation: int,
    region: tuple[int, int, int, int] | None = None,
) -> npt.NDArray[Number]:
    """[height, width] of the frame, or of a part of it.

    values: [rows, columns], over the whole input, whose height and width are ``size``: a value lies
    in the middle of its part of the input. interpolation: of OpenCV, INTER_LINEAR or INTER_NEAREST.
    region: top, left, bottom and right of the part, in pixels of the frame.
    """
    rows, columns = letterbox.image
    top, left, bottom, right = region or (0, 0, rows, columns)
    if bottom <= top or right <= left:
        return np.zeros((max(bottom - top, 0), max(right - left, 0)), values.dtype)
    whole = (letterbox.top, letterbox.left, letterbox.height, letterbox.width) == (0, 0, *size)
    if whole and region is None:
        exact = cv2.INTER_NEAREST_EXACT if interpolation == cv2.INTER_NEAREST else interpolation
        resized: npt.NDArray[Number] = cv2.resize(values, (columns, rows), interpolation=exact)
        return resized
    # Cells of ``values`` in a pixel of the frame; the middle of a pixel is at half.
    across, down = values.shape[1] / size[1], values.shape[0] / size[0]
    scale = letterbox.scale.tolist()
    x = (letterbox.left + (left + 0.5) / scale[0]) * across - 0.5
    y = (letterbox.top + (top + 0.5) / scale[1]) * down - 0.5
    there = np.array([[across / scale[0], 0, x], [0, down / scale[1], y]])
    placed: npt.NDArray[Number] = cv2.warpAffine(
        values,
        there,
        (right - left, bottom - top),
        flags=interpolation | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return placed
