"""Fields of messages, for classes that have no defaults, as those of rosbags have none."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tvm_vision.models.results import Classification, Detections, SegmentationMask
from tvm_vision_ros.diagnostics import Status
from tvm_vision_ros.messages import MessageBuilder
from tvm_vision_ros.soccer import OPPONENT, OWN, UNKNOWN, soccer_mask, soccer_message, team

HEADER = object()


def find(name):
    return lambda **fields: SimpleNamespace(kind=name, **fields)


BUILDER = MessageBuilder(find, bytes)
FOUND = Detections(
    np.array([[10, 20, 30, 60], [0, 0, 4, 2], [5, 5, 6, 9], [1, 1, 2, 2]], np.float32),
    np.array([0.9, 0.8, 0.7, 0.6], np.float32),
    np.array([0, 2, 3, 1], np.int32),
    ("ball", "goalpost", "robot_red", "robot_blue"),
)


def test_detections():
    message = BUILDER.detections(HEADER, FOUND)
    assert message.kind == "vision_msgs/msg/Detection2DArray"
    assert message.header is HEADER
    first = message.detections[0]
    assert first.header is HEADER
    assert (first.bbox.center.position.x, first.bbox.center.position.y) == (20.0, 40.0)
    assert (first.bbox.size_x, first.bbox.size_y, first.bbox.center.theta) == (20.0, 40.0, 0.0)
    hypotheses = [item.results[0].hypothesis for item in message.detections]
    assert [item.class_id for item in hypotheses] == ["ball", "robot_red", "robot_blue", "goalpost"]
    assert [item.score for item in hypotheses] == pytest.approx([0.9, 0.8, 0.7, 0.6])


def test_nothing_found_is_an_empty_message():
    assert BUILDER.detections(HEADER, Detections.none(("a",))).detections == []


def test_images_of_one_and_three_channels_also_when_cut_out():
    big = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    color = BUILDER.image(HEADER, big[1:3, 2:5], "bgr8")
    assert (color.height, color.width, color.step, color.encoding) == (2, 3, 9, "bgr8")
    assert color.data == big[1:3, 2:5].tobytes()
    gray = BUILDER.image(HEADER, big[..., 0], "mono8")
    assert (gray.step, gray.data) == (6, big[..., 0].tobytes())


def test_images_of_larger_numbers():
    depth = np.arange(12, dtype=np.float32).reshape(3, 4) / 3
    message = BUILDER.image(HEADER, depth[:, 1:], "32FC1")
    assert (message.height, message.width, message.step) == (3, 3, 12)
    assert message.data == depth[:, 1:].tobytes()
    ids = BUILDER.image(HEADER, np.full((2, 5), 300, np.uint16), "16UC1")
    assert (ids.step, len(ids.data), ids.is_bigendian) == (10, 20, int(sys.byteorder == "big"))


def test_oriented_boxes_have_an_angle():
    oriented = np.array([[20, 40, 30, 10, 0.25]], np.float32)
    message = BUILDER.detections(HEADER, replace(FOUND[0], oriented_boxes=oriented))
    (first,) = message.detections
    assert (first.bbox.center.position.x, first.bbox.center.position.y) == (20.0, 40.0)
    assert (first.bbox.size_x, first.bbox.size_y, first.bbox.center.theta) == (30.0, 10.0, 0.25)


def test_label_info_and_classification():
    info = BUILDER.label_info(HEADER, ("a", "b"), 0.5)
    assert [(item.class_id, item.class_name) for item in info.class_map] == [(0, "a"), (1, "b")]
    assert info.threshold == 0.5
    found = BUILDER.classification(HEADER, Classification((4, 1), ("x", "y"), (0.6, 0.1)))
    assert [(item.class_id, item.score) for item in found.results] == [("x", 0.6), ("y", 0.1)]


def test_latency_names_its_values():
    message = BUILDER.latency({"preprocess": 1.0, "age": 2.0})
    (axis,) = message.layout.dim
    assert (axis.label, axis.size, axis.stride) == ("preprocess, age", 2, 2)
    assert message.data == [1.0, 2.0]


def test_diagnostics():
    message = BUILDER.diagnostics(HEADER, [Status("n", 2, "m", "GPU", {"a": 1})])
    (status,) = message.status
    assert (status.level, status.name, status.message, status.hardware_id) == (
        b"\2",
        "n",
        "m",
        "GPU",
    )
    assert [(item.key, item.value) for item in status.values] == [("a", "1")]


@pytest.mark.parametrize(
    ("name", "own", "whose"),
    [
        ("robot", "red", UNKNOWN),
        ("robot_red", "", UNKNOWN),
        ("robot_red", "red", OWN),
        ("robot_blue", "red", OPPONENT),
        ("robot_unknown", "red", UNKNOWN),
    ],
)
def test_teams(name, own, whose):
    assert team(name, own) == whose


def test_soccer_messages_take_what_is_theirs():
    balls = soccer_message(BUILDER, "balls_in_image", HEADER, FOUND, "").balls
    assert [(item.center.x, item.center.y) for item in balls] == [(20.0, 40.0)]
    assert balls[0].confidence.confidence == pytest.approx(0.9)
    posts = soccer_message(BUILDER, "goal_posts_in_image", HEADER, FOUND, "").posts
    assert [item.bb.size_x for item in posts] == [1.0]
    robots = soccer_message(BUILDER, "robots_in_image", HEADER, FOUND, "blue").robots
    assert [item.attributes.team for item in robots] == [OPPONENT, OWN]


def test_soccer_masks():
    mask = SegmentationMask(np.array([[0, 1], [2, 1]], np.uint8), ("background", "lines", "field"))
    assert soccer_mask(mask, "line_mask_in_image").tolist() == [[0, 255], [0, 255]]
    assert soccer_mask(mask, "field_mask").tolist() == [[0, 0], [255, 0]]
    other = SegmentationMask(np.zeros((1, 1), np.uint8), ("road",))
    assert soccer_mask(other, "field_mask") is None
