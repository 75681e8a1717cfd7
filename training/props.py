"""What else stands about a field: goals, people, furniture, banners, and things that mislead.

Each function returns parts about the origin, standing on z = 0, in metres.
"""

from __future__ import annotations

import numpy as np
from robots import any_colour, grey
from shapes import Builder, Frame, Part, rotation

SKIN = (
    (0.85, 0.62, 0.5),
    (0.75, 0.52, 0.4),
    (0.55, 0.36, 0.25),
    (0.9, 0.7, 0.6),
    (0.35, 0.22, 0.15),
)
JEANS = (
    (0.1, 0.14, 0.25),
    (0.2, 0.28, 0.42),
    (0.03, 0.03, 0.04),
    (0.35, 0.3, 0.22),
    (0.25, 0.25, 0.26),
)


def goal(rng: np.random.Generator) -> tuple[list[Part], list[Part]]:
    """A goal that opens to -x, and its net. Roles "post0" and "post1" are the front posts."""
    b, net = Builder(), Builder()
    wide, high = rng.uniform(1.4, 3.0), rng.uniform(0.75, 2.0)
    radius, deep = rng.uniform(0.035, 0.065), rng.uniform(0.35, 1.0)
    shape = "box" if rng.random() < 0.55 else "cylinder"
    roll = rng.random()
    colour = tuple(np.clip(rng.uniform(0.8, 1.0) + rng.normal(0, 0.02, 3), 0, 1))
    if roll > 0.9:
        colour = (rng.uniform(0.75, 0.95), rng.uniform(0.6, 0.8), rng.uniform(0.02, 0.2))
    elif roll > 0.87:
        colour = (0.08, 0.2, rng.uniform(0.5, 0.85))
    texture = str(rng.choice(["plain", "noise", "cloud"]))
    corner = [np.array([0, side * wide / 2, 0.0]) for side in (-1, 1)]
    up = np.array([0, 0, high])
    for index, foot in enumerate(corner):
        b.between(shape, radius, foot, foot + up, colour, texture, 0.5, role=f"post{index}")
    reach = np.array([0, radius, 0])
    b.between(
        shape,
        radius * rng.uniform(0.8, 1.0),
        corner[0] + up - reach,
        corner[1] + up + reach,
        colour,
        texture,
        0.5,
    )
    thin = radius * rng.uniform(0.25, 0.85)
    frame_colour = colour if rng.random() < 0.75 else grey(rng, 0.1, 0.9)
    style = rng.choice(["box", "slope", "bare"], p=[0.45, 0.3, 0.25])
    back_high = high * (rng.uniform(0.5, 1.0) if style == "box" else 0.02)
    back = [foot + np.array([deep, 0, 0]) for foot in corner]
    lift, rise = np.array([0, 0, thin]), np.array([0, 0, back_high])
    if style != "bare":
        for foot, rear in zip(corner, back, strict=True):
            b.between(shape, thin, foot + lift, rear + lift, frame_colour)
            b.between(shape, thin, foot + up * rng.uniform(0.9, 1), rear + rise, frame_colour)
            if style == "box":
                b.between(shape, thin, rear, rear + rise, frame_colour)
        b.between(shape, thin, back[0] + lift, back[1] + lift, frame_colour)
        if style == "box":
            b.between(shape, thin, back[0] + rise, back[1] + rise, frame_colour)
    if style != "bare" and rng.random() < 0.8:
        net_colour = grey(rng, 0.75, 0.95) if rng.random() < 0.5 else grey(rng, 0.02, 0.15)
        long = np.hypot(deep, high - back_high) if style == "slope" else back_high
        tilt = np.arctan2(deep, high - back_high) if style == "slope" else 0.0
        centre_x = deep / 2 if style == "slope" else deep
        centre_z = (high + back_high) / 2 if style == "slope" else back_high / 2
        panel = Frame(np.array([centre_x, 0, centre_z])).rotate("y", -tilt)
        net.add("box", (0.002, wide / 2, long / 2), panel, net_colour, role="net")
        for foot in corner:
            side = Frame(foot + np.array([deep / 2, 0, min(high, back_high + 0.3 * high) / 2]))
            net.add(
                "box",
                (deep / 2, 0.002, min(high, back_high + 0.3 * high) / 2),
                side,
                net_colour,
                role="net",
            )
    return b.parts, net.parts


def shoe(
    b: Builder, rng: np.random.Generator, frame: Frame, colour: tuple[float, float, float]
) -> None:
    length = rng.uniform(0.12, 0.15)
    b.add("ellipsoid", (length, 0.048, 0.05), frame.move(x=0.05, z=0.045), colour, "noise")
    b.add("ellipsoid", (0.06, 0.045, 0.07), frame.move(x=-0.02, z=0.06), colour, "noise")
    sole = colour if rng.random() < 0.4 else grey(rng, 0.6, 0.95)
    b.add("box", (length * 0.9, 0.045, 0.014), frame.move(x=0.045, z=0.014), sole)


def person(
    rng: np.random.Generator, pale: bool = False, pose: str | None = None, black: bool = False
) -> list[Part]:
    """Somebody who stands, walks, squats or sits beside or on the field. pale: in white trousers or
    white socks. pose: "stand", "walk", "squat" or "sit", else at random. black: all in black."""
    b = Builder()
    tall = float(np.clip(rng.normal(1.72, 0.1), 1.2, 2.0))
    skin = np.array(SKIN[rng.integers(len(SKIN))])
    trousers = JEANS[rng.integers(len(JEANS))] if rng.random() < 0.75 else any_colour(rng)
    shirt = any_colour(rng) if rng.random() < 0.5 else grey(rng, 0.02, 0.95)
    if rng.random() < 0.25:
        shirt = grey(rng, 0.01, 0.08)
    shoes = (
        grey(rng, 0.01, 0.12)
        if rng.random() < 0.45
        else (grey(rng, 0.8, 0.97) if rng.random() < 0.6 else any_colour(rng))
    )
    shorts, sleeves = rng.random() < 0.3, rng.random() < 0.55
    cloth = str(rng.choice(["denim", "noise", "cloud", "plain"]))
    shirt_cloth = str(rng.choice(["cloud", "noise", "plaid", "stripes", "plain", "text", "denim"]))
    white = grey(rng, 0.75, 0.98) if pale else None
    shorts = shorts if white is None else rng.random() < 0.6
    trousers = trousers if white is None or shorts else white
    if black:
        trousers, shirt, shoes = (grey(rng, 0.01, 0.07) for _ in range(3))
        shorts = False
    thigh, shank = tall * 0.24, tall * 0.24
    drawn = str(rng.choice(["stand", "walk", "squat", "sit"], p=[0.5, 0.26, 0.16, 0.08]))
    pose = pose or drawn
    girth = rng.uniform(0.85, 1.25)
    pelvis = Frame()
    for side in (-1, 1):
        if pose == "squat":
            pitch, bend = rng.uniform(1.3, 2.1), rng.uniform(1.9, 2.5)
        elif pose == "sit":
            pitch, bend = rng.uniform(1.4, 1.7), rng.uniform(0.2, 1.6)
        else:
            pitch = rng.normal(0.1, 0.35 if pose == "walk" else 0.06)
            bend = max(0.0, pitch + abs(rng.normal(0, 0.4 if pose == "walk" else 0.06)))
        hip = pelvis.move(y=side * 0.095 * girth)
        upper = hip.rotate("x", side * abs(rng.normal(0.03, 0.05))).rotate("y", -pitch)
        lower = upper.move(z=-thigh).rotate("y", bend)
        ankle = lower.move(z=-shank)
        b.between("capsule", 0.078 * girth, hip.at, lower.at, trousers, cloth, 0.4)
        calf = (white or tuple(skin)) if shorts else trousers
        b.between(
            "capsule",
            (0.05 if shorts else 0.06) * girth,
            lower.at,
            ankle.at,
            calf,
            "plain" if shorts else cloth,
            0.4,
        )
        if not shorts:
            b.add(
                "capsule",
                (0.066 * girth, shank * 0.15),
                ankle.move(z=shank * 0.2),
                trousers,
                cloth,
                0.4,
            )
        flat = Frame(ankle.at, np.eye(3)).rotate("z", side * rng.uniform(0, 0.4))
        if pose == "walk":
            flat = flat.rotate("y", bend - pitch)
        shoe(b, rng, flat.move(z=-0.07), shoes)
    lean = rng.uniform(0.2, 1.2) if pose == "squat" else rng.normal(0.05, 0.1)
    waist = pelvis.rotate("y", lean)
    trunk = tall * 0.3
    b.add(
        "ellipsoid",
        (0.11 * girth, 0.17 * girth, trunk * 0.62),
        waist.move(z=trunk * 0.5),
        shirt,
        shirt_cloth,
        0.5,
    )
    b.add(
        "ellipsoid",
        (0.1 * girth, 0.21 * girth, trunk * 0.28),
        waist.move(z=trunk * 0.8),
        shirt,
        shirt_cloth,
        0.5,
    )
    b.add("ellipsoid", (0.11 * girth, 0.16 * girth, 0.1), waist, trousers, cloth, 0.4)
    if rng.random() < 0.3:
        b.add(
            "box",
            (0.004, 0.04, 0.055),
            waist.move(x=0.12 * girth, z=trunk * rng.uniform(0.3, 0.6)),
            grey(rng, 0.8, 0.95),
            "text",
            0.1,
        )
    crossed = rng.random() < 0.25
    for side in (-1, 1):
        shoulder = waist.move(y=side * 0.2 * girth, z=trunk * 0.92)
        upper = shoulder.rotate("x", side * rng.uniform(0.05, 0.35)).rotate("y", rng.normal(0, 0.4))
        lower = upper.move(z=-tall * 0.17).rotate(
            "y", -abs(rng.normal(1.6 if crossed else 0.6, 0.5))
        )
        lower = lower.rotate("x", -side * (0.9 if crossed else rng.uniform(0, 0.5)))
        hand = lower.move(z=-tall * 0.16)
        b.between("capsule", 0.048 * girth, shoulder.at, lower.at, shirt, shirt_cloth, 0.5)
        b.between(
            "capsule",
            0.038 * girth,
            lower.at,
            hand.at,
            shirt if sleeves else tuple(skin),
            shirt_cloth if sleeves else "plain",
            0.5,
        )
        b.add("ellipsoid", (0.03, 0.045, 0.07), hand, tuple(skin))
    neck = waist.move(z=trunk * 1.05)
    b.add("capsule", (0.05, 0.04), neck.move(z=0.03), tuple(skin))
    skull = neck.move(z=0.17, x=0.02)
    b.add("ellipsoid", (0.095, 0.075, 0.12), skull, tuple(skin), "cloud", 0.2)
    if rng.random() < 0.9:
        hair = (
            grey(rng, 0.01, 0.08)
            if rng.random() < 0.6
            else tuple(np.array([0.4, 0.25, 0.1]) * rng.uniform(0.3, 1.8))
        )
        b.add("ellipsoid", (0.1, 0.083, 0.1), skull.move(x=-0.025, z=0.045), hair, "noise", 0.1)
        if rng.random() < 0.3:
            b.add("ellipsoid", (0.05, 0.09, 0.2), skull.move(x=-0.07, z=-0.1), hair, "noise", 0.1)
    b.stand_on_ground()
    return b.parts


def table(rng: np.random.Generator) -> list[Part]:
    b = Builder()
    wide, deep, high = rng.uniform(0.5, 1.1), rng.uniform(0.3, 0.45), rng.uniform(0.65, 0.8)
    top = grey(rng, 0.5, 0.97) if rng.random() < 0.6 else any_colour(rng)
    b.add("box", (deep, wide, 0.02), Frame().move(z=high), top, "planks", 0.8)
    leg = grey(rng, 0.05, 0.9)
    for sx in (-1, 1):
        for sy in (-1, 1):
            b.between(
                "capsule",
                0.018,
                [sx * deep * 0.9, sy * wide * 0.9, 0],
                [sx * deep * 0.9, sy * wide * 0.9, high],
                leg,
            )
    if rng.random() < 0.35:
        b.add("box", (deep, wide, high * 0.3), Frame().move(z=high * 0.68), top, "cloud", 0.6)
    for _ in range(rng.integers(0, 7)):
        size = rng.uniform(0.03, 0.18, 3)
        place = Frame().move(
            x=rng.uniform(-1, 1) * deep * 0.8, y=rng.uniform(-1, 1) * wide * 0.8, z=high + size[2]
        )
        b.add(
            "box",
            tuple(size),
            place.rotate("z", rng.uniform(0, 3)),
            any_colour(rng),
            str(rng.choice(["text", "greeble", "plain"])),
        )
    return b.parts


def chair(rng: np.random.Generator) -> list[Part]:
    b = Builder()
    colour, leg = (
        any_colour(rng) if rng.random() < 0.5 else grey(rng, 0.02, 0.6),
        grey(rng, 0.1, 0.9),
    )
    b.add("box", (0.22, 0.22, 0.02), Frame().move(z=0.45), colour, "noise")
    b.add(
        "box", (0.02, 0.22, rng.uniform(0.1, 0.2)), Frame().move(x=-0.21, z=0.75), colour, "noise"
    )
    for sx in (-1, 1):
        for sy in (-1, 1):
            b.between(
                "capsule",
                0.012,
                [sx * 0.2, sy * 0.2, 0],
                [sx * 0.2, sy * 0.2, 0.45 if sx > 0 else 0.85],
                leg,
            )
    return b.parts


def banner(rng: np.random.Generator) -> list[Part]:
    """A board with letters beside the field, upright or leaning."""
    b = Builder()
    high, wide = rng.uniform(0.15, 0.55), rng.uniform(0.4, 1.8)
    colour = grey(rng, 0.8, 0.98) if rng.random() < 0.65 else any_colour(rng)
    lean = rng.uniform(0, 0.5)
    frame = Frame().rotate("y", lean).move(z=high)
    b.add(
        "box",
        (0.015, wide, high),
        frame,
        colour,
        "text" if rng.random() < 0.8 else "plain",
        high * rng.uniform(1.5, 4),
    )
    if lean > 0.25:
        b.add(
            "box",
            (0.015, wide, high),
            Frame().move(x=2 * high * np.sin(lean)).rotate("y", -lean).move(z=high),
            colour,
        )
    b.stand_on_ground()
    return b.parts


def pole(rng: np.random.Generator) -> list[Part]:
    """A tripod, a stand or a thin pillar: upright and often bright, but no goalpost."""
    b = Builder()
    high, radius = rng.uniform(0.8, 2.6), rng.uniform(0.008, 0.03)
    colour = grey(rng, 0.02, 0.85)
    b.between("capsule", radius, [0, 0, 0.2], [0, 0, high], colour)
    for turn in np.linspace(0, 2 * np.pi, 3, endpoint=False):
        foot = rotation("z", turn) @ np.array([rng.uniform(0.2, 0.5), 0, 0.01])
        b.between("capsule", radius * 0.7, [0, 0, rng.uniform(0.3, 0.8)], foot, colour)
    if rng.random() < 0.7:
        size = rng.uniform(0.05, 0.3, 3)
        b.add("box", tuple(size), Frame().move(z=high), grey(rng, 0.02, 0.5), "greeble", 0.3)
    return b.parts


def bin_or_bottle(rng: np.random.Generator) -> list[Part]:
    b = Builder()
    high, radius = rng.uniform(0.08, 0.4), rng.uniform(0.03, 0.2)
    colour = any_colour(rng)
    b.add(
        "cylinder",
        (radius, high),
        Frame().move(z=high),
        colour,
        str(rng.choice(["plain", "text", "noise"])),
    )
    if rng.random() < 0.5:
        b.add(
            "ellipsoid",
            (radius * 0.8, radius * 0.8, high * 0.3),
            Frame().move(z=2 * high),
            grey(rng, 0.02, 0.9),
        )
    return b.parts


def heap(rng: np.random.Generator) -> list[Part]:
    """Boxes, bags, laptops and cables in a heap."""
    b = Builder()
    for _ in range(rng.integers(2, 9)):
        size = rng.uniform(0.03, 0.28, 3)
        place = Frame().move(
            x=rng.normal(0, 0.25), y=rng.normal(0, 0.3), z=size[2] + rng.choice([0, 0.1, 0.2])
        )
        shape = str(rng.choice(["box", "ellipsoid", "box"]))
        b.add(
            shape,
            tuple(size),
            place.rotate("z", rng.uniform(0, 3)),
            any_colour(rng) if rng.random() < 0.5 else grey(rng, 0.01, 0.9),
            str(rng.choice(["plain", "noise", "text", "greeble", "planks", "plaid", "photo"])),
            0.4,
        )
    for _ in range(rng.integers(0, 6)):
        start, end = rng.normal(0, 0.4, 3), rng.normal(0, 0.4, 3)
        start[2], end[2] = 0.005, rng.choice([0.005, 0.3])
        b.between(
            "capsule",
            0.004,
            start,
            end,
            any_colour(rng) if rng.random() < 0.5 else grey(rng, 0, 0.2),
        )
    b.stand_on_ground()
    return b.parts


def fence(rng: np.random.Generator) -> list[Part]:
    """A wall, a wooden fence, a curtain or a partition a few metres wide."""
    b = Builder()
    high, wide = rng.uniform(0.3, 1.6), rng.uniform(0.8, 2.5)
    texture = str(rng.choice(["planks", "brick", "cloud", "photo", "stripes", "plain", "clutter"]))
    colour = any_colour(rng) if rng.random() < 0.4 else grey(rng, 0.03, 0.95)
    b.add("box", (0.03, wide, high), Frame().move(z=high), colour, texture, rng.uniform(0.4, 2.5))
    return b.parts


def lure(rng: np.random.Generator) -> list[Part]:
    """Something that is taken for a ball: a white cup, a lamp, a paper, a helmet, a bag."""
    b = Builder()
    size = rng.uniform(0.04, 0.12)
    colour = grey(rng, 0.75, 0.98) if rng.random() < 0.7 else any_colour(rng)
    shape = str(rng.choice(["box", "cylinder", "ellipsoid", "capsule"]))
    dims = {
        "box": tuple(size * rng.uniform(0.3, 1.3, 3)),
        "cylinder": (size * 0.6, size * rng.uniform(0.3, 1.6)),
        "ellipsoid": (size * 1.3, size * rng.uniform(0.3, 0.7), size * rng.uniform(0.3, 0.6)),
        "capsule": (size * 0.4, size),
    }[shape]
    b.add(
        shape,
        dims,
        Frame().rotate("x", rng.uniform(0, 3)).rotate("y", rng.uniform(0, 3)),
        colour,
        str(rng.choice(["plain", "text", "cloud"])),
        0.2,
    )
    b.stand_on_ground()
    return b.parts


def own_body(rng: np.random.Generator, eye: float) -> list[Part]:
    """What a robot sees of itself when it looks down: feet, and shoulders or hands at the edges."""
    from robots import Look, limb

    b, look = Builder(), Look(rng)
    width = eye * rng.uniform(0.07, 0.13)
    for side in (-1, 1):
        foot = (
            Frame()
            .move(x=rng.normal(0.05, 0.06) * eye, y=side * width * 1.2, z=width * 0.3)
            .rotate("z", rng.normal(0, 0.15))
        )
        b.add(
            "box", (width * 1.3, width * 0.75, width * 0.2), foot, look.colour(), look.fabric(), 0.1
        )
        limb(b, look, foot.move(x=-width * 0.5, z=eye * 0.25), eye * 0.25, width)
        if rng.random() < 0.6:
            hand = Frame().move(
                x=rng.uniform(0.05, 0.25) * eye,
                y=side * eye * rng.uniform(0.2, 0.35),
                z=eye * rng.uniform(0.4, 0.7),
            )
            limb(b, look, hand.rotate("y", rng.uniform(-1.5, 0.5)), eye * 0.25, width)
    return b.parts


PROPS = {
    "table": table,
    "chair": chair,
    "banner": banner,
    "pole": pole,
    "bin": bin_or_bottle,
    "heap": heap,
    "fence": fence,
}
