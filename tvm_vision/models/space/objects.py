"""Boxes as places in space. Boxes are float [4], x1, y1, x2, y2 in pixels of the camera's images,
the edges of pixels: a box from 0 to 10 covers the pixels 0 to 9. Places are of middles of objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .camera import Camera, Points
from .ground import on_ground
from .poses import Pose

Box = npt.NDArray[Any]
# The part of a box's sides, around its middle, in which depth is read: corners show what is behind.
CORE = 0.5
# Pixels from the image's edge within which an edge of a box may be the image's, not the object's.
MARGIN = 1.5
# A core with a smaller part of depths that are known says nothing.
LEAST_KNOWN = 0.1
# Values of a core that are looked at; a large box has as many that say the same.
MOST_VALUES = 4096


@dataclass(frozen=True, eq=False)
class Place:
    """An object in space.

    position: float64 [3], metres, of its middle. size: float64 [3], along the frame's axes, metres,
    0 where nothing is known of it.
    """

    position: Points
    size: Points


def by_depth(
    camera: Camera,
    box: Box,
    depth: npt.NDArray[np.float32],
    *,
    diameter: float = 0.0,
    mask: npt.NDArray[np.bool_] | None = None,
) -> Place | None:
    """Of the depth image, in the camera's optical frame; None where it has no depth there.

    depth: float32 [rows, columns] of the same view, at any size, z in metres; what is no number, or
    not above 0, is not known. diameter: of a ball, metres, 0 for others. mask: bool [height, width]
    of the camera's images, the object's pixels, instead of the middle part of the box.

    Of others than balls the position is that of the surface that is seen: the median of z, on the
    ray of the box's middle; width and height are the box's at that depth. Of a ball each pixel's
    point p on its surface gives the middle m = t c on the unit ray c of the box's middle, by
    |p - t c| = diameter / 2, t = c.p + sqrt((c.p)^2 - |p|^2 + diameter^2 / 4); the median t counts.
    """
    seen = camera.scaled((depth.shape[0], depth.shape[1]))
    scale = np.array([seen.size[1] / camera.size[1], seen.size[0] / camera.size[0]])
    rows, columns = _core(box.reshape(2, 2) * scale, depth.shape, mask)
    values = depth[rows, columns].astype(np.float64)
    known = np.isfinite(values) & (values > 0)
    if not known.any() or known.mean() < LEAST_KNOWN:
        return None
    (middle,) = camera.rays(_middle(box)[None])
    z = float(np.median(values[known]))
    if diameter:
        pixels = np.stack((columns[known], rows[known]), axis=1)
        points = seen.rays(pixels) * values[known][:, None]
        middle_unit = middle / np.linalg.norm(middle)
        along = points @ middle_unit
        rest = along**2 - (points**2).sum(axis=1) + diameter**2 / 4
        if (rest >= 0).any():
            along = (along + np.sqrt(np.maximum(rest, 0)))[rest >= 0]
            return Place(float(np.median(along)) * middle_unit, np.full(3, diameter))
        return Place(z * middle, np.full(3, diameter))
    return Place(z * middle, np.array([*_sides(camera, box, z), 0.0]))


def by_diameter(camera: Camera, box: Box, diameter: float) -> Place | None:
    """A ball of which the diameter is known, metres, in the camera's optical frame.

    Each edge of its box is, with the camera, a plane that the ball touches: for its normal n,
    inwards and of length 1, n.m = diameter / 2 holds of the middle m. Four such equations are
    solved for m by least squares. An edge at the image's own edge may cut the ball, and is left
    out; None where fewer than three are left.
    """
    edges = box.astype(np.float64) - 0.5
    x1, y1, x2, y2 = edges
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    rays = camera.rays(np.array([[x1, y], [x, y1], [x2, y], [x, y2]]))
    left, top, right, bottom = rays[0, 0], rays[1, 1], rays[2, 0], rays[3, 1]
    normals = np.array([[1, 0, -left], [0, 1, -top], [-1, 0, right], [0, -1, bottom]])
    height, width = camera.size
    own = np.array([x1 > MARGIN, y1 > MARGIN, x2 < width - MARGIN, y2 < height - MARGIN])
    if own.sum() < 3 or not (left < right and top < bottom):
        return None
    normals = normals[own] / np.linalg.norm(normals[own], axis=1, keepdims=True)
    middle, *_ = np.linalg.lstsq(normals, np.full(len(normals), diameter / 2), rcond=None)
    return Place(middle, np.full(3, diameter)) if middle[2] > 0 else None


def by_ground(camera: Camera, pose: Pose, box: Box, *, diameter: float = 0.0) -> Place | None:
    """Of an object that stands or lies on the ground, in the ground's frame (``on_ground``); None
    where it would be above the horizon.

    diameter: of a ball, metres, whose middle is at half of it above the ground, on the ray of the
    box's middle. Of others the middle of the box's lower edge is on the ground; width and height
    are the box's where it stands, facing the camera.
    """
    if diameter:
        (point,) = on_ground(camera, pose, _middle(box)[None], diameter / 2)
        return Place(point, np.full(3, diameter)) if np.isfinite(point).all() else None
    x1, _, x2, y2 = box.astype(np.float64) - 0.5
    (foot,) = on_ground(camera, pose, np.array([[(x1 + x2) / 2, y2]]))
    if not np.isfinite(foot).all():
        return None
    z = float(pose.inverse(foot[None])[0, 2])
    width, height = _sides(camera, box, z)
    return Place(foot + np.array([0.0, 0.0, height / 2]), np.array([width, width, height]))


def _middle(box: Box) -> Points:
    """Of the edges of a box, as a pixel whose own middle is at whole numbers."""
    middle: Points = box.astype(np.float64).reshape(2, 2).mean(axis=0) - 0.5
    return middle


def _sides(camera: Camera, box: Box, z: float) -> tuple[float, float]:
    """Width and height in metres of what fills a box at a depth."""
    x1, y1, x2, y2 = box.astype(np.float64) - 0.5
    rays = camera.rays(np.array([[x1, y1], [x2, y2]]))
    width, height = (rays[1] - rays[0])[:2] * z
    return abs(float(width)), abs(float(height))


def _core(
    corners: Points, shape: tuple[int, ...], mask: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of the pixels of a depth image that are read for an object; some of them
    where they are many."""
    if mask is not None and mask.any():
        found, sides = np.argwhere(mask), np.array(shape) / mask.shape
        rows, columns = ((found + 0.5) * sides).astype(np.int64).T
    else:
        middle, half = corners.mean(axis=0), CORE * (corners[1] - corners[0]) / 2
        limits = np.array([shape[1], shape[0]])
        low = np.clip(np.floor(middle - half), 0, limits - 1).astype(np.int64)
        high = np.clip(np.ceil(middle + half), low + 1, limits).astype(np.int64)
        grid = np.mgrid[low[1] : high[1], low[0] : high[0]].reshape(2, -1)
        rows, columns = grid
    few = slice(None, None, max(1, len(rows) // MOST_VALUES))
    return rows[few], columns[few]
