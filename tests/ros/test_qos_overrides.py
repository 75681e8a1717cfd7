"""Qualities of service by file of parameters: what is taken, and the one line for what is not."""

import pytest

from tvm_vision.errors import InputError
from tvm_vision_ros.qos_overrides import endpoints_missing, overrides_of, problem_in

GIVEN = {
    "model": "/m.tar",
    "qos_overrides./robot/image.subscription.depth": 7,
    "qos_overrides./robot/image.subscription.reliability": "reliable",
    "qos_overrides./robot/image.publisher.depth": 3,
    "qos_overrides./robot/image_2.subscription.depth": 4,
}


def test_each_endpoint_gets_its_own():
    assert problem_in(GIVEN) == ""
    assert overrides_of(GIVEN, "/robot/image", "subscription") == {
        "depth": 7, "reliability": "reliable",
    }  # fmt: skip
    assert overrides_of(GIVEN, "/robot/image", "publisher") == {"depth": 3}
    assert overrides_of(GIVEN, "/image", "subscription") == {}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("/image.subscription.depth", 0, "must be an integer in 1 to 10000, found 0"),
        ("/image.subscription.depth", "7", "must be an integer in 1 to 10000, found '7'"),
        ("/image.subscription.depth", True, "found True"),
        ("/image.subscription.history", "all", "one of keep_last, keep_all, found 'all'"),
        ("/image.subscription.reliability", 1, "one of reliable, best_effort, found 1"),
        ("/image.subscription.deadline", 1, "must end in one of history, depth"),
        ("image.subscription.depth", 1, "with the topic in full"),
        ("/image.reader.depth", 1, "qos_overrides./TOPIC.publisher.POLICY"),
    ],
)
def test_what_cannot_be_is_one_line(name, value, words):
    values = {f"qos_overrides.{name}": value}
    assert words in problem_in(values)
    with pytest.raises(InputError):
        overrides_of(values, "/image", "subscription")


def test_what_no_endpoint_has_is_named():
    assert endpoints_missing(GIVEN, ["/robot/image"], ["/robot/image"]) == [
        "/robot/image_2.subscription"
    ]
    assert endpoints_missing(GIVEN, [], ["/robot/image", "/robot/image_2"]) == [
        "/robot/image.publisher"
    ]
    assert endpoints_missing({"model": "/m.tar"}, [], []) == []
