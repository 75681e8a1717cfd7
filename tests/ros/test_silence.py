"""Why no image comes: every reason that can be told from the graph names its remedy."""

from dataclasses import replace

import pytest

from tvm_vision_ros.silence import COMPRESSED, IMAGE, Publisher, Surroundings, reason

EYE = Publisher("/eye")
SURE = Publisher("/eye", reliable=True)
RAW = Surroundings("/image", room="start it with X=fastdds.xml")
JPEG = replace(RAW, topic="/image/compressed", kind=COMPRESSED)
CASES = [
    (RAW, {"alone": True}, "no other node is seen", "ROS_DOMAIN_ID"),
    (RAW, {}, "nobody publishes it", "start the camera"),
    (
        RAW,
        {"elsewhere": (("/b/image", IMAGE), ("/a/image", IMAGE), ("/c", COMPRESSED))},
        "images are on /a/image, /b/image:",
        "set image_topic",
    ),
    (
        RAW,
        {"elsewhere": (("/image/compressed", COMPRESSED), ("/a/image", IMAGE))},
        "but /image/compressed",
        "set image_transport to compressed",
    ),
    (
        JPEG,
        {"elsewhere": (("/image", IMAGE),)},
        "nobody publishes it, but /image:",
        "set image_transport to raw",
    ),
    (
        RAW,
        {"publishers": (replace(EYE, kind="std_msgs/msg/String"),)},
        "/eye publishes std_msgs/msg/String there, and sensor_msgs/msg/Image is needed",
        "set image_topic to a topic of images",
    ),
    (
        RAW,
        {"publishers": (replace(EYE, kind=COMPRESSED),)},
        "/eye publishes sensor_msgs/msg/CompressedImage there",
        "remap /image/compressed to /image",
    ),
    (
        replace(RAW, topic="/a/compressed"),
        {"publishers": (replace(EYE, kind=COMPRESSED),)},
        "/eye publishes sensor_msgs/msg/CompressedImage there",
        "set image_topic to /a and image_transport to compressed",
    ),
    (
        replace(RAW, reliable=True),
        {"publishers": (replace(EYE, mismatch="best effort publisher"),)},
        "offers less than this node asks for (best effort publisher)",
        "set input_reliability to best_effort",
    ),
    (
        RAW,
        {"publishers": (replace(SURE, mismatch="a deadline"),)},
        "offers less than this node asks for (a deadline)",
        "change the quality of service of /eye",
    ),
    (RAW, {"publishers": (EYE,), "lost": True}, "lost on the way", "X=fastdds.xml"),
    (RAW, {"publishers": (SURE,), "lost": True}, "lost", "or set input_reliability to reliable"),
    (RAW, {"publishers": (EYE,)}, "/eye is connected", "X=fastdds.xml"),
    (RAW, {"publishers": (EYE,)}, "ros2 topic hz /image", "too large"),
    (RAW, {"publishers": (SURE,)}, "is connected", "or set input_reliability to reliable"),
    (JPEG, {"publishers": (replace(EYE, kind=COMPRESSED),)}, "is connected", "X=fastdds.xml"),
]


@pytest.mark.parametrize(("seen", "changes", "words", "remedy"), CASES)
def test_every_reason_has_its_remedy(seen, changes, words, remedy):
    told = reason(replace(seen, **changes))
    assert words in told
    assert remedy in told
    assert "\n" not in told


def test_one_publisher_that_is_heard_is_enough():
    others = (replace(EYE, node="/a", kind="std_msgs/msg/String"), replace(EYE, mismatch="bad"))
    told = reason(replace(RAW, publishers=(*others, Publisher("/good"))))
    assert told.startswith("/good is connected")


def test_best_effort_is_advised_only_where_it_helps():
    told = reason(replace(RAW, reliable=True, publishers=(SURE,)))
    assert "input_reliability" not in told
