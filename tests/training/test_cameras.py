"""Cameras see what they shall show, as large and where it was asked for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

from recipes import NINTH, SEVENTH


def projected(camera, point) -> tuple[float, float]:
    """Where a point [3] lies in the image, from 0 to 1 from its left upper corner."""
    from cameras import WIDE

    x, y, z = (np.asarray(point) - camera.at) @ camera.axes
    return 0.5 - camera.focal * x / z / WIDE, 0.5 + camera.focal * y / z / camera.high


def test_far_things_have_the_pixels_that_were_asked_for() -> None:
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    rng = np.random.default_rng(2)
    for pixels in (8, 20, 60):
        camera = Camera(rng, (4.0, 3.0), 576)
        distance = camera.distance_for(0.2, pixels)
        assert 0.2 / distance * camera.focal * 512 / 768 == pytest.approx(pixels)
        place = camera.at[:2] + np.array([2.0, 1.0])
        camera.frame_edge(place, rng)
        gap = np.arctan2(1.0, 2.0) - camera.yaw
        off = abs((gap + np.pi) % (2 * np.pi) - np.pi)
        assert 0.43 * camera.across < off < 0.51 * camera.across


def test_cameras_look_at_what_they_shall_show() -> None:
    """From near a post, on all sides of it; and at robots and balls as large as was asked for."""
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    rng, sides = np.random.default_rng(4), set()
    for _ in range(40):
        camera, post = Camera(rng, (4.0, 3.0), 576), np.array([4.0, -1.0])
        camera.stand_by(post, rng)
        gap = post - camera.at[:2]
        assert 0.49 < np.linalg.norm(gap) < 3.51
        off = np.arctan2(gap[1], gap[0]) - camera.yaw
        assert abs((off + np.pi) % (2 * np.pi) - np.pi) <= 0.451 * camera.across
        sides.add((gap[0] > 0, gap[1] > 0))
    assert len(sides) == 4
    for size, pixels in ((0.2, 100), (0.2, 300), (0.6, 200), (0.6, 430)):
        camera = Camera(rng, (4.0, 3.0), 576)
        place = camera.close_up(size, pixels, rng)
        gap = np.linalg.norm(place - camera.at)
        assert gap == pytest.approx(max(camera.distance_for(size, pixels), 0.3))
        assert 0.1 < camera.at[2] <= max(0.91 * gap, 0.15) and place[2] == 0
        camera.widen(2.0)
        assert camera.across == 2.0


def test_cameras_behind_a_goal_look_through_it() -> None:
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    rng = np.random.default_rng(4)
    for side in (-1, 1) * 20:
        camera, goal = Camera(rng, (4.0, 3.0), 576), np.array([side * 4.0, 0.0])
        camera.stand_behind(goal, rng)
        assert 4.8 < side * camera.at[0] < 6.5
        assert -side * np.cos(camera.yaw) > 0  # towards the field


def test_small_robots_look_down_to_where_others_stand() -> None:
    """The horizon is near the image's upper edge or above it, so that the edge cuts what stands."""
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    for seed in range(20):
        camera = Camera(np.random.default_rng(seed), (4.0, 3.0), 576)
        camera.lower(np.random.default_rng(seed), stooped=1.0)
        above = camera.pitch - np.arctan(camera.high / 2 / camera.focal)
        assert -0.1 <= above <= 0.2 and 0.4 <= camera.at[2] <= 0.58


def test_posts_that_are_nearly_touched_lie_at_the_images_edge() -> None:
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    post, sides = np.array([4.0, -1.0]), set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        camera = Camera(rng, (4.0, 3.0), 576)
        camera.stand_by(post, rng, touching=1.0)
        gap = post - camera.at[:2]
        assert 0.24 < np.linalg.norm(gap) < 0.81
        off = (np.arctan2(gap[1], gap[0]) - camera.yaw + np.pi) % (2 * np.pi) - np.pi
        assert 0.35 * camera.across < abs(off) < 0.57 * camera.across
        sides.add(off > 0)
    assert sides == {True, False}


def test_crowds_stand_beside_and_before_the_camera() -> None:
    """In matches, where no robot comes so near otherwise."""
    pytest.importorskip("rcsssmj")
    from cameras import Camera
    from staging import Director
    from world import World

    near = {}
    for share in (0.0, 1.0):
        recipe = replace(SEVENTH, meshes=0.0, squads=0.0, crowded=share)
        world, rng, gaps = (
            World(np.random.default_rng(8), recipe=recipe),
            np.random.default_rng(3),
            [],
        )
        for _ in range(10):
            camera, director = Camera(rng, world.field.half), Director(world, rng)
            director.arrange(camera, match=True)
            slots = [world.model.body(t.body).id for t in world.things if t.kind == "robot"]
            places = world.data.mocap_pos[world.model.body_mocapid[slots]]
            gaps.append(np.linalg.norm(places[:, :2] - camera.at[:2], axis=1)[places[:, 2] > -5])
        near[share] = sum((gap < 1.7).any() for gap in gaps)
    assert near[1.0] >= 9 and near[0.0] < 6


def shots(recipe, count: int):
    """The world of so many shots, every other one of a match."""
    from cameras import Camera
    from staging import Director
    from world import World

    plain = replace(recipe, meshes=0.0, squads=0.0, earlier=0.0, large=0.0)
    world, rng = World(np.random.default_rng(8), recipe=plain), np.random.default_rng(3)
    for number in range(count):
        camera = Camera(rng, world.field.half)
        Director(world, rng).arrange(camera, match=number % 2 == 0)
        yield world


def placed(world, kind: str):
    """Things of a kind that are in the shot, with their places [2] on the ground."""
    for thing in world.things:
        if thing.kind == kind:
            slot = int(world.model.body_mocapid[world.model.body(thing.body).id])
            at = world.data.mocap_pos[slot]
            if at[2] > -5:
                yield thing, at[:2].copy()


def test_pairs_stand_closer_than_others_may() -> None:
    """A robot has room around it, unless another is put beside it."""
    pytest.importorskip("rcsssmj")
    close = {}
    for share in (0.0, 1.0):
        close[share] = 0
        for world in shots(replace(NINTH, pairs=share, rows=0.0, crowded=0.0), 12):
            robots = list(placed(world, "robot"))
            gaps = [
                np.linalg.norm(p - q) / (a.radius + b.radius)
                for i, (a, p) in enumerate(robots)
                for b, q in robots[:i]
            ]
            close[share] += sum(0.5 < gap < 0.7 for gap in gaps)
    assert close[0.0] == 0 and close[1.0] >= 4


def test_large_robots_take_the_share_that_was_asked_for() -> None:
    """Whole ones; of others the edge cuts off the legs, or what is above them."""
    pytest.importorskip("rcsssmj")
    from cameras import Camera

    for seed in range(60):
        rng = np.random.default_rng(seed)
        camera, share = Camera(rng, (4.0, 3.0), 576), rng.uniform(0.4, 0.95)
        part = ("whole", "upper", "lower")[seed % 3]
        at = camera.fill_with(0.7, 0.2, share, rng, part)
        assert at[2] == 0 and 0.4 <= camera.at[2] <= 1.7
        (across, foot), (_, head) = (projected(camera, [*at[:2], z]) for z in (0, 0.7))
        assert -0.05 < across < 1.05
        if part == "whole" and np.radians(14.1) < camera.across < np.radians(104.9):
            assert foot - head == pytest.approx(share, abs=0.15)
            assert head > -0.1 and foot < 1.1
        if part == "upper":
            assert foot > 1.02 and head < 1
        if part == "lower":
            assert head < -0.02 and foot > 0


def test_strips_of_posts_lie_at_the_images_edge() -> None:
    pytest.importorskip("rcsssmj")
    from cameras import POST, Camera

    sides = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        camera, post = Camera(rng, (4.0, 3.0), 576), np.array([4.0, -1.0])
        camera.frame_strip(post, rng)
        gap = np.linalg.norm(post - camera.at[:2])
        assert 0.49 < gap < 4.01
        u, _ = projected(camera, [*post, camera.at[2]])
        wide = 2.5 * POST * camera.focal / gap / 768
        assert min(abs(u), abs(u - 1)) < wide + 0.02
        assert not camera.sees(camera.at[:2] - (post - camera.at[:2]))
        sides.add(u > 0.5)
    assert sides == {True, False}


def test_goals_far_away_are_small() -> None:
    pytest.importorskip("rcsssmj")
    from cameras import GOAL, Camera

    sizes = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        camera, goal = Camera(rng, (5.0, 3.5), 576), np.array([-5.0, 0.0])
        camera.look_far(goal, rng)
        gap = np.linalg.norm(goal - camera.at[:2])
        assert np.radians(39.9) < camera.across < np.radians(105.1) and gap > 3.9
        assert -0.2 < projected(camera, [*goal, 0.5])[0] < 1.2
        sizes.append(GOAL * camera.focal * 512 / 768 / gap)
    assert min(sizes) > 13 and np.median(sizes) < 60


def test_glare_lies_on_a_ball() -> None:
    """A patch of sun about it makes it far brighter than it was."""
    torch = pytest.importorskip("torch")
    from appearance import draw_glare
    from shading import sunlight

    for seed in range(10):
        place = np.array([1.5, -0.5])
        sun = draw_glare(np.random.default_rng(seed), place, lambda v: torch.tensor(np.float32(v)))
        look = SimpleNamespace(suns=(sun,))
        assert float(sunlight(look, torch.tensor([[*place, 0.0]], dtype=torch.float32))) > 1.3
