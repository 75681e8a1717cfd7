"""Real humanoids' meshes as parts of a world: of other proportions, sizes and colours than those of
their makers, in poses that robots have in games, on the ground too.

Units are metres; x is forward, y left, z up; the robot stands, kneels, sits or lies on z = 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from mesh_files import UNKNOWN, Link, about
from robots import TEAM_COLOURS, Colour, any_colour, grey
from shapes import Builder, Frame, Part, rotation

Array = np.ndarray
Robots = dict[str, list[Link]]
# Which joints make a limb, by their names in lower case, as the packages have them.
SITES = (
    ("hip", r"hip|leg_\w+_[123]_"),
    ("knee", r"knee|leg_\w+_4_"),
    ("ankle", r"ankle|leg_\w+_[56]_"),
    ("elbow", r"elbow|arm_\w+_4_"),
    ("shoulder", r"shoulder|arm_\w+_[123]_"),
    ("wrist", r"wrist|arm_\w+_[567]_"),
    ("head", r"head|neck"),
    ("waist", r"waist|trunk|torso"),
)
LEGS, ARMS = ("hip", "knee", "ankle"), ("shoulder", "elbow", "wrist")
# (hip pitch, knee bend) of a leg in radians, lowest and highest, of each pose; how far the pelvis
# leans forward; and the share of robots in it.
POSES = {
    "stand": (((0.0, 0.35), (0.0, 0.7)), (-0.05, 0.1), 0.22),
    "walk": (((-0.35, 0.8), (0.1, 1.1)), (-0.05, 0.2), 0.22),
    "crouch": (((0.7, 1.5), (1.2, 2.2)), (0.0, 0.5), 0.1),
    "sit": (((1.3, 1.9), (0.0, 1.8)), (-0.55, 0.2), 0.16),
    "kneel": (((-0.2, 0.4), (1.4, 2.0)), (-0.1, 0.3), 0.08),
    "rise": (((0.6, 1.9), (0.0, 2.0)), (0.7, 1.4), 0.06),
    "fall": (((-0.3, 0.9), (0.0, 1.2)), (-0.1, 0.3), 0.05),
    "lie": (((-0.2, 0.9), (0.0, 1.4)), (-0.1, 0.2), 0.11),
}
TRIES = 48  # angles of an arm that are tried


@dataclass(frozen=True)
class Joints:
    """What is known of a robot's links: of each its site ("" where none) and its side (1 left, -1
    right, 0 neither)."""

    sites: list[str]
    sides: list[int]


def joints_of(links: list[Link]) -> Joints:
    """From the names of a robot's joints, and where they are at angles of zero."""
    sites, sides = [], []
    for link, (at, _) in zip(links, placed(links, np.zeros(len(links))), strict=True):
        name = link.name.lower() if link.high > link.low else ""
        site = next((s for s, pattern in SITES if name and re.search(pattern, name)), "")
        sites.append(site)
        sides.append(int(np.sign(at[1])) if abs(at[1]) > 0.01 else 0)
    for index, link in enumerate(links):  # a hip that turns first may be in the middle
        if sites[index] in LEGS + ARMS and sides[index] == 0:
            sides[index] = 1 if link.name.lower().startswith(("l", "al")) else -1
    return Joints(sites, sides)


def placed(
    links: list[Link], angles: Array, scales: Array | None = None
) -> list[tuple[Array, Array]]:
    """Place [3] and orientation [3,3] of each link at angles [n] of all joints; scales [n,3]: of
    each link in its own frame."""
    result: list[tuple[Array, Array]] = []
    for index, link in enumerate(links):
        at, turn = (np.zeros(3), np.eye(3)) if link.parent < 0 else result[link.parent]
        own = about(link.axis, angles[index : index + 1])[0]
        offset = link.at * (1 if scales is None or link.parent < 0 else scales[link.parent])
        result.append((at + turn @ offset, turn @ link.turn @ own))
    return result


@dataclass(frozen=True)
class Finish:
    """A robot's colours. shirt: of its trunk, None without one; sleeves: whether the upper arms
    have it too."""

    shell: Colour
    joint: Colour
    trim: Colour
    shirt: Colour | None
    sleeves: bool


def draw_finish(rng: np.random.Generator) -> Finish:
    """Mostly white with darker joints; also grey, black and coloured ones."""
    roll = rng.random()
    shell, joint = grey(rng, 0.8, 0.99), grey(rng, 0.08, 0.6)
    if roll > 0.95:
        shell = any_colour(rng)
    elif roll > 0.82:
        shell, joint = grey(rng, 0.015, 0.12), grey(rng, 0.02, 0.5)
    elif roll > 0.68:
        shell = grey(rng, 0.35, 0.8)
    team = TEAM_COLOURS[rng.integers(len(TEAM_COLOURS))]
    shirt = team if rng.random() < 0.4 else None
    return Finish(shell, joint, team, shirt, bool(rng.random() < 0.5))


def proportions(rng: np.random.Generator, links: list[Link], joints: Joints) -> Array:
    """Scales [n,3] of the links, in their own frames: heads as large as a child's, limbs that are
    shorter or thicker; the same on both sides."""
    child = rng.random()
    head = rng.uniform(0.85, 1.15) * (1 + 0.6 * child)
    thick = rng.uniform(0.9, 1.15) * (1 + 0.3 * child)
    lengths = {site: rng.uniform(0.75, 1.12) * (1 - 0.1 * child) for site in LEGS + ARMS}
    trunk = rng.uniform(0.88, 1.2, 3)
    site_of = list(joints.sites)
    scales = np.ones((len(links), 3))
    for index, link in enumerate(links):
        if not site_of[index] and link.parent >= 0:  # what is fixed goes with what it is fixed to
            site_of[index] = site_of[link.parent]
        site = site_of[index]
        if site == "head":
            scales[index] = head
        elif site in ("ankle", "wrist"):
            scales[index] = thick * 0.95
        elif site in LEGS + ARMS:
            scales[index] = thick
            scales[index, long_axis(links, index)] = lengths[site]
        else:
            scales[index] = trunk
    return scales


def long_axis(links: list[Link], index: int) -> int:
    """The axis of a link along which the limb goes on, or along which it is longest."""
    below = [np.abs(link.at) for link in links if link.parent == index]
    reach = max(below, key=np.linalg.norm, default=np.zeros(3))
    if np.linalg.norm(reach) < 0.03:
        ends = [shell.vertices for shell in links[index].shells]
        reach = np.ptp(np.concatenate(ends), axis=0) if ends else np.array([0.0, 0, 1])
    return int(reach.argmax())


class Poser:
    """Draws the angles of one robot's joints."""

    def __init__(self, rng: np.random.Generator, links: list[Link], joints: Joints) -> None:
        self.rng, self.links, self.joints = rng, links, joints
        self.angles = np.zeros(len(links))
        self.rest = placed(links, self.angles)
        self.on_seat = rng.random() < 0.2

    def limb(self, site: str, side: int) -> list[int]:
        both = zip(self.joints.sites, self.joints.sides, strict=True)
        return [i for i, where in enumerate(both) if where == (site, side)]

    def turn(self, index: int, angle: float) -> None:
        """Sets a joint's angle, as far as its limits let it."""
        link = self.links[index]
        self.angles[index] = np.clip(angle, link.low, link.high)

    def about(self, index: int) -> tuple[int, float]:
        """The world's axis (0 x, 1 y, 2 z) that a joint turns about at angles of zero, and which
        way."""
        axis = self.rest[index][1] @ self.links[index].axis
        along = int(np.abs(axis).argmax())
        return along, float(np.sign(axis[along]))

    def leg(self, side: int, pose: str, lean: float) -> None:
        rng = self.rng
        ((low, high), (least, most)), _, _ = POSES[pose]
        pitch, bend = rng.uniform(low, high), rng.uniform(least, most)
        if pose == "sit" and not self.on_seat:  # feet no lower than what it sits on
            thigh = pitch - lean
            bend = min(bend, max(0.0, thigh - np.arccos(np.clip(0.25 - np.cos(thigh), -1, 1))))
        apart = abs(rng.normal(0.03, 0.07)) + (rng.uniform(0, 0.45) if pose == "sit" else 0)
        flat = pose in ("stand", "walk", "crouch", "rise")
        wanted = {
            "hip": (side * apart, -pitch, side * rng.normal(0.05, 0.2)),
            "knee": (0.0, bend, 0.0),
            "ankle": (-side * apart if flat else 0.0,
                      pitch - bend if flat else rng.uniform(-0.4, 0.6), 0.0),
        }  # fmt: skip
        for site, angles in wanted.items():
            for index in self.limb(site, side):
                along, way = self.about(index)
                self.turn(index, way * angles[along] + rng.normal(0, 0.03))

    def arm(self, side: int, pose: str) -> None:
        """Of many angles those that bring upper arm and forearm near directions that are wanted."""
        rng, links = self.rng, self.links
        chain = [i for site in ARMS for i in self.limb(site, side)]
        elbows = self.limb("elbow", side)
        if not chain or not elbows:
            return
        samples = np.zeros((TRIES, len(links)))
        for index in chain:
            low, high = links[index].low, links[index].high
            samples[:, index] = rng.uniform(low, high, TRIES)
        first, last = min(chain), max(chain)
        shells = [s.vertices.mean(0) for i in range(last, first, -1) for s in links[i].shells][:1]
        tip = shells[0] if shells else np.zeros(3)
        holder = next((i for i in range(last, first, -1) if links[i].shells), last)
        at, turn = np.zeros((TRIES, 3)), np.eye(3) * np.ones((TRIES, 1, 1))
        start, elbow = links[first].at, np.zeros((TRIES, 3))
        path = self.path(holder, links[first].parent)
        for index in path:
            at = at + turn @ links[index].at
            turn = turn @ links[index].turn @ about(links[index].axis, samples[:, index])
            if index == elbows[0]:
                elbow = at
        hand = at + turn @ tip
        upper, fore = direction(rng, side, pose)
        good = unit(elbow - start) @ upper + unit(hand - elbow) @ fore
        self.angles[chain] = samples[good.argmax(), chain]

    def path(self, index: int, stop: int) -> list[int]:
        """The links from below stop down to index."""
        result = []
        while index != stop and index >= 0:
            result.append(index)
            index = self.links[index].parent
        return result[::-1]

    def pose(self, pose: str, lean: float) -> Array:
        """All angles. lean: of the pelvis, forward."""
        rng, on_one = self.rng, pose == "kneel" and self.rng.random() < 0.5
        for side in (-1, 1):
            self.leg(side, "crouch" if on_one and side > 0 else pose, lean)
            self.arm(side, pose)
        for site, spread in (("head", 0.35), ("waist", 0.15)):
            for index in self.limb(site, 0):
                self.turn(index, rng.normal(0, spread))
        return self.angles


def unit(vectors: Array) -> Array:
    """Vectors [n,3] of length 1."""
    return vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) + 1e-9)


def direction(rng: np.random.Generator, side: int, pose: str) -> tuple[Array, Array]:
    """Where an upper arm and a forearm point: mostly down and forward, or anywhere."""
    roll = rng.random()
    upper = np.array([rng.normal(0.1, 0.35), side * abs(rng.normal(0.15, 0.25)), -1.0])
    fore = np.array([rng.uniform(0.0, 1.2), side * rng.normal(0.0, 0.35), rng.uniform(-1, 0.35)])
    if pose in ("rise", "fall") and roll < 0.7:  # hands to the ground before it
        upper = np.array([rng.uniform(0.3, 1.2), side * rng.uniform(0, 0.6), -0.5])
        fore = upper + rng.normal(0, 0.2, 3)
    elif pose == "sit" and roll < 0.4:  # on hands behind it
        upper = np.array([-rng.uniform(0.2, 0.8), side * rng.uniform(0, 0.6), -1.0])
        fore = upper + rng.normal(0, 0.2, 3)
    elif roll > 0.85:
        upper, fore = rng.normal(0, 1, 3), rng.normal(0, 1, 3)
        upper[1] = side * abs(upper[1])
    return unit(upper), unit(fore)


def mirrored(name: str) -> str:
    """A joint's name without its side, so that both sides look the same."""
    return re.sub(r"left|right|_[lr]_|^a?[lr](?=[a-z])", "", name.lower())


class Dresser:
    """Chooses the colours of one robot's shells."""

    def __init__(self, rng: np.random.Generator, finish: Finish, joints: Joints) -> None:
        self.rng, self.finish, self.joints = rng, finish, joints
        self.drawn: dict[tuple[str, int], float] = {}

    def colour(self, index: int, link: Link, number: int, of: float) -> tuple[Colour, str]:
        """Colour and texture of a link's shell. of: its grey in the file."""
        finish, site = self.finish, self.joints.sites[index]
        key = (mirrored(link.name), number)
        roll = self.drawn.setdefault(key, float(self.rng.random()))
        trunk = site in ("waist", "") and self.joints.sides[index] == 0
        if finish.shirt is not None and trunk and roll < 0.8:
            return finish.shirt, "cloud"
        if finish.shirt is not None and finish.sleeves and site == "shoulder":
            return finish.shirt, "cloud"
        if of == UNKNOWN:
            dark = 0.72 if site in ("head", "shoulder", "knee", "ankle", "hip") else 0.65
            colour = finish.shell if roll < dark else finish.joint if roll < 0.93 else finish.trim
        else:
            colour = finish.shell if of > 0.4 else finish.joint
            colour = finish.trim if roll > 0.94 else colour
        return colour, "plain" if roll < 0.8 else "cloud"


def humanoid(
    rng: np.random.Generator,
    robots: Robots,
    kind: str | None = None,
    pose: str | None = None,
    tall: float | None = None,
    headless: bool = False,
    finish: Finish | None = None,
) -> list[Part]:
    """One robot: of a kind in robots, in a pose of POSES, so tall in metres when it stands, or all
    at random. headless: without what is above its shoulders. finish: its colours, else drawn."""
    drawn_kind = str(rng.choice(sorted(robots)))
    links = robots[kind or drawn_kind]
    joints = joints_of(links)
    drawn = str(rng.choice(list(POSES), p=[share for _, _, share in POSES.values()]))
    pose = pose or drawn
    drawn_tall = float(np.clip(rng.lognormal(np.log(0.62), 0.27), 0.4, 1.4))
    scales = proportions(rng, links, joints)
    lean = rng.uniform(*POSES[pose][1])
    angles = Poser(rng, links, joints).pose(pose, lean)
    ends = [
        (shell.vertices * scales[i]) @ turn.T + at
        for i, (at, turn) in enumerate(placed(links, np.zeros(len(links)), scales))
        for shell in links[i].shells
    ]
    size = (tall or drawn_tall) / float(np.ptp(np.concatenate(ends)[:, 2]))
    b, dresser = Builder(), Dresser(rng, finish or draw_finish(rng), joints)
    above = heads(links, joints)
    frames = placed(links, angles, scales)
    for index, (at, turn) in enumerate(frames):
        if headless and index in above:
            continue
        for number, shell in enumerate(links[index].shells):
            local = shell.vertices * scales[index] * size
            middle = local.mean(0)
            colour, texture = dresser.colour(index, links[index], number, shell.grey)
            frame = Frame(at * size + turn @ middle, turn)
            b.mesh((local - middle).astype(np.float32), shell.faces, frame, colour, texture)
    if dresser.finish.shirt is not None and not headless:
        number_plates(b, rng, dresser.finish, links, joints, frames, scales, size)
    lay_down(b, rng, pose, lean)
    b.stand_on_ground()
    return b.parts


def heads(links: list[Link], joints: Joints) -> set[int]:
    """The links of head and neck, with what hangs on them."""
    result: set[int] = set()
    for index, link in enumerate(links):
        if joints.sites[index] == "head" or link.parent in result:
            result.add(index)
    return result


def number_plates(
    b: Builder, rng: np.random.Generator, finish: Finish, links: list[Link], joints: Joints,
    frames: list[tuple[Array, Array]], scales: Array, size: float,
) -> None:  # fmt: skip
    """Numbers on the breast and the back of a shirt, on the largest shell of the trunk."""
    trunk = [i for i, (site, side) in enumerate(zip(joints.sites, joints.sides, strict=True))
             if site in ("waist", "") and side == 0 and links[i].shells]  # fmt: skip
    spans = {i: np.concatenate([s.vertices for s in links[i].shells]) for i in trunk}
    if not spans:
        return
    index = max(spans, key=lambda i: float(np.prod(np.ptp(spans[i], axis=0))))
    at, turn = frames[index]
    local = spans[index] * scales[index] * size
    low, high = local.min(0), local.max(0)
    half = 0.3 * min(high[1] - low[1], high[2] - low[2])
    middle = np.array([0, (low[1] + high[1]) / 2, low[2] + 0.6 * (high[2] - low[2])])
    bright = rng.random() < 0.6
    for x, depth in ((high[0], -1), (low[0], 1)):
        if rng.random() < 0.75:
            place = middle + np.array([x + depth * 0.015 * size, 0, 0])
            frame = Frame(at * size + turn @ place, turn)
            colour = finish.shirt if bright and finish.shirt else grey(rng, 0.85, 1)
            texture = "bright digits" if bright else "dark digits"
            b.add("box", (0.01 * size, half * 0.8, half), frame, colour, texture, 2 * half)


def lay_down(b: Builder, rng: np.random.Generator, pose: str, lean: float) -> None:
    """Leans a robot forward, or lays it on its front, its back or a side."""
    b.turn_all(rotation("x", rng.normal(0, 0.04)) @ rotation("y", lean))
    if pose == "fall":
        axis = str(rng.choice(["x", "y"]))
        b.turn_all(rotation(axis, rng.choice([-1, 1]) * rng.uniform(0.4, 1.2)))
    elif pose == "lie":
        axis = str(rng.choice(["x", "y", "y"]))
        b.turn_all(rotation(axis, rng.choice([-1, 1]) * (np.pi / 2 + rng.normal(0, 0.12))))
        b.turn_all(rotation("z", rng.uniform(0, 2 * np.pi)) @ rotation("x", rng.normal(0, 0.15)))


def own_parts(rng: np.random.Generator, robots: Robots, eye: float) -> list[Part]:
    """What such a robot sees of itself, its camera at a height in metres: legs, feet and arms."""
    pose = str(rng.choice(["stand", "walk", "crouch"], p=[0.5, 0.3, 0.2]))
    parts = humanoid(rng, robots, None, pose, eye * rng.uniform(1.0, 1.12), headless=True)
    high = max(part.highest() for part in parts)
    back = np.array([rng.uniform(0.02, 0.1) * eye, 0, min(0.0, eye * 0.97 - high)])
    for part in parts:
        part.frame = Frame(part.frame.at - back * [1, 0, -1], part.frame.turn)
    return [part for part in parts if not near_camera(part, eye)]


def near_camera(part: Part, eye: float) -> bool:
    """Whether a camera at a height in metres may be within a part, or too near to see past it: it
    stands a little behind the origin, at this height or up to the half of it lower."""
    if part.surface is None:
        return True
    corners = part.surface[0] @ part.frame.turn.T + part.frame.at
    gap = 0.05 * eye
    low = corners.min(0) - gap
    high = corners.max(0) + gap
    behind = low[0] < -0.02 * eye and high[0] > -0.15 * eye
    return bool(behind and low[1] < 0 < high[1] and high[2] > 0.5 * eye)
