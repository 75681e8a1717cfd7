"""Real humanoids in scenes: their files, and that they stand, sit and lie as they should. The robot
is made here; none of a package is needed."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import humanoids
import mesh_files
import props
from mesh_files import UNKNOWN, Link, Shell

from tvm_vision.errors import InputError

TRAINING = Path(__file__).resolve().parents[2] / "training"
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32) / 2
# Of a cube, two triangles a side, counterclockwise from outside.
SIDES = np.array([
    (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
    (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
])  # fmt: skip
# Name -> parent, the joint's place, its axis, limits, and size and middle of its box.
LINKS = {
    "torso": (None, (0, 0, 0), (0, 0, 1), None, (0.12, 0.2, 0.3), (0, 0, 0.15)),
    "HeadYaw": ("torso", (0, 0, 0.32), (0, 0, 1), (-1, 1), (0.1, 0.1, 0.12), (0, 0, 0.07)),
}
for NAME, SIDE in (("L", 1), ("R", -1)):
    LINKS |= {
        f"{NAME}HipPitch": ("torso", (0, SIDE * 0.07, 0), (0, 1, 0), (-2, 0.5), (0.07, 0.07, 0.22),
                            (0, 0, -0.12)),
        f"{NAME}KneePitch": (f"{NAME}HipPitch", (0, 0, -0.25), (0, 1, 0), (0, 2.2),
                             (0.06, 0.06, 0.2), (0, 0, -0.1)),
        f"{NAME}AnklePitch": (f"{NAME}KneePitch", (0, 0, -0.22), (0, 1, 0), (-1, 1),
                              (0.16, 0.08, 0.04), (0.03, 0, -0.02)),
        f"{NAME}ShoulderPitch": ("torso", (0, SIDE * 0.13, 0.26), (0, 1, 0), (-2, 2),
                                 (0.05, 0.05, 0.18), (0, 0, -0.09)),
        f"{NAME}ShoulderRoll": (f"{NAME}ShoulderPitch", (0, 0, 0), (1, 0, 0), (-1, 1), None, None),
        f"{NAME}ElbowPitch": (f"{NAME}ShoulderRoll", (0, 0, -0.2), (0, 1, 0), (-2, 0),
                              (0.04, 0.04, 0.16), (0, 0, -0.08)),
    }  # fmt: skip


def write_stl(path: Path) -> None:
    """A cube of one metre, as triangles that share no corner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [struct.pack("<12fH", *np.zeros(3), *CORNERS[side].reshape(-1), 0) for side in SIDES]
    path.write_bytes(bytes(80) + struct.pack("<I", len(rows)) + b"".join(rows))


def write_dae(path: Path, faces: str, colour: str = "0.9 0.9 0.9 1") -> None:
    """The cube as COLLADA; faces: the primitive's element."""
    places = " ".join(map(str, CORNERS.reshape(-1)))
    axes = "".join(f"<param name='{axis}' type='float'/>" for axis in "XYZ")
    path.write_text(
        '<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset>'
        '<unit meter="0.01"/></asset><library_effects><effect id="e"><profile_COMMON><technique '
        f'sid="common"><phong><diffuse><color>{colour}</color></diffuse></phong></technique>'
        '</profile_COMMON></effect></library_effects><library_materials><material id="m">'
        '<instance_effect url="#e"/></material></library_materials><library_geometries><geometry '
        f'id="g"><mesh><source id="p"><float_array id="a" count="24">{places}</float_array>'
        f'<technique_common><accessor source="#a" count="8" stride="3">{axes}</accessor>'
        '</technique_common></source><vertices id="v"><input semantic="POSITION" source="#p"/>'
        f"</vertices>{faces}</mesh></geometry></library_geometries><library_visual_scenes>"
        '<visual_scene id="s"><node><translate>0 0 100</translate><rotate>0 0 1 90</rotate><scale>'
        '100 200 100</scale><instance_geometry url="#g"><bind_material><technique_common>'
        '<instance_material symbol="s" target="#m"/></technique_common></bind_material>'
        "</instance_geometry></node></visual_scene></library_visual_scenes><scene>"
        '<instance_visual_scene url="#s"/></scene></COLLADA>'
    )


def write_urdf(path: Path) -> None:
    """The robot of LINKS, each link a scaled cube."""
    links, joints = [], []
    for name, (parent, at, axis, limits, size, middle) in LINKS.items():
        shown = "" if size is None else (
            f'<visual><origin xyz="{" ".join(map(str, middle))}"/><geometry><mesh '
            f'filename="package://x/robots/tiny/cube.stl" scale="{" ".join(map(str, size))}"/>'
            "</geometry></visual>"
        )  # fmt: skip
        links.append(f'<link name="{name}_link">{shown}</link>')
        if parent:
            joints.append(
                f'<joint name="{name}" type="revolute"><parent link="{parent}_link"/><child '
                f'link="{name}_link"/><origin xyz="{" ".join(map(str, at))}" rpy="0 0 0"/><axis '
                f'xyz="{" ".join(map(str, axis))}"/><limit lower="{limits[0]}" '
                f'upper="{limits[1]}"/></joint>'
            )
    path.write_text(f"<robot>{''.join(links + joints)}</robot>")


def links() -> list[Link]:
    """The robot of LINKS, parents first."""
    numbers = {None: -1} | {name: number for number, name in enumerate(LINKS)}
    made = []
    for name, (parent, at, axis, limits, size, middle) in LINKS.items():
        shells = [] if size is None else [Shell(CORNERS * size + middle, SIDES, UNKNOWN)]
        low, high = limits or (0, 0)
        turned = np.array(axis, float)
        link = Link(name, numbers[parent], np.array(at), np.eye(3), turned, low, high, shells)
        made.append(link)
    return made


@pytest.fixture(scope="module")
def robots() -> humanoids.Robots:
    return {"tiny": links()}


def ends(parts) -> tuple[np.ndarray, np.ndarray]:
    """The corners of what parts that are meshes fill."""
    corners = np.concatenate(
        [p.surface[0] @ p.frame.turn.T + p.frame.at for p in parts if p.surface is not None]
    )
    return corners.min(0), corners.max(0)


def test_a_description_becomes_links(tmp_path) -> None:
    pytest.importorskip("trimesh")
    write_stl(tmp_path / "tiny" / "cube.stl")
    write_urdf(tmp_path / "tiny.urdf")
    found = mesh_files.read_urdf(tmp_path / "tiny.urdf", tmp_path)
    assert len(found) == len(LINKS) and found[0].parent == -1
    assert all(link.parent < index for index, link in enumerate(found))
    by_name = {link.name: link for link in found}
    made = links()
    for wanted in made[1:]:
        link, parent = by_name[wanted.name], made[wanted.parent].name
        assert found[link.parent].name == (parent if parent != "torso" else "")
        assert (link.low, link.high) == (wanted.low, wanted.high)
        assert link.at == pytest.approx(wanted.at) and link.axis == pytest.approx(wanted.axis)
        for shell, same in zip(link.shells, wanted.shells, strict=True):
            corners = shell.vertices[shell.faces], same.vertices[same.faces]
            assert corners[0] == pytest.approx(corners[1], abs=1e-6)
            assert shell.grey == UNKNOWN
    assert mesh_files.height(found) == pytest.approx(0.02 + 0.02 + 0.47 + 0.45, abs=0.01)


def test_robots_are_saved_and_read_again(robots, tmp_path) -> None:
    mesh_files.save(robots, tmp_path / "robots.npz")
    (again,) = mesh_files.load(tmp_path / "robots.npz").values()
    for one, two in zip(robots["tiny"], again, strict=True):
        assert (one.name, one.parent, one.low, one.high) == (
            two.name,
            two.parent,
            two.low,
            two.high,
        )
        for shell, same in zip(one.shells, two.shells, strict=True):
            assert np.abs(shell.vertices - same.vertices).max() < 1e-3
            assert np.array_equal(shell.faces, same.faces)
    (tmp_path / "other.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"a file of training/mesh_files.py is needed, found"):
        mesh_files.load(tmp_path / "other.npz")
    with pytest.raises(InputError, match="a file of training/mesh_files.py is needed"):
        mesh_files.load(tmp_path / "none.npz")


@pytest.mark.parametrize("kind", ["triangles", "polylist"])
def test_collada_is_read_with_its_transforms_and_colours(tmp_path, kind) -> None:
    """Polygons become triangles."""
    pytest.importorskip("trimesh")
    pytest.importorskip("collada")
    if kind == "triangles":
        numbers, counts = SIDES, ""
    else:
        numbers = np.array([(0, 1, 3, 2), (4, 6, 7, 5)])
        counts = "<vcount>4 4</vcount>"
    rows = " ".join(map(str, numbers.reshape(-1)))
    corner = '<input semantic="VERTEX" source="#v" offset="0"/>'
    faces = f'<{kind} material="s" count="{len(numbers)}">{corner}{counts}<p>{rows}</p></{kind}>'
    write_dae(tmp_path / "a.dae", faces)
    (shell,) = mesh_files.read_mesh(tmp_path / "a.dae")
    assert len(shell.faces) == (12 if kind == "triangles" else 4)
    assert shell.grey == pytest.approx(0.9, abs=0.003)
    # Turned by a right angle, so that what is 2 long along y lies along x; centimetres.
    assert shell.vertices.min(0) == pytest.approx([-1, -0.5, 0.5])
    assert shell.vertices.max(0) == pytest.approx([1, 0.5, 1.5])


def test_bad_mesh_files_are_refused(tmp_path) -> None:
    pytest.importorskip("trimesh")
    pytest.importorskip("collada")
    (tmp_path / "text.dae").write_text("solid cube")
    with pytest.raises(InputError, match="a mesh file is needed, found"):
        mesh_files.read_mesh(tmp_path / "text.dae")
    with pytest.raises(InputError, match="a mesh file is needed, found"):
        mesh_files.read_mesh(tmp_path / "none.stl")
    write_dae(tmp_path / "empty.dae", "")
    with pytest.raises(InputError, match="with triangles is needed, found none"):
        mesh_files.read_mesh(tmp_path / "empty.dae")


def ball_of(steps: int, radius: float) -> Shell:
    """A sphere's surface."""
    down, around = np.meshgrid(
        np.linspace(0.01, np.pi - 0.01, steps), np.linspace(0, 2 * np.pi, steps), indexing="ij"
    )
    places = np.stack([np.sin(down) * np.cos(around), np.sin(down) * np.sin(around), np.cos(down)])
    corner = np.arange(steps * steps).reshape(steps, steps)
    a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
    faces = np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))])
    return Shell((radius * places.reshape(3, -1).T).astype(np.float32), faces.astype(np.int32), 0.5)


def test_decimation_keeps_the_form() -> None:
    shell = ball_of(60, 0.2)
    small = mesh_files.decimated(shell, 0.04)
    assert len(small.faces) < len(shell.faces) / 5 and small.grey == 0.5
    assert np.abs(np.linalg.norm(small.vertices, axis=1) - 0.2).max() < 0.03
    assert small.faces.max() == len(small.vertices) - 1
    a, b, c = (small.vertices[small.faces[:, i]] for i in range(3))
    outward = (np.cross(b - a, c - a) * (a + b + c)).sum(1)
    assert (outward > 0).mean() > 0.97
    shell.vertices += 1
    assert len(mesh_files.decimated(shell, 9.0).faces) == 0


def test_thin_walls_keep_both_sides_apart() -> None:
    """A bowl's inner side, a millimetre within: no vertex belongs to both."""
    outer, inner = ball_of(40, 0.2), ball_of(40, 0.199)
    faces = np.concatenate([outer.faces, inner.faces[:, ::-1] + len(outer.vertices)])
    both = mesh_files.decimated(
        Shell(np.concatenate([outer.vertices, inner.vertices]), faces), 0.03
    )
    a, b, c = (both.vertices[both.faces[:, i]] for i in range(3))
    out = (np.cross(b - a, c - a) * (a + b + c)).sum(1) > 0
    assert not set(both.faces[out].reshape(-1)) & set(both.faces[~out].reshape(-1))


@pytest.mark.parametrize("pose", humanoids.POSES)
def test_robots_are_on_the_ground_in_every_pose(robots, pose) -> None:
    shapes = []
    for seed in range(8):
        parts = humanoids.humanoid(np.random.default_rng(seed), robots, None, pose, 0.6)
        again = humanoids.humanoid(np.random.default_rng(seed), robots, None, pose, 0.6)
        assert all(
            np.array_equal(p.frame.at, q.frame.at) for p, q in zip(parts, again, strict=True)
        )
        low, high = ends(parts)
        assert min(part.lowest() for part in parts) == pytest.approx(0, abs=1e-9)
        assert low[2] >= -1e-6 and max(part.highest() for part in parts) >= high[2] - 1e-6
        shapes.append(high - low)
    tall = np.median([shape[2] for shape in shapes])
    if pose == "stand":
        assert 0.5 < tall < 0.66
    elif pose == "lie":
        assert tall < 0.35
    elif pose == "sit":
        assert 0.25 < tall < 0.5


def test_sizes_proportions_and_sides(robots) -> None:
    links = robots["tiny"]
    joints = humanoids.joints_of(links)
    left = [i for i, link in enumerate(links) if link.name.startswith("L")]
    assert {joints.sites[i] for i in left} == {"hip", "knee", "ankle", "shoulder", "elbow"}
    assert {joints.sides[i] for i in left} == {1}
    assert joints.sides[0] == 0 and joints.sites[0] == ""
    heads = []
    for seed in range(20):
        scales = humanoids.proportions(np.random.default_rng(seed), links, joints)
        for index in left:
            other = [link.name for link in links].index("R" + links[index].name[1:])
            assert np.array_equal(scales[index], scales[other])
        heads.append(scales[1, 0])
        assert (scales > 0.5).all() and (scales < 2.2).all()
    assert max(heads) > 1.4 and min(heads) < 1.1


def test_joints_stay_within_their_limits(robots) -> None:
    links = robots["tiny"]
    for seed in range(6):
        for pose, (_, lean, _) in humanoids.POSES.items():
            poser = humanoids.Poser(np.random.default_rng(seed), links, humanoids.joints_of(links))
            angles = poser.pose(pose, lean[0])
            for angle, link in zip(angles, links, strict=True):
                assert link.low - 1e-9 <= angle <= link.high + 1e-9


def test_hands_go_where_they_shall(robots) -> None:
    """Among angles at random those are taken that point down, where that is wanted."""
    links = robots["tiny"]
    drops = []
    for seed in range(12):
        poser = humanoids.Poser(np.random.default_rng(seed), links, humanoids.joints_of(links))
        angles = poser.pose("stand", 0.0)
        frames = humanoids.placed(links, angles)
        names = [link.name for link in links]
        drops.append(
            frames[names.index("LShoulderPitch")][0][2] - frames[names.index("LElbowPitch")][0][2]
        )
    assert np.median(drops) > 0.15  # of 0.2


def test_mostly_white(robots) -> None:
    finishes = [humanoids.draw_finish(np.random.default_rng(seed)) for seed in range(200)]
    assert 0.5 < np.mean([min(f.shell) > 0.75 for f in finishes]) < 0.85
    assert 0.05 < np.mean([max(f.shell) < 0.2 for f in finishes]) < 0.3
    assert 0.25 < np.mean([f.shirt is not None for f in finishes]) < 0.55


def test_own_body_leaves_the_camera_free(robots) -> None:
    """Without a head, and nothing where the camera is."""
    for seed in range(8):
        parts = humanoids.own_parts(np.random.default_rng(seed), robots, 0.6)
        assert parts and not any(humanoids.near_camera(part, 0.6) for part in parts)
        assert max(part.highest() for part in parts) < 0.7


def test_people_take_the_pose_that_is_asked_for() -> None:
    high = {
        pose: np.median([
            max(p.frame.at[2] for p in props.person(np.random.default_rng(s), pose=pose))
            for s in range(5)
        ])
        for pose in ("stand", "squat", "sit")
    }  # fmt: skip
    assert high["stand"] > 1.2 * max(high["squat"], high["sit"])


def test_worlds_of_the_fifth_recipe_have_meshes(robots) -> None:
    """MuJoCo compiles them; a squad's robots are of one pose; no other recipe needs them."""
    mujoco = pytest.importorskip("mujoco")
    pytest.importorskip("rcsssmj")
    from recipes import FIFTH, FOURTH
    from world import ROBOT, World

    world = World(np.random.default_rng(3), recipe=FIFTH, meshes=robots)
    meshes = world.model.geom_type == mujoco.mjtGeom.mjGEOM_MESH
    robots_of = [i for i, label in enumerate(world.classes) if label == ROBOT]
    assert set(world.instance[meshes]) & set(robots_of)
    with pytest.raises(InputError, match="are needed for recipe 5, found none"):
        World(np.random.default_rng(3), recipe=FIFTH)
    other = World(np.random.default_rng(3), recipe=FOURTH)
    assert not any(part.surface for part, _, _ in other._geoms.values())
    squads = set()
    for seed in range(40):
        world.rng = np.random.default_rng(seed)
        squads.add(world._squad()[1])
    assert {None, "sit"} < squads


def test_robots_line_up_side_by_side() -> None:
    """In view, none where another is."""
    pytest.importorskip("rcsssmj")
    from cameras import Camera
    from staging import Director
    from world import Thing

    for seed in range(12):
        rng = np.random.default_rng(seed)
        put: dict[str, np.ndarray] = {}
        world = SimpleNamespace(put=lambda thing, at, turn, put=put: put.update({thing.body: at}))
        camera, director = Camera(rng, (4.0, 3.0)), Director(world, rng)
        players = [Thing("robot", f"thing{i}", 0.25, high=0.6) for i in range(6)]
        director._line_up(camera, players)
        assert len(put) == len(director.feet) and len(players) == 6 - len(put)
        places = np.array(director.feet)[:, :2]
        steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
        assert (steps > 0.3).all() and (steps < 1.1).all()
    director._line_up(camera, [])


def test_a_small_robots_camera_is_low() -> None:
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    rng = np.random.default_rng(1)
    for _ in range(10):
        camera = Camera(rng, (4.0, 3.0))
        yaw, pitch = camera.yaw, camera.pitch
        camera.lower(rng)
        assert 0.4 <= camera.at[2] <= 0.58 and camera.across < 1.2
        assert (camera.yaw, camera.pitch) == (pytest.approx(yaw), pitch)


def test_missing_files_are_told(tmp_path) -> None:
    """One line each, with the remedy."""
    pytest.importorskip("torch")
    pytest.importorskip("rcsssmj")
    for words, told in (
        (["mesh_files.py", tmp_path, tmp_path / "out.npz"], "pip download --no-deps example-robot"),
        (["render.py", "--recipe", "5", "--out", tmp_path], "training/mesh_files.py makes it"),
        (["part.py", "--part", "1", "--of", "1"], "training/mesh_files.py makes it"),
    ):
        done = subprocess.run(
            [sys.executable, str(TRAINING / words[0]), *map(str, words[1:])],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1 and told in done.stderr
        assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
