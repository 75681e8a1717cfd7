"""Poses: where one frame lies in another, and points that go from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pose:
    """A frame in another: a point p of it is rotation @ p + translation there.

    rotation: float64 [3, 3]. translation: float64 [3], metres.
    """

    rotation: Floats
    translation: Floats

    @classmethod
    def none(cls) -> Pose:
        """The frame itself."""
        return cls(np.eye(3), np.zeros(3))

    @classmethod
    def from_quaternion(
        cls, translation: Sequence[float] | Floats, quaternion: Sequence[float] | Floats
    ) -> Pose:
        """quaternion: x, y, z, w, of any length but 0, as ROS has it.

        Formula of the rotation matrix of a unit quaternion, Shoemake, "Animating Rotation with
        Quaternion Curves", 1985. Raises ValueError for a quaternion of length 0 or without number.
        """
        x, y, z, w = np.asarray(quaternion, np.float64)
        length = float(np.sqrt(x * x + y * y + z * z + w * w))
        if not (np.isfinite(length) and length > 1e-9):
            raise ValueError(f"expected a quaternion of length 1, got {tuple(quaternion)}")
        x, y, z, w = x / length, y / length, z / length, w / length
        rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        return cls(rotation, np.asarray(translation, np.float64))

    def __matmul__(self, inner: Pose) -> Pose:
        """The pose of a frame in the outermost one, of its pose in this one's frame."""
        return Pose(self.rotation @ inner.rotation, self(inner.translation[None])[0])

    def __call__(self, points: Floats) -> Floats:
        """Points float64 [n, 3] of the frame, in the other one."""
        moved: Floats = points @ self.rotation.T + self.translation
        return moved

    @property
    def inverse(self) -> Pose:
        """The other frame in this one."""
        return Pose(self.rotation.T, -self.rotation.T @ self.translation)
