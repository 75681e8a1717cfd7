"""How one shot looks: the turf, the paint, the floor, the light, what is behind it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import textures
import torch
from cameras import Camera
from staging import Director
from torch import Tensor
from world import Field

# Axis, place along it, width in metres, strength.
Seam = tuple[int, float, float, float]


@dataclass(frozen=True)
class Sun:
    """A patch of sunlight: its middle [2], half sides [2] and soft edge in metres, its turn, by how
    much it brightens, and where the sun is, as metres aside for each metre up [2].

    every, within: where there are many like it, how far apart they are along both sides [2], and
    the half sides of all of them together [2].
    """

    centre: Tensor
    half: Tensor
    soft: float
    cos: float
    sin: float
    gain: float
    slant: Tensor
    every: Tensor | None = None
    within: Tensor | None = None


@dataclass
class Appearance:
    """Lengths in metres; colours are tensors [3] in 0 to 1.

    distance [h,w] and metres_per_pixel: see world.Field. carpet: half length and width of the
    green, zero without one. blade, streak, rough: size, length towards the camera and strength of
    the turf's grain; mottle and stain: of coarser patches; mow, mown: stripes. ragged, soft, wear,
    paint: the lines' edges, how much is worn off, how well they cover. contacts: (place, radius,
    strength) of soft shadows. mesh, thread, diagonal: the goals' nets. suns: patches of light.
    seams: (axis, place, width, strength) of each. covered: whether lines count by how much of a
    pixel they cover. casts: how much of each colour the light of the image's left and right edge
    has [2,3].
    """

    distance: Tensor
    metres_per_pixel: float
    carpet: tuple[float, float]
    line: float
    shift: float
    blade: float
    streak: float
    rough: float
    mottle: float
    stain: float
    green: Tensor
    tint: Tensor
    mow: float
    mown: float
    ragged: float
    soft: float
    wear: float
    paint: float
    white: Tensor
    floor: int
    tile: float
    floor_colour: Tensor
    horizon: float
    light: float
    contacts: list[tuple[Tensor, float, float]]
    gloss: float
    panorama: int
    panorama_turn: float
    panorama_wide: int
    panorama_high: float
    sky_light: float
    mesh: float
    thread: float
    diagonal: bool
    haze: float
    mist: Tensor
    suns: tuple[Sun, ...] = ()
    seams: tuple[Seam, ...] = ()
    covered: bool = False
    casts: Tensor | None = None


def draw_green(rng: np.random.Generator) -> np.ndarray:
    """A carpet's colour: artificial turf, what cameras make of it, or pale felt."""
    kind = rng.random()
    if kind < 0.45:
        green = np.array([rng.uniform(0.08, 0.42), 0, rng.uniform(0.02, 0.2)])
        green[1] = max(green[0] * rng.uniform(1.1, 1.6), rng.uniform(0.22, 0.6))
    elif kind < 0.8:
        green = np.array([rng.uniform(0, 0.12), rng.uniform(0.3, 0.75), rng.uniform(0.05, 0.45)])
        green[2] = min(green[2], green[1] * 0.75)
    else:
        green = np.array([rng.uniform(0.2, 0.5), 0, rng.uniform(0.15, 0.45)])
        green[1] = max(green[0], green[2]) * rng.uniform(1.15, 1.5)
    return green


def draw_floor(rng: np.random.Generator) -> np.ndarray:
    """A floor's colour: grey, brown, or anything but green."""
    if rng.random() < 0.6:
        return np.full(3, rng.uniform(0.08, 0.85)) + rng.normal(0, 0.02, 3)
    if rng.random() < 0.5:
        return np.array([0.55, 0.4, 0.25]) * rng.uniform(0.4, 1.5)
    colour = rng.uniform(0.05, 0.8, 3)
    colour[1] = min(colour[1], max(colour[0], colour[2]))
    return colour


def draw_appearance(
    rng: np.random.Generator, field: Field, director: Director, panoramas: int, device: str
) -> Appearance:
    """An appearance at random. panoramas: how many there are to choose from."""

    def tensor(values: np.ndarray) -> Tensor:
        return torch.tensor(np.asarray(values), dtype=torch.float32, device=device)

    recipe = director.world.recipe
    bare = bool(recipe.bare and rng.random() < recipe.bare and not director.match)
    turf = rng.random() < 0.7
    ropes = bool(recipe.ropes and rng.random() < recipe.ropes)
    floors = [textures.NAMES.index(name) for name in ("plain", "noise", "cloud", "planks", "brick")]
    look = Appearance(
        distance=torch.from_numpy(field.distance).to(device),
        metres_per_pixel=field.metres_per_pixel,
        carpet=(0.0, 0.0) if bare else (field.half[0] + field.border, field.half[1] + field.border),
        line=field.line,
        shift=rng.uniform(0, 1),
        blade=rng.uniform(0.5, 1.6) if turf else rng.uniform(0.3, 0.8),
        streak=rng.uniform(1, 4),
        rough=rng.uniform(0.12, 0.5) if turf else rng.uniform(0, 0.12),
        mottle=rng.uniform(0, 0.12),
        stain=rng.uniform(0, 0.14),
        green=tensor(draw_green(rng)),
        tint=tensor(rng.normal(0, 0.03, 3)),
        mow=rng.uniform(1, 4),
        mown=rng.uniform(0, 0.15) * (rng.random() < 0.2),
        ragged=rng.uniform(0, 0.012) if turf else 0.001,
        soft=rng.uniform(0.001, 0.008),
        wear=rng.uniform(0, 0.7) ** 1.5,
        paint=rng.uniform(0.55, 1.0),
        white=tensor(np.clip(rng.uniform(0.75, 1.0) + rng.normal(0, 0.03, 3), 0, 1)),
        floor=int(rng.choice(floors)) * textures.VARIANTS + int(rng.integers(textures.VARIANTS)),
        tile=rng.uniform(0.6, 4),
        floor_colour=tensor(draw_floor(rng)),
        horizon=rng.uniform(12, 40),
        light=rng.uniform(0.9, 1.35),
        contacts=[(tensor(place), radius, dark) for place, radius, dark in director.contacts],
        gloss=rng.uniform(0, 1.2),
        panorama=int(rng.integers(panoramas)),
        panorama_turn=rng.random(),
        panorama_wide=int(rng.choice([1, 1, 2])),
        panorama_high=rng.uniform(0.6, 1.2),
        sky_light=rng.uniform(0.6, 1.3),
        mesh=rng.uniform(0.09, 0.18) if ropes else rng.uniform(0.035, 0.13),
        thread=rng.uniform(0.006, 0.016) if ropes else rng.uniform(0.002, 0.006),
        diagonal=rng.random() < 0.4,
        haze=rng.uniform(0.005, 0.08) * (rng.random() < 0.12),
        mist=tensor(np.full(3, rng.uniform(0.5, 0.95))),
        suns=draw_suns(rng, field, tensor, recipe.bars)
        if recipe.sun and rng.random() < recipe.sun
        else (),
        seams=draw_seams(rng, field) if recipe.seams and rng.random() < recipe.seams else (),
        covered=recipe.covered,
        casts=tensor(draw_casts(rng)) if recipe.dim and rng.random() < recipe.dim else None,
    )
    if any(sun.every is not None for sun in look.suns):  # cameras expose for what is lit
        look.light *= rng.uniform(0.4, 0.95)
    if director.glare is not None:
        look.suns += (draw_glare(rng, director.glare, tensor),)
        look.light *= rng.uniform(0.8, 1.4)
        if rng.random() < 0.4:  # against windows
            look.sky_light *= rng.uniform(1.5, 4.0)
    return look


def draw_glare(
    rng: np.random.Generator, place: np.ndarray, tensor: Callable[[np.ndarray], Tensor]
) -> Sun:
    """Sun on a place [2] and a little about it, or on much of the field, far brighter than what the
    camera exposes for."""
    turn = rng.uniform(0, np.pi)
    cos, sin = float(np.cos(turn)), float(np.sin(turn))
    half = np.exp(rng.uniform(np.log(0.2), np.log(3.0), 2))
    aside = rng.uniform(-0.5, 0.5, 2) * half
    return Sun(
        tensor(place + aside @ np.array([[cos, sin], [-sin, cos]])),
        tensor(half),
        rng.uniform(0.02, 0.1),
        cos,
        sin,
        float(np.exp(rng.uniform(np.log(1.0), np.log(6.0)))),
        tensor(rng.normal(0, 0.5, 2)),
    )


def draw_casts(rng: np.random.Generator) -> np.ndarray:
    """Dim light, mostly warm, of one lamp or of another one on each side [2,3]."""
    casts = []
    for _ in range(2):
        warm = rng.uniform(-0.4, 1.0)
        colour = np.array([1 + 0.25 * warm, 1 - 0.06 * warm, 1 - 0.55 * warm])
        casts.append(colour * np.exp(rng.uniform(np.log(0.35), np.log(1.1))))
    return np.array(casts if rng.random() < 0.4 else casts[:1] * 2)


def draw_suns(
    rng: np.random.Generator, field: Field, tensor: Callable[[np.ndarray], Tensor], bars: float
) -> tuple[Sun, ...]:
    """One to four windows' patches, which one sun makes. bars: see Recipe."""
    if bars and rng.random() < bars:
        return (draw_bars(rng, field, tensor),)
    turn, slant = rng.uniform(0, np.pi), rng.normal(0, 0.7, 2)
    gain, soft = rng.uniform(0.4, 2.2), rng.uniform(0.03, 0.4)
    return tuple(
        Sun(
            tensor(rng.uniform(-1, 1, 2) * np.array(field.half)),
            tensor(rng.uniform(0.15, 1.6, 2)),
            soft, float(np.cos(turn)), float(np.sin(turn)), gain, tensor(slant),
        )
        for _ in range(rng.integers(1, 5))
    )  # fmt: skip


def draw_bars(
    rng: np.random.Generator, field: Field, tensor: Callable[[np.ndarray], Tensor]
) -> Sun:
    """Sun between the bars of a wall of windows, over much of a field."""
    turn, slant = rng.uniform(0, np.pi), rng.normal(0, 0.7, 2)
    every = np.array([rng.uniform(1.0, 6.0), np.exp(rng.uniform(np.log(0.3), np.log(2.5)))])
    bar = np.exp(rng.uniform(np.log(0.08), np.log(0.6), 2)) * every
    return Sun(
        tensor(rng.uniform(-0.6, 0.6, 2) * np.array(field.half)),
        tensor((every - bar) / 2),
        float(np.exp(rng.uniform(np.log(0.01), np.log(0.15)))),
        float(np.cos(turn)),
        float(np.sin(turn)),
        float(np.exp(rng.uniform(np.log(0.7), np.log(5.0)))),
        tensor(slant),
        tensor(every),
        tensor(rng.uniform(2.0, 9.0, 2)),
    )


def draw_seams(rng: np.random.Generator, field: Field) -> tuple[Seam, ...]:
    """Seams between lengths of carpet of one width, dark or, where they gape, bright."""
    axis, apart = int(rng.integers(2)), rng.uniform(1.0, 2.5)
    reach = field.half[axis] + field.border
    places = np.arange(-reach + rng.uniform(0, apart), reach, apart)
    width, strength = rng.uniform(0.003, 0.015), rng.uniform(-0.5, 0.8)
    return tuple((axis, float(place), width, strength) for place in places)


def draw_lights(rng: np.random.Generator, model: mujoco.MjModel, camera: Camera) -> None:
    """One to four lamps about what the camera sees, with or without shadows."""
    centre = camera.at + 2.5 * np.array([np.cos(camera.yaw), np.sin(camera.yaw), 0])
    strength = rng.dirichlet(np.ones(3) * 1.5) * rng.uniform(0.35, 0.75)
    for i in range(4):
        model.light_active[i] = i < rng.integers(1, 5)
        model.light_castshadow[i] = rng.random() < 0.65
        aim = rng.normal(0, 0.55, 3) * [1, 1, 0] - [0, 0, 1]
        aim /= np.linalg.norm(aim)
        far = 5.5 if i < 2 else rng.uniform(2.5, 5)
        model.light_dir[i] = aim
        model.light_pos[i] = centre * [1, 1, 0] - aim * far
        model.light_diffuse[i] = strength[i % 3] * np.clip(1 + rng.normal(0, 0.04, 3), 0, 1.2)
        model.light_specular[i] = rng.uniform(0, 0.5)
        model.light_ambient[i] = 0
    model.vis.headlight.ambient[:] = rng.uniform(0.2, 0.55)
    model.vis.headlight.diffuse[:] = rng.uniform(0, 0.25)
