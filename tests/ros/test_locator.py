"""From messages of a camera to messages in space, over rendered scenes; without ROS."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from support.space_scenes import CENTRE, FOCAL, SIZE, Scene, box_of, quaternion
from tvm_vision.errors import InputError
from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.results import Detections
from tvm_vision_ros.locator import Locator, depth_from
from tvm_vision_ros.messages import MessageBuilder
from tvm_vision_ros.settings import Settings
from tvm_vision_ros.space_messages import detections_3d, in_frame, point_cloud
from tvm_vision_ros.transforms import Transforms
from tvm_vision_ros.yolo_messages import yolo_message

SCENE = Scene()
DIAMETER = 0.14
BALL = np.array([2.0, 0.4, DIAMETER / 2])
K = (FOCAL, 0, CENTRE[0], 0, FOCAL, CENTRE[1], 0, 0, 1)
CAMERA_INFO = SimpleNamespace(
    height=SIZE[0], width=SIZE[1], k=K, d=(), distortion_model="plumb_bob",
    p=(FOCAL, 0, CENTRE[0], 0, 0, FOCAL, CENTRE[1], 0, 0, 0, 1, 0),
)  # fmt: skip
BUILDER = MessageBuilder(lambda name: SimpleNamespace, bytes)


def header(seconds=100.0, frame="camera_optical"):
    sec = int(seconds)
    stamp = SimpleNamespace(sec=sec, nanosec=round(1e9 * (seconds - sec)))
    return SimpleNamespace(stamp=stamp, frame_id=frame)


def transform(parent, child, place, turn=(0, 0, 0, 1), seconds=100.0):
    xyz = SimpleNamespace(**dict(zip("xyz", map(float, place), strict=True)))
    xyzw = SimpleNamespace(**dict(zip("xyzw", map(float, turn), strict=True)))
    moved = SimpleNamespace(translation=xyz, rotation=xyzw)
    stamped = SimpleNamespace(
        header=header(seconds, parent), child_frame_id=child, transform=moved
    )  # fmt: skip
    return SimpleNamespace(transforms=[stamped])


def depth_message(depth, encoding="32FC1", seconds=100.0, big=False, pad=0):
    values = depth if encoding == "32FC1" else np.round(1000 * depth)
    kind = np.dtype("f4" if encoding == "32FC1" else "u2").newbyteorder(">" if big else "<")
    rows = values.astype(kind).view(np.uint8).reshape(depth.shape[0], -1)
    rows = np.pad(rows, ((0, 0), (0, pad)))
    return SimpleNamespace(
        header=header(seconds), height=depth.shape[0], width=depth.shape[1], encoding=encoding,
        is_bigendian=int(big), step=rows.shape[1], data=rows.tobytes(),
    )  # fmt: skip


DEPTH, SEEN = SCENE.render(BALL, DIAMETER / 2)
FOUND = Detections(
    np.stack((box_of(SEEN), np.array([0, 0, 20, 20], np.float32))),
    np.array([0.9, 0.5], np.float32),
    np.array([0, 1], np.int32),
    ("ball", "robot"),
    track_ids=np.array([7, 0], np.int64),
)


def locator(**more):
    made = Locator()
    made.take_calibration(CAMERA_INFO)
    made.take_depth(depth_message(DEPTH, **more))
    camera = ("camera_optical", SCENE.translation, quaternion(SCENE.rotation))
    made.transforms.take(transform("base_footprint", *camera), fixed=True)
    made.transforms.take(transform("odom", "base_footprint", (10, 0, 0)), fixed=False)
    return made


@pytest.mark.parametrize("by", ["depth", "ground", "diameter"])
@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("base_footprint", BALL),
        ("odom", BALL + np.array([10.0, 0.0, 0.0])),
        ("", SCENE.in_camera(BALL)),
    ],
)
def test_a_ball_has_its_place_in_each_frame(by, frame, expected):
    settings = Settings(locate_by=by, locate_frame=frame, ball_diameter=DIAMETER)
    name, places = locator().places(settings, header(), SIZE, FOUND)
    assert name == (frame or "camera_optical")
    assert places[0].position == pytest.approx(expected, abs=0.05)
    # The robot's box is above the horizon, where there is neither ground nor depth.
    assert places[1] is None
    message = detections_3d(BUILDER, in_frame(BUILDER, header(), name), FOUND, places)
    (ball,) = message.detections
    assert (message.header.frame_id, message.header.stamp.sec) == (name, 100)
    assert (ball.id, ball.results[0].hypothesis.class_id) == ("7", "ball")
    assert ball.bbox.center.position.x == pytest.approx(expected[0], abs=0.05)
    assert (ball.bbox.size.x, ball.bbox.size.z) == pytest.approx((DIAMETER, DIAMETER))


@pytest.mark.parametrize("encoding", ["32FC1", "16UC1"])
@pytest.mark.parametrize("big", [False, True])
def test_depth_in_metres_of_each_encoding(encoding, big):
    near = DEPTH[200:220]
    found = depth_from(depth_message(near, encoding, big=big, pad=6))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, near, atol=0.0006 if encoding == "16UC1" else 0)


def test_an_image_of_another_size_than_its_calibration():
    half = replace(FOUND, boxes=FOUND.boxes / np.float32(2))
    settings = Settings(locate_by="ground", ball_diameter=DIAMETER, locate_frame="base_footprint")
    _, places = locator().places(settings, header(), (SIZE[0] // 2, SIZE[1] // 2), half)
    assert places[0].position == pytest.approx(BALL, abs=0.05)


def test_the_mask_of_an_object_is_read_rather_than_its_box():
    masks = InstanceMasks.from_dense(np.stack((SEEN, np.zeros(SIZE, np.bool_))))
    settings = Settings(locate_by="depth", ball_diameter=DIAMETER)
    _, places = locator().places(settings, header(), SIZE, replace(FOUND, masks=masks))
    assert places[0].position == pytest.approx(SCENE.in_camera(BALL), abs=0.01)


def test_lines_are_points_on_the_ground():
    settings = Settings(locate_by="ground", locate_frame="odom")
    mask = np.zeros(SIZE, np.bool_)
    mask[300:302] = True
    frame, points = locator().points(settings, header(), mask)
    assert (frame, points.dtype) == ("odom", np.float32)
    assert len(points) == SIZE[1] // 2 and np.abs(points[:, 2]).max() < 1e-5
    assert np.ptp(points[:, 0]) < 1e-5 and points[0, 0] > 11
    cloud = point_cloud(BUILDER, header(frame=frame), points)
    read = np.frombuffer(cloud.data, np.float32).reshape(-1, 3)
    assert np.array_equal(read, points)
    assert [(f.name, f.offset, f.datatype) for f in cloud.fields] == [
        ("x", 0, 7), ("y", 4, 7), ("z", 8, 7),
    ]  # fmt: skip
    assert (cloud.width, cloud.point_step, cloud.row_step) == (len(points), 12, 12 * len(points))


def test_what_is_missing_is_said_in_a_line():
    def refused(made, seconds=100.0, **settings):
        with pytest.raises(InputError) as error:
            made.places(Settings(**settings), header(seconds), SIZE, FOUND)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "nothing came on camera_info" in refused(Locator(), locate_by="depth")
    assert "the nearest is 1.000 s away" in refused(locator(), 101.0, locate_by="depth")
    made = locator()
    made._depths = deque()
    assert "and none came" in refused(made, locate_by="depth")
    words = refused(locator(), locate_by="ground", locate_frame="map")
    assert "from base_footprint to map is needed on /tf" in words and "odom" in words
    assert "lies 5.000 s before it" in refused(
        locator(), 105.0, locate_by="ground", locate_frame="odom"
    )
    made.take_calibration(SimpleNamespace(**{**vars(CAMERA_INFO), "k": (0.0,) * 9}))
    assert "a calibrated camera is needed" in refused(made, locate_by="diameter")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encoding": "bgr8"}, "16UC1, mono16, 32FC1 is needed, found 'bgr8'"),
        ({"data": b"123"}, "bytes are needed for 640 x 480 32FC1"),
        ({"step": 5}, "with a step of 5"),
        ({"height": 0}, "bytes are needed"),
    ],
)
def test_depth_that_is_none(change, words):
    message = depth_message(DEPTH)
    with pytest.raises(InputError, match=words):
        depth_from(SimpleNamespace(**{**vars(message), **change}))


def test_moving_frames_are_interpolated():
    tree = Transforms()
    half = np.sqrt(0.5)
    # Out of order, with a slash as ROS 1 had it, and one that is none.
    tree.take(transform("/odom", "base", (2, 0, 0), (0, 0, half, half), 11.0), fixed=False)
    tree.take(transform("odom", "/base", (0, 0, 0), (0, 0, 0, 1), 10.0), fixed=False)
    tree.take(transform("odom", "base", (0, 0, 0), (0, 0, 0, 0), 10.5), fixed=False)
    middle = tree.pose("odom", "base", 10.5)
    assert middle.translation == pytest.approx([1, 0, 0])
    angle = np.arctan2(middle.rotation[1, 0], middle.rotation[0, 0])
    assert np.degrees(angle) == pytest.approx(45)
    back = tree.pose("base", "odom", 10.5) @ middle
    assert back.rotation == pytest.approx(np.eye(3)) and back.translation == pytest.approx(0)
    assert tree.pose("odom", "base", 11.2).translation == pytest.approx([2, 0, 0])
    # A bag that begins anew.
    tree.take(transform("odom", "base", (5, 0, 0), seconds=0.5), fixed=False)
    assert tree.pose("odom", "base", 0.5).translation == pytest.approx([5, 0, 0])
    tree.take(transform("base", "odom", (0, 0, 0), seconds=0.5), fixed=True)
    with pytest.raises(InputError, match="is in a circle"):
        tree.pose("odom", "base", 0.5)


def test_all_of_an_object_for_listeners_of_yolo_ros():
    dense = np.zeros((2, *SIZE), np.bool_)
    dense[0, 10:20, 30:50] = True
    points = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    turned = np.array([[50, 60, 20, 10, 0.5], [5, 6, 2, 1, 0.0]], np.float32)
    found = replace(
        FOUND, masks=InstanceMasks.from_dense(dense), keypoints=points, oriented_boxes=turned
    )
    message = yolo_message(BUILDER, header(), found)
    ball, robot = message.detections
    assert (ball.class_id, ball.class_name, ball.id, robot.id) == (0, "ball", "7", "")
    assert (ball.bbox.center.theta, ball.bbox.size.x) == (0.5, 20.0)
    outline = {(p.x, p.y) for p in ball.mask.data}
    assert outline == {(30.0, 10.0), (49.0, 10.0), (49.0, 19.0), (30.0, 19.0)}
    assert (ball.mask.height, ball.mask.width, robot.mask.data) == (*SIZE, [])
    assert [(k.id, k.point.x, k.score) for k in robot.keypoints.data] == [(1, 6, 8), (2, 9, 11)]
    plain = yolo_message(BUILDER, header(), FOUND).detections[0]
    assert plain.keypoints.data == plain.mask.data == []
    assert plain.bbox.center.theta == 0.0
