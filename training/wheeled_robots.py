"""Robots on wheels that play: a broad base that carries a tower of electronics, cloth and a camera
or a mirror above it. Every one is another one.

Units are metres; x is forward, y left, z up; the robot stands on z = 0 about the origin.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from robots import TEAM_COLOURS, Colour, any_colour, grey
from shapes import Builder, Frame, Part


class Tower:
    """Builds one robot, from below."""

    def __init__(self, rng: np.random.Generator, team: Colour | None = None) -> None:
        self.rng, self.b = rng, Builder()
        self.tall = rng.uniform(0.45, 0.85)
        self.wide = self.tall * rng.uniform(0.26, 0.36)
        self.dark = grey(rng, 0.01, 0.16)
        drawn = TEAM_COLOURS[rng.integers(len(TEAM_COLOURS))]
        self.team = drawn if team is None else team
        self.round = rng.random() < 0.45

    def colour(self) -> Colour:
        roll = self.rng.random()
        if roll < 0.7:
            return self.dark
        return grey(self.rng, 0.1, 0.9) if roll < 0.9 else any_colour(self.rng)

    def slab(self, low: float, high: float, wide: float, colour: Colour, texture: str) -> None:
        """A layer between two heights, round or angular, a little askew."""
        rng, half = self.rng, (high - low) / 2
        place = Frame().move(z=low + half).rotate("z", rng.choice([0, 0, np.pi / 4, 0.3]))
        size = (wide, half) if self.round else (wide, wide * rng.uniform(0.75, 1.1), half)
        shape = "cylinder" if self.round else "box"
        self.b.add(shape, size, place, colour, texture, rng.uniform(0.1, 0.4))

    def base(self) -> float:
        """Wheels, bumper, and what holds the ball; returns how high it reaches."""
        rng, b, wide = self.rng, self.b, self.wide
        high = self.tall * rng.uniform(0.2, 0.35)
        self.slab(rng.uniform(0.015, 0.05), high, wide, self.dark, "greeble")
        for turn in np.linspace(0, 2 * np.pi, int(rng.integers(3, 5)), endpoint=False):
            hub = Frame().rotate("z", turn + 0.4).move(x=wide, z=0.055).rotate("y", np.pi / 2)
            b.add("cylinder", (0.055, 0.02), hub, grey(rng, 0.0, 0.4))
        for side in (-1, 1):  # arms that hold the ball
            if rng.random() < 0.7:
                root = [wide * 0.8, side * wide * 0.6, high * 0.9]
                tip = [wide * rng.uniform(1.1, 1.4), side * wide * 0.45, rng.uniform(0.08, 0.18)]
                b.between("capsule", 0.018, root, tip, self.colour())
                b.add("sphere", (0.03,), Frame(np.array(tip)), grey(rng, 0.0, 0.7))
        return high

    def body(self, low: float) -> float:
        """Layers that get narrower, or four rods about electronics, with cloth and numbers."""
        rng, b = self.rng, self.b
        top = self.tall * rng.uniform(0.62, 0.85)
        style = str(rng.choice(["cone", "rods", "box"], p=[0.45, 0.3, 0.25]))
        end = rng.uniform(0.3, 0.6) if style == "cone" else rng.uniform(0.7, 1.0)
        steps = int(rng.integers(3, 7)) if style == "cone" else int(rng.integers(1, 3))
        clad = rng.random() < 0.6
        if style == "rods":
            for x in (-1, 1):
                for y in (-1, 1):
                    foot = np.array([x * self.wide * 0.6, y * self.wide * 0.6, low])
                    head = np.array([*(foot[:2] * end), top])
                    b.between("capsule", 0.012, foot, head, grey(rng, 0.1, 0.9))
        else:
            heights = np.linspace(low, top, steps + 1)
            for index, (one, other) in enumerate(pairwise(heights)):
                share = 1 + (end - 1) * (index + 0.5) / steps
                on = clad and rng.random() < 0.6
                colour = self.team if on else self.colour()
                texture = "cloud" if on else str(rng.choice(["plain", "greeble", "noise"]))
                self.slab(float(one), float(other), self.wide * 0.85 * share, colour, texture)
        for _ in range(rng.integers(3, 12)):  # boards, batteries, cables
            size = rng.uniform(0.08, 0.45, 3) * self.wide
            spread = self.wide * (0.35 if style == "rods" else 0.55)
            place = Frame(np.array([*rng.normal(0, spread, 2), rng.uniform(low, top)]))
            b.add("box", tuple(size), place, self.colour(), "greeble", 0.12)
        for turn in (0.0, np.pi):
            if rng.random() < 0.7:
                reach = self.wide * (0.85 if style == "box" else 0.75)
                middle = Frame().rotate("z", turn).move(x=reach, z=(low + top) / 2)
                half, light = self.wide * rng.uniform(0.25, 0.5), grey(rng, 0.8, 1.0)
                bright = rng.random() < 0.5
                b.add("box", (0.01, half, half), middle, self.team if bright else light,
                      "bright digits" if bright else "dark digits", 2 * half)  # fmt: skip
        return top

    def top(self, low: float) -> None:
        """A camera that looks up into a mirror, one that turns, or a handle."""
        rng, b = self.rng, self.b
        kind, thin = rng.random(), self.wide * rng.uniform(0.12, 0.3)
        if kind < 0.6:
            b.between("cylinder", thin, [0, 0, low], [0, 0, self.tall * 0.95], self.colour())
            b.add("ellipsoid", (thin * 1.5, thin * 1.5, thin), Frame().move(z=self.tall),
                  grey(rng, 0.05, 0.8))  # fmt: skip
            if rng.random() < 0.4:
                for turn in np.linspace(0, 2 * np.pi, 3, endpoint=False):
                    foot = Frame().rotate("z", turn).move(x=thin * 2.5, z=low).at
                    b.between("capsule", 0.008, foot, [0, 0, self.tall], self.colour())
        elif kind < 0.85:
            b.between("capsule", thin * 0.4, [0, 0, low], [0, 0, self.tall], self.colour())
            size = (thin * 0.6, thin * rng.uniform(0.6, 1.6), thin * 0.6)
            b.add("box", size, Frame().move(z=self.tall), self.colour(), "greeble", 0.1)
        else:
            for side in (-1, 1):
                y = side * self.wide * 0.4
                b.between("capsule", 0.012, [0, y, low], [0, y, self.tall], self.colour())
            high, y = self.tall, self.wide * 0.4
            b.between("capsule", 0.012, [0, -y, high], [0, y, high], self.colour())


def tower(rng: np.random.Generator, team: Colour | None = None) -> list[Part]:
    """One robot, 0.45 to 0.85 m tall. team: the colour of its cloth and numbers, else drawn."""
    robot = Tower(rng, team)
    robot.top(robot.body(robot.base()))
    robot.b.settle()
    return robot.b.parts
