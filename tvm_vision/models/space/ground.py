"""Pixels as points on the ground: a plane that the camera's pose is known over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .camera import Camera, Points
from .poses import Pose

# A ray that falls by less than this for each metre is taken as one that never meets the ground.
LEAST_FALL = 1e-6


def on_ground(camera: Camera, pose: Pose, pixels: npt.NDArray[Any], height: float = 0.0) -> Points:
    """Where rays of pixels meet a plane above the ground, float64 [n, 3] in the ground's frame.

    pose: of the camera's optical frame in a frame with z upwards, of which the plane z = 0 is the
    ground. pixels: [n, 2], x and y, as in Camera.rays. height: of the plane, metres.

    NaN where a ray goes upwards: the point at camera + s ray has z = height for
    s = (height - camera_z) / ray_z, which must be in front of the camera, s > 0.
    """
    directions = camera.rays(pixels) @ pose.rotation.T
    falls = directions[:, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = (height - pose.translation[2]) / falls
    lengths[(np.abs(falls) < LEAST_FALL) | ~(lengths > 0)] = np.nan
    points: Points = pose.translation + lengths[:, None] * directions
    return points


def mask_on_ground(
    camera: Camera,
    pose: Pose,
    mask: npt.NDArray[np.bool_],
    *,
    step: int = 2,
    farthest: float = 20.0,
) -> Points:
    """The pixels of a mask as points on the ground, float64 [n, 3], as ``on_ground`` has them.

    mask: bool [height, width] of the camera's images. step: every so many rows and columns are
    taken. farthest: metres from the camera's foot; what is farther says little, for a pixel there
    covers a lot of ground.
    """
    rows, columns = np.nonzero(mask[::step, ::step])
    pixels = np.stack((columns, rows), axis=1) * step
    points = on_ground(camera, pose, pixels)
    away = np.hypot(*(points[:, :2] - pose.translation[:2]).T)
    return points[away <= farthest]
