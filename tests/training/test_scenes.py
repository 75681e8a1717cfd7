"""What scenes are made of, and that labels tell what is to be seen."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import furniture
import rounds
import smooth_robots
import teams
import trifles
import uprights
import wheeled_robots
from recipes import EIGHTH, FIFTH, FIRST, FOURTH, RECIPES, SECOND, SEVENTH, SIXTH, THIRD

# Of the geometry of the world of seed 5, by the recipes before the last, as it was before the next.
FIRST_WORLD = "686e6480cdbf"
SECOND_WORLD = "efe5b0eb5d57"
THIRD_WORLD = "3e2f333af844"
FOURTH_WORLD = "2ce9868e5a76"
# Of the places of things in shots of it, by each recipe.
PLACES = {
    1: "3e8835a3c93f",
    2: "24cc6bbf57e7",
    3: "2a8842b0f628",
    4: "154edc52de98",
    5: "f33e316db959",
    6: "907c0445ffb8",
    7: "7af5e096799d",
    8: "41eea545a7ba",
}


def extent(parts) -> tuple[np.ndarray, np.ndarray]:
    """Roughly the corners of the parts, from their middles."""
    middles = np.array([part.frame.at for part in parts])
    return middles.min(0), middles.max(0)


@pytest.mark.parametrize("pose", smooth_robots.POSES)
def test_smooth_robots_stand_on_the_ground(pose: str) -> None:
    """In each pose; upright ones are higher than they are long, those that lie are not."""
    heights = []
    for seed in range(6):
        parts = smooth_robots.smooth_humanoid(np.random.default_rng(seed), pose)
        again = smooth_robots.smooth_humanoid(np.random.default_rng(seed), pose)
        assert [p.size for p in parts] == [p.size for p in again]
        assert min(part.lowest() for part in parts) == pytest.approx(0, abs=1e-9)
        low, high = extent(parts)
        assert 0.1 < (high - low).max() < 1.6 and np.isfinite([low, high]).all()
        heights.append((high - low)[2] / np.hypot(*(high - low)[:2]))
    middle = np.median(heights)
    assert middle > 1 if pose in ("stand", "walk") else middle < 0.8 if pose == "lie" else True


@pytest.mark.parametrize("make", trifles.TRIFLES)
def test_trifles_are_small_and_on_the_ground(make) -> None:
    for seed in range(5):
        parts = make(np.random.default_rng(seed))
        assert min(part.lowest() for part in parts) == pytest.approx(0, abs=0.012)
        assert max(part.frame.at[2] for part in parts) < 1.6


def test_recipes_are_numbered() -> None:
    numbered = [FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH]
    assert RECIPES == {recipe.number: recipe for recipe in numbered}
    assert list(RECIPES) == list(range(1, 9))
    zero = [
        name for name, value in vars(FIRST).items() if name not in ("number", "field") and value
    ]
    assert not zero and FIRST.field == 1.0
    of_third = ("players", "rounds", "behind", "own", "white", "fallen", "flat")
    assert not any(getattr(SECOND, name) for name in of_third)
    assert all(getattr(THIRD, name) for name in of_third)
    of_fourth = "stout wheels uprights pale close posts dim shadow fisheye".split()
    assert not any(getattr(THIRD, name) for name in of_fourth)
    assert all(getattr(FOURTH, name) for name in of_fourth)
    of_fifth = "meshes squads rows cut foam low seated bare".split()
    assert not any(getattr(FOURTH, name) for name in of_fifth)
    assert all(getattr(FIFTH, name) for name in of_fifth)
    of_sixth = "match teams through ropes beside banded".split()
    assert not any(getattr(FIFTH, name) for name in of_sixth)
    assert all(getattr(SIXTH, name) for name in of_sixth)
    of_seventh = "bars stooped crowded touching black".split()
    assert not any(getattr(SIXTH, name) for name in of_seventh)
    assert all(getattr(SEVENTH, name) for name in of_seventh)
    of_eighth = "earlier large parts crews strips distant furniture glare".split()
    assert not any(getattr(SEVENTH, name) for name in of_eighth)
    assert all(getattr(EIGHTH, name) for name in of_eighth)


def test_stout_robots_are_short_with_large_heads() -> None:
    """And have numbers, upright, on the breast and the back of most shirts."""
    plates = 0
    for seed in range(12):
        build = smooth_robots.draw_stout(np.random.default_rng(seed))
        assert 0.45 <= build.tall <= 0.7 and build.head > 0.16 * build.tall
        assert build.thigh + build.shank < 0.41 * build.tall
        parts = smooth_robots.smooth_humanoid(np.random.default_rng(seed), "stand", build)
        assert min(part.lowest() for part in parts) == pytest.approx(0, abs=1e-9)
        numbers = [part for part in parts if part.texture.endswith("digits")]
        plates += len(numbers)
        for part in numbers:
            assert part.frame.turn[2, 2] > 0.9 and part.texture_metres == 2 * part.size[2]
    assert plates > 6


def test_digits_read_upwards_on_what_they_cover() -> None:
    """Their rows go up, as a surface's do: of a 7, the bar is in the last ones."""
    pytest.importorskip("skimage")
    from textures import digits

    rng = np.random.default_rng(1)
    drawn = [digits(rng, bright) for bright in (False, True) * 4]
    for image, bright in zip(drawn, (False, True) * 4, strict=True):
        assert image.shape == (256, 256, 3) and image[0, 0].tolist() == [1, 1, 1]
        ink = image > 6 if bright else image < 0.5
        assert 0.03 < ink.mean() < 0.5 and not ink[:20].any() and not ink[-20:].any()


def _standing(make, seed: int, ground: float, heights: tuple[float, float]) -> list:
    """The parts of a thing of this seed, the same each time, which stands on the ground, as exactly
    as said, reaches up to between the heights (metres), and is no goal."""
    parts, again = (make(np.random.default_rng(seed)) for _ in range(2))
    assert [(p.size, p.colour) for p in parts] == [(p.size, p.colour) for p in again]
    assert min(part.bottom() for part in parts) == pytest.approx(0, abs=ground)
    assert heights[0] < max(part.frame.at[2] for part in parts) < heights[1]
    assert not any(part.role for part in parts)
    return parts


@pytest.mark.parametrize("make", [make for make, _ in uprights.UPRIGHTS])
def test_upright_things_stand_on_the_ground_and_are_no_goals(make) -> None:
    for seed in range(8):
        _standing(make, seed, 0.12, (0.4, 3))
    assert sum(share for _, share in uprights.UPRIGHTS) == pytest.approx(1)


def test_towers_stand_on_wheels() -> None:
    """Broad below, with what looks out on top."""
    for seed in range(12):
        parts = wheeled_robots.tower(np.random.default_rng(seed))
        assert min(part.bottom() for part in parts) == pytest.approx(0, abs=1e-9)
        low, high = extent(parts)
        assert 0.4 < high[2] < 0.95 and 0.1 < (high - low)[:2].max() < 1.0
        wheels = [p for p in parts if p.shape == "cylinder" and p.size == (0.055, 0.02)]
        assert len(wheels) in (3, 4)
        assert np.allclose([w.frame.at[2] for w in wheels], wheels[0].frame.at[2])


@pytest.mark.parametrize("make", [make for make, _, _ in rounds.ROUNDS])
def test_round_things_stand_on_the_ground_and_are_no_balls(make) -> None:
    """A ball is one bright sphere on the ground: none of them is."""
    for seed in range(8):
        parts = make(np.random.default_rng(seed))
        again = make(np.random.default_rng(seed))
        assert [(p.size, p.colour) for p in parts] == [(p.size, p.colour) for p in again]
        assert min(part.bottom() for part in parts) == pytest.approx(0, abs=0.03)
        assert max(part.frame.at[2] for part in parts) < 2.8
        spheres = [p for p in parts if p.shape == "sphere"]
        assert not any(p.size[0] > 0.04 and min(p.colour) > 0.6 for p in spheres)
        assert len(parts) > 1 or parts[0].shape != "ellipsoid"
    assert sum(share for _, share, _ in rounds.ROUNDS) == pytest.approx(1)


def test_flat_pictures_hold_round_things() -> None:
    """Of the size that was asked for, each another, over the pieces that were given."""
    grey = np.full((40, 60, 3), 90, np.uint8)
    first, second = (rounds.picture(np.random.default_rng(i), (96, 128), [grey]) for i in (1, 2))
    assert first.shape == second.shape == (96, 128, 3) and first.dtype == np.uint8
    assert (first != second).mean() > 0.1 and first.std() > 5
    canvas = np.full((100, 100, 3), 128, np.uint8)
    rounds.emblem(np.random.default_rng(3), canvas, np.array([50.0, 50.0]), 20.0)
    changed = (canvas != 128).any(2)
    rows, columns = np.nonzero(changed)
    assert 0.2 < changed.mean() * 100**2 / (np.pi * 20**2) < 1.3
    assert rows.min() >= 26 and columns.max() <= 74


def test_a_line_covers_its_breadth() -> None:
    """Whatever the pixels' width is: the shares of a row of pixels add up to the line."""
    torch = pytest.importorskip("torch")
    from shading import line_cover

    for width in (0.003, 0.02, 0.05, 0.13, 0.4):
        places = torch.arange(-2, 2, width) + 0.3 * width
        cover = line_cover(places.abs(), 0.025, torch.full_like(places, width))
        assert float(cover.sum() * width) == pytest.approx(0.05, rel=0.02)
        assert 0 <= cover.min() and cover.max() <= 1


def ball_on_grass(torch, size: int = 120):
    """A bright disc of instance 3 on a field: image, shares and instances."""
    y, x = np.mgrid[0:size, 0:size]
    disc = torch.from_numpy(np.hypot(x - 60, y - 60) < 12)
    image = torch.where(disc[..., None], 0.9, torch.tensor([0.1, 0.5, 0.1]))
    kinds = torch.where(disc[..., None], torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 0, 1]))
    return image, kinds, torch.where(disc, 3, 0)


def test_a_smeared_ball_is_labelled_where_it_is_seen() -> None:
    torch = pytest.importorskip("torch")
    from motion import smear

    image, shares, inst = ball_on_grass(torch)
    new, kinds, whose = smear(image, shares, inst, 3, (20.0, 0.0))
    columns = np.flatnonzero((whose == 3).any(0).numpy())
    rows = np.flatnonzero((whose == 3).any(1).numpy())
    assert 26 <= columns[-1] - columns[0] <= 34  # longer than it is wide, shorter than its path
    assert 20 <= rows[-1] - rows[0] <= 24
    assert (kinds[whose == 3] == torch.tensor([1.0, 0, 0])).all()
    assert (kinds[whose != 3] == torch.tensor([0.0, 0, 1])).all()
    far = torch.ones(120, 120, dtype=torch.bool)
    far[40:80, 30:90] = False
    assert (new - image)[far].abs().max() < 0.01
    assert new[60, 60, 0] > 0.8 and 0.2 < new[60, 75, 0] < 0.8


def test_a_rolling_shutter_moves_labels_with_the_image() -> None:
    torch = pytest.importorskip("torch")
    from motion import roll

    image, shares, inst = ball_on_grass(torch)
    new, kinds, whose = roll(image, shares, inst, 0.15, 0.01, 2.0)
    bright = new[..., 0] > 0.5
    assert (bright != (whose == 3)).sum() < 0.08 * bright.sum()
    assert ((kinds[..., 0] == 1) != (whose == 3)).sum() == 0
    assert new.min() > 0.09  # nothing comes from outside


def test_boxes_are_the_extent_of_what_is_seen() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("rcsssmj")
    from labels import IGNORE, boxes_of

    inst = np.zeros((60, 80), np.int64)
    inst[10:30, 20:50] = 1
    inst[15:25, 30:35] = 0  # somebody stands before it
    inst[40:43, 5:8] = 2  # too small to be sure
    inst[40:60, 40:60] = 3  # mostly hidden
    inst[30:40, 60:80] = 4  # not an object
    world = SimpleNamespace(classes=[-1, 2, 0, 2, -1])
    boxes = boxes_of(world, inst, np.array([0, 0.9, 1.0, 0.1, 1.0]), 1.0, 7)
    assert boxes[0].tolist() == [2, 20, 17, 50, 37]
    assert boxes[1].tolist() == [IGNORE, 5, 47, 8, 50]
    assert boxes[2].tolist() == [IGNORE, 40, 47, 60, 67] and boxes[3, 0] == -1


def world_digest(recipe) -> tuple[str, object]:
    from world import World

    world = World(np.random.default_rng(5), recipe=recipe)
    return hashlib.sha256("".join(world._xml).encode()).hexdigest()[:12], world


def test_earlier_recipes_stay_what_they_are() -> None:
    """Its numbers are compared with those of networks to come. A seed makes one world."""
    pytest.importorskip("rcsssmj")
    assert world_digest(FIRST)[0] == FIRST_WORLD
    second, world = world_digest(SECOND)
    assert second == SECOND_WORLD
    assert world_digest(THIRD)[0] == THIRD_WORLD
    assert world_digest(FOURTH)[0] == FOURTH_WORLD
    posts = [world.post_place() for _ in range(40)]
    goals = [thing for thing in world.things if thing.kind == "goal"]
    assert {round(abs(p[0]), 6) for p in posts} == {round(world.field.half[0], 6)}
    assert all(
        any(abs(abs(p[1]) - abs(q[1])) < 1e-9 for g in goals for q in g.posts) for p in posts
    )


def places_digest(recipe) -> str:
    """Of where a few shots of a world have its things, and their shadows on the ground."""
    from staging import Camera, Director
    from world import World

    found = []
    plain = replace(recipe, meshes=0.0, squads=0.0, earlier=0.0)
    world = World(np.random.default_rng(5), recipe=plain)
    for seed in range(24):
        rng = np.random.default_rng(seed)
        camera, director = Camera(rng, world.field.half), Director(world, rng)
        director.arrange(camera, match=seed % 3 == 0)
        data = world.data
        found += [each.copy() for each in (data.mocap_pos, data.mocap_quat, data.qpos)]
        found += [np.array([*at, reach, dark]) for at, reach, dark in director.contacts]
        found.append(rng.random(1))
    text = " ".join(f"{round(float(x), 4) + 0.0:.4f}" for each in found for x in each.flat)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=[f"recipe{number}" for number in RECIPES])
def test_things_stay_where_they_are(recipe) -> None:
    """The scenes of a recipe and a seed stay what they are, in a match and otherwise."""
    pytest.importorskip("rcsssmj")
    assert places_digest(recipe) == PLACES[recipe.number]


def test_far_things_have_the_pixels_that_were_asked_for() -> None:
    pytest.importorskip("rcsssmj")
    from staging import Camera

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
    from staging import Camera

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


def test_teams_are_like_robots_in_two_shirts() -> None:
    """All of one build, on the ground; goalkeepers have other shirts, some robots none."""
    rng = np.random.default_rng(6)
    drawn = teams.draw_teams(rng, [])
    assert drawn.kind is None and len(set(drawn.shirts)) == 4
    seen: dict[int, list] = {0: [], 1: []}
    for number in range(60):
        parts = drawn.player(rng, number, {})
        assert min(part.lowest() for part in parts) == pytest.approx(0, abs=1e-9)
        colours = {part.colour for part in parts if part.texture == "cloud"}
        seen[number % 2].append({s for s in drawn.shirts if s in colours})
    for team, shirts in seen.items():
        assert sum(drawn.shirts[team] in worn for worn in shirts) > 15
        assert not any(drawn.shirts[1 - team] in worn for worn in shirts)
    again = teams.draw_teams(np.random.default_rng(6), [])
    assert again == drawn


def test_matches_have_nothing_on_the_carpet_but_players_and_a_ball() -> None:
    """Save people, a few, as a referee; other images of the same world have clutter there."""
    pytest.importorskip("rcsssmj")
    from staging import Camera, Director
    from world import World

    world = World(np.random.default_rng(8), recipe=replace(SIXTH, meshes=0.0, squads=0.0))
    on_carpet: dict[bool, list[str]] = {True: [], False: []}
    half, border = np.array(world.field.half), world.field.border
    for match in (True, False):
        rng = np.random.default_rng(9)
        for _ in range(12):
            director = Director(world, rng)
            camera = Camera(rng, world.field.half)
            camera.at[:2] = np.clip(camera.at[:2], -half, half)
            director.arrange(camera, match)
            balls = 0
            for thing in world.things:
                if thing.kind == "packaged":
                    continue
                slot = int(world.model.body_mocapid[world.model.body(thing.body).id])
                at = world.data.mocap_pos[slot]
                inside = (np.abs(at[:2]) < half + border - 0.05).all() and at[2] > -5
                balls += inside and thing.kind == "ball"
                if inside and thing.kind not in ("ball", "robot", "goal", "own"):
                    on_carpet[match].append(thing.kind)
            assert not match or (balls <= 1 and director.match)
    assert set(on_carpet[True]) <= {"person"} and len(on_carpet[True]) < 20
    assert {"trifle", "round"} <= set(on_carpet[False])


def test_cameras_behind_a_goal_look_through_it() -> None:
    pytest.importorskip("rcsssmj")
    from staging import Camera

    rng = np.random.default_rng(4)
    for side in (-1, 1) * 20:
        camera, goal = Camera(rng, (4.0, 3.0), 576), np.array([side * 4.0, 0.0])
        camera.stand_behind(goal, rng)
        assert 4.8 < side * camera.at[0] < 6.5
        assert -side * np.cos(camera.yaw) > 0  # towards the field


def test_bands_wind_around_a_ball_in_two_colours() -> None:
    import textures

    for seed in range(4):
        skin = textures.ball(np.random.default_rng(seed), "bands")
        plain = textures.ball(np.random.default_rng(seed), "classic")
        assert skin.shape == plain.shape == (128, 256, 3)
        light = skin.mean(-1) > 0.7
        assert 0.1 < light.mean() < 0.95


def test_small_robots_look_down_to_where_others_stand() -> None:
    """The horizon is near the image's upper edge or above it, so that the edge cuts what stands."""
    pytest.importorskip("rcsssmj")
    from staging import Camera

    for seed in range(20):
        camera = Camera(np.random.default_rng(seed), (4.0, 3.0), 576)
        camera.lower(np.random.default_rng(seed), stooped=1.0)
        above = camera.pitch - np.arctan(camera.high / 2 / camera.focal)
        assert -0.1 <= above <= 0.2 and 0.4 <= camera.at[2] <= 0.58


def test_posts_that_are_nearly_touched_lie_at_the_images_edge() -> None:
    pytest.importorskip("rcsssmj")
    from staging import Camera

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
    from staging import Camera, Director
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


def test_bars_lie_between_strips_of_sun() -> None:
    """As far apart as the windows, all of one brightness, and no sun beyond the last."""
    torch = pytest.importorskip("torch")
    from appearance import draw_bars
    from shading import sunlight

    field = SimpleNamespace(half=(4.0, 3.0))
    for seed in range(10):
        sun = draw_bars(np.random.default_rng(seed), field, lambda v: torch.tensor(np.float32(v)))
        along = torch.tensor([sun.cos, sun.sin])
        across = torch.tensor([-sun.sin, sun.cos])

        def light(x: float, y: float, up: float = 0.0) -> float:
            place = sun.centre + x * along + y * across - up * sun.slant  # noqa: B023
            look = SimpleNamespace(suns=(sun,))  # noqa: B023
            return float(sunlight(look, torch.tensor([[*place.tolist(), up]])))

        wide = sun.every.tolist()
        assert light(0, 0) > 1 and light(0, 0, up=1.0) == pytest.approx(light(0, 0), rel=1e-4)
        if wide[1] < sun.within[1] - 2 * sun.half[1]:
            assert light(0, wide[1]) == pytest.approx(light(0, 0), rel=1e-3)
        assert light(wide[0] / 2, 0) == light(0, wide[1] / 2) == 1.0
        assert light(2 * float(sun.within[0]), 0) == 1.0


def test_people_all_in_black() -> None:
    import props

    for seed in range(6):
        parts = props.person(np.random.default_rng(seed), black=True)
        cloth = [p for p in parts if p.texture != "plain" and p.shape == "capsule"]
        assert cloth and all(max(part.colour) < 0.1 for part in cloth)


@pytest.mark.parametrize("make", [make for make, _ in furniture.PIECES])
def test_furniture_stands_on_legs_and_is_no_goal(make) -> None:
    pale = 0
    for seed in range(12):
        parts = _standing(make, seed, 0.05, (0.35, 2.1))
        pale += min(parts[0].colour) > 0.7
    assert pale >= 3  # as goalposts are
    assert sum(share for _, share in furniture.PIECES) == pytest.approx(1)


def projected(camera, point) -> tuple[float, float]:
    """Where a point [3] lies in the image, from 0 to 1 from its left upper corner."""
    from staging import WIDE

    x, y, z = (np.asarray(point) - camera.at) @ camera.axes
    return 0.5 - camera.focal * x / z / WIDE, 0.5 + camera.focal * y / z / camera.high


def test_large_robots_take_the_share_that_was_asked_for() -> None:
    """Whole ones; of others the edge cuts off the legs, or what is above them."""
    pytest.importorskip("rcsssmj")
    from staging import Camera

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
    from staging import POST, Camera

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


def test_a_strip_of_a_post_is_no_doubtful_one() -> None:
    """Its middle is beyond the image's edge, and with it all points that others are judged by."""
    pytest.importorskip("rcsssmj")
    from labels import visible_shares
    from staging import WIDE

    camera = SimpleNamespace(at=np.zeros(3), axes=np.eye(3), focal=WIDE / 2, high=600)
    data = SimpleNamespace(geom_xmat=np.eye(3)[[0, 2, 1]].reshape(1, 9), geom_xpos=np.zeros((1, 3)))
    model = SimpleNamespace(geom_aabb=np.array([[0, 0, 0, 0.05, 0.05, 0.5]]))
    world = SimpleNamespace(
        model=model, data=data, instance=np.array([1]), classes=np.array([-1, 1])
    )
    inst = np.zeros((600, WIDE), np.int64)
    inst[:, -12:] = 1
    data.geom_xpos[0] = [1.03, 0, -1.0]
    assert visible_shares(world, camera, inst)[1] == 0
    assert visible_shares(world, camera, inst, strips=True)[1] > 0.9
    data.geom_xpos[0] = [1.2, 0, -1.0]  # nothing of it is in the image
    assert visible_shares(world, camera, inst, strips=True)[1] == 0


def test_goals_far_away_are_small() -> None:
    pytest.importorskip("rcsssmj")
    from staging import GOAL, Camera

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


def test_crews_are_two_teams_on_wheels() -> None:
    pytest.importorskip("rcsssmj")
    import robots
    from world import World

    recipe = replace(EIGHTH, meshes=0.0, squads=0.0, earlier=0.0, crews=1.0)
    world = World(np.random.default_rng(3), recipe=recipe)
    assert len(set(world.crews)) == 2 and set(world.crews) <= set(robots.TEAM_COLOURS)
    assert not any(thing.kind == "packaged" for thing in world.things)
    assert World(np.random.default_rng(3), recipe=replace(recipe, crews=0.0)).crews == []
    for team in world.crews:
        parts = [p for i in range(6) for p in wheeled_robots.tower(np.random.default_rng(i), team)]
        assert any(part.colour == team for part in parts)


def test_some_worlds_are_those_of_the_recipe_before(monkeypatch) -> None:
    pytest.importorskip("rcsssmj")
    import world

    before, plain = (replace(r, meshes=0.0, squads=0.0) for r in (SEVENTH, EIGHTH))
    monkeypatch.setitem(world.RECIPES, 7, before)
    for share, expected in ((1.0, before), (0.0, replace(plain, earlier=0.0))):
        recipe = replace(plain, earlier=share)
        assert world.World(np.random.default_rng(5), recipe=recipe).recipe == expected


def test_light_that_is_too_much_spreads() -> None:
    """Over what is near, and a little over all; where nothing is too bright, nothing changes."""
    torch = pytest.importorskip("torch")
    from glare import glow

    image = torch.full((384, 512, 3), 0.4)
    assert torch.equal(glow(image, 0.3, 0.1), image)
    image[160:224, 224:288] = 5.0
    lit = glow(image, 0.3, 0.02) - image
    assert lit.min() > 0 and lit[192, 300, 0] > 2 * lit[192, 4, 0]


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
