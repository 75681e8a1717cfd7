"""Where the camera stands and what it sees of what it shall show."""

from __future__ import annotations

import numpy as np
from shapes import rotation

# Width of a rendering in pixels, and its heights with their shares: 4:3, 16:9, square, 8:5.
WIDE = 768
HEIGHTS = ((576, 0.55), (432, 0.3), (768, 0.05), (480, 0.1))
# A goalpost's usual radius, and a goal's height, in metres.
POST, GOAL = 0.05, 1.2


class Camera:
    """A pinhole camera for one shot."""

    def __init__(
        self, rng: np.random.Generator, half: tuple[float, float], high: int | None = None
    ) -> None:
        """Somewhere on a field of these half sides. high: of the image; else it is drawn too."""
        eye = rng.uniform(0.4, 1.05) if rng.random() < 0.7 else rng.uniform(0.35, 1.8)
        self.at = np.array([*(rng.uniform(-1.05, 1.05, 2) * half), eye])
        where = rng.random()
        if where < 0.55:
            target = np.array([half[0] * rng.choice([-1, 1]), 0]) + rng.normal(0, 1.0, 2)
        elif where < 0.8:
            target = rng.normal(0, 1.0, 2)
        else:
            target = self.at[:2] + rng.normal(0, 1, 2)
        down = rng.random()
        low, top = (0.05, 0.4) if down < 0.64 else (0.4, 1.15) if down < 0.93 else (-0.12, 0.05)
        pitch = rng.uniform(low, top)
        drawn = int(rng.choice([h for h, _ in HEIGHTS], p=[share for _, share in HEIGHTS]))
        self.high = high or drawn
        self.aim(target, pitch, np.radians(rng.uniform(42, 100)), rng.normal(0, 0.06))

    def aim(self, target: np.ndarray, pitch: float, across: float, roll: float) -> None:
        """Looks towards a place [2], pitch down, with a horizontal field of view; in radians."""
        gap = target - self.at[:2]
        self.yaw, self.pitch = float(np.arctan2(gap[1], gap[0])), float(pitch)
        self.across = float(across)
        self.focal = float(WIDE / 2 / np.tan(across / 2))
        look = rotation("z", self.yaw) @ rotation("y", self.pitch) @ rotation("x", roll)
        self.axes = np.stack([-look[:, 1], look[:, 2], -look[:, 0]], axis=1)

    def ground_point(self, u: float, v: float) -> np.ndarray | None:
        """Where the ray of a pixel (0 to 1) meets the ground."""
        local = np.array([(u - 0.5) * WIDE / self.focal, (0.5 - v) * self.high / self.focal, -1.0])
        way = self.axes @ local
        if way[2] > -0.02:
            return None
        place = self.at - way * (self.at[2] / way[2])
        return place if np.linalg.norm(place[:2] - self.at[:2]) < 14 else None

    def sees(self, place: np.ndarray) -> bool:
        """Whether a place [2] of the ground is in the image, if nothing hides it."""
        x, y, z = (np.array([*place, 0.0]) - self.at) @ self.axes
        inside = abs(x) < WIDE / 2 / self.focal * -z and abs(y) < self.high / 2 / self.focal * -z
        return bool(z < 0 and inside)

    def frame_edge(self, place: np.ndarray, rng: np.random.Generator) -> None:
        """Turns until a place [2] lies at the left or right edge of the image."""
        bearing = np.arctan2(*(place - self.at[:2])[::-1])
        side = rng.choice([-1, 1]) * rng.uniform(0.44, 0.5) * self.across
        far = 3 * np.array([np.cos(bearing + side), np.sin(bearing + side)])
        self.aim(self.at[:2] + far, self.pitch, self.across, rng.normal(0, 0.06))

    def stand_by(self, place: np.ndarray, rng: np.random.Generator, touching: float = 0.0) -> None:
        """Moves near a place [2], on any side of it, and looks so that it lies in the image.
        touching: the share of these so near that what stands there fills an edge of it."""
        way, far = rng.uniform(0, 2 * np.pi), np.exp(rng.uniform(np.log(0.5), np.log(3.5)))
        aside = rng.uniform(-0.45, 0.45)
        if touching and rng.random() < touching:
            far, aside = rng.uniform(0.25, 0.8), rng.choice([-1, 1]) * rng.uniform(0.36, 0.56)
        self.at[:2] = place - far * np.array([np.cos(way), np.sin(way)])
        side = way + aside * self.across
        target = self.at[:2] + np.array([np.cos(side), np.sin(side)])
        self.aim(target, rng.uniform(-0.12, 0.35), self.across, rng.normal(0, 0.06))

    def stand_behind(self, goal: np.ndarray, rng: np.random.Generator) -> None:
        """Moves behind a goal, of which the middle of the line is given [2], and looks through it
        over the field."""
        out = np.array([np.sign(goal[0]), 0.0])
        self.at[:2] = goal + out * rng.uniform(0.9, 2.4) + [0.0, rng.uniform(-1.6, 1.6)]
        target = goal - out * rng.uniform(0.5, 6.0) + [0.0, rng.uniform(-2.0, 2.0)]
        self.aim(target, rng.uniform(-0.05, 0.3), self.across, rng.normal(0, 0.06))

    def frame_strip(self, place: np.ndarray, rng: np.random.Generator) -> None:
        """Moves near a post at a place [2], on any side of it, and looks so that the image's edge
        cuts the post lengthwise."""
        way, far = rng.uniform(0, 2 * np.pi), np.exp(rng.uniform(np.log(0.5), np.log(4.0)))
        self.at[:2] = place - far * np.array([np.cos(way), np.sin(way)])
        pitch = rng.uniform(-0.12, 0.35)
        aside = np.tan(self.across / 2) - rng.uniform(-0.8, 0.9) * POST / far
        side = way + rng.choice([-1, 1]) * np.arctan(aside * np.cos(pitch))
        target = self.at[:2] + np.array([np.cos(side), np.sin(side)])
        self.aim(target, pitch, self.across, rng.normal(0, 0.02))

    def look_far(self, goal: np.ndarray, rng: np.random.Generator) -> None:
        """Moves to another part of the field and looks at a goal, of which the middle of the line
        is given [2], so that its posts have 14 to 50 pixels of 512, or more in a small field."""
        reach = abs(goal[0])
        self.at[:2] = [-np.sign(goal[0]) * rng.uniform(-0.2, 1.0) * reach,
                       rng.uniform(-0.6, 0.6) * reach]  # fmt: skip
        pixels = float(np.exp(rng.uniform(np.log(14), np.log(50))))
        focal = pixels * np.linalg.norm(goal - self.at[:2]) / (GOAL * 512 / WIDE)
        across = np.clip(2 * np.arctan(WIDE / 2 / focal), np.radians(40), np.radians(105))
        target = goal + np.array([0.0, rng.normal(0, 1.2)])
        self.aim(target, rng.uniform(-0.05, 0.25), float(across), rng.normal(0, 0.04))

    def fill_with(
        self, high: float, radius: float, share: float, rng: np.random.Generator,
        part: str = "whole", cut: bool = False,
    ) -> np.ndarray:  # fmt: skip
        """Looks from a robot's or a person's height at something of a height and radius in metres
        that shall take a share of the image's height; returns its place [3]. part: "upper" has the
        image's lower edge cut it below its shoulders, "lower" the upper edge above its legs. cut:
        whether the left or right edge may cut it."""
        small = rng.random() < 0.55
        self.at[2] = rng.uniform(0.4, 0.75) if small else rng.uniform(0.6, 1.7)
        low, top = _seen(part, high, rng)
        near, most = (0.5, 2.6) if small else (self.at[2], 3 * self.at[2])
        far = float(np.exp(rng.uniform(np.log(near), np.log(most)))) + 0.7 * radius
        down, up = (float(np.arctan2(self.at[2] - z, far)) for z in (low, top))
        focal = share * self.high / (2 * np.tan((down - up) / 2))
        if not cut:  # what is broad shall fit, too
            focal = min(focal, 0.65 * WIDE * far / max(radius, 0.1))
        across = float(np.clip(2 * np.arctan(WIDE / 2 / focal), np.radians(14), np.radians(105)))
        half = float(np.arctan(self.high / WIDE * np.tan(across / 2)))
        pitch = _pitch(part, down, up, half, rng)
        aside = rng.uniform(-0.4, 0.4) * across
        if cut:
            edge = across / 2 + rng.uniform(-0.9, 0.4) * np.arctan(0.6 * radius / far)
            aside = rng.choice([-1, 1]) * edge
        ahead, way = (np.array([np.cos(a), np.sin(a)]) for a in (self.yaw, self.yaw + aside))
        self.aim(self.at[:2] + ahead, pitch, across, rng.normal(0, 0.05))
        return np.array([*(self.at[:2] + far * way), 0.0])

    def widen(self, across: float) -> None:
        """Looks the same way with another horizontal field of view, in radians."""
        target = self.at[:2] + np.array([np.cos(self.yaw), np.sin(self.yaw)])
        self.aim(target, self.pitch, across, 0.0)

    def lower(self, rng: np.random.Generator, stooped: float = 0.0) -> None:
        """Becomes the camera of a small robot: low, and no wide one. stooped: the share of these
        that look down so far that the image's upper edge cuts what stands on the ground."""
        self.at[2] = rng.uniform(0.4, 0.58)
        target = self.at[:2] + np.array([np.cos(self.yaw), np.sin(self.yaw)])
        across, roll = np.radians(rng.uniform(45, 66)), rng.normal(0, 0.06)
        self.aim(target, self.pitch, across, roll)
        if stooped and rng.random() < stooped:
            horizon = np.arctan(self.high / 2 / self.focal)
            self.aim(target, horizon + rng.uniform(-0.1, 0.2), across, roll)

    def close_up(
        self, size: float, pixels: float, rng: np.random.Generator, aside: float = 0.3
    ) -> np.ndarray:
        """Looks at something of a size in metres that shall have so many pixels of 512, from low
        above the ground where it must; returns its place [3]. aside: how far from the image's
        middle it may be, in widths."""
        gap = max(self.distance_for(size, pixels), 0.3)
        low = gap * (rng.uniform(0.3, 0.9) if rng.random() < 0.5 else 0.9)
        self.at[2] = min(self.at[2], max(low, 0.15))
        far = np.sqrt(gap**2 - self.at[2] ** 2)
        bearing = self.yaw + rng.uniform(-aside, aside) * self.across
        ahead, way = (np.array([np.cos(a), np.sin(a)]) for a in (self.yaw, bearing))
        drop = self.at[2] - size * rng.uniform(0.2, 0.8)
        pitch = np.arctan2(drop, far) + rng.normal(0, 0.1)
        self.aim(self.at[:2] + ahead, pitch, self.across, rng.normal(0, 0.06))
        return np.array([*(self.at[:2] + far * way), 0.0])

    def distance_for(self, metres: float, pixels: float) -> float:
        """How far something of a size in metres is when it has so many pixels of 512."""
        return metres * self.focal * (512 / WIDE) / pixels


def _seen(part: str, high: float, rng: np.random.Generator) -> tuple[float, float]:
    """From which height to which the image shall have something of a height in metres."""
    low = high * rng.uniform(0.5, 0.78) if part == "upper" else 0.0
    return low, high * rng.uniform(0.25, 0.6) if part == "lower" else high


def _pitch(part: str, down: float, up: float, half: float, rng: np.random.Generator) -> float:
    """How far a camera looks down whose image, twice ``half`` high, ends where a part does, or has
    all of it somewhere. down, up: to the lower and the upper end; all in radians."""
    if part == "upper":
        return down - half
    if part == "lower":
        return up + half
    return (down + up) / 2 + rng.uniform(-0.8, 0.8) * max(half - (down - up) / 2, 0.0)
