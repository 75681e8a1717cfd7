"""Robots that no package ships: small humanoids of servos and brackets or shells, wheeled ones.

Every call makes another robot: proportions, limbs, pose, colours and markers are drawn at random.
Units are metres; x is forward, y left, z up; the robot stands on z = 0 about the origin.
"""

from __future__ import annotations

import numpy as np
from shapes import Builder, Frame, Part, rotation

Colour = tuple[float, float, float]

TEAM_COLOURS: tuple[Colour, ...] = (
    (0.0, 0.55, 0.9),
    (0.05, 0.75, 0.85),
    (0.85, 0.06, 0.08),
    (0.95, 0.2, 0.45),
    (0.9, 0.1, 0.65),
    (0.1, 0.2, 0.8),
    (0.95, 0.8, 0.05),
    (0.95, 0.45, 0.05),
    (0.45, 0.1, 0.6),
    (0.1, 0.1, 0.1),
    (0.92, 0.92, 0.92),
    (0.4, 0.25, 0.1),
    (0.1, 0.6, 0.2),
)


def grey(rng: np.random.Generator, low: float, high: float) -> Colour:
    """A nearly neutral colour of a brightness between low and high."""
    base = rng.uniform(low, high)
    return tuple(np.clip(base + rng.normal(0, 0.015, 3), 0, 1))


def any_colour(rng: np.random.Generator) -> Colour:
    return tuple(rng.uniform(0, 1, 3) ** rng.uniform(0.7, 2.0))


class Look:
    """What one robot is made of: its colours, textures and limb style."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        kind = rng.choice(
            ["dark", "shell", "metal", "mixed", "wild"], p=[0.5, 0.17, 0.12, 0.16, 0.05]
        )
        self.kind = str(kind)
        self.limb = str(
            rng.choice(
                ["servo", "plate", "shell", "bar"],
                p=[0.5, 0.25, 0.1, 0.15] if kind in ("dark", "metal") else [0.2, 0.15, 0.5, 0.15],
            )
        )
        if kind == "dark":
            self.main, self.second = grey(rng, 0.015, 0.1), grey(rng, 0.03, 0.25)
        elif kind == "shell":
            self.main, self.second = grey(rng, 0.6, 0.95), grey(rng, 0.15, 0.6)
        elif kind == "metal":
            self.main, self.second = grey(rng, 0.3, 0.65), grey(rng, 0.02, 0.2)
        elif kind == "mixed":
            self.main, self.second = grey(rng, 0.02, 0.3), grey(rng, 0.5, 0.95)
        else:
            self.main, self.second = any_colour(rng), any_colour(rng)
        self.team = TEAM_COLOURS[rng.integers(len(TEAM_COLOURS))]
        self.texture = str(
            rng.choice(["plain", "noise", "greeble", "cloud"], p=[0.25, 0.2, 0.4, 0.15])
        )

    def colour(self) -> Colour:
        roll = self.rng.random()
        if roll < 0.62:
            return self.main
        if roll < 0.86:
            return self.second
        return grey(self.rng, 0.01, 0.8)

    def fabric(self) -> str:
        return (
            self.texture
            if self.rng.random() < 0.6
            else str(self.rng.choice(["plain", "noise", "greeble", "perforated", "cloud"]))
        )


def servo(b: Builder, look: Look, frame: Frame, size: float) -> None:
    """A servo motor: a dark block with a horn and a bright seam."""
    rng = look.rng
    dims = size * rng.uniform(0.75, 1.1, 3) * np.array([0.5, 0.42, 0.65])
    b.add("box", tuple(dims), frame, look.colour(), look.fabric(), rng.uniform(0.04, 0.15))
    horn = frame.rotate("x", np.pi / 2).move(z=rng.choice([-1, 1]) * dims[1])
    b.add("cylinder", (size * 0.26, size * 0.07), horn, grey(rng, 0.05, 0.8))
    if rng.random() < 0.3:
        b.add(
            "box",
            (dims[0] * 1.02, dims[1] * 1.02, dims[2] * 0.08),
            frame.move(z=dims[2] * rng.uniform(-0.6, 0.6)),
            grey(rng, 0.2, 0.9),
        )


def limb(b: Builder, look: Look, frame: Frame, length: float, width: float) -> None:
    """One segment that hangs down from the frame's origin along -z."""
    rng = look.rng
    middle = frame.move(z=-length / 2)
    style = look.limb if rng.random() < 0.8 else str(rng.choice(["servo", "plate", "shell", "bar"]))
    half = length / 2
    if style == "servo":
        count = int(rng.integers(1, 4))
        for i in range(count):
            z = -length * (i + 0.5) / count
            servo(
                b,
                look,
                frame.move(x=rng.normal(0, 0.1) * width, z=z),
                min(width, length / count) * 1.15,
            )
        colour = grey(rng, 0.05, 0.75)
        for side in (-1, 1):
            b.add(
                "box",
                (width * rng.uniform(0.12, 0.4), 0.002, half * rng.uniform(0.5, 1.0)),
                middle.move(y=side * width * 0.52),
                colour,
                look.fabric(),
                0.08,
            )
    elif style == "plate":
        colour = look.colour()
        for side in (-1, 1):
            b.add(
                "box",
                (width * rng.uniform(0.2, 0.45), 0.003, half),
                middle.move(y=side * width * 0.45),
                colour,
                look.fabric(),
                0.1,
            )
        for z in rng.uniform(-half, half, rng.integers(1, 4)):
            b.add(
                "cylinder",
                (width * 0.12, width * 0.45),
                middle.move(z=z).rotate("x", np.pi / 2),
                grey(rng, 0.1, 0.9),
            )
        if rng.random() < 0.6:
            servo(b, look, middle.move(z=rng.uniform(-0.4, 0.4) * length), width * 0.9)
    elif style == "shell":
        if rng.random() < 0.5:
            b.add(
                "capsule",
                (width * rng.uniform(0.4, 0.55), half * 0.75),
                middle,
                look.colour(),
                look.fabric(),
            )
        else:
            b.add(
                "ellipsoid",
                (width * 0.5, width * 0.5, half * 1.1),
                middle,
                look.colour(),
                look.fabric(),
            )
    else:
        b.add(
            "box",
            (width * rng.uniform(0.2, 0.5), width * rng.uniform(0.2, 0.5), half),
            middle,
            look.colour(),
            look.fabric(),
            0.12,
        )
    for _ in range(rng.integers(0, 3)):
        place = middle.move(
            x=rng.normal(0, 0.35) * width, y=rng.normal(0, 0.4) * width, z=rng.uniform(-half, half)
        ).rotate("z", rng.uniform(0, 3))
        b.add(
            "box",
            tuple(rng.uniform(0.05, 0.32, 3) * width),
            place,
            look.colour(),
            look.fabric(),
            0.06,
        )
    if rng.random() < 0.3:
        start = frame.at + frame.turn @ (rng.normal(0, 0.5, 3) * width)
        end = frame.at + frame.turn @ (rng.normal(0, 0.5, 3) * width - [0, 0, length])
        b.between("capsule", rng.uniform(0.0025, 0.006), start, end, grey(rng, 0.0, 0.3))


def marker(b: Builder, look: Look, frame: Frame, length: float, width: float) -> None:
    """A sleeve or patch in the team's colour about a limb."""
    rng = look.rng
    place = frame.move(z=-length * rng.uniform(0.35, 0.65))
    half = length * rng.uniform(0.15, 0.42)
    if rng.random() < 0.5:
        b.add("box", (width * 0.56, width * 0.58, half), place, look.team, "cloud", 0.3)
    else:
        b.add(
            "box",
            (width * 0.1, width * rng.uniform(0.4, 0.6), half),
            place.move(x=width * 0.55 * rng.choice([-1, 1])),
            look.team,
            "cloud",
            0.3,
        )


def torso(b: Builder, look: Look, frame: Frame, height: float, width: float, depth: float) -> None:
    """The body above the pelvis: a frame full of electronics, a shell, or a jersey."""
    rng = look.rng
    middle = frame.move(z=height / 2)
    style = str(rng.choice(["electronics", "shell", "box"], p=[0.55, 0.25, 0.2]))
    if look.limb == "shell" and rng.random() < 0.6:
        style = "shell"
    if style == "shell":
        b.add(
            "ellipsoid",
            (depth * 0.6, width * 0.55, height * 0.58),
            middle,
            look.colour(),
            look.fabric(),
        )
        if rng.random() < 0.5:
            b.add(
                "ellipsoid",
                (depth * 0.5, width * 0.6, height * 0.25),
                middle.move(x=0.1 * depth, z=height * 0.25),
                look.colour(),
                look.fabric(),
            )
    else:
        b.add(
            "box",
            (depth * 0.42, width * 0.4, height * 0.48),
            middle,
            look.colour(),
            look.fabric(),
            0.12,
        )
    if style == "electronics":
        for _ in range(rng.integers(5, 14)):
            place = middle.move(
                x=rng.uniform(-0.5, 0.5) * depth,
                y=rng.uniform(-0.5, 0.5) * width,
                z=rng.uniform(-0.5, 0.5) * height,
            )
            b.add(
                "box",
                tuple(rng.uniform(0.04, 0.28, 3) * np.array([depth, width, height])),
                place,
                look.colour(),
                look.fabric(),
                rng.uniform(0.05, 0.15),
            )
        for side in (-1, 1):
            if rng.random() < 0.5:
                b.add(
                    "box",
                    (depth * 0.5, 0.003, height * 0.5),
                    middle.move(y=side * width * 0.45),
                    grey(rng, 0.02, 0.8),
                    look.fabric(),
                    0.1,
                )
    roll = rng.random()
    if roll < 0.25:
        b.add(
            "box",
            (depth * 0.55, width * 0.5, height * rng.uniform(0.25, 0.5)),
            middle.move(z=height * rng.uniform(-0.1, 0.1)),
            look.team,
            str(rng.choice(["plain", "text", "cloud"])),
            0.25,
        )
    elif roll < 0.5:
        side = rng.choice([-1, 1])
        b.add(
            "box",
            (0.004, width * 0.35, height * 0.3),
            middle.move(x=side * depth * 0.6),
            look.team,
            "text",
            0.2,
        )
    if rng.random() < 0.25:  # a handle or roll bar
        top = frame.move(z=height)
        for side in (-1, 1):
            b.between(
                "capsule",
                0.006,
                top.move(y=side * width * 0.3).at,
                top.move(x=-depth * 0.3, y=side * width * 0.2, z=height * 0.4).at,
                grey(rng, 0.02, 0.8),
            )
        b.between(
            "capsule",
            0.006,
            top.move(x=-depth * 0.3, y=-width * 0.2, z=height * 0.4).at,
            top.move(x=-depth * 0.3, y=width * 0.2, z=height * 0.4).at,
            grey(rng, 0.02, 0.8),
        )


def head(b: Builder, look: Look, frame: Frame, size: float) -> None:
    """A camera on a neck, a bar with two eyes, a box or a ball-shaped shell."""
    rng = look.rng
    limb(b, look, frame.move(z=size * 0.5), size * 0.5, size * 0.45)
    centre = (
        frame.move(z=size * 0.8).rotate("z", rng.normal(0, 0.5)).rotate("y", rng.normal(0.2, 0.3))
    )
    style = str(rng.choice(["camera", "bar", "box", "round"], p=[0.35, 0.25, 0.2, 0.2]))
    if style == "camera":
        b.add(
            "box", (size * 0.2, size * 0.35, size * 0.2), centre, look.colour(), look.fabric(), 0.06
        )
        lens = centre.move(x=size * 0.2).rotate("y", np.pi / 2)
        b.add("cylinder", (size * 0.12, size * 0.1), lens, grey(rng, 0.0, 0.1))
    elif style == "bar":
        b.add(
            "box",
            (size * 0.14, size * 0.7, size * 0.14),
            centre,
            look.colour(),
            look.fabric(),
            0.06,
        )
    elif style == "box":
        b.add(
            "box", tuple(size * rng.uniform(0.3, 0.6, 3)), centre, look.colour(), look.fabric(), 0.1
        )
    else:
        b.add(
            "ellipsoid",
            tuple(size * rng.uniform(0.4, 0.65, 3)),
            centre,
            look.colour(),
            look.fabric(),
        )
    if style in ("box", "round"):
        for side in (-1, 1):
            eye = centre.move(x=size * 0.42, y=side * size * 0.2, z=size * 0.1)
            b.add("sphere", (size * rng.uniform(0.08, 0.16),), eye, look.colour())
    if rng.random() < 0.2:
        b.between(
            "capsule",
            0.003,
            centre.at,
            centre.move(z=size * rng.uniform(0.8, 2.0)).at,
            grey(rng, 0, 0.3),
        )


def leg_angles(rng: np.random.Generator, pose: str) -> tuple[float, float, float]:
    """Hip pitch, knee bend and hip roll in radians."""
    if pose == "crouch":
        bend = rng.uniform(0.5, 1.2)
        return bend * 0.9 + rng.normal(0, 0.1), bend * 1.9, rng.normal(0.08, 0.1)
    if pose == "walk":
        swing = rng.normal(0.1, 0.45)
        return swing + 0.25, rng.uniform(0.2, 1.2), rng.normal(0.03, 0.1)
    bend = abs(rng.normal(0.15, 0.15))
    return bend, bend * 2, rng.normal(0.03, 0.06)


def humanoid(rng: np.random.Generator) -> list[Part]:
    """A small humanoid, 0.4 to 1.4 m tall, in some pose; one in twelve has fallen."""
    look, b = Look(rng), Builder()
    tall = float(np.clip(rng.lognormal(np.log(0.72), 0.3), 0.4, 1.4))
    thigh = tall * rng.uniform(0.17, 0.25)
    shank = thigh * rng.uniform(0.9, 1.1)
    width = tall * rng.uniform(0.055, 0.1)
    hips = tall * rng.uniform(0.09, 0.15)
    body, chest = tall * rng.uniform(0.2, 0.32), tall * rng.uniform(0.16, 0.28)
    depth = chest * rng.uniform(0.45, 0.8)
    pose = str(rng.choice(["stand", "walk", "crouch"], p=[0.4, 0.4, 0.2]))
    marked = rng.random() < 0.65
    where = rng.random(4) < 0.6
    pelvis = Frame().rotate("y", rng.normal(0.1, 0.12)).rotate("x", rng.normal(0, 0.06))
    b.add("box", (depth * 0.3, hips * 0.6, width * 0.4), pelvis, look.colour(), look.fabric(), 0.1)
    for side in (-1, 1):
        pitch, bend, roll = leg_angles(rng, pose)
        hip = pelvis.move(y=side * hips * 0.55)
        servo(b, look, hip.move(z=-width * 0.3), width)
        upper = hip.move(z=-width * 0.6).rotate("x", side * roll).rotate("y", -pitch)
        limb(b, look, upper, thigh, width)
        lower = upper.move(z=-thigh).rotate("y", bend)
        servo(b, look, lower, width * 0.9)
        limb(b, look, lower, shank, width * 0.95)
        if marked and where[0]:
            marker(b, look, upper if where[1] else lower, thigh, width)
        ankle = lower.move(z=-shank)
        servo(b, look, ankle, width * 0.9)
        foot = (
            Frame(ankle.at, pelvis.turn)
            .rotate("y", rng.normal(0, 0.05))
            .move(x=width * 0.2, z=-width * 0.65)
        )
        b.add(
            "box",
            (
                width * rng.uniform(0.9, 1.5),
                width * rng.uniform(0.55, 0.85),
                width * rng.uniform(0.06, 0.3),
            ),
            foot,
            look.colour(),
            look.fabric(),
            0.1,
        )
    waist = (
        pelvis.move(z=width * 0.4)
        .rotate("y", rng.normal(0.08, 0.12))
        .rotate("z", rng.normal(0, 0.1))
    )
    torso(b, look, waist, body, chest, depth)
    arm = tall * rng.uniform(0.13, 0.2)
    for side in (-1, 1):
        shoulder = waist.move(y=side * (chest * 0.5 + width * 0.4), z=body * 0.88)
        servo(b, look, shoulder, width)
        upper = shoulder.rotate("x", side * abs(rng.normal(0.15, 0.25))).rotate(
            "y", rng.normal(0, 0.5)
        )
        limb(b, look, upper, arm, width * 0.8)
        lower = upper.move(z=-arm).rotate("y", -abs(rng.normal(0.7, 0.6)))
        limb(b, look, lower, arm * rng.uniform(0.7, 1.1), width * 0.7)
        if marked and where[2]:
            marker(b, look, upper if where[3] else lower, arm, width * 0.8)
    head(b, look, waist.move(z=body), tall * rng.uniform(0.09, 0.16))
    if rng.random() < 1 / 12:
        b.turn_all(rotation(str(rng.choice(["x", "y"])), rng.choice([-1, 1]) * np.pi / 2))
    b.stand_on_ground()
    return b.parts


def wheeled(rng: np.random.Generator) -> list[Part]:
    """A robot on wheels, 0.15 to 0.8 m tall."""
    look, b = Look(rng), Builder()
    tall, wide = rng.uniform(0.15, 0.8), rng.uniform(0.09, 0.26)
    shape = str(rng.choice(["box", "cylinder"]))
    base = Frame().move(z=tall * 0.25 + 0.03)
    size = (wide, wide, tall * 0.25) if shape == "box" else (wide, tall * 0.25)
    b.add(shape, size, base, look.colour(), look.fabric())
    for turn in np.linspace(0, 2 * np.pi, int(rng.integers(3, 5)), endpoint=False):
        hub = Frame().rotate("z", turn).move(x=wide * 0.95, z=0.05).rotate("y", np.pi / 2)
        b.add("cylinder", (0.05, 0.015), hub, grey(rng, 0, 0.3))
    for _ in range(rng.integers(3, 9)):
        place = base.move(
            x=rng.normal(0, wide * 0.4), y=rng.normal(0, wide * 0.4), z=rng.uniform(0, tall * 0.6)
        )
        b.add(
            "box", tuple(rng.uniform(0.02, 0.5, 3) * wide), place, look.colour(), look.fabric(), 0.1
        )
    b.add("cylinder", (wide * 0.8, 0.02), base.move(z=tall * 0.27), look.team, "text", 0.2)
    b.stand_on_ground()
    return b.parts
