"""Options of classes as parameters, and bit-bots' names for them; without ROS."""

from __future__ import annotations

import json
from dataclasses import fields
from types import SimpleNamespace

import pytest

from support.ros import fakes
from tvm_vision.errors import InputError
from tvm_vision.models.class_options import UNSAID, ClassOptions
from tvm_vision_ros.class_settings import (
    ClassSettings,
    markdown,
    parameter,
    parameters_of,
    problem_in,
    split,
)
from tvm_vision_ros.messages import MessageBuilder
from tvm_vision_ros.other_parameters import NAMES, own_parameters
from tvm_vision_ros.result_topics import label_messages
from tvm_vision_ros.settings import parameters


def test_every_option_is_a_parameter_whose_default_is_taken():
    items = list(parameters_of(["ball", "traffic.light"]))
    assert len(items) == 2 * len(fields(ClassOptions))
    for item in items:
        assert item.problem(item.default) == ""
        assert split(item.name) is not None
        assert item.description.endswith(".")
        assert f"`{item.name}`".replace("ball", "NAME") in markdown() or "light" in item.name


@pytest.mark.parametrize(
    "name", ["confidence", "classes.ball", "classes.confidence", "classes.x.y"]
)
def test_other_parameters_are_left_alone(name):
    assert split(name) is None
    settings = ClassSettings()
    assert not settings.set({name: 5})
    assert settings.options(["ball"]) == {}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("confidence", 2.0, "classes.ball.confidence must be in 0 to 1, or -1, found 2.0"),
        ("confidence", -0.5, "classes.ball.confidence must be in 0 to 1, or -1, found -0.5"),
        ("max_count", 1.0, "classes.ball.max_count must be a integer, found 1.0 (double)"),
        ("max_count", -1, "classes.ball.max_count must be in 0 to 10000, found -1"),
        ("min_size", -1.0, "classes.ball.min_size must be in 0 to 65536 pixels, found -1.0"),
        ("enabled", 1, "classes.ball.enabled must be a bool, found 1 (integer)"),
    ],
)
def test_wrong_values_are_told_and_nothing_changes(option, value, words):
    settings = ClassSettings()
    assert problem_in({f"classes.ball.{option}": value}).startswith(words)
    with pytest.raises(InputError):
        settings.set({"classes.ball.max_count": 3, f"classes.ball.{option}": value})
    assert settings.options(["ball"]) == {}


def test_values_wait_for_a_network_that_has_the_class():
    settings = ClassSettings()
    given = {"classes.ball.max_count": 1, "classes.cat.enabled": False}
    assert settings.set({**given, "lazy": False})
    assert not settings.set(given)
    assert settings.options(("ball", "robot")) == {"ball": ClassOptions(max_count=1)}
    assert settings.unknown(("ball", "robot")) == ["cat"]
    assert settings.options(("cat",)) == {"cat": ClassOptions(enabled=False)}
    assert settings.set({"classes.ball.max_count": 0, "classes.ball.confidence": UNSAID})
    assert settings.options(("ball",)) == {}


def test_bitbots_parameters_of_2026():
    """Their file of parameters, as names with points."""
    given = {
        "topics.image": "zed/image", "topics.balls": "balls_in_image", "topics.robots": "bots",
        "model.path": "/models/yoeo", "yoeo.conf_threshold": 0.4, "yoeo.nms_threshold": 0.3,
        "components.ball_active": True, "components.robot_active": False,
        "components.line_active": True, "components.debug_active": False,
        "ball.rating_threshold": 0.6, "ball.max_count": 1, "iou": 0.45, "use_sim_time": True,
    }  # fmt: skip
    own = own_parameters(given)
    robots = {f"classes.{name}.enabled": False for name in
              ("robot", "robot_red", "robot_blue", "robot_unknown")}  # fmt: skip
    assert own.values == {
        "image_topic": "zed/image", "model": "/models/yoeo", "confidence": 0.4,
        "publish_debug_image": False, "publish_soccer_vision": True,
        "classes.ball.enabled": True, "classes.ball.confidence": 0.6,
        "classes.ball.max_count": 1, **robots,
    }  # fmt: skip
    assert own.known == set(given) - {"iou", "use_sim_time"}
    assert "ball.max_count is classes.ball.max_count here" in own.lines
    assert any("remapping robots_in_image:=bots" in line for line in own.lines)
    settings = ClassSettings()
    settings.set(own.values)
    assert settings.options(("ball", "robot_red")) == {
        "ball": ClassOptions(confidence=0.6, max_count=1),
        "robot_red": ClassOptions(enabled=False),
    }


def test_nothing_of_others_changes_nothing():
    assert own_parameters({"model": "x", "use_sim_time": True}).values == {}


def test_every_name_of_theirs_is_a_parameter_of_ours():
    for ours in NAMES.values():
        for name in ours:
            assert name in parameters() or split(name), name


def test_the_labels_say_what_counts_of_each_class():
    model = fakes.FakeModel()
    model.class_options = {
        "ball": {"confidence": 0.25, "max_count": 1},
        "robot": {"enabled": False},
    }
    builder = MessageBuilder(lambda name: SimpleNamespace, bytes)
    found = dict(label_messages(builder, None, model, model.class_rules))
    assert found["detections/label_info"].threshold == 0.25
    assert [item.class_name for item in found["detections/label_info"].class_map] == [*fakes.NAMES]
    assert json.loads(found["detections/class_options"].data) == {
        "ball": {"enabled": True, "confidence": 0.25, "min_size": 0.0, "max_count": 1},
        "goalpost": {"enabled": True, "confidence": 0.5, "min_size": 0.0},
        "robot": {"enabled": False},
    }


def test_a_parameter_says_its_range():
    assert parameter("ball", "confidence").span == (UNSAID, 1.0)
    assert parameter("ball", "max_count").span == (0.0, 10_000)
    assert parameter("ball", "enabled").span is None
