"""Masks of objects from prototypes: a weighted sum of the network's masks, for each object."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ..frames import Letterbox
from ..instance_masks import InstanceMasks
from ..place import place_in_frame
from ..values import Floats


def read_masks(
    prototypes: npt.NDArray[Any],
    coefficients: Floats,
    boxes: Floats,
    letterbox: Letterbox,
    size: tuple[int, int],
) -> InstanceMasks:
    """The pixels of the frame within each box where the sum is above 0 (YOLACT's assembly).

    prototypes: [p, rows, columns], over the network's input. coefficients: float32 [n, p]. boxes:
    float32 [n, 4], x1, y1, x2, y2 in pixels of the frame. size: height and width of the input.

    Sums are resized, linearly, rather than masks: their edges are smooth at any size.
    """
    planes, rows, columns = prototypes.shape
    flat = prototypes.reshape(planes, -1).astype(np.float32, copy=False)
    # Not by BLAS: its threads cost more than so small a product, where others want the cores too.
    sums = np.einsum("op,pn->on", coefficients, flat).reshape(-1, rows, columns)
    crops, corners = [], []
    for values, box in zip(sums, boxes.tolist(), strict=True):
        # Pixels whose upper left corner is in the box.
        left, top, right, bottom = (math.ceil(edge) for edge in box)
        region = (top, left, bottom, right)
        crops.append(place_in_frame(values, letterbox, size, cv2.INTER_LINEAR, region) > 0)
        corners.append((top, left))
    placed = np.array(corners, np.int32).reshape(-1, 2)
    return InstanceMasks(tuple(crops), placed, letterbox.image)
