"""Humanoids with rounded shells, mostly white: of many builds, shirts and poses, none of them a
copy of one that is sold.

Units are metres; x is forward, y left, z up; the robot stands, kneels, sits or lies on z = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from robots import TEAM_COLOURS, Colour, any_colour, grey
from shapes import Builder, Frame, Part, rotation

# (hip pitch, knee bend) of a leg in radians, lowest and highest, of each pose.
LEGS = {
    "stand": ((0.0, 0.35), (0.0, 0.7)),
    "walk": ((-0.35, 0.75), (0.1, 1.1)),
    "crouch": ((0.6, 1.2), (1.2, 2.3)),
    "sit": ((1.35, 1.75), (0.0, 1.7)),
    "kneel": ((-0.2, 0.2), (1.4, 1.75)),
}
POSES = ("stand", "walk", "crouch", "sit", "kneel", "fall", "lie")
SHARES = (0.26, 0.3, 0.12, 0.08, 0.08, 0.06, 0.1)
STOUT_SHARES = (0.2, 0.28, 0.12, 0.15, 0.1, 0.05, 0.1)


@dataclass(frozen=True)
class Build:
    """What one robot is: lengths in metres, colours, and how round it is (0 boxes, 1 capsules).
    numbered: whether a shirt has sleeves, and numbers on the breast and the back."""

    tall: float
    thigh: float
    shank: float
    trunk: float
    chest: float
    depth: float
    arm: float
    limb: float
    head: float
    shell: Colour
    joint: Colour
    trim: Colour
    shirt: Colour | None
    round: float
    numbered: bool = False


def draw_build(rng: np.random.Generator) -> Build:
    """A robot of 0.4 to 1.3 m: child-like with a large head to slender and grown up."""
    tall = float(np.clip(rng.lognormal(np.log(0.62), 0.25), 0.4, 1.3))
    child = rng.random()  # how child-like it is
    roll = rng.random()
    shell = grey(rng, 0.78, 0.99)
    if roll > 0.92:
        shell = any_colour(rng)
    elif roll > 0.8:
        shell = grey(rng, 0.45, 0.78)
    return Build(
        tall=tall,
        thigh=tall * rng.uniform(0.17, 0.23),
        shank=tall * rng.uniform(0.18, 0.24),
        trunk=tall * rng.uniform(0.24, 0.33),
        chest=tall * rng.uniform(0.19, 0.3),
        depth=tall * rng.uniform(0.12, 0.2),
        arm=tall * rng.uniform(0.14, 0.2),
        limb=tall * rng.uniform(0.065, 0.105),
        head=tall * (0.11 + 0.1 * child) * rng.uniform(0.9, 1.1),
        shell=shell,
        joint=grey(rng, 0.03, 0.5),
        trim=TEAM_COLOURS[rng.integers(len(TEAM_COLOURS))],
        shirt=TEAM_COLOURS[rng.integers(len(TEAM_COLOURS))] if rng.random() < 0.6 else None,
        round=float(rng.random()),
    )


def draw_stout(rng: np.random.Generator) -> Build:
    """A robot of 0.45 to 0.7 m with a large head and thick, short limbs, mostly in a shirt."""
    tall, roll = rng.uniform(0.45, 0.7), rng.random()
    shell = grey(rng, 0.8, 0.99)
    if roll > 0.94:
        shell = any_colour(rng)
    elif roll > 0.86:
        shell = grey(rng, 0.03, 0.2)
    elif roll > 0.72:
        shell = grey(rng, 0.45, 0.8)
    team = TEAM_COLOURS[rng.integers(len(TEAM_COLOURS))]
    return Build(
        tall=tall,
        thigh=tall * rng.uniform(0.15, 0.2),
        shank=tall * rng.uniform(0.15, 0.2),
        trunk=tall * rng.uniform(0.22, 0.3),
        chest=tall * rng.uniform(0.22, 0.33),
        depth=tall * rng.uniform(0.15, 0.23),
        arm=tall * rng.uniform(0.14, 0.19),
        limb=tall * rng.uniform(0.095, 0.15),
        head=tall * rng.uniform(0.17, 0.25),
        shell=shell,
        joint=grey(rng, 0.03, 0.65),
        trim=team if rng.random() < 0.5 else grey(rng, 0.2, 0.8),
        shirt=team if rng.random() < 0.75 else None,
        round=rng.uniform(0.4, 1.0),
        numbered=True,
    )


class WhiteLook:
    """Colours and textures of a robot with white shells and darker joints, for one whose parts are
    meshes; as robots.Look has them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.build = rng, draw_build(rng)
        self.team = self.build.trim

    def colour(self) -> Colour:
        return self.build.shell if self.rng.random() < 0.75 else self.build.joint

    def fabric(self) -> str:
        return "plain" if self.rng.random() < 0.8 else "cloud"


class Shells:
    """Puts a robot's rounded parts into a builder."""

    def __init__(self, b: Builder, rng: np.random.Generator, build: Build) -> None:
        self.b, self.rng, self.build = b, rng, build

    def colour(self) -> Colour:
        roll, build = self.rng.random(), self.build
        return build.shell if roll < 0.78 else build.joint if roll < 0.92 else build.trim

    def limb(self, frame: Frame, length: float, width: float, colour: Colour | None = None) -> None:
        """A segment that hangs from the frame along -z: a joint, then a shell that tapers, of a
        colour or of one of the robot's."""
        b, rng, build = self.b, self.rng, self.build
        b.add("sphere", (width * rng.uniform(0.38, 0.5),), frame, build.joint)
        middle, half = frame.move(z=-length / 2), length / 2
        drawn = self.colour()
        colour = colour or drawn
        if rng.random() < build.round:
            b.add("ellipsoid", (width * 0.52, width * 0.5, half * 1.05), middle, colour, "plain")
            b.add("capsule", (width * 0.36, half * 0.8), middle, colour, "plain")
        else:
            size = (width * 0.42, width * 0.4, half * 0.85)
            b.add("box", size, middle, colour, "cloud", 0.3)
            b.add("capsule", (width * 0.42, half * 0.6), middle.move(x=width * 0.1), colour)
        if rng.random() < 0.35:  # a band or a screw
            place = middle.move(x=width * 0.3, z=rng.uniform(-0.6, 0.6) * half)
            size = (width * 0.25, width * 0.3, width * rng.uniform(0.05, 0.15))
            b.add("box", size, place, build.joint if rng.random() < 0.6 else build.trim)

    def trunk(self, waist: Frame) -> None:
        """Chest and belly, with a shirt that has a number, or a mark on the breast."""
        b, rng, build = self.b, self.rng, self.build
        middle = waist.move(z=build.trunk / 2)
        shell = build.shirt or build.shell
        texture = "cloud" if build.shirt else "plain"
        upper = middle.move(z=build.trunk * 0.2)
        b.add("ellipsoid", (build.depth * 0.55, build.chest * 0.52, build.trunk * 0.36), upper,
              shell, texture, 0.3)  # fmt: skip
        b.add("ellipsoid", (build.depth * 0.46, build.chest * 0.4, build.trunk * 0.4),
              middle.move(z=-build.trunk * 0.15), shell, texture, 0.3)  # fmt: skip
        b.add("box", (build.depth * 0.4, build.chest * 0.38, build.trunk * 0.42), middle, shell)
        for side in () if build.numbered else (-1, 1):
            if rng.random() < (0.75 if build.shirt else 0.3):
                plate = upper.move(x=side * build.depth * 0.5, z=-build.trunk * 0.12)
                size = (build.depth * 0.08, build.chest * 0.28, build.trunk * 0.22)
                light = grey(rng, 0.85, 1.0)
                b.add("box", size, plate, light if build.shirt else build.trim, "text", 0.22)
        if build.numbered:
            self.numbers(upper)
        if rng.random() < 0.4:  # a button or lamp on the breast
            lamp = upper.move(x=build.depth * 0.53)
            b.add("sphere", (build.depth * rng.uniform(0.08, 0.16),), lamp, any_colour(rng))

    def numbers(self, upper: Frame) -> None:
        """A number on the shirt's front and back, or a panel where there is no shirt."""
        rng, build = self.rng, self.build
        bright = rng.random() < 0.6
        for turn in (0.0, np.pi):
            if rng.random() < (0.8 if build.shirt else 0.4):
                plate = upper.rotate("z", turn).move(x=build.depth * 0.5, z=-build.trunk * 0.08)
                half = min(build.chest, build.trunk) * rng.uniform(0.25, 0.38)
                size = (build.depth * 0.08, half * 0.8, half)
                if build.shirt is None:
                    self.b.add("box", size, plate, build.trim if bright else build.joint, "plain")
                elif bright:
                    self.b.add("box", size, plate, build.shirt, "bright digits", 2 * half)
                else:
                    self.b.add("box", size, plate, grey(rng, 0.85, 1), "dark digits", 2 * half)

    def head(self, neck: Frame) -> None:
        """A rounded head with ears, eyes and a dark mouth or visor."""
        b, rng, build = self.b, self.rng, self.build
        size = build.head / 2
        b.add("capsule", (size * 0.35, size * 0.4), neck, build.joint)
        turned = neck.move(z=size * 1.1).rotate("z", rng.normal(0, 0.5))
        centre = turned.rotate("y", rng.normal(0.1, 0.25))
        form = (size * rng.uniform(0.85, 1.1), size * rng.uniform(0.85, 1.15), size)
        b.add("ellipsoid", form, centre, build.shell, "plain")
        for side in (-1, 1):
            ear = centre.move(y=side * form[1] * 0.95).rotate("x", np.pi / 2)
            if rng.random() < 0.7:
                b.add("cylinder", (size * 0.5, size * 0.15), ear, self.colour())
            eye = centre.move(x=form[0] * 0.85, y=side * size * 0.42, z=size * 0.12)
            b.add("sphere", (size * rng.uniform(0.12, 0.24),), eye, grey(rng, 0.0, 0.3))
        if rng.random() < 0.5:
            visor = centre.move(x=form[0] * 0.75, z=rng.uniform(-0.35, 0.45) * size)
            b.add("box", (size * 0.25, size * 0.4, size * 0.12), visor, grey(rng, 0.0, 0.2))

    def foot(self, ankle: Frame, sole: np.ndarray) -> None:
        """A rounded foot; sole [3,3] is its orientation."""
        width = self.build.limb
        place = Frame(ankle.at, sole).move(x=width * 0.35, z=-width * 0.3)
        long, colour = self.rng.uniform(0.95, 1.3), self.colour()
        self.b.add("ellipsoid", (width * long, width * 0.6, width * 0.42), place, colour)
        flat = place.move(z=-width * 0.25)
        self.b.add("box", (width * long * 0.85, width * 0.55, width * 0.12), flat, colour)


def leg(shells: Shells, hip: Frame, side: int, pose: str) -> None:
    """Thigh, shank and foot of one side."""
    rng, build = shells.rng, shells.build
    (low, high), (least, most) = LEGS.get(pose, LEGS["walk"])
    pitch, bend = rng.uniform(low, high), rng.uniform(least, most)
    roll = abs(rng.normal(0.04, 0.07)) + (rng.uniform(0, 0.4) if pose == "sit" else 0)
    upper = hip.rotate("x", side * roll).rotate("y", -pitch)
    shells.limb(upper, build.thigh, build.limb * 1.1)
    lower = upper.move(z=-build.thigh).rotate("y", bend)
    shells.limb(lower, build.shank, build.limb)
    on_ground = pose in ("stand", "walk", "crouch")
    sole = np.eye(3) if on_ground else lower.rotate("y", rng.uniform(-0.4, 0.5)).turn
    shells.foot(lower.move(z=-build.shank), sole)


def arm(shells: Shells, shoulder: Frame, side: int) -> None:
    """Upper arm, forearm and hand of one side."""
    rng, build = shells.rng, shells.build
    out, swing = abs(rng.normal(0.15, 0.25)), rng.normal(0.1, 0.6)
    upper = shoulder.rotate("x", side * out).rotate("y", -swing)
    sleeve = build.shirt if build.numbered else None
    shells.limb(upper, build.arm, build.limb * 0.85, sleeve)
    lower = upper.move(z=-build.arm).rotate("y", -abs(rng.normal(0.7, 0.6)))
    shells.limb(lower, build.arm * 0.9, build.limb * 0.72)
    hand = lower.move(z=-build.arm * 0.95)
    shells.b.add("ellipsoid", (build.limb * 0.3, build.limb * 0.3, build.limb * 0.45), hand,
                 shells.colour())  # fmt: skip


def smooth_humanoid(
    rng: np.random.Generator, pose: str | None = None, build: Build | None = None
) -> list[Part]:
    """One robot, in a pose of POSES and of a build, or both at random: upright, crouching, seated,
    kneeling, falling or lying."""
    build, b = build or draw_build(rng), Builder()
    shells = Shells(b, rng, build)
    drawn = str(rng.choice(POSES, p=SHARES))
    pose = pose or drawn
    lean = rng.normal(0.05, 0.1) + (rng.uniform(0.1, 0.6) if pose == "crouch" else 0.0)
    pelvis = Frame()
    hips = build.chest * rng.uniform(0.5, 0.75)
    b.add("ellipsoid", (build.depth * 0.42, hips * 0.75, build.limb * 0.7), pelvis, build.shell)
    one_knee = pose == "kneel" and rng.random() < 0.5
    for side in (-1, 1):
        hip = pelvis.move(y=side * hips * 0.5, z=-build.limb * 0.3)
        leg(shells, hip, side, "crouch" if one_knee and side > 0 else pose)
    waist = pelvis.rotate("y", lean).rotate("x", rng.normal(0, 0.05)).move(z=build.limb * 0.4)
    shells.trunk(waist)
    for side in (-1, 1):
        away = build.chest * 0.5 + build.limb * 0.35
        arm(shells, waist.move(y=side * away, z=build.trunk * 0.8), side)
    shells.head(waist.move(z=build.trunk * 1.02))
    if pose == "fall":
        axis = str(rng.choice(["x", "y"]))
        b.turn_all(rotation(axis, rng.choice([-1, 1]) * rng.uniform(0.4, 1.2)))
    elif pose == "lie":
        b.turn_all(rotation("y", rng.choice([-1, 1]) * np.pi / 2))
        b.turn_all(rotation("x", rng.normal(0, 0.4)))
    b.stand_on_ground()
    return b.parts


def stout_humanoid(rng: np.random.Generator) -> list[Part]:
    """A robot of draw_stout(), more often seated than others."""
    pose = str(rng.choice(POSES, p=STOUT_SHARES))
    return smooth_humanoid(rng, pose, draw_stout(rng))


def own_parts(rng: np.random.Generator, eye: float, build: Build | None = None) -> list[Part]:
    """What a robot with shells, of a build or of one at random, sees of itself, its camera at a
    height in metres: feet and knees below, hands and shoulders at the sides."""
    build, b = build or draw_build(rng), Builder()
    shells = Shells(b, rng, build)
    width = eye * rng.uniform(0.07, 0.14)
    for side in (-1, 1):
        foot = Frame().move(x=rng.uniform(-0.05, 0.2) * eye, y=side * width * 1.3, z=width * 0.4)
        turned = foot.rotate("z", rng.normal(0, 0.2))
        b.add("ellipsoid", (width * 1.5, width * 0.8, width * 0.4), turned, build.shell)
        shells.limb(foot.move(x=-width * 0.6, z=eye * 0.3), eye * 0.27, width * 1.2)
        if rng.random() < 0.5:  # a knee that is lifted
            shells.limb(foot.move(x=width, z=eye * 0.42).rotate("y", -1.1), eye * 0.22, width * 1.2)
        if rng.random() < 0.7:
            x, y, z = rng.uniform((0.05, 0.15, 0.35), (0.4, 0.42, 0.85)) * eye
            raised = Frame().move(x=x, y=side * y, z=z).rotate("y", rng.uniform(-2.0, 0.6))
            shells.limb(raised, eye * 0.25, width)
            b.add("ellipsoid", (width * 0.45, width * 0.4, width * 0.6),
                  raised.move(z=-eye * 0.28), shells.colour())  # fmt: skip
    return b.parts
