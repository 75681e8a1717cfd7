"""Meshes and joints of real humanoids, from public packages, small enough for many in one world:
python training/mesh_files.py cmeel.prefix/share/example-robot-data/robots build/humanoids.npz

The folder is that of the unpacked wheel of example-robot-data, of which the robots in DESCRIPTIONS
are taken; T1 and K1 come from rcsssmj. Nothing else is read, and no code of theirs is run. A
robot is a tree of links: humanoids.py poses it. Lengths are metres, angles radians; x is forward, y
left, z up, and at angles of zero a robot stands upright.
"""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from recipes import Recipe
from shapes import rotation

from tvm_vision.errors import InputError
from tvm_vision.whole_files import whole

Array = np.ndarray
# Name -> the file of its joints, within the package. All have licences that allow to use them so:
# docs/reference/demo-model.md names them.
DESCRIPTIONS = {
    "romeo": "romeo_description/urdf/romeo_small.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
}
SIMULATED = ("T1", "K1")  # of rcsssmj
CELL = 0.01  # of a robot's height: details that are smaller vanish
UP = np.array([0.0, 0.0, 1.0])  # an axis for joints that do not turn
UNKNOWN = -1.0  # a shell's grey where its file does not say it


@dataclass
class Shell:
    """A part of a link's surface: vertices float32 [n,3] in the link's frame, faces int32 [m,3],
    and how bright it is, 0 to 1, or UNKNOWN."""

    vertices: Array
    faces: Array
    grey: float = UNKNOWN


@dataclass
class Link:
    """A rigid part and the joint that holds it: its parent's index (-1 for the root), the joint's
    place [3] and orientation [3,3] in the parent, its axis [3] in its own frame, and its lowest and
    highest angle, both 0 for a fixed one."""

    name: str
    parent: int
    at: Array
    turn: Array
    axis: Array
    low: float
    high: float
    shells: list[Shell] = field(default_factory=list)


def read_mesh(path: Path) -> list[Shell]:
    """The surfaces of a mesh file, STL or COLLADA, in metres: one for each material of each node.

    Raises InputError for a file that is none, and for one without triangles.
    """
    import trimesh

    try:
        scene = trimesh.load_scene(path, process=False)
    except Exception as error:  # of any kind, by what is wrong with the file
        raise InputError(f"a mesh file is needed, found '{path}': {error}") from None
    # STL has no units, and those of robots are in metres.
    metres = trimesh.units.unit_conversion(scene.units, "meters") if scene.units else 1.0
    shells = []
    for node in scene.graph.nodes_geometry:
        place, name = scene.graph[node]
        mesh = scene.geometry[name]
        vertices = metres * trimesh.transform_points(mesh.vertices, place)
        colour = getattr(getattr(mesh.visual, "material", None), "baseColorFactor", None)
        grey = UNKNOWN if colour is None else float(np.mean(colour[:3])) / 255
        shells.append(Shell(vertices.astype(np.float32), np.asarray(mesh.faces, np.int32), grey))
    if not sum(len(shell.faces) for shell in shells):
        raise InputError(f"a mesh file with triangles is needed, found none in '{path}'")
    return shells


def about(axis: Array, angles: Array) -> Array:
    """Rotations [s,3,3] by angles [s] about an axis [3] of any length."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    s, c = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    return np.eye(3) + s * cross + (1 - c) * (cross @ cross)


def origin(element: ElementTree.Element) -> tuple[Array, Array]:
    """Place [3] and orientation [3,3] that a URDF's element says."""
    said = element.find("origin")
    values = {} if said is None else said.attrib
    roll, pitch, yaw = map(float, values.get("rpy", "0 0 0").split())
    turn = rotation("z", yaw) @ rotation("y", pitch) @ rotation("x", roll)
    return np.array(values.get("xyz", "0 0 0").split(), float), turn


def read_urdf(path: Path, robots: Path) -> list[Link]:
    """The links of a URDF file, parents first. robots: the package's folder, which the meshes'
    names begin with."""
    root = ElementTree.parse(path).getroot()
    shells = {link.get("name"): shells_of(link, robots) for link in root.findall("link")}
    joints = root.findall("joint")
    held = {child.get("link") for joint in joints for child in joint.findall("child")}
    (top,) = set(shells) - held
    links = [Link("", -1, np.zeros(3), np.eye(3), UP, 0.0, 0.0, shells[top])]
    waiting: list[tuple[str | None, int]] = [(top, 0)]
    while waiting:
        name, index = waiting.pop()
        for joint in joints:
            parent, child = joint.find("parent"), joint.find("child")
            assert parent is not None and child is not None
            if parent.get("link") != name:
                continue
            at, turn = origin(joint)
            axis, limit, along, low, high = joint.find("axis"), joint.find("limit"), UP, 0.0, 0.0
            if joint.get("type") == "revolute" and limit is not None:
                words = "1 0 0" if axis is None else axis.get("xyz", "1 0 0")
                along = np.array(words.split(), float)
                low, high = float(limit.get("lower", 0)), float(limit.get("upper", 0))
            below = shells[child.get("link")]
            link = Link(joint.get("name", ""), index, at, turn, along, low, high, below)
            links.append(link)
            waiting.append((child.get("link"), len(links) - 1))
    return links


def shells_of(link: ElementTree.Element, robots: Path) -> list[Shell]:
    """What a URDF's link shows, in its frame."""
    result = []
    for visual in link.findall("visual"):
        mesh = visual.find("geometry/mesh")
        if mesh is None:
            continue
        name = mesh.get("filename", "").rpartition("/robots/")[2]
        read = read_mesh(robots / name)
        scale = np.array(mesh.get("scale", "1 1 1").split(), float)
        at, turn = origin(visual)
        for shell in read:
            shell.vertices = ((shell.vertices * scale) @ turn.T + at).astype(np.float32)
        result += read
    return result


def read_simulated(path: Path) -> list[Link]:
    """The links of a robot of rcsssmj, without its collision shapes."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(path))
    numbers = {1: -1}
    links: list[Link] = []
    for body in range(1, model.nbody):
        hinges = [j for j in range(model.njnt) if model.jnt_bodyid[j] == body
                  and model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE]  # fmt: skip
        name = model.joint(hinges[0]).name if hinges else ""
        axis = model.jnt_axis[hinges[0]] if hinges else UP
        low, high = model.jnt_range[hinges[0]] if hinges else (0.0, 0.0)
        parent = -1 if body == 1 else numbers[int(model.body_parentid[body])]
        at = np.zeros(3) if body == 1 else model.body_pos[body].copy()
        turn = np.eye(3) if body == 1 else matrix(model.body_quat[body])
        link = Link(name, parent, at, turn, axis.copy(), float(low), float(high))
        for geom in np.flatnonzero(model.geom_bodyid == body):
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH and model.geom_group[geom] != 3:
                mesh = int(model.geom_dataid[geom])
                v, f = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
                vertices = model.mesh_vert[v : v + model.mesh_vertnum[mesh]]
                placed = vertices @ matrix(model.geom_quat[geom]).T + model.geom_pos[geom]
                faces = model.mesh_face[f : f + model.mesh_facenum[mesh]]
                link.shells.append(Shell(placed.astype(np.float32), faces.astype(np.int32)))
        numbers[body] = len(links)
        links.append(link)
    return links


def matrix(quaternion: Array) -> Array:
    """Rotation matrix [3,3] of a unit quaternion (w, x, y, z)."""
    import mujoco

    result = np.zeros(9)
    mujoco.mju_quat2Mat(result, quaternion)
    return result.reshape(3, 3)


def decimated(shell: Shell, cell: float) -> Shell:
    """The same surface with one vertex, their mean, for all corners of triangles that lie in a cube
    of this side; triangles that vanish or come twice are left out. Those that look inwards have
    vertices of their own: a thin wall's two sides would become one otherwise."""
    corners = shell.vertices[shell.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outward = ((corners.mean(1) - corners.mean((0, 1))) * normals).sum(1) > 0
    flat = corners.reshape(-1, 3)
    cubes = np.c_[np.floor(flat / cell), np.repeat(outward, 3)].astype(np.int64)
    _, place, count = np.unique(cubes, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    sums = np.zeros((len(count), 3))
    np.add.at(sums, place, flat)
    faces = place.reshape(-1, 3)
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    if len(faces):
        _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
        faces = faces[np.sort(first)]
    used, new = np.unique(faces, return_inverse=True)
    vertices = (sums / count[:, None])[used].astype(np.float32)
    return Shell(vertices, new.reshape(-1, 3).astype(np.int32), shell.grey)


def height(links: list[Link]) -> float:
    """Of the robot upright, in metres."""
    ends: list[Array] = []
    frames: list[tuple[Array, Array]] = []
    for link in links:
        at, turn = (np.zeros(3), np.eye(3)) if link.parent < 0 else frames[link.parent]
        frames.append((at + turn @ link.at, turn @ link.turn))
        ends += [(s.vertices @ frames[-1][1].T + frames[-1][0])[:, 2] for s in link.shells]
    return float(np.ptp(np.concatenate(ends)))


def lightened(links: list[Link]) -> list[Link]:
    """The links with decimated shells, none of fewer than 4 triangles."""
    cell = CELL * height(links)
    for link in links:
        small = [decimated(shell, cell) for shell in link.shells]
        link.shells = [shell for shell in small if len(shell.faces) >= 4]
    return links


def save(robots: dict[str, list[Link]], path: Path) -> None:
    """Writes robots into one .npz file."""
    arrays: dict[str, Any] = {}
    trees: dict[str, list[dict[str, object]]] = {}
    for name, links in robots.items():
        trees[name] = []
        for link in links:
            keys = []
            for shell in link.shells:
                key = str(len(arrays) // 2)
                arrays[f"v{key}"] = shell.vertices.astype(np.float16)
                arrays[f"f{key}"] = shell.faces.astype(np.uint16)
                keys.append((key, shell.grey))
            trees[name].append({
                "name": link.name, "parent": link.parent, "at": link.at.tolist(),
                "turn": link.turn.tolist(), "axis": link.axis.tolist(),
                "low": link.low, "high": link.high, "shells": keys,
            })  # fmt: skip
    arrays["trees"] = np.frombuffer(json.dumps(trees).encode(), np.uint8)
    with whole(path) as fresh:
        np.savez_compressed(fresh, **arrays)


def load(path: Path) -> dict[str, list[Link]]:
    """Reads what save() wrote. Raises InputError for another file."""
    try:
        with np.load(path) as file:
            trees = json.loads(file["trees"].tobytes())
            return {name: [read_link(row, file) for row in rows] for name, rows in trees.items()}
    except (OSError, KeyError, ValueError):
        raise InputError(
            f"a file of training/mesh_files.py is needed, found '{path}', which is none"
        ) from None


def check_named(path: Path | None, recipes: Iterable[Recipe]) -> None:
    """Raises SystemExit where one of the recipes has meshes and no file of them is named."""
    for recipe in recipes:
        if recipe.meshes and path is None:
            raise SystemExit(
                f"--meshes FILE is needed for recipe {recipe.number}, found none: "
                "training/mesh_files.py makes it"
            )


def read_link(row: dict[str, Any], file: Any) -> Link:
    """One link of a saved robot; file: the arrays beside it."""
    shells = [
        Shell(file[f"v{key}"].astype(np.float32), file[f"f{key}"].astype(np.int32), grey)
        for key, grey in row["shells"]
    ]
    at, turn, axis = (np.array(row[name]) for name in ("at", "turn", "axis"))
    return Link(row["name"], row["parent"], at, turn, axis, row["low"], row["high"], shells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("robots", type=Path, help="folder of the package's robots")
    parser.add_argument("out", type=Path, help="what is written (.npz)")
    options = parser.parse_args()
    missing = [name for name in DESCRIPTIONS.values() if not (options.robots / name).is_file()]
    if missing:
        raise SystemExit(
            f"'{missing[0]}' is needed in '{options.robots}', found no such file: "
            "pip download --no-deps example-robot-data==6.0.0, unzip the wheel, and name its "
            "cmeel.prefix/share/example-robot-data/robots"
        )
    import rcsssmj

    simulated = Path(rcsssmj.__file__).parent / "resources" / "robots"
    robots = {
        name: read_urdf(options.robots / file, options.robots)
        for name, file in DESCRIPTIONS.items()
    }
    robots |= {name: read_simulated(simulated / name / "robot.xml") for name in SIMULATED}
    for name, links in robots.items():
        lightened(links)
        faces = sum(len(shell.faces) for link in links for shell in link.shells)
        print(f"{name}: {len(links)} links, {faces} triangles")
    save(robots, options.out)


if __name__ == "__main__":
    main()
