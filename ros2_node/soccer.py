"""Results as soccer_vision_2d_msgs, on the topics that bit-bots' robots listen to. Without ROS."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.models.results import Detections, SegmentationMask

from .messages import Message, MessageBuilder

# Topic -> message.
TOPICS = {
    "balls_in_image": "soccer_vision_2d_msgs/BallArray",
    "goal_posts_in_image": "soccer_vision_2d_msgs/GoalpostArray",
    "robots_in_image": "soccer_vision_2d_msgs/RobotArray",
}
# Topic of a mask, 0 or 255 for each pixel as 8UC1 -> names that its class may have.
MASKS = {
    "line_mask_in_image": ("lines", "line"),
    "field_mask": ("field",),
}
# Constants of soccer_vision_attribute_msgs/Robot and Goalpost.
UNKNOWN, OWN, OPPONENT = 0, 1, 2


def soccer_message(
    builder: MessageBuilder, topic: str, header: Message, detections: Detections, own_color: str
) -> Message:
    """The message of one of TOPICS; own_color: see ``team``."""
    if topic == "balls_in_image":
        balls = [_ball(builder, score, box) for name, score, box in detections if name == "ball"]
        return builder.make(TOPICS[topic], header=header, balls=balls)
    if topic == "goal_posts_in_image":
        names = ("goalpost", "goal_post")
        posts = [_post(builder, score, box) for name, score, box in detections if name in names]
        return builder.make(TOPICS[topic], header=header, posts=posts)
    robots = [
        _robot(builder, score, box, team(name, own_color))
        for name, score, box in detections
        if name == "robot" or name.startswith("robot_")
    ]
    return builder.make(TOPICS[topic], header=header, robots=robots)


def team(name: str, own_color: str) -> int:
    """OWN or OPPONENT where a class's name ends in a color and our own is known, else UNKNOWN."""
    _, _, color = name.partition("_")
    if not own_color or color not in ("blue", "red"):
        return UNKNOWN
    return OWN if color == own_color else OPPONENT


def soccer_mask(segmentation: SegmentationMask, topic: str) -> npt.NDArray[np.uint8] | None:
    """The mask of one of MASKS, 0 or 255; None where the network has no such class."""
    for name in MASKS[topic]:
        if name in segmentation.class_names:
            index = segmentation.class_names.index(name)
            return class_mask(segmentation.mask, index)
    return None


def class_mask(mask: npt.NDArray[np.uint8], index: int) -> npt.NDArray[np.uint8]:
    """255 where the mask has this class, else 0."""
    return (mask == index).view(np.uint8) * np.uint8(255)


def _confidence(builder: MessageBuilder, score: float) -> Message:
    return builder.make("soccer_vision_attribute_msgs/Confidence", confidence=score)


def _ball(builder: MessageBuilder, score: float, box: Any) -> Message:
    return builder.make(
        "soccer_vision_2d_msgs/Ball",
        bb=builder.box(box),
        center=builder.center(box),
        confidence=_confidence(builder, score),
    )


def _post(builder: MessageBuilder, score: float, box: Any) -> Message:
    attributes = builder.make("soccer_vision_attribute_msgs/Goalpost", side=UNKNOWN, team=UNKNOWN)
    return builder.make(
        "soccer_vision_2d_msgs/Goalpost",
        bb=builder.box(box),
        attributes=attributes,
        confidence=_confidence(builder, score),
    )


def _robot(builder: MessageBuilder, score: float, box: Any, whose: int) -> Message:
    attributes = builder.make(
        "soccer_vision_attribute_msgs/Robot", player_number=0, team=whose, state=0, facing=0
    )
    return builder.make(
        "soccer_vision_2d_msgs/Robot",
        bb=builder.box(box),
        attributes=attributes,
        confidence=_confidence(builder, score),
    )
