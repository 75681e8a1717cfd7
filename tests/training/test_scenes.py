"""Scenes stay what their recipe says, and labels tell what is to be seen."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import rounds
import wheeled_robots
from recipes import EIGHTH, FIFTH, FIRST, FOURTH, NINTH, RECIPES, SECOND, SEVENTH, SIXTH, THIRD

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
    9: "5799a9e7f79a",
}


def test_recipes_are_numbered() -> None:
    numbered = [FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH, NINTH]
    assert RECIPES == {recipe.number: recipe for recipe in numbered}
    assert list(RECIPES) == list(range(1, 10))
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
    of_ninth = "pairs referees kicked".split()
    assert not any(getattr(EIGHTH, name) for name in of_ninth)
    assert all(getattr(NINTH, name) for name in of_ninth)


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
    from cameras import Camera
    from staging import Director
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


def test_matches_have_nothing_on_the_carpet_but_players_and_a_ball() -> None:
    """Save people, a few, as a referee; other images of the same world have clutter there."""
    pytest.importorskip("rcsssmj")
    from cameras import Camera
    from staging import Director
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


def test_a_strip_of_a_post_is_no_doubtful_one() -> None:
    """Its middle is beyond the image's edge, and with it all points that others are judged by."""
    pytest.importorskip("rcsssmj")
    from cameras import WIDE
    from labels import visible_shares

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
