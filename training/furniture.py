"""What stands on legs beside a field and is no goal: tables, chairs, benches, stools and tripods,
with legs that are white, bright or dark, round or square, and thin or as thick as posts.

Each of PIECES returns parts about the origin, standing on z = 0, in metres.
"""

from __future__ import annotations

import numpy as np
from robots import Colour, any_colour, grey
from shapes import Builder, Frame, Part, rotation


class Legs:
    """How all legs of one piece look."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.colour: Colour = grey(rng, 0.75, 0.99)
        roll = rng.random()
        if roll > 0.5:
            self.colour = grey(rng, 0.02, 0.75) if roll < 0.88 else any_colour(rng)
        self.radius = float(np.exp(rng.uniform(np.log(0.009), np.log(0.04))))
        self.shape = str(rng.choice(["cylinder", "box", "capsule"]))

    def add(self, b: Builder, start: list[float], end: list[float]) -> None:
        b.between(self.shape, self.radius, start, end, self.colour)


def stand_on(
    b: Builder, rng: np.random.Generator, legs: Legs, deep: float, wide: float, high: float
) -> None:
    """Four legs below a top of half sides, upright or a little spread, some with bars between."""
    spread = rng.uniform(1.0, 1.2) if rng.random() < 0.4 else 1.0
    for x in (-deep, deep):
        for y in (-wide, wide):
            legs.add(b, [x * spread, y * spread, 0], [x, y, high])
    if rng.random() < 0.35:
        low = high * rng.uniform(0.1, 0.5)
        for x in (-deep, deep):
            legs.add(b, [x, -wide, low], [x, wide, low])


def table(rng: np.random.Generator) -> list[Part]:
    """A table or desk, some with a cloth that hangs down, or laptops and boxes on it."""
    b, legs = Builder(), Legs(rng)
    deep, wide, high = rng.uniform(0.25, 0.45), rng.uniform(0.35, 1.0), rng.uniform(0.6, 1.0)
    top = grey(rng, 0.3, 0.98) if rng.random() < 0.7 else any_colour(rng)
    stand_on(b, rng, legs, deep * 0.9, wide * 0.93, high)
    b.add("box", (deep, wide, rng.uniform(0.01, 0.03)), Frame().move(z=high), top, "planks", 0.8)
    for _ in range(rng.integers(0, 6)):
        size = rng.uniform(0.03, 0.18, 3)
        x, y = rng.uniform(-0.7, 0.7, 2) * [deep, wide]
        place = Frame().move(x=x, y=y, z=high + size[2]).rotate("z", rng.uniform(0, 3))
        texture = str(rng.choice(["text", "greeble", "plain"]))
        b.add("box", tuple(size), place, any_colour(rng), texture)
    return b.parts


def chair(rng: np.random.Generator) -> list[Part]:
    """A chair with a back."""
    b, legs = Builder(), Legs(rng)
    half, seat = rng.uniform(0.17, 0.23), rng.uniform(0.4, 0.5)
    colour = grey(rng, 0.02, 0.95) if rng.random() < 0.5 else any_colour(rng)
    stand_on(b, rng, legs, half * 0.92, half * 0.92, seat)
    b.add("box", (half, half, 0.018), Frame().move(z=seat), colour, "noise")
    top = seat + rng.uniform(0.3, 0.48)
    for side in (-1, 1):
        legs.add(b, [-half, side * half * 0.9, seat], [-half * 1.15, side * half * 0.9, top])
    back = rng.uniform(0.06, 0.2)
    b.add("box", (0.015, half, back), Frame().move(x=-half * 1.12, z=top - back), colour, "noise")
    return b.parts


def bench(rng: np.random.Generator) -> list[Part]:
    """A bench or stool: a seat and legs."""
    b, legs = Builder(), Legs(rng)
    deep, wide, high = rng.uniform(0.12, 0.2), rng.uniform(0.14, 0.8), rng.uniform(0.4, 0.8)
    stand_on(b, rng, legs, deep * 0.85, wide * 0.9, high)
    colour = grey(rng, 0.02, 0.95) if rng.random() < 0.5 else any_colour(rng)
    b.add("box", (deep, wide, 0.02), Frame().move(z=high), colour, "planks", 0.6)
    return b.parts


def tripod(rng: np.random.Generator) -> list[Part]:
    """Three legs that meet below a camera, a lamp or a loudspeaker."""
    b, legs = Builder(), Legs(rng)
    legs.radius = min(legs.radius, 0.02)
    high, reach = rng.uniform(0.6, 1.5), rng.uniform(0.2, 0.5)
    for turn in np.linspace(0, 2 * np.pi, 3, endpoint=False) + rng.uniform(0, 2):
        foot = rotation("z", turn) @ np.array([reach, 0, 0])
        legs.add(b, [foot[0], foot[1], 0], [0, 0, high])
    top = high + rng.uniform(0.05, 0.5)
    legs.add(b, [0, 0, high], [0, 0, top])
    size = tuple(rng.uniform(0.04, 0.16, 3))
    b.add("box", size, Frame().move(z=top), grey(rng, 0.02, 0.6), "greeble", 0.2)
    return b.parts


PIECES = ((table, 0.35), (chair, 0.3), (bench, 0.15), (tripod, 0.2))


def piece(rng: np.random.Generator) -> list[Part]:
    """One of them."""
    shares = [share for _, share in PIECES]
    return PIECES[int(rng.choice(len(PIECES), p=shares))][0](rng)
