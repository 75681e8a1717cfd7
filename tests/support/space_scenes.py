"""Scenes of known geometry, seen by a pinhole camera: a ground and a ball on it, by casting the ray
of each pixel. Written without tvm_vision.models.space, which is held against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SIZE = (480, 640)
FOCAL = 480.0
CENTRE = (319.5, 239.5)


@dataclass(frozen=True)
class Scene:
    """A camera above the ground, z upwards, that looks along x and down by ``pitch`` radians.

    rotation, translation: of the camera's optical frame in the ground's, metres.
    """

    height: float = 0.8
    pitch: float = 0.35

    @property
    def rotation(self) -> np.ndarray:
        """Columns: the camera's x, to the right, y, downwards, and z, forwards, on the ground."""
        down, ahead = np.sin(self.pitch), np.cos(self.pitch)
        return np.array([[0, -down, ahead], [-1, 0, 0], [0, -ahead, -down]], float)

    @property
    def translation(self) -> np.ndarray:
        return np.array([0.0, 0.0, self.height])

    def directions(self) -> np.ndarray:
        """Of each pixel's ray in the camera's frame, [rows, columns, 3], z = 1."""
        rows, columns = np.mgrid[: SIZE[0], : SIZE[1]].astype(float)
        x, y = (columns - CENTRE[0]) / FOCAL, (rows - CENTRE[1]) / FOCAL
        return np.stack((x, y, np.ones(SIZE)), axis=-1)

    def in_camera(self, point: np.ndarray) -> np.ndarray:
        """A point of the ground's frame in the camera's."""
        return self.rotation.T @ (point - self.translation)

    def render(self, middle: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Depth float32 [rows, columns], z in metres, 0 above the horizon; the ball's pixels."""
        rays = self.directions()
        world = rays @ self.rotation.T
        with np.errstate(divide="ignore"):
            ground = -self.translation[2] / world[..., 2]
        depth = np.where(ground > 0, ground, 0.0)
        to_ball = self.in_camera(middle)
        a, b = (rays**2).sum(axis=-1), rays @ to_ball
        rest = b * b - a * (to_ball @ to_ball - radius**2)
        hit = rest > 0
        near = (b - np.sqrt(np.where(hit, rest, 0))) / a
        return np.where(hit, near, depth).astype(np.float32), hit


def box_of(mask: np.ndarray) -> np.ndarray:
    """x1, y1, x2, y2 around the pixels of a mask."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], np.float32)


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """x, y, z, w of a rotation whose w is not small."""
    w = np.sqrt(1 + np.trace(rotation)) / 2
    r = rotation
    return np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], 4 * w * w]) / (4 * w)
