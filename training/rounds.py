"""Round things that are no balls: wheels, discs, cups, clocks, lamps, heads; as solids beside the
field and on it, and drawn on boards and walls.

Each of ROUNDS returns parts about the origin, standing on z = 0, in metres. None is a white or
bright sphere near the ground: that is what a ball is.
"""

from __future__ import annotations

import cv2
import numpy as np
from robots import Colour, any_colour, grey
from shapes import Builder, Frame, Part

Array = np.ndarray
SKINS = ((0.85, 0.62, 0.5), (0.55, 0.36, 0.25), (0.35, 0.22, 0.15), (0.92, 0.9, 0.88))


def pale_or_coloured(rng: np.random.Generator, pale: float = 0.6) -> Colour:
    """White to light grey for this share, else anything."""
    return grey(rng, 0.7, 0.99) if rng.random() < pale else any_colour(rng)


def disc(
    b: Builder, radius: float, thick: float, axis: Frame, colour: Colour, texture: str
) -> None:
    """A flat cylinder about the frame's z."""
    b.add("cylinder", (radius, thick), axis, colour, texture, radius * 2)


def roll(b: Builder, rng: np.random.Generator, middle: Frame, radius: float) -> None:
    """A wheel about the frame's y: tyre, rim, hub, and spokes or holes."""
    axis = middle.rotate("x", np.pi / 2)
    thick = radius * rng.uniform(0.12, 0.6)
    tyre = grey(rng, 0.01, 0.2) if rng.random() < 0.7 else pale_or_coloured(rng)
    disc(b, radius, thick, axis, tyre, "plain")
    inner = radius * rng.uniform(0.45, 0.85)
    face = grey(rng, 0.3, 0.98)
    disc(b, inner, thick * 1.04, axis, face, str(rng.choice(["plain", "noise", "rounds"])))
    disc(b, inner * rng.uniform(0.15, 0.4), thick * 1.1, axis, grey(rng, 0.02, 0.7), "plain")
    spokes = int(rng.integers(0, 8))
    for turn in np.linspace(0, np.pi, spokes, endpoint=False):
        bar = axis.rotate("z", turn)
        b.add("box", (inner, radius * 0.05, thick * 1.07), bar, grey(rng, 0.02, 0.3))


def wheel(rng: np.random.Generator) -> list[Part]:
    """One that stands, leans or lies; or two on an axle."""
    b = Builder()
    radius = float(np.exp(rng.uniform(np.log(0.03), np.log(0.33))))
    if rng.random() < 0.35:
        apart = radius * rng.uniform(1.5, 4)
        for side in (-1, 1):
            roll(b, rng, Frame().move(y=side * apart), radius)
        b.between("cylinder", radius * 0.1, [0, -apart, 0], [0, apart, 0], grey(rng, 0.1, 0.7))
    else:
        roll(b, rng, Frame().rotate("x", rng.choice([0, 0.25, np.pi / 2])), radius)
    b.settle()
    return b.parts


def cart(rng: np.random.Generator) -> list[Part]:
    """A trolley, flight case or chair's star on castors, or a bicycle on two wheels."""
    b = Builder()
    if rng.random() < 0.3:
        radius, long = rng.uniform(0.25, 0.36), rng.uniform(0.45, 0.6)
        for side in (-1, 1):
            roll(b, rng, Frame().move(x=side * long).rotate("z", rng.normal(0, 0.1)), radius)
        bar, top = any_colour(rng), np.array([rng.uniform(-0.1, 0.2), 0, rng.uniform(0.3, 0.5)])
        for end in ([-long, 0, 0], [long, 0, 0], [0.0, 0, -0.05]):
            b.between("capsule", 0.018, top, end, bar)
        b.settle()
        return b.parts
    long, wide = rng.uniform(0.15, 0.5), rng.uniform(0.15, 0.4)
    radius = rng.uniform(0.02, 0.06)
    for x in (-1, 1):
        for y in (-1, 1):
            turned = Frame().move(x=x * long, y=y * wide, z=radius).rotate("z", rng.uniform(0, 3))
            roll(b, rng, turned, radius)
    colour = grey(rng, 0.02, 0.9) if rng.random() < 0.6 else any_colour(rng)
    if rng.random() < 0.5:
        high = rng.uniform(0.15, 0.5)
        box = Frame().move(z=2 * radius + high)
        b.add("box", (long, wide, high), box, colour, str(rng.choice(["plain", "text", "rounds"])))
    else:
        for x, y in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
            b.between("capsule", 0.02, [x * long, y * wide, 2 * radius], [0, 0, 0.12], colour)
        b.between("capsule", 0.025, [0, 0, 0.1], [0, 0, 0.45], grey(rng, 0.1, 0.8))
        b.add("box", (0.24, 0.24, 0.04), Frame().move(z=0.48), colour, "noise")
    return b.parts


def dish(rng: np.random.Generator) -> list[Part]:
    """A plate, lid, coin or disc: flat on the floor, on edge against something, or a pile."""
    b = Builder()
    radius = float(np.exp(rng.uniform(np.log(0.02), np.log(0.16))))
    roll_ = rng.random()
    for index in range(1 if roll_ < 0.7 else int(rng.integers(2, 6))):
        place = Frame(np.array([*rng.normal(0, radius * 0.8, 2) * (index > 0), 0.006 * index]))
        if roll_ < 0.3:
            place = place.rotate("y", np.pi / 2 - rng.uniform(0.0, 0.5))
        colour = pale_or_coloured(rng) if rng.random() < 0.7 else (0.55, 0.38, 0.2)
        texture = str(rng.choice(["plain", "noise", "rounds", "text"]))
        disc(b, radius, 0.005, place, colour, texture)
        if rng.random() < 0.5:
            inner = radius * rng.uniform(0.3, 0.8)
            disc(b, inner, 0.007, place, grey(rng, 0.05, 0.95), "plain")
    b.settle()
    return b.parts


def cup(rng: np.random.Generator) -> list[Part]:
    """A cup, bowl, bucket, can or roll of tape: round from above, with a dark inside."""
    b = Builder()
    radius = float(np.exp(rng.uniform(np.log(0.03), np.log(0.15))))
    high = radius * rng.uniform(0.25, 2.0)
    tilt = rng.choice([0.0, 0.0, np.pi / 2])
    upright = Frame().rotate("y", tilt)
    colour = pale_or_coloured(rng, 0.65)
    pattern = str(rng.choice(["plain", "text", "cloud", "rounds", "stripes"]))
    b.add("cylinder", (radius, high), upright, colour, pattern, radius * rng.uniform(1, 3))
    hole = grey(rng, 0.0, 0.25) if rng.random() < 0.7 else any_colour(rng)
    for end in (-1, 1):
        disc(b, radius * rng.uniform(0.5, 0.93), 0.002, upright.move(z=end * high), hole, "plain")
    if rng.random() < 0.45:
        for low, top in ((-0.4, 0.6), (-0.4, -0.4), (0.6, 0.6)):
            start = upright.move(x=radius, z=high * low).at
            far = upright.move(x=radius * 1.6, z=high * top).at
            b.between("capsule", radius * 0.12, start, far, colour)
    b.settle()
    return b.parts


def wall(rng: np.random.Generator) -> list[Part]:
    """A board with discs on it: a clock, plates, portholes, loudspeakers, lamps, signs."""
    b = Builder()
    high, wide = rng.uniform(0.25, 1.2), rng.uniform(0.3, 1.5)
    colour = grey(rng, 0.03, 0.97) if rng.random() < 0.6 else any_colour(rng)
    texture = str(rng.choice(["plain", "cloud", "planks", "rounds", "photo", "brick", "greeble"]))
    middle = Frame().move(z=high)
    b.add("box", (0.03, wide, high), middle, colour, texture, rng.uniform(0.4, 1.8))
    for _ in range(rng.integers(1, 6)):
        radius = float(np.exp(rng.uniform(np.log(0.03), np.log(min(0.25, 0.8 * high)))))
        place = middle.move(y=rng.uniform(-0.8, 0.8) * wide, z=rng.uniform(-0.7, 0.8) * high)
        face = pale_or_coloured(rng)
        for side in (-1, 1):  # seen from the field and from behind it
            front = place.move(x=side * 0.035).rotate("y", np.pi / 2)
            disc(b, radius, 0.01, front, grey(rng, 0.0, 0.5), "plain")
            disc(b, radius * rng.uniform(0.8, 0.95), 0.014, front, face,
                 str(rng.choice(["plain", "rounds", "text", "noise"])))  # fmt: skip
            for turn in rng.uniform(0, 2 * np.pi, rng.integers(0, 4)):  # a clock's hands
                hand = front.rotate("z", turn).move(x=radius * 0.35)
                b.add("box", (radius * 0.38, radius * 0.05, 0.017), hand, grey(rng, 0, 0.2))
    return b.parts


def lamp(rng: np.random.Generator) -> list[Part]:
    """A round lamp, balloon or ornament well above the ground, on a pole or foot."""
    b = Builder()
    high, radius = rng.uniform(0.7, 2.3), rng.uniform(0.04, 0.22)
    b.between("capsule", rng.uniform(0.006, 0.03), [0, 0, 0], [0, 0, high], grey(rng, 0.02, 0.8))
    disc(b, rng.uniform(0.08, 0.2), 0.015, Frame().move(z=0.015), grey(rng, 0.02, 0.9), "plain")
    texture = str(rng.choice(["plain", "noise", "text"]))
    flat = rng.uniform(0.6, 1.3)
    b.add("ellipsoid", (radius, radius, radius * flat), Frame().move(z=high + radius * flat),
          pale_or_coloured(rng, 0.75), texture)  # fmt: skip
    b.settle()
    return b.parts


def bust(rng: np.random.Generator) -> list[Part]:
    """A head without a body near: a doll, helmet, mask or wig on a stand, with hair and eyes."""
    b = Builder()
    size, high = rng.uniform(0.06, 0.14), rng.uniform(0.0, 1.2)
    skull = Frame().move(z=high + size * 1.5).rotate("z", rng.uniform(0, 6.3))
    skin = SKINS[rng.integers(len(SKINS))]
    b.between("capsule", size * 0.4, [0, 0, 0], skull.at, skin)
    b.add("box", (size, size * 1.4, max(0.02, high / 2)), Frame().move(z=high / 2),
          any_colour(rng), str(rng.choice(["noise", "text", "plaid"])))  # fmt: skip
    b.add("ellipsoid", (size, size * 0.8, size * 1.2), skull, skin, "cloud", 0.2)
    hair = grey(rng, 0.0, 0.2) if rng.random() < 0.6 else any_colour(rng)
    b.add("ellipsoid", (size * 1.05, size * 0.9, size), skull.move(x=-size * 0.25, z=size * 0.45),
          hair, "noise", 0.1)  # fmt: skip
    for side in (-1, 1):
        b.add("sphere", (size * 0.14,), skull.move(x=size * 0.85, y=side * size * 0.35, z=0.01),
              grey(rng, 0.0, 0.2))  # fmt: skip
    b.settle()
    return b.parts


def pompons(rng: np.random.Generator) -> list[Part]:
    """Rounded lumps that touch: bags, shells, fruit, knots, crumpled paper; never one sphere."""
    b = Builder()
    size = rng.uniform(0.03, 0.12)
    colour = pale_or_coloured(rng)
    for _ in range(rng.integers(3, 7)):
        form = tuple(size * rng.uniform((0.3, 0.3, 0.8), (0.6, 0.8, 1.5)))
        place = Frame(rng.normal(0, size * 0.45, 3)).rotate("x", rng.uniform(0, 3))
        shade = colour if rng.random() < 0.7 else any_colour(rng)
        b.add("ellipsoid", form, place, shade, str(rng.choice(["noise", "cloud", "rounds"])))
    b.settle()
    return b.parts


# Each with its share and its kind of place: "round" also lies on the field, "stand" stands beside
# it, "board" stands there and faces it.
ROUNDS = (
    (wheel, 0.16, "round"),
    (cart, 0.12, "stand"),
    (dish, 0.14, "round"),
    (cup, 0.16, "round"),
    (wall, 0.2, "board"),
    (lamp, 0.08, "stand"),
    (bust, 0.08, "stand"),
    (pompons, 0.06, "round"),
)


def round_thing(rng: np.random.Generator) -> tuple[str, list[Part]]:
    """Kind of place and parts of one of ROUNDS."""
    make, _, kind = ROUNDS[int(rng.choice(len(ROUNDS), p=[share for _, share, _ in ROUNDS]))]
    return kind, make(rng)


# -- drawn, flat


def paint(rng: np.random.Generator, canvas: Array, count: int, size: tuple[float, float]) -> None:
    """Draws coins, clocks, wheels, plates, cups, flowers, rings and shaded bumps into an image
    uint8 [h,w,3], their radii between two shares of its height."""
    for _ in range(count):
        radius = float(np.exp(rng.uniform(*np.log(np.array(size) * canvas.shape[0]))))
        emblem(rng, canvas, rng.uniform(0, 1, 2) * canvas.shape[1::-1], max(radius, 1.5))


def emblem(rng: np.random.Generator, canvas: Array, centre: Array, radius: float) -> None:
    """One of them; seen straight or aslant."""
    aspect = rng.uniform(0.75, 1.0) if rng.random() < 0.7 else rng.uniform(0.25, 0.75)
    turn = rng.uniform(0, 180)

    def oval(reach: float, colour: Array, at: Array = centre) -> None:
        if reach < 0.5:
            return
        axes = (max(1, round(reach * 16)), max(1, round(reach * aspect * 16)))
        middle = (round(float(at[0]) * 16), round(float(at[1]) * 16))
        axis = (middle, (2 * axes[0], 2 * axes[1]), turn)
        points = cv2.ellipse2Poly((0, 0), axes, int(turn), 0, 360, 10) + np.array(axis[0])
        shade = tuple(float(v) for v in np.clip(colour, 0, 255))
        cv2.fillPoly(canvas, [points.astype(np.int32)], shade, cv2.LINE_AA, 4)

    def around(reach: float, angle: float) -> Array:
        c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        local = np.array([np.cos(angle), np.sin(angle) * aspect]) * reach
        return centre + np.array([c * local[0] - s * local[1], s * local[0] + c * local[1]])

    def ink(low: float, high: float) -> Array:
        if rng.random() < 0.55:
            return np.full(3, rng.uniform(low, high)) + rng.normal(0, 5, 3)
        return rng.uniform(low, high, 3)

    def ray(start: float, end: float, angle: float, colour: Array, thick: float) -> None:
        one, other = (
            tuple(int(v * 16) for v in around(radius * reach, angle)) for reach in (start, end)
        )
        shade = tuple(float(v) for v in np.clip(colour, 0, 255))
        cv2.line(canvas, one, other, shade, max(1, round(radius * thick)), cv2.LINE_AA, 4)

    kind = str(rng.choice(["coin", "clock", "wheel", "plate", "cup", "flower", "rings", "bump"]))
    outer, face = ink(0, 255), ink(60, 255)
    oval(radius * 1.06, outer * 0.5)
    oval(radius, outer)
    if kind == "coin":
        metal = np.array([150, 120, 80]) * rng.uniform(0.4, 1.6)
        oval(radius * 0.97, metal)
        oval(radius * 0.86, metal * 0.8)
        for _ in range(rng.integers(4, 14)):
            spot = around(radius * rng.uniform(0, 0.6), rng.uniform(0, 6.3))
            oval(radius * rng.uniform(0.05, 0.25), metal * rng.uniform(0.5, 1.4), spot)
    elif kind == "clock":
        oval(radius * rng.uniform(0.8, 0.94), ink(170, 255))
        for angle in np.linspace(0, 2 * np.pi, int(rng.choice([4, 12])), endpoint=False):
            ray(0.72, 0.85, angle, ink(0, 90), 0.06)
        for reach in rng.uniform(0.3, 0.75, rng.integers(1, 4)):
            ray(0.0, float(reach), rng.uniform(0, 6.3), ink(0, 120), 0.07)
    elif kind == "wheel":
        oval(radius * 0.97, ink(0, 60))
        inner = rng.uniform(0.45, 0.85)
        oval(radius * inner, ink(90, 255))
        spoke = ink(0, 160)
        for angle in np.linspace(0, 2 * np.pi, int(rng.integers(3, 25)), endpoint=False):
            ray(0.0, inner, angle, spoke, rng.uniform(0.02, 0.12))
        oval(radius * rng.uniform(0.1, 0.3), ink(0, 255))
    elif kind == "plate":
        for reach in np.sort(rng.uniform(0.3, 0.98, rng.integers(1, 4)))[::-1]:
            oval(radius * reach, face * rng.uniform(0.8, 1.1))
    elif kind == "cup":
        oval(radius * 0.95, ink(180, 255))
        oval(radius * rng.uniform(0.6, 0.85), ink(0, 110))
    elif kind == "flower":
        petals = ink(60, 255)
        for angle in np.linspace(0, 2 * np.pi, int(rng.integers(4, 12)), endpoint=False):
            oval(radius * rng.uniform(0.3, 0.45), petals * rng.uniform(0.8, 1.1),
                 around(radius * 0.7, angle))  # fmt: skip
        oval(radius * 0.35, ink(0, 255))
    elif kind == "rings":
        for reach in np.linspace(0.9, 0.2, int(rng.integers(2, 6))):
            oval(radius * reach, ink(0, 255))
    else:
        tone = np.array([0.9, 0.75, 0.6]) * rng.uniform(40, 200) * rng.uniform(0.7, 1.2, 3)
        side = rng.uniform(0, 6.3)
        for step in np.linspace(0, 1, 7):
            oval(radius * (1 - 0.9 * step), tone * (0.45 + 0.7 * step),
                 around(radius * 0.35 * step, side))  # fmt: skip


def picture(rng: np.random.Generator, size: tuple[int, int], pieces: list[Array]) -> Array:
    """A flat image uint8 [h,w,3] without a field, a ball or a robot: pieces of photographs and
    shapes, with round things on top."""
    high, wide = size
    canvas = np.empty((high, wide, 3), np.uint8)
    base = pieces[rng.integers(len(pieces))]
    scale = max(high / base.shape[0], wide / base.shape[1]) * rng.uniform(1.0, 2.5)
    big = cv2.resize(base, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    top = int(rng.integers(0, big.shape[0] - high + 1))
    left = int(rng.integers(0, big.shape[1] - wide + 1))
    canvas[:] = big[top : top + high, left : left + wide]
    if rng.random() < 0.5:
        canvas[:] = np.clip(canvas * rng.uniform(0.2, 1.2) + rng.uniform(0, 120, 3), 0, 255)
    if rng.random() < 0.5:
        canvas[:] = cv2.GaussianBlur(canvas, (0, 0), rng.uniform(1, 12))
    for _ in range(rng.integers(0, 7)):
        patch = pieces[rng.integers(len(pieces))]
        w, h = int(wide * rng.uniform(0.05, 0.5)), int(high * rng.uniform(0.05, 0.5))
        x, y = int(rng.integers(0, wide - w)), int(rng.integers(0, high - h))
        canvas[y : y + h, x : x + w] = cv2.resize(patch, (w, h), interpolation=cv2.INTER_AREA)
    paint(rng, canvas, int(rng.integers(2, 40)), (0.008, 0.2))
    return canvas
