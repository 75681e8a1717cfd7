"""Places of balls in rendered scenes: how many centimetres they are off, by distance."""

from __future__ import annotations

import numpy as np
import pytest

from support.space_scenes import CENTRE, FOCAL, SIZE, Scene, box_of
from tvm_vision.models.space.camera import Camera
from tvm_vision.models.space.objects import by_depth, by_diameter, by_ground
from tvm_vision.models.space.poses import Pose

CAMERA = Camera(SIZE, FOCAL, FOCAL, *CENTRE)
SCENE = Scene()
POSE = Pose(SCENE.rotation, SCENE.translation)
DIAMETER = 0.14
# Metres ahead, and to the left.
PLACES = [(x, side) for x in (0.9, 1.5, 2.0, 3.0, 4.0, 6.0) for side in (0.0, 0.25 * x)]


def ball(x, side):
    middle = np.array([x, side, DIAMETER / 2])
    depth, mask = SCENE.render(middle, DIAMETER / 2)
    return middle, depth, box_of(mask)


def centimetres(found, expected):
    assert found is not None
    return 100 * float(np.linalg.norm(found.position - expected))


def errors(x, side, noise=0.0, seed=0):
    """Of each method, in the camera's frame or the ground's; noise: pixels of the box's edges."""
    middle, depth, box = ball(x, side)
    box = box + np.random.default_rng(seed).normal(0, noise, 4).astype(np.float32)
    there = SCENE.in_camera(middle)
    depth = depth + np.random.default_rng(seed).normal(0, 0.002, SIZE).astype(np.float32)
    return {
        "depth": centimetres(by_depth(CAMERA, box, depth, diameter=DIAMETER), there),
        "ground": centimetres(by_ground(CAMERA, POSE, box, diameter=DIAMETER), middle),
        "diameter": centimetres(by_diameter(CAMERA, box, DIAMETER), there),
    }


@pytest.mark.parametrize(("x", "side"), PLACES)
def test_a_ball_is_where_it_was_rendered(x, side):
    """The box is whole pixels, half a pixel off at each edge at the most.

    A ball of w pixels is off by 1 / w of its distance by its diameter; on the ground half a pixel
    is z^2 / (focal length * height) / 2 metres along the ground; depth has 2 mm of noise.
    """
    found, far = errors(x, side), np.hypot(x, SCENE.height)
    width = DIAMETER * FOCAL / far
    assert found["depth"] < 0.3 + 0.1 * far
    assert found["ground"] < 100 * far**2 / (FOCAL * SCENE.height) * 0.75
    assert found["diameter"] < 100 * far / width


def test_exact_edges_give_the_exact_place():
    """Of the tangent planes of a sphere, whose edges in the image are known in closed form."""
    middle = np.array([0.4, -0.3, 2.0])
    radius = DIAMETER / 2
    edges = []
    for axis in (0, 1):
        # (m_a - u m_z)^2 = r^2 (1 + u^2)
        a, z = middle[axis], middle[2]
        p = (z**2 - radius**2, -2 * a * z, a**2 - radius**2)
        edges.append(np.sort(np.roots(p)) * FOCAL + CENTRE[axis] + 0.5)
    box = np.array([edges[0][0], edges[1][0], edges[0][1], edges[1][1]])
    assert centimetres(by_diameter(CAMERA, box, DIAMETER), middle) < 1e-9
    # One edge that the image cuts is not needed.
    moved = Camera(SIZE, FOCAL, FOCAL, CENTRE[0] - edges[0][0] + 0.5, CENTRE[1])
    cut = box - (edges[0][0] - 0.5, 0, edges[0][0] - 0.5, 0)
    cut[0] = 0.0
    assert centimetres(by_diameter(moved, cut, DIAMETER), middle) < 1e-6
    cut[1] = 0.0
    assert by_diameter(moved, cut, DIAMETER) is None


def test_depth_of_other_sizes_and_holes():
    middle, depth, box = ball(2.0, 0.3)
    there = SCENE.in_camera(middle)
    small = depth[::2, ::2]
    assert centimetres(by_depth(CAMERA, box, small, diameter=DIAMETER), there) < 1.5
    holes = depth.copy()
    holes[::2] = 0
    holes[:, ::2] = np.nan
    assert centimetres(by_depth(CAMERA, box, holes, diameter=DIAMETER), there) < 1.0
    assert by_depth(CAMERA, box, np.zeros_like(depth)) is None
    assert by_depth(CAMERA, box, np.full_like(depth, np.inf)) is None
    _, mask = SCENE.render(middle, DIAMETER / 2)
    assert centimetres(by_depth(CAMERA, box, depth, diameter=DIAMETER, mask=mask), there) < 1.0
    # Others than balls: the surface that is seen.
    seen = by_depth(CAMERA, box, depth)
    assert 100 * (there[2] - seen.position[2]) == pytest.approx(100 * DIAMETER / 2, abs=1.5)
    assert seen.size[:2] == pytest.approx([DIAMETER, DIAMETER], rel=0.12)


def test_what_stands_on_the_ground():
    """A post of 1 m by 0.1 m, 3 m ahead: the corners of its front, projected."""
    corners = np.array([[3.0, y, z] for y in (-0.05, 0.05) for z in (0.0, 1.0)])
    camera = np.stack([SCENE.in_camera(point) for point in corners])
    pixels = camera[:, :2] / camera[:, 2:] * FOCAL + CENTRE + 0.5
    box = np.concatenate((pixels.min(axis=0), pixels.max(axis=0)))
    found = by_ground(CAMERA, POSE, box)
    # It leans in the image, for the camera looks down: its foot is exact, its height is not.
    assert found.position[:2] == pytest.approx([3.0, 0.0], abs=1e-9)
    assert found.size[2] == pytest.approx(1.0, rel=0.15)
    above = np.array([100.0, 0.0, 140.0, 20.0])
    assert by_ground(CAMERA, POSE, above) is None
    assert by_ground(CAMERA, POSE, above, diameter=DIAMETER) is None


@pytest.mark.parametrize("box", [(10, 10, 10, 10), (-5, -5, 3, 3), (630, 470, 650, 490)])
def test_boxes_at_the_edges_raise_nothing(box):
    depth, _ = SCENE.render(np.array([2.0, 0.0, 0.07]), 0.07)
    box = np.array(box, np.float32)
    for diameter in (0.0, DIAMETER):
        by_depth(CAMERA, box, depth, diameter=diameter)
        by_ground(CAMERA, POSE, box, diameter=diameter)
    by_diameter(CAMERA, box, DIAMETER)
