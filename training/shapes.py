"""Solid parts and the frames that place them: what robots, people and clutter are built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

Array = np.ndarray


def rotation(axis: str, angle: float) -> Array:
    """Rotation matrix [3,3] by an angle in radians about the axis "x", "y" or "z"."""
    c, s = np.cos(angle), np.sin(angle)
    if axis == "x":
        return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    if axis == "y":
        return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def quaternion(matrix: Array) -> Array:
    """Unit quaternion (w, x, y, z) of a rotation matrix [3,3]."""
    m = matrix
    w = np.sqrt(max(0.0, 1 + m[0, 0] + m[1, 1] + m[2, 2])) / 2
    x = np.sqrt(max(0.0, 1 + m[0, 0] - m[1, 1] - m[2, 2])) / 2
    y = np.sqrt(max(0.0, 1 - m[0, 0] + m[1, 1] - m[2, 2])) / 2
    z = np.sqrt(max(0.0, 1 - m[0, 0] - m[1, 1] + m[2, 2])) / 2
    q = np.array(
        [
            w,
            np.copysign(x, m[2, 1] - m[1, 2]),
            np.copysign(y, m[0, 2] - m[2, 0]),
            np.copysign(z, m[1, 0] - m[0, 1]),
        ]
    )
    return q / np.linalg.norm(q)


@dataclass(frozen=True)
class Frame:
    """A place and an orientation, in metres."""

    at: Array = field(default_factory=lambda: np.zeros(3))
    turn: Array = field(default_factory=lambda: np.eye(3))

    def move(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Frame:
        return Frame(self.at + self.turn @ np.array([x, y, z]), self.turn)

    def rotate(self, axis: str, angle: float) -> Frame:
        return Frame(self.at, self.turn @ rotation(axis, angle))


@dataclass
class Part:
    """One geom. size as MuJoCo has it: half lengths, or radius and half length. surface: of the
    shape "mesh" its vertices [n,3] in the frame, and its triangles [m,3]."""

    shape: str
    size: tuple[float, ...]
    frame: Frame
    colour: tuple[float, float, float]
    texture: str = "plain"
    texture_metres: float = 0.3
    role: str = ""
    surface: tuple[Array, Array] | None = None

    def bottom(self) -> float:
        """The lowest z of the part in metres, exactly."""
        if self.shape != "cylinder":
            return self.lowest()
        upright = abs(float(self.frame.turn[2, 2]))
        aslant = float(np.sqrt(max(0.0, 1 - upright**2)))
        return float(self.frame.at[2]) - self.size[1] * upright - self.size[0] * aslant

    def lowest(self) -> float:
        """A z in metres below which the part does not reach: of a cylinder it is that of a capsule,
        which the scenes of the first recipes keep."""
        turn = self.frame.turn
        if self.surface is not None:
            reach = -float((self.surface[0] @ turn[2]).min())
        elif self.shape == "box":
            reach = float(np.abs(turn[2]) @ np.array(self.size))
        elif self.shape == "ellipsoid":
            reach = float(np.linalg.norm(turn[2] * np.array(self.size)))
        elif self.shape == "sphere":
            reach = self.size[0]
        else:
            reach = self.size[0] + self.size[1] * abs(float(turn[2, 2]))
        return float(self.frame.at[2]) - reach

    def highest(self) -> float:
        """A z in metres above which the part does not reach, as lowest()."""
        turned = Frame(-self.frame.at, -self.frame.turn)
        return -replace(self, frame=turned).lowest()


class Builder:
    """Collects parts; every call places one relative to a frame."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def add(
        self,
        shape: str,
        size: tuple[float, ...],
        frame: Frame,
        colour: tuple[float, float, float],
        texture: str = "plain",
        metres: float = 0.3,
        role: str = "",
    ) -> None:
        size = tuple(max(float(value), 0.0015) for value in size)
        self.parts.append(Part(shape, size, frame, colour, texture, metres, role))

    def between(
        self,
        shape: str,
        radius: float,
        start: Array | Sequence[float],
        end: Array | Sequence[float],
        colour: tuple[float, float, float],
        texture: str = "plain",
        metres: float = 0.3,
        role: str = "",
    ) -> None:
        """A capsule, cylinder or square bar from one point to another."""
        first, last = np.asarray(start, float), np.asarray(end, float)
        along = last - first
        length = float(np.linalg.norm(along))
        if length < 1e-4:
            return
        z = along / length
        helper = np.array([1.0, 0, 0]) if abs(z[0]) < 0.9 else np.array([0, 1.0, 0])
        x = np.cross(helper, z)
        x /= np.linalg.norm(x)
        frame = Frame((first + last) / 2, np.stack([x, np.cross(z, x), z], axis=1))
        size = (radius, radius, length / 2) if shape == "box" else (radius, length / 2)
        self.add(shape, size, frame, colour, texture, metres, role)

    def mesh(
        self,
        vertices: Array,
        triangles: Array,
        frame: Frame,
        colour: tuple[float, float, float],
        texture: str = "plain",
    ) -> None:
        """A surface of vertices [n,3] in a frame and triangles [m,3] of their numbers."""
        part = Part("mesh", (), frame, colour, texture, surface=(vertices, triangles))
        self.parts.append(part)

    def stand_on_ground(self) -> None:
        """Moves everything up or down until the lowest part touches z = 0."""
        low = min(part.lowest() for part in self.parts)
        for part in self.parts:
            part.frame = part.frame.__class__(part.frame.at - [0, 0, low], part.frame.turn)

    def settle(self) -> None:
        """As stand_on_ground, exactly."""
        low = min(part.bottom() for part in self.parts)
        for part in self.parts:
            part.frame = part.frame.__class__(part.frame.at - [0, 0, low], part.frame.turn)

    def turn_all(self, turn: Array) -> None:
        """Rotates everything about the origin."""
        for part in self.parts:
            part.frame = Frame(turn @ part.frame.at, turn @ part.frame.turn)
