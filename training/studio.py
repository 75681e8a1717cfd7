"""Renders worlds: MuJoCo's buffers, then colours (shading.py), then labels (labels.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
import textures
import torch
import torch.nn.functional as F
from appearance import Appearance, draw_appearance, draw_lights
from cameras import HEIGHTS, WIDE, Camera
from glare import glow
from humanoids import Robots
from labels import (
    BOXES,
    CANVAS,
    LINE_SHARE,
    THIN_LINE_SHARE,
    bend,
    boxes_of,
    class_mask,
    visible_shares,
)
from motion import roll, smear
from recipes import FIRST, Recipe
from rounds import picture
from shading import BACKGROUND, Buffers, Library, View, shade
from shapes import quaternion
from staging import Director
from world import World

Array = np.ndarray
SKINS = 40
ACROSS = 1  # of a geom's planes, the one of its y and z


@dataclass
class Coat:
    """What a shot adds to the geoms: balls' skins, slightly other colours, the textures' axes."""

    skins: Array
    tint: Array
    planes: Array


def of_crews(recipe: Recipe) -> Recipe:
    """What shots of robots on wheels have of a recipe: they are mostly matches, seen through bent
    lenses, few of them from near a goal."""
    return replace(recipe, match=0.75, low=0.25, fisheye=0.4, posts=0.08, strips=0.08, through=0.02)


class Studio:
    """Renders shots of worlds with one OpenGL context."""

    def __init__(
        self,
        rng: np.random.Generator,
        panoramas: Path | None,
        device: str,
        recipe: Recipe = FIRST,
        meshes: Robots | None = None,
    ) -> None:
        """panoramas: a folder of backgrounds. meshes: of robots, for a recipe that has them."""
        self.rng, self.device, self.recipe, self.meshes = rng, device, recipe, meshes
        self.gl = mujoco.GLContext(WIDE, WIDE)
        self.gl.make_current()
        grains = (
            ((256, 0.9), (128, 0.5)),
            ((128, 0.6), (48, 0.6), (16, 0.4)),
            ((6, 0.5), (18, 0.5), (64, 0.4)),
            ((3, 0.6), (8, 0.6), (24, 0.3)),
        )
        noises = np.stack([textures.noise(rng, 512, octaves) for octaves in grains])
        names = textures.NAMES + (textures.MORE if recipe.rounds else ())
        names += textures.DIGITS if recipe.stout or recipe.wheels else ()
        atlas = textures.atlas(rng, names)
        foam = [recipe.foam and rng.random() < recipe.foam for _ in range(SKINS)]
        banded = [recipe.banded and rng.random() < recipe.banded for _ in range(SKINS)]
        styles = [
            "classic" if f else "bands" if b else None for f, b in zip(foam, banded, strict=True)
        ]
        balls = np.stack([textures.ball(rng, style) for style in styles])
        backgrounds = textures.panoramas(rng, panoramas, rounds=recipe.rounds > 0)
        self.pieces = textures.pieces(rng, panoramas) if recipe.flat else []
        self.library = Library(atlas, balls, backgrounds, noises, device)

    def open_world(self) -> World:
        """Builds another world, which the shots that follow show."""
        self.world = World(self.rng, WIDE, self.recipe, self.meshes)
        model = self.world.model
        self.context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.context)
        self.context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self.scene = mujoco.MjvScene(model, maxgeom=model.ngeom + 100)
        self.option = mujoco.MjvOption()
        self.option.geomgroup[3] = 0  # the packaged robots' collision shapes
        return self.world

    def close_world(self) -> None:
        """Frees what the world holds in OpenGL."""
        self.context.free()

    def shot(self) -> tuple[Array, Array, Array]:
        """An image at random, its classes and boxes, on the canvas (render.py tells the form)."""
        rng, world = self.rng, self.world
        recipe = world.recipe
        if recipe.flat and rng.random() < recipe.flat:
            return self._flat()
        if world.crews:
            recipe = of_crews(recipe)
        # Robots on wheels look around by lenses that see as much upwards as aside.
        square = WIDE if world.crews and rng.random() < 0.4 else None
        camera, director = Camera(rng, world.field.half, square), Director(world, rng)
        match = bool(recipe.match and rng.random() < recipe.match)
        low = 0.75 if match and not world.crews else recipe.low
        if low and rng.random() < low:
            camera.lower(rng, recipe.stooped)
        if recipe.strips and rng.random() < recipe.strips:
            camera.frame_strip(world.post_place(), rng)
        elif recipe.distant and rng.random() < recipe.distant:
            camera.look_far(world.goal_place(), rng)
        elif recipe.through and rng.random() < recipe.through:
            camera.stand_behind(world.goal_place(), rng)
        elif recipe.posts and rng.random() < recipe.posts:
            camera.stand_by(world.post_place(), rng, recipe.touching)
        elif recipe.edge and rng.random() < recipe.edge:
            camera.frame_edge(world.post_place(), rng)
        bent = bool(recipe.fisheye and rng.random() < recipe.fisheye)
        if bent:
            camera.widen(np.radians(rng.uniform(95, 125)))
        director.arrange(camera, match)
        draw_lights(rng, world.model, camera)
        image, shares, inst = self.take(camera, self.appearance(director), self.coat())
        if director.glare is not None:
            image = glow(image, rng.uniform(0.05, 0.35), rng.uniform(0.0, 0.12))
        shown = visible_shares(world, camera, inst.cpu().numpy(), recipe.strips > 0)
        if recipe.smeared and rng.random() < recipe.smeared:
            image, shares, inst = self._smeared(image, shares, inst, shown)
        if bent:
            image, shares, inst = bend(image, shares, inst, rng.uniform(0.3, 0.6))
        elif rng.random() < 0.35:
            image, shares, inst = bend(image, shares, inst, rng.uniform(-0.12, 0.25))
        if recipe.rolling and rng.random() < recipe.rolling:
            moves = rng.normal(0, 0.06), rng.normal(0, 0.002), rng.uniform(0.5, 4)
            image, shares, inst = roll(image, shares, inst, *moves)
        scale = CANVAS / WIDE
        size = (round(camera.high * scale), CANVAS)
        top = (CANVAS - size[0]) // 2
        small = F.interpolate(image.permute(2, 0, 1)[None].clamp(0, 1), size=size, mode="area")[0]
        canvas = np.zeros((CANVAS, CANVAS, 3), np.uint8)
        canvas[top : top + size[0]] = (small * 255).round().byte().permute(1, 2, 0).cpu().numpy()
        mask = np.full((CANVAS, CANVAS), 255, np.uint8)
        mask[top : top + size[0]] = class_mask(
            shares, size, THIN_LINE_SHARE if recipe.covered else LINE_SHARE
        )
        return canvas, mask, boxes_of(world, inst.cpu().numpy(), shown, scale, top)

    def _flat(self) -> tuple[Array, Array, Array]:
        """A flat picture without a field, in the form of a shot."""
        high = round(float(self.rng.choice([h for h, _ in HEIGHTS])) * CANVAS / WIDE)
        top = (CANVAS - high) // 2
        canvas = np.zeros((CANVAS, CANVAS, 3), np.uint8)
        mask = np.full((CANVAS, CANVAS), 255, np.uint8)
        canvas[top : top + high] = picture(self.rng, (high, CANVAS), self.pieces)
        mask[top : top + high] = BACKGROUND
        return canvas, mask, np.full((BOXES, 5), -1, np.float32)

    def _smeared(
        self, image: torch.Tensor, shares: torch.Tensor, inst: torch.Tensor, shown: Array
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One of the balls that are wholly seen moves by up to its own width."""
        rng, balls = self.rng, [t.instances[0] for t in self.world.things if t.kind == "ball"]
        sizes = {index: int((inst == index).sum()) for index in balls if shown[index] > 0.9}
        seen = [index for index, size in sizes.items() if size > 30]
        if not seen:
            return image, shares, inst
        index = seen[int(rng.integers(len(seen)))]
        length = rng.uniform(0.3, 1.0) * 2 * np.sqrt(sizes[index] / np.pi)
        turn = rng.uniform(0, np.pi)
        way = (float(length * np.cos(turn)), float(length * np.sin(turn)))
        return smear(image, shares, inst, index, way)

    def appearance(self, director: Director) -> Appearance:
        count = len(self.library.panoramas)
        return draw_appearance(self.rng, self.world.field, director, count, self.device)

    def coat(self) -> Coat:
        rng, count = self.rng, self.world.model.ngeom
        skins = rng.integers(0, SKINS, len(self.world.classes))
        tint = 1 + rng.normal(0, 0.06, (count, 3)) * (rng.random() < 0.6)
        planes = rng.integers(0, 3, count)
        planes[self.world.numbered] = ACROSS
        return Coat(skins, tint.astype(np.float32), planes)

    def take(
        self, camera: Camera, look: Appearance, coat: Coat
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The image float [h,w,3] (0 to 1, not clipped), shares of the classes float [h,w,3], and
        instances int64 [h,w]."""
        world = self.world
        model, data = world.model, world.data
        slot = int(model.body_mocapid[model.body("eye").id])
        data.mocap_pos[slot], data.mocap_quat[slot] = camera.at, quaternion(camera.axes)
        model.cam_fovy[0] = np.degrees(2 * np.arctan(camera.high / 2 / camera.focal))
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        front, nets = self._buffers(camera, nets=False), self._buffers(camera, nets=True)
        colours = np.clip(world.colour * coat.tint, 0, 1.1)
        tables = {
            "at": self._tensor(data.geom_xpos.astype(np.float32)),
            "turn": self._tensor(data.geom_xmat.reshape(-1, 3, 3).astype(np.float32)),
            "colour": self._tensor(colours.astype(np.float32)),
            "texture": self._tensor(world.texture),
            "metres": self._tensor(world.metres),
            "ball": self._tensor(world.ball),
            "skin": self._tensor(coat.skins),
            "plane": self._tensor(coat.planes),
            "size": self._tensor(model.geom_size.astype(np.float32)),
            "net": self._tensor(world.is_net),
        }
        view = View(
            self._tensor(camera.at.astype(np.float32)),
            self._tensor(camera.axes.astype(np.float32)),
            camera.focal,
        )
        image, shares = shade(self.library, tables, look, view, front, nets, world.ground)
        instances = self._tensor(world.instance)[front.geom.clamp(min=0)]
        return image, shares, torch.where(front.geom >= 0, instances, 0)

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _buffers(self, camera: Camera, nets: bool) -> Buffers:
        """What MuJoCo renders, with the goals' nets or without; with nets there is no light."""
        world, scene, high = self.world, self.scene, camera.high
        flag = mujoco.mjtRndFlag
        self.option.geomgroup[4] = int(nets)
        eye = mujoco.MjvCamera()
        eye.type = mujoco.mjtCamera.mjCAMERA_FIXED
        eye.fixedcamid = world.model.camera("eye").id
        every = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(world.model, world.data, self.option, None, eye, every, scene)
        rect = mujoco.MjrRect(0, 0, WIDE, high)
        light = np.zeros((high, WIDE, 3), np.uint8)
        colour, depth = np.zeros_like(light), np.zeros((high, WIDE), np.float32)
        scene.flags[flag.mjRND_SKYBOX] = scene.flags[flag.mjRND_REFLECTION] = 0
        scene.flags[flag.mjRND_SHADOW] = 1
        if not nets:
            mujoco.mjr_render(rect, scene, self.context)
            mujoco.mjr_readPixels(light, None, rect, self.context)
        scene.flags[flag.mjRND_SEGMENT] = scene.flags[flag.mjRND_IDCOLOR] = 1
        mujoco.mjr_render(rect, scene, self.context)
        mujoco.mjr_readPixels(colour, depth, rect, self.context)
        scene.flags[flag.mjRND_SEGMENT] = scene.flags[flag.mjRND_IDCOLOR] = 0
        code = colour.astype(np.int64) @ np.array([1, 256, 65536])
        table = np.full(scene.ngeom + 2, -1, np.int64)
        for geom in scene.geoms[: scene.ngeom]:
            if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                table[geom.segid + 1] = geom.objid
        # OpenGL's depth with 1 at the near plane and 0 far away, as metres along the axis.
        near, far = world.model.vis.map.znear, world.model.vis.map.zfar
        metres = near * far / (near + depth * (far - near))
        return Buffers(
            self._tensor(light[::-1]),
            self._tensor(metres[::-1].astype(np.float32)),
            self._tensor(table[np.minimum(code, len(table) - 1)][::-1]),
        )
