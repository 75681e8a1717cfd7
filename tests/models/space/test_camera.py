"""Rays of pixels, poses, and points on the ground."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from support.space_scenes import CENTRE, FOCAL, SIZE, Scene
from tvm_vision.errors import InputError
from tvm_vision.models.space.camera import Camera
from tvm_vision.models.space.ground import mask_on_ground, on_ground
from tvm_vision.models.space.poses import Pose

K = (FOCAL, 0, CENTRE[0], 0, FOCAL, CENTRE[1], 0, 0, 1)
PIXELS = np.array([[0.0, 0.0], [319.5, 239.5], [100.25, 400.0], [600.0, 30.0]])


@pytest.mark.parametrize(
    ("model", "lens"),
    [
        ("plumb_bob", ()),
        ("plumb_bob", (-0.2, 0.05, 0.001, -0.002, 0.0)),
        ("rational_polynomial", (0.1, -0.05, 0.001, 0.0, 0.0, 0.05, 0.0, 0.0)),
        ("equidistant", (0.02, -0.01, 0.0, 0.0)),
    ],
)
def test_rays_come_back_to_their_pixels(model, lens):
    camera = Camera.from_calibration(SIZE, K, lens, model)
    rays = camera.rays(PIXELS)
    project = cv2.fisheye.projectPoints if model == "equidistant" else cv2.projectPoints
    matrix, none = np.array(K).reshape(3, 3), np.zeros(3)
    coefficients = np.array(lens or (0.0,) * 4)
    if model == "equidistant":
        pixels, _ = project(rays[:, None], none, none, matrix, coefficients)
    else:
        pixels, _ = project(rays, none, none, matrix, coefficients)
    assert pixels.reshape(-1, 2) == pytest.approx(PIXELS, abs=0.05)
    assert camera.rays(np.empty((0, 2))).shape == (0, 3)


def test_a_rectified_image_has_the_projection_of_p():
    p = (500, 0, 300, 0, 0, 510, 200, 0, 0, 0, 1, 0)
    camera = Camera.from_calibration(SIZE, K, (0.1,) * 5, p=p)
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == (500, 510, 300, 200)
    assert camera.distortion == ()


def test_an_image_that_was_resized_has_the_same_rays():
    camera = Camera(SIZE, FOCAL, FOCAL, *CENTRE)
    half = camera.scaled((240, 320))
    assert half.rays((PIXELS + 0.5) / 2 - 0.5) == pytest.approx(camera.rays(PIXELS))
    assert camera.scaled(SIZE) is camera


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"k": (0.0,) * 9}, "a calibrated camera is needed, found focal lengths of 0 and 0"),
        ({"k": (np.nan,) * 9}, "a calibrated camera is needed"),
        ({"model": "mirror"}, "a lens of plumb_bob, rational_polynomial, equidistant, fisheye"),
        ({"d": (0.1, 0.2)}, "0 or 4 or 5 or 8 or 12 or 14 coefficients are needed, found 2"),
        ({"d": (0.1,) * 5, "model": "equidistant"}, "4 coefficients are needed, found 5"),
    ],
)
def test_other_calibrations_are_refused(fields, words):
    with pytest.raises(InputError, match=words):
        Camera.from_calibration(**{"size": SIZE, "k": K, **fields})


def test_poses_go_there_and_back():
    rng = np.random.default_rng(0)
    outer = Pose.from_quaternion(rng.normal(size=3), rng.normal(size=4))
    inner = Pose.from_quaternion(rng.normal(size=3), rng.normal(size=4))
    points = rng.normal(size=(5, 3))
    assert (outer @ inner)(points) == pytest.approx(outer(inner(points)))
    assert outer.inverse(outer(points)) == pytest.approx(points)
    assert outer.rotation @ outer.rotation.T == pytest.approx(np.eye(3))
    turned = Pose.from_quaternion((1, 0, 0), (0, 0, np.sqrt(0.5), np.sqrt(0.5)))
    assert turned(np.array([[1.0, 0, 0]])) == pytest.approx(np.array([[1.0, 1.0, 0.0]]))
    with pytest.raises(ValueError, match="quaternion of length 1"):
        Pose.from_quaternion((0, 0, 0), (0, 0, 0, 0))


def test_a_line_on_the_ground_is_a_line_of_points():
    """A field line 2 m ahead, drawn where the scene has it: less than a pixel's ground off."""
    scene = Scene()
    pose = Pose(scene.rotation, scene.translation)
    camera = Camera(SIZE, FOCAL, FOCAL, *CENTRE)
    rays = scene.directions() @ scene.rotation.T
    with np.errstate(divide="ignore"):
        ahead = -scene.height / rays[..., 2] * rays[..., 0]
    mask = (rays[..., 2] < 0) & (np.abs(ahead - 2.0) < 0.025)
    points = mask_on_ground(camera, pose, mask)
    assert len(points) > 100
    assert np.abs(points[:, 0] - 2.0).max() <= 0.025 + 1e-6
    assert np.abs(points[:, 2]).max() < 1e-9
    assert len(mask_on_ground(camera, pose, mask, farthest=1.0)) == 0
    everywhere = mask_on_ground(camera, pose, np.ones(SIZE, np.bool_), step=8)
    assert np.isfinite(everywhere).all() and np.hypot(*everywhere[:, :2].T).max() <= 20.0
    sky = on_ground(camera, Pose(np.diag([1.0, -1.0, -1.0]) * -1, np.array([0, 0, 1.0])), PIXELS)
    assert sky.shape == (4, 3)
