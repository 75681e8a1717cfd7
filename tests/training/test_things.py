"""What stands in scenes: robots, balls, people, furniture and small things."""

from __future__ import annotations

import sys
from pathlib import Path

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


def test_bands_wind_around_a_ball_in_two_colours() -> None:
    import textures

    for seed in range(4):
        skin = textures.ball(np.random.default_rng(seed), "bands")
        plain = textures.ball(np.random.default_rng(seed), "classic")
        assert skin.shape == plain.shape == (128, 256, 3)
        light = skin.mean(-1) > 0.7
        assert 0.1 < light.mean() < 0.95


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
