"""What is drawn beside upright boxes: masks of objects, keypoints, oriented boxes, depth."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

from .instance_masks import InstanceMasks
from .results import DepthMap

Image = npt.NDArray[np.uint8]
Color = tuple[int, int, int]
Floats = npt.NDArray[np.float32]

MASK_OPACITY = 0.45
DARK, LIGHT = (20, 20, 20), (255, 255, 255)
# Keypoints of which a network is less sure than this are left out.
SURE = 0.3
# A person's 17 keypoints as COCO numbers them: nose, eyes, ears, shoulders, elbows, wrists, hips,
# knees, ankles, of each pair the left one first; and what is joined by a line.
PERSON = 17
LIMBS = (
    (0, 1), (0, 2), (1, 3), (2, 4), (5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12),
    (11, 12), (11, 13), (13, 15), (12, 14), (14, 16),
)  # fmt: skip
# OpenCV's lines take integers; these are sixteenths of a pixel.
SHIFT = 4


def draw_masks(drawn: Image, masks: InstanceMasks, colors: Iterable[Color], line: int) -> None:
    """Cover each object with its colour and trace its edge; the first one lies on top.

    line: thickness of the edge in pixels.
    """
    ids = masks.ids()
    for index, color in reversed(list(enumerate(colors))):
        crop, place = masks.crops[index], masks.place(index)
        if not crop.any():
            continue
        on_top = ids[place] == index + 1
        part = drawn[place]
        painted = part[on_top] * (1 - MASK_OPACITY) + np.array(color) * MASK_OPACITY
        part[on_top] = painted.astype(np.uint8)
        top, left = masks.corners[index].tolist()
        edges, _ = cv2.findContours(
            crop.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(left, top)
        )
        cv2.drawContours(drawn, edges, -1, color, max(1, line // 2), cv2.LINE_AA)


def draw_oriented_box(drawn: Image, corners: Floats, color: Color, line: int) -> None:
    """The outline of corners [4, 2], with a dark edge where the line is wide enough."""
    points = _fixed(corners)
    if line > 1:
        cv2.polylines(drawn, [points], True, DARK, line + 2, cv2.LINE_AA, SHIFT)
    cv2.polylines(drawn, [points], True, color, line, cv2.LINE_AA, SHIFT)


def draw_keypoints(drawn: Image, keypoints: Floats, color: Color, line: int) -> None:
    """The points [k, 3] of one object that are sure, of a person with its limbs."""
    points = _fixed(np.nan_to_num(keypoints[:, :2]))
    sure = keypoints[:, 2] >= SURE
    if len(keypoints) == PERSON:
        for first, second in LIMBS:
            if sure[first] and sure[second]:
                start, end = points[first].tolist(), points[second].tolist()
                cv2.line(drawn, start, end, color, line, cv2.LINE_AA, SHIFT)
    radius = (line + 1) << SHIFT
    for point in itertools.compress(points.tolist(), sure):
        cv2.circle(drawn, point, radius, DARK, cv2.FILLED, cv2.LINE_AA, SHIFT)
        cv2.circle(drawn, point, radius - (1 << SHIFT), LIGHT, cv2.FILLED, cv2.LINE_AA, SHIFT)


def colored_depth(depth: DepthMap) -> Image:
    """An image, BGR, in which near is bright and warm, and far is dark."""
    levels = np.round(depth.nearness() * 255).astype(np.uint8)
    return cv2.applyColorMap(levels, cv2.COLORMAP_INFERNO).astype(np.uint8, copy=False)


def _fixed(points: Floats) -> npt.NDArray[np.int32]:
    """Points in sixteenths of a pixel, where a pixel's middle is at half."""
    limit = np.float32(2**24)
    return np.clip(np.round((points - 0.5) * (1 << SHIFT)), -limit, limit).astype(np.int32)
