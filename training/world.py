"""One world for MuJoCo: a field with robots, goals, people and clutter, compiled once, shot often.

Every thing hangs on a mocap body, so that a shot only moves bodies. The robots of the package
rcsssmj keep their joints. MuJoCo renders geometry, shadows and identities; colours and textures
come after it (shading.py), so that no shot touches the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import cv2
import furniture
import humanoids
import mujoco
import numpy as np
import props
import rcsssmj
import robots
import rounds
import smooth_robots
import wheeled_robots
from recipes import FIRST, RECIPES, Recipe
from robots import Colour
from shapes import Part, quaternion
from teams import Teams, draw_teams
from textures import DIGITS, MORE, NAMES, VARIANTS
from trifles import trifle
from uprights import upright

from tvm_vision.errors import InputError

Array = np.ndarray
BALL, GOALPOST, ROBOT, OWN = 0, 1, 2, 3
AWAY = np.array([0.0, 0.0, -60.0])
PACKAGE = Path(rcsssmj.__file__).parent / "resources" / "robots"


@dataclass
class Thing:
    """Something that a shot places: its mocap body or free joint, and what it is."""

    kind: str
    body: str
    radius: float
    lift: float = 0.0
    high: float = 0.6
    instances: list[int] = field(default_factory=list)
    posts: list[Array] = field(default_factory=list)


@dataclass
class Field:
    """Measures in metres: half length and width of the lines' rectangle, the green border."""

    half: tuple[float, float]
    border: float
    line: float
    distance: Array
    metres_per_pixel: float


def draw_field(rng: np.random.Generator, larger: float = 1.0) -> Field:
    """Draws a field's lines, and keeps for each place how far the nearest line's middle is. larger:
    how much longer and wider than the first recipe's the largest is."""
    half = (rng.uniform(2.8, 5.5 * larger), rng.uniform(1.9, 3.7 * larger))
    border, scale = rng.uniform(0.25, 1.2), 100
    size = [int(2 * (h + border + 0.2) * scale) for h in half]
    canvas = np.full((size[1], size[0]), 255, np.uint8)
    middle = np.array(size) / 2

    def at(x: float, y: float) -> tuple[int, int]:
        return int(middle[0] + x * scale), int(middle[1] + y * scale)

    def box(x0: float, y0: float, x1: float, y1: float) -> None:
        cv2.rectangle(canvas, at(x0, y0), at(x1, y1), 0, 1)

    (hl, hw), circle = half, rng.uniform(0.45, 0.9)
    box(-hl, -hw, hl, hw)
    if rng.random() < 0.93:
        cv2.line(canvas, at(0, -hw), at(0, hw), 0, 1)
        cv2.circle(canvas, at(0, 0), int(circle * scale), 0, 1)
    deep, wide = rng.uniform(0.5, 1.0), rng.uniform(0.9, 1.6)
    outer = rng.random() < 0.5
    mark = rng.uniform(1.2, 2.0)
    for side in (-1, 1):
        box(side * hl, -wide, side * (hl - deep), wide)
        if outer:
            box(side * hl, -wide * 1.45, side * (hl - deep * 2), wide * 1.45)
        x = side * (hl - mark)
        arm = rng.uniform(0.0, 0.06)
        cv2.line(canvas, at(x - arm, 0), at(x + arm, 0), 0, 1)
        cv2.line(canvas, at(x, -arm), at(x, arm), 0, 1)
    if rng.random() < 0.4:
        cv2.line(canvas, at(-0.05, 0), at(0.05, 0), 0, 1)
    distance = cv2.distanceTransform(canvas, cv2.DIST_L2, 5) / scale
    return Field(half, border, rng.uniform(0.04, 0.075), distance.astype(np.float32), 1 / scale)


class World:
    """A compiled model with tables, one row a geom: colour, texture and instance."""

    def __init__(
        self,
        rng: np.random.Generator,
        size: int = 768,
        recipe: Recipe = FIRST,
        meshes: humanoids.Robots | None = None,
    ) -> None:
        """size: of the largest image. meshes: of real robots, for a recipe that has them; raises
        InputError where they are missing."""
        if recipe.meshes and not meshes:
            raise InputError(
                f"robots of mesh_files.py are needed for recipe {recipe.number}, found none"
            )
        if recipe.earlier and rng.random() < recipe.earlier:
            recipe = RECIPES[recipe.number - 1]
        self.rng, self.recipe, self.meshes = rng, recipe, meshes or {}
        self.field = draw_field(rng, recipe.field)
        self.things: list[Thing] = []
        self.classes: list[int] = [-1]  # of each instance; 0 is none
        self._xml: list[str] = []
        self._geoms: dict[str, tuple[Part, int, int]] = {}
        self.balls = int(rng.integers(3, 6))
        self._fill()
        spec = mujoco.MjSpec.from_string(self._document(size))
        self._surfaces(spec)
        packaged = self._attach(spec)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self._tables(packaged)

    # -- what is in it

    def _fill(self) -> None:
        rng = self.rng
        for _ in range(self.balls):
            foam = self.recipe.foam and rng.random() < self.recipe.foam
            self._ball(rng.uniform(0.045, 0.055) if foam else rng.uniform(0.06, 0.115))
        squad, teams = self._squad(), self._teams()
        self.crews = self._crews()
        for number in range(rng.integers(3, 6) + self.recipe.players):
            if self.crews:
                self._thing("robot", wheeled_robots.tower(rng, self.crews[number % 2]), ROBOT)
                continue
            if teams is not None:
                self._thing("robot", teams.player(rng, number, self.meshes), ROBOT)
                continue
            maker = robots.wheeled if rng.random() < 0.04 else robots.humanoid
            if self.recipe.smooth and rng.random() < self.recipe.smooth:
                maker = smooth_robots.smooth_humanoid
            if self.recipe.stout and rng.random() < self.recipe.stout:
                maker = smooth_robots.stout_humanoid
            if self.recipe.wheels and rng.random() < self.recipe.wheels:
                maker = wheeled_robots.tower
            if self.recipe.meshes and rng.random() < self.recipe.meshes:
                self._thing("robot", humanoids.humanoid(rng, self.meshes, *squad), ROBOT)
                continue
            self._thing("robot", maker(rng), ROBOT)
        for _ in range(2):
            parts, net = props.goal(rng)
            self._thing("goal", parts, -1, net)
        for _ in range(rng.integers(4, 10)):
            pale = bool(self.recipe.pale and rng.random() < self.recipe.pale)
            seated = self.recipe.seated and rng.random() < self.recipe.seated
            pose = str(rng.choice(["squat", "sit"])) if seated else None
            black = bool(self.recipe.black and rng.random() < self.recipe.black)
            self._thing("person", props.person(rng, pale, pose, black), -1)
        for _ in range(rng.integers(4, 11)):
            name = str(rng.choice(list(props.PROPS), p=[0.12, 0.1, 0.3, 0.1, 0.08, 0.1, 0.2]))
            self._thing(name, props.PROPS[name](rng), -1)
        for _ in range(rng.integers(0, 3)):
            self._thing("lure", props.lure(rng), -1)
        if self.recipe.trifles:
            for _ in range(rng.integers(2, self.recipe.trifles + 1)):
                self._thing("trifle", trifle(rng), -1)
        if self.recipe.rounds:
            for _ in range(rng.integers(3, self.recipe.rounds + 1)):
                self._thing(*rounds.round_thing(rng), -1)
        if self.recipe.uprights:
            for _ in range(rng.integers(1, self.recipe.uprights + 1)):
                self._thing("upright", upright(rng), -1)
        if self.recipe.furniture:
            for _ in range(rng.integers(2, self.recipe.furniture + 1)):
                self._thing("furniture", furniture.piece(rng), -1)
        own = -1 if self.recipe.own_is_background else OWN
        self._thing("own", self._own_body(), own)

    def _squad(self) -> tuple[str | None, str | None, float | None]:
        """Kind, pose and height that all meshes of this world share, if they do."""
        rng, recipe = self.rng, self.recipe
        if not recipe.squads or rng.random() >= recipe.squads:
            return None, None, None
        pose = str(rng.choice(["sit", "stand", "walk", "lie"], p=[0.5, 0.25, 0.15, 0.1]))
        return str(rng.choice(sorted(self.meshes))), pose, float(rng.uniform(0.45, 1.1))

    def _teams(self) -> Teams | None:
        rng, share = self.rng, self.recipe.teams
        return draw_teams(rng, sorted(self.meshes)) if share and rng.random() < share else None

    def _crews(self) -> list[Colour]:
        """The colours of two teams on wheels; none where this world's robots are others."""
        rng, share = self.rng, self.recipe.crews
        if not share or rng.random() >= share:
            return []
        return [robots.TEAM_COLOURS[i] for i in rng.permutation(len(robots.TEAM_COLOURS))[:2]]

    def _own_body(self) -> list[Part]:
        rng, recipe = self.rng, self.recipe
        if recipe.meshes and rng.random() < recipe.meshes:
            return humanoids.own_parts(rng, self.meshes, 0.6)
        if recipe.smooth and rng.random() < recipe.smooth:
            stout = recipe.stout and rng.random() < recipe.stout
            build = smooth_robots.draw_stout(rng) if stout else None
            return smooth_robots.own_parts(rng, 0.6, build)
        return props.own_body(self.rng, 0.6)

    def _instance(self, label: int) -> int:
        self.classes.append(label)
        return len(self.classes) - 1

    def _ball(self, radius: float) -> None:
        instance = self._instance(BALL)
        from shapes import Frame

        part = Part("sphere", (radius,), Frame(), (1, 1, 1), "plain", 1.0, "ball")
        name = f"thing{len(self.things)}"
        self._xml.append(f'<body name="{name}" mocap="true">{self._geom(part, instance)}</body>')
        self.things.append(Thing("ball", name, radius, radius, 2 * radius, [instance]))

    def _thing(
        self, kind: str, parts: list[Part], label: int, net: list[Part] | None = None
    ) -> None:
        name = f"thing{len(self.things)}"
        shared = self._instance(label) if label >= 0 else 0
        instances = [shared] if shared else []
        text = []
        posts: dict[str, int] = {}
        for part in parts + (net or []):
            instance = shared
            if part.role.startswith("post"):
                if part.role not in posts:
                    posts[part.role] = self._instance(GOALPOST)
                    instances.append(posts[part.role])
                instance = posts[part.role]
            text.append(self._geom(part, instance))
        reach = max(float(np.hypot(*part.frame.at[:2])) for part in parts) + 0.1
        self._xml.append(f'<body name="{name}" mocap="true">{"".join(text)}</body>')
        high = max(float(part.frame.at[2]) for part in parts)
        self.things.append(Thing(kind, name, reach, 0.0, high, instances))
        self.things[-1].posts = [p.frame.at[:2] for p in parts if p.role.startswith("post")]

    def _geom(self, part: Part, instance: int) -> str:
        name = f"g{len(self._geoms)}"
        names = NAMES + MORE + DIGITS
        variant = names.index(part.texture) * VARIANTS + int(self.rng.integers(VARIANTS))
        self._geoms[name] = (part, instance, variant)
        at = " ".join(f"{v:.5f}" for v in part.frame.at)
        turn = " ".join(f"{v:.6f}" for v in quaternion(part.frame.turn))
        if part.surface is not None:
            return f'<geom name="{name}" type="mesh" mesh="{name}" pos="{at}" quat="{turn}"/>'
        size = " ".join(f"{v:.5f}" for v in part.size)
        group = 4 if part.role == "net" else 0
        return (
            f'<geom name="{name}" type="{part.shape}" size="{size}" pos="{at}" quat="{turn}" '
            f'group="{group}"/>'
        )

    def _surfaces(self, spec: mujoco.MjSpec) -> None:
        """Gives the geoms that are meshes their triangles."""
        for name, (part, _, _) in self._geoms.items():
            if part.surface is not None:
                mesh = spec.add_mesh(name=name)
                mesh.uservert = part.surface[0].reshape(-1).tolist()
                mesh.userface = part.surface[1].reshape(-1).tolist()
                # Surfaces with holes have no volume, which MuJoCo would refuse.
                mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL

    def _document(self, size: int) -> str:
        lights = "".join(
            f'<light name="light{i}" type="{"directional" if i < 2 else "spot"}" pos="0 0 6" '
            f'dir="0 0 -1" castshadow="true" cutoff="70" exponent="4"/>'
            for i in range(4)
        )
        return (
            '<mujoco><compiler angle="radian"/><statistic extent="1" center="0 0 0"/>'
            f'<visual><global offwidth="{size}" offheight="{size}"/>'
            '<map znear="0.03" zfar="80" shadowclip="7"/>'
            '<quality shadowsize="4096" offsamples="0" numslices="20" numstacks="16"/>'
            '<headlight ambient="0.3 0.3 0.3" diffuse="0.1 0.1 0.1" specular="0 0 0"/></visual>'
            '<default><geom contype="0" conaffinity="0" rgba="0.9 0.9 0.9 1" density="0"/>'
            "</default><worldbody>"
            f'{lights}<geom name="ground" type="plane" size="80 80 1"/>'
            '<body name="eye" mocap="true"><camera name="eye" fovy="60"/></body>'
            f"{''.join(self._xml)}</worldbody></mujoco>"
        )

    # -- the package's robots

    def _attach(self, spec: mujoco.MjSpec) -> list[tuple[str, int, float]]:
        """Attaches up to two of rcsssmj's robots, scaled; returns prefix, instance, scale."""
        rng, result = self.rng, []
        count = int(rng.choice([0, 1, 2], p=[0.35, 0.45, 0.2])) * (not self.crews)
        for index in range(count):
            name = str(rng.choice(["T1", "K1", "ant"], p=[0.48, 0.48, 0.04]))
            child = mujoco.MjSpec.from_file(str(PACKAGE / name / "robot.xml"))
            scale = float({"T1": 0.75, "K1": 0.85, "ant": 0.3}[name] * rng.uniform(0.6, 1.3))
            scale_spec(child, scale)
            prefix = f"packaged{index}_"
            spec.attach(child, frame=spec.worldbody.add_frame(), prefix=prefix)
            instance = self._instance(ROBOT)
            result.append((prefix, instance, scale))
            self.things.append(Thing("packaged", prefix, 0.35 * scale, 0.0, scale, [instance]))
        return result

    def _tables(self, packaged: list[tuple[str, int, float]]) -> None:
        model, count = self.model, self.model.ngeom
        model.geom_matid[:] = -1
        model.geom_rgba[:] = (0.9, 0.9, 0.9, 1)
        self.colour = np.full((count, 3), 0.5, np.float32)
        self.texture = np.zeros(count, np.int64)
        self.metres = np.full(count, 0.3, np.float32)
        self.instance = np.zeros(count, np.int64)
        self.ball = np.full(count, -1, np.int64)
        self.is_net = np.zeros(count, bool)
        self.ground = model.geom("ground").id
        for name, (part, instance, variant) in self._geoms.items():
            geom = model.geom(name).id
            self.colour[geom], self.texture[geom] = part.colour, variant
            self.metres[geom], self.instance[geom] = part.texture_metres, instance
            self.is_net[geom] = part.role == "net"
            if part.role == "ball":
                self.ball[geom] = instance
        self.numbered = self.texture >= len(NAMES + MORE) * VARIANTS
        for prefix, instance, _ in packaged:
            look: robots.Look | smooth_robots.WhiteLook = robots.Look(self.rng)
            if self.recipe.white and self.rng.random() < self.recipe.white:
                look = smooth_robots.WhiteLook(self.rng)
            for geom in range(count):
                if model.body(int(model.geom_bodyid[geom])).name.startswith(prefix):
                    self.instance[geom] = instance
                    self.colour[geom] = look.team if self.rng.random() < 0.12 else look.colour()
                    self.texture[geom] = NAMES.index(look.fabric()) * VARIANTS + self.rng.integers(
                        VARIANTS
                    )
                    self.metres[geom] = self.rng.uniform(0.06, 0.3)
                    if (
                        model.geom_group[geom] == 3
                        and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_MESH
                    ):
                        model.geom_rgba[geom, 3] = 0

    def post_place(self) -> Array:
        """Where one of the goalposts stands, drawn at random, [2]."""
        side = int(self.rng.integers(2))
        goal = [thing for thing in self.things if thing.kind == "goal"][side]
        foot = goal.posts[int(self.rng.integers(len(goal.posts)))]
        x = self.field.half[0] * (1 if side else -1)
        return np.array([x, foot[1] if side else -foot[1]])

    def goal_place(self) -> Array:
        """The middle of one of the goals' lines, drawn at random, [2]."""
        return np.array([self.field.half[0] * self.rng.choice([-1, 1]), 0.0])

    # -- placing

    def put(self, thing: Thing, at: Array, turn: Array) -> None:
        """Places a thing; at is the point of the ground below its origin, turn [3,3]."""
        model, data = self.model, self.data
        if thing.kind == "packaged":
            root = next(
                model.joint(i)
                for i in range(model.njnt)
                if model.joint(i).name.startswith(thing.body)
                and model.jnt_type[i] == mujoco.mjtJoint.mjJNT_FREE
            )
            self._pose(thing, root.id)
            address = int(model.jnt_qposadr[root.id])
            data.qpos[address : address + 3] = (0, 0, 0)
            data.qpos[address + 3 : address + 7] = quaternion(turn)
            mujoco.mj_kinematics(model, data)
            low = self._lowest(thing.body)
            data.qpos[address : address + 3] = np.asarray(at) - [0, 0, low]
            return
        slot = int(model.body_mocapid[model.body(thing.body).id])
        data.mocap_pos[slot] = np.asarray(at) + np.array([0, 0, thing.lift])
        data.mocap_quat[slot] = quaternion(turn)

    def hide(self, thing: Thing) -> None:
        self.put(thing, AWAY, np.eye(3))

    def _pose(self, thing: Thing, root: int) -> None:
        """Draws joint angles: most joints near zero, knees bent with the hips."""
        model, rng = self.model, self.rng
        bend = abs(rng.normal(0.25, 0.25))
        for joint in range(model.njnt):
            name = model.joint(joint).name
            if joint == root or not name.startswith(thing.body):
                continue
            wanted = rng.normal(0, 0.18)
            if "Knee" in name:
                wanted = 2 * bend + abs(rng.normal(0, 0.3))
            elif "Hip_Pitch" in name or "Ankle_Pitch" in name:
                wanted = -bend + rng.normal(0, 0.25)
            elif "Shoulder_Roll" in name:
                wanted = (-1.2 if "Left" in name else 1.2) + rng.normal(0, 0.2)
            elif "Elbow" in name or "Shoulder" in name:
                wanted = rng.normal(0, 0.6)
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-0.3, 0.3)
            self.data.qpos[model.jnt_qposadr[joint]] = np.clip(wanted, low, high)

    def _lowest(self, prefix: str) -> float:
        model, data, low = self.model, self.data, np.inf
        for geom in range(model.ngeom):
            if model.body(int(model.geom_bodyid[geom])).name.startswith(prefix):
                centre, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
                turn = data.geom_xmat[geom].reshape(3, 3)
                z = data.geom_xpos[geom, 2] + turn[2] @ centre - np.abs(turn[2]) @ half
                low = min(low, float(z))
        return low


def scale_spec(spec: mujoco.MjSpec, scale: float) -> None:
    """Scales a robot about its root."""
    for mesh in spec.meshes:
        mesh.scale = np.asarray(mesh.scale) * scale
    for body in spec.bodies:
        body.pos = np.asarray(body.pos) * scale
    for group in (spec.geoms, spec.joints, spec.sites):
        for item in group:
            item.pos = np.asarray(item.pos) * scale
    for item in spec.geoms:
        item.size = np.asarray(item.size) * scale
        if not np.isnan(item.fromto[0]):
            item.fromto = np.asarray(item.fromto) * scale
