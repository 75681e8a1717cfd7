"""Small things beside the field and on it that a network takes for balls, posts or robots: cables,
shoes, spots, stools with white feet, low tripods, cases on legs.

Each function returns parts about the origin, standing on z = 0, in metres.
"""

from __future__ import annotations

import numpy as np
from props import shoe
from robots import any_colour, grey
from shapes import Builder, Frame, Part, rotation


def cable(rng: np.random.Generator) -> list[Part]:
    """A cable that winds over the floor."""
    b = Builder()
    colour = grey(rng, 0.0, 0.15) if rng.random() < 0.6 else any_colour(rng)
    radius, heading = rng.uniform(0.003, 0.008), rng.uniform(0, 2 * np.pi)
    place = np.array([0.0, 0.0, radius])
    for _ in range(rng.integers(5, 14)):
        heading += rng.normal(0, 0.6)
        step = rng.uniform(0.08, 0.25) * np.array([np.cos(heading), np.sin(heading), 0])
        b.between("capsule", radius, place, place + step, colour)
        place = place + step
    return b.parts


def shoes(rng: np.random.Generator) -> list[Part]:
    """A pair of shoes without anybody in them, or one that lies on its side."""
    b = Builder()
    colour = grey(rng, 0.8, 0.98) if rng.random() < 0.5 else any_colour(rng)
    for side in range(rng.integers(1, 3)):
        place = Frame().move(x=rng.normal(0, 0.08), y=0.14 * side).rotate("z", rng.normal(0, 0.5))
        shoe(b, rng, place.rotate("x", rng.choice([0, 0, 1.4])), colour)
    b.stand_on_ground()
    return b.parts


def spot(rng: np.random.Generator) -> list[Part]:
    """A flat disc or square: a mark of tape, a lid, a piece of paper, a lost washer."""
    b = Builder()
    radius = rng.uniform(0.02, 0.09)
    colour = grey(rng, 0.7, 1.0) if rng.random() < 0.6 else any_colour(rng)
    place = Frame().rotate("z", rng.uniform(0, 3))
    if rng.random() < 0.6:
        b.add("cylinder", (radius, 0.002), place, colour)
    else:
        b.add("box", (radius, radius * rng.uniform(0.3, 1.0), 0.002), place, colour)
    b.stand_on_ground()
    return b.parts


def stool(rng: np.random.Generator) -> list[Part]:
    """A stool or chair on thin legs with round feet, white or black, or on castors."""
    b = Builder()
    high, wide = rng.uniform(0.35, 0.75), rng.uniform(0.14, 0.24)
    leg, feet = grey(rng, 0.1, 0.95), grey(rng, 0.0, 1.0)
    seat = any_colour(rng) if rng.random() < 0.5 else grey(rng, 0.02, 0.95)
    b.add("box", (wide, wide, 0.02), Frame().move(z=high), seat, "noise")
    for turn in np.linspace(0, 2 * np.pi, int(rng.integers(3, 6)), endpoint=False):
        foot = rotation("z", turn) @ np.array([wide * rng.uniform(0.9, 1.4), 0, 0])
        radius = rng.uniform(0.012, 0.04)
        b.between("capsule", 0.012, [*(foot[:2] * 0.7), high], [*foot[:2], radius], leg)
        b.add("sphere", (radius,), Frame(np.array([*foot[:2], radius])), feet)
    if rng.random() < 0.6:
        back = Frame().move(x=-wide, z=high + 0.25)
        b.add("box", (0.015, wide, 0.14), back, seat, "noise")
        b.between("capsule", 0.012, [-wide, 0, high], [-wide, 0, high + 0.25], leg)
    return b.parts


def tripod(rng: np.random.Generator) -> list[Part]:
    """A low tripod with a camera or a lamp."""
    b = Builder()
    high, colour = rng.uniform(0.3, 1.5), grey(rng, 0.02, 0.9)
    top = np.array([0, 0, high])
    for turn in np.linspace(0, 2 * np.pi, 3, endpoint=False):
        foot = rotation("z", turn) @ np.array([high * rng.uniform(0.25, 0.45), 0, 0.01])
        b.between("capsule", rng.uniform(0.006, 0.018), top, foot, colour)
    size = rng.uniform(0.03, 0.11, 3)
    if rng.random() < 0.5:
        b.add("box", tuple(size), Frame(top), grey(rng, 0.0, 0.3), "greeble", 0.1)
    else:
        b.add("sphere", (float(size[0]),), Frame(top), grey(rng, 0.6, 1.0))
    return b.parts


TRIFLES = (cable, shoes, spot, stool, tripod)


def trifle(rng: np.random.Generator) -> list[Part]:
    """One of them."""
    return TRIFLES[int(rng.integers(len(TRIFLES)))](rng)
