"""Upright things that are no goalposts, and seats that are no robots: bare poles, columns, doors,
barriers, boards on legs, racks and office chairs, many of them white.

Each of UPRIGHTS returns parts about the origin, standing on z = 0, in metres. None has two white
posts with a bare bar on top: that is what a goal is.
"""

from __future__ import annotations

import numpy as np
from robots import Colour, any_colour, grey
from shapes import Builder, Frame, Part, rotation


def pale(rng: np.random.Generator, share: float = 0.7) -> Colour:
    """White to grey for this share, else anything."""
    return grey(rng, 0.55, 0.99) if rng.random() < share else any_colour(rng)


def mast(rng: np.random.Generator) -> list[Part]:
    """One pole on a foot, with a lamp, a sign or a box on it, or a band about it."""
    b = Builder()
    high, radius = rng.uniform(0.5, 2.6), float(np.exp(rng.uniform(np.log(0.01), np.log(0.07))))
    colour, shape = pale(rng), str(rng.choice(["cylinder", "box"]))
    b.between(shape, radius, [0, 0, 0], [0, 0, high], colour, str(rng.choice(["plain", "cloud"])))
    wide = radius * rng.uniform(1.6, 6) + 0.03
    foot = (wide, 0.012) if rng.random() < 0.6 else (wide, wide * rng.uniform(0.2, 1.0), 0.012)
    b.add("cylinder" if len(foot) == 2 else "box", foot, Frame().move(z=0.012), grey(rng, 0.0, 0.9))
    top = Frame().move(z=high).rotate("z", rng.uniform(0, 3))
    kind = rng.random()
    if kind < 0.3:
        b.add("box", tuple(rng.uniform(0.05, 0.3, 3)), top, any_colour(rng), "text", 0.4)
    elif kind < 0.5:
        b.add("cylinder", (radius * 3 + 0.05, 0.1), top, grey(rng, 0.2, 1.0))
    for _ in range(rng.integers(0, 4)):
        band = Frame().move(z=high * rng.uniform(0.1, 0.95))
        b.add("cylinder", (radius * 1.5, rng.uniform(0.01, 0.1)), band, any_colour(rng))
    return b.parts


def column(rng: np.random.Generator) -> list[Part]:
    """A pillar, pipe or corner of a wall, higher than a camera sees; some with a base."""
    b = Builder()
    high, radius = rng.uniform(1.2, 2.2), rng.uniform(0.06, 0.35)
    texture = str(rng.choice(["plain", "plain", "cloud", "noise", "brick", "photo"]))
    shape = str(rng.choice(["cylinder", "box"]))
    size = (radius, high) if shape == "cylinder" else (radius, radius * rng.uniform(0.4, 1.5), high)
    b.add(shape, size, Frame().move(z=high), pale(rng), texture, rng.uniform(0.4, 2))
    if rng.random() < 0.4:
        base = rng.uniform(0.03, 0.3)
        b.add("box", (radius * 1.3, radius * 1.3, base), Frame().move(z=base), grey(rng, 0.1, 0.95))
    return b.parts


def door(rng: np.random.Generator) -> list[Part]:
    """A door or window in its frame, shut, of glass or with somebody's poster on it."""
    b = Builder()
    wide, high, thick = rng.uniform(0.35, 0.9), rng.uniform(1.0, 1.2), rng.uniform(0.03, 0.07)
    colour = pale(rng)
    panel = grey(rng, 0.0, 0.95) if rng.random() < 0.6 else any_colour(rng)
    texture = str(rng.choice(["plain", "planks", "photo", "text", "clutter"]))
    b.add("box", (0.015, wide, high), Frame().move(z=high), panel, texture, rng.uniform(0.5, 2.5))
    for side in (-1, 1):
        place = Frame().move(y=side * (wide + thick), z=high)
        b.add("box", (0.04, thick, high), place, colour)
    b.add("box", (0.04, wide + 2 * thick, thick), Frame().move(z=2 * high + thick), colour)
    if rng.random() < 0.5:
        wall = Frame().move(x=0.05, z=1.3)
        b.add("box", (0.02, wide * rng.uniform(2, 4), 1.3), wall, pale(rng), "cloud", 1.5)
    return b.parts


def barrier(rng: np.random.Generator) -> list[Part]:
    """A crowd's barrier or a railing: rails with many thin bars, on feet."""
    b = Builder()
    half, high = rng.uniform(0.6, 1.3), rng.uniform(0.6, 1.15)
    colour, thick = grey(rng, 0.35, 0.98) if rng.random() < 0.8 else any_colour(rng), 0.017
    low = rng.uniform(0.1, 0.2)
    for z in (low, high):
        b.between("capsule", thick, [0, -half, z], [0, half, z], colour)
    for side in (-1, 1):
        b.between("capsule", thick, [0, side * half, low], [0, side * half, high], colour)
        y = side * half * 0.75
        b.between("capsule", thick, [0, y, low], [0.25, y, 0.02], colour)
        b.between("capsule", thick, [0, y, low], [-0.25, y, 0.02], colour)
    for y in np.linspace(-half, half, int(rng.integers(6, 20)))[1:-1]:
        b.between("capsule", thick * 0.5, [0, y, low], [0, y, high], colour)
    return b.parts


def board(rng: np.random.Generator) -> list[Part]:
    """A whiteboard, screen or roll-up banner: a surface between two stands, or on one."""
    b = Builder()
    wide, high = rng.uniform(0.35, 1.0), rng.uniform(0.3, 0.95)
    lift = rng.uniform(0.0, 0.9)
    leg, face = grey(rng, 0.1, 0.95), pale(rng, 0.75)
    texture = str(rng.choice(["plain", "text", "photo", "clutter"]))
    b.add("box", (0.012, wide, high), Frame().move(z=lift + high), face, texture, 1.0)
    for side in (-1, 1) if rng.random() < 0.7 else (0,):
        y, thick = side * wide, rng.uniform(0.012, 0.035)
        b.between("box", thick, [0.02, y, 0], [0.02, y, lift + 2 * high], leg)
        b.between("box", thick, [-0.25, y, thick], [0.25, y, thick], leg)
    return b.parts


def rack(rng: np.random.Generator) -> list[Part]:
    """Shelves between uprights, with things on them."""
    b = Builder()
    wide, deep, high = rng.uniform(0.3, 0.8), rng.uniform(0.15, 0.3), rng.uniform(0.8, 2.1)
    colour, thick = pale(rng), rng.uniform(0.012, 0.03)
    for x in (-1, 1):
        for y in (-1, 1):
            b.between("box", thick, [x * deep, y * wide, 0], [x * deep, y * wide, high], colour)
    for z in np.linspace(rng.uniform(0.05, 0.3), high, int(rng.integers(3, 6))):
        b.add("box", (deep, wide, 0.012), Frame().move(z=z), colour, "plain")
        for _ in range(rng.integers(0, 4)):
            size = rng.uniform(0.04, 0.14, 3)
            place = Frame(np.array([0, rng.uniform(-0.8, 0.8) * wide, z + size[2]]))
            b.add("box", tuple(size), place, any_colour(rng), str(rng.choice(["text", "greeble"])))
    return b.parts


def office_chair(rng: np.random.Generator) -> list[Part]:
    """A seat on a column with a star of castors: a back like a trunk, arms like arms."""
    b = Builder()
    seat, dark = rng.uniform(0.4, 0.52), grey(rng, 0.02, 0.3)
    cloth = dark if rng.random() < 0.7 else any_colour(rng)
    spread = rng.uniform(0.24, 0.32)
    for turn in np.linspace(0, 2 * np.pi, 5, endpoint=False):
        foot = rotation("z", turn) @ np.array([spread, 0, 0])
        b.between("capsule", 0.022, [0, 0, 0.11], [foot[0], foot[1], 0.08], dark)
        castor = Frame(np.array([foot[0], foot[1], 0.03])).rotate("x", np.pi / 2)
        b.add("cylinder", (0.03, 0.025), castor, grey(rng, 0.0, 0.2))
    b.between("capsule", 0.028, [0, 0, 0.1], [0, 0, seat], grey(rng, 0.05, 0.8))
    b.add("ellipsoid", (0.24, 0.24, 0.06), Frame().move(z=seat + 0.03), cloth, "noise")
    high = rng.uniform(0.2, 0.36)
    back = Frame().move(x=-0.22, z=seat + 0.15 + high).rotate("y", -0.15)
    shape = str(rng.choice(["ellipsoid", "box"]))
    b.add(shape, (0.05, rng.uniform(0.18, 0.24), high), back, cloth, "noise")
    if rng.random() < 0.6:
        for side in (-1, 1):
            y = side * 0.26
            b.between("capsule", 0.02, [-0.05, y * 0.8, seat], [-0.05, y, seat + 0.22], dark)
            b.between("capsule", 0.026, [-0.17, y, seat + 0.22], [0.12, y, seat + 0.22], dark)
    return b.parts


UPRIGHTS = ((mast, 0.3), (column, 0.14), (door, 0.12), (barrier, 0.12), (board, 0.1), (rack, 0.08),
            (office_chair, 0.14))  # fmt: skip


def upright(rng: np.random.Generator) -> list[Part]:
    """One of them."""
    shares = [share for _, share in UPRIGHTS]
    return UPRIGHTS[int(rng.choice(len(UPRIGHTS), p=shares))][0](rng)
