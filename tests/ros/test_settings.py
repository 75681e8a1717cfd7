"""The table of parameters: types, ranges, words."""

from dataclasses import fields

import pytest

from tvm_vision_ros.model_loader import ModelRequest
from tvm_vision_ros.settings import (
    NOW,
    RELOAD,
    SUBSCRIBE,
    Settings,
    effects,
    parameters,
    problem_in,
    widened,
)


def test_a_camera_may_be_named_by_its_number():
    assert widened("camera", 0) == "0"
    assert problem_in({"camera": widened("camera", 0)}) == ""


def test_every_default_is_taken():
    for item in parameters().values():
        assert item.problem(item.default) == ""
        assert item.description.endswith(".")


def test_what_a_network_is_asked_for_by_are_parameters():
    """The node sets them back where a network is refused, and ends where it does not have one."""
    assert {field.name for field in fields(ModelRequest)} <= set(parameters())


def test_numbers_have_ranges_and_the_times_units():
    for item in parameters().values():
        if item.kind in (int, float):
            assert item.low is not None and item.high is not None, item.name
        if "rate" in item.name:
            assert item.unit == "Hz"
        if item.name.endswith(("_age", "timeout", "period")):
            assert item.unit == "s"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("confidence", "high", "confidence must be a double, found 'high' (string)"),
        ("confidence", 1, "confidence must be a double, found 1 (integer): write 1.0"),
        ("confidence", 1.5, "confidence must be in 0 to 1, or -1, found 1.5"),
        ("confidence", float("nan"), "confidence must be in 0 to 1, or -1, found nan"),
        ("max_frame_age", -0.1, "max_frame_age must be in 0 to 60 s, found -0.1"),
        ("max_rate", float("inf"), "max_rate must be in 0 to 1000 Hz, found inf"),
        ("input_depth", 0, "input_depth must be in 1 to 100 images, found 0"),
        ("input_depth", True, "input_depth must be a integer, found True (bool)"),
        ("lazy", 1, "lazy must be a bool, found 1 (integer)"),
        ("model", 5, "model must be a string, found 5 (integer): put it in quotes"),
        ("model", None, "model must be a string, found None (NoneType): put it in quotes"),
        ("device", "gpu", "device must be one of auto, vulkan, cpu, found 'gpu'"),
        ("own_team_color", "green", 'own_team_color must be one of "", blue, red, found'),
        ("image_topic", "", "image_topic must be the name of a topic, found ''"),
        ("image_topic", "a b", "image_topic must be the name of a topic, found 'a b'"),
        ("image_topic", "image/", "image_topic must be the name of a topic"),
        ("image_topic", "0/image", "image_topic must be the name of a topic"),
    ],
)
def test_other_values_are_refused_in_words(name, value, words):
    assert problem_in({name: value}).startswith(words)


@pytest.mark.parametrize("topic", ["image", "/camera/image_raw", "~/image", "camera_1/image"])
def test_names_of_topics(topic):
    assert problem_in({"image_topic": topic}) == ""


def test_whole_numbers_become_doubles_where_doubles_are_wanted():
    assert widened("max_rate", 30) == 30.0
    assert type(widened("max_rate", 30)) is float
    assert type(widened("max_detections", 30)) is int
    assert widened("max_rate", True) is True
    assert widened("use_sim_time", True) is True


def test_effects_of_changes():
    assert effects(["model"]) == {RELOAD}
    assert effects(["image_topic", "confidence", "use_sim_time"]) == {SUBSCRIBE, NOW}


def test_the_settings_are_the_parameters():
    assert list(parameters()) == list(vars(Settings()))
