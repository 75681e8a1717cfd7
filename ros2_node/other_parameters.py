"""Parameters by which bit-bots' vision nodes go, of 2026 and of before: as parameters of ours.

Their file of parameters can be given as it is; ``name:=bitbots_vision`` is the node of its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROBOTS = ("robot", "robot_red", "robot_blue", "robot_unknown")
POSTS = ("goalpost", "goal_post")


def _classes(names: tuple[str, ...], option: str) -> tuple[str, ...]:
    return tuple(f"classes.{name}.{option}" for name in names)


_CONFIDENCE, _ACTIVE = "confidence", "enabled"
# Theirs -> ours.
NAMES = {
    "model.path": ("model",),
    "topics.image": ("image_topic",),
    "yoeo.conf_threshold": ("confidence",),
    "yoeo.nms_threshold": ("iou",),
    "components.debug_active": ("publish_debug_image",),
    "components.ball_active": _classes(("ball",), _ACTIVE),
    "components.robot_active": _classes(ROBOTS, _ACTIVE),
    "components.goalpost_active": _classes(POSTS, _ACTIVE),
    "ball.rating_threshold": _classes(("ball",), _CONFIDENCE),
    "ball.max_count": _classes(("ball",), "max_count"),
    "rfdetr.default_conf_threshold": ("confidence",),
    "rfdetr.ball_conf_threshold": _classes(("ball",), _CONFIDENCE),
    "rfdetr.robot_conf_threshold": _classes(ROBOTS, _CONFIDENCE),
    "rfdetr.goalpost_conf_threshold": _classes(POSTS, _CONFIDENCE),
    # Until 2025.
    "yoeo_model_path": ("model",),
    "ROS_img_msg_topic": ("image_topic",),
    "yoeo_conf_threshold": ("confidence",),
    "yoeo_nms_threshold": ("iou",),
    "component_debug_image_active": ("publish_debug_image",),
    "component_ball_detection_active": _classes(("ball",), _ACTIVE),
    "component_robot_detection_active": _classes(ROBOTS, _ACTIVE),
    "component_goalpost_detection_active": _classes(POSTS, _ACTIVE),
    "ball_candidate_rating_threshold": _classes(("ball",), _CONFIDENCE),
    "ball_candidate_max_count": _classes(("ball",), "max_count"),
}
# Theirs, with the topic of ours that has no parameter for its name.
TOPICS = {
    "topics.balls": "balls_in_image",
    "topics.robots": "robots_in_image",
    "topics.goalposts": "goal_posts_in_image",
    "topics.line_mask": "line_mask_in_image",
    "topics.field_mask": "field_mask",
    "topics.debug_image": "debug_image",
    "ROS_ball_msg_topic": "balls_in_image",
    "ROS_robot_msg_topic": "robots_in_image",
    "ROS_goal_posts_msg_topic": "goal_posts_in_image",
    "ROS_line_mask_msg_topic": "line_mask_in_image",
    "ROS_debug_image_msg_topic": "debug_image",
    "ROS_field_mask_image_msg_topic": "field_mask",
}
# Theirs that ours needs nothing for.
NEEDLESS = {
    "components.line_active": "line_mask_in_image costs nothing while nobody listens",
    "components.field_active": "field_mask costs nothing while nobody listens",
    "component_line_detection_active": "line_mask_in_image costs nothing while nobody listens",
    "component_field_detection_active": "field_mask costs nothing while nobody listens",
    "yoeo_framework": "the package says what it runs on",
    "caching": "nothing is computed twice",
}


@dataclass(frozen=True)
class OwnParameters:
    """What their parameters mean here. values: by our names, but for those given by ours. lines:
    for the log, one for each of theirs that needs a word. known: theirs that are understood."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()


def own_parameters(given: Mapping[str, Any]) -> OwnParameters:
    """Of all parameters that were given, by name; those by our names count over theirs."""
    values: dict[str, Any] = {}
    lines: list[str] = []
    known = [name for name in given if name in NAMES or name in TOPICS or name in NEEDLESS]
    for name in known:
        if name in NAMES:
            ours = NAMES[name]
            # The general one goes first where several of theirs mean the same.
            values |= {own: given[name] for own in ours if own not in given}
            lines.append(f"{name} is {' and '.join(ours)} here")
        elif name in TOPICS and given[name] != TOPICS[name]:
            lines.append(
                f"{name} is not a parameter here: start the node with the remapping "
                f"{TOPICS[name]}:={given[name]}"
            )
        elif name in NEEDLESS:
            lines.append(f"{name} is not needed here: {NEEDLESS[name]}")
    if known and "publish_soccer_vision" not in given:
        values["publish_soccer_vision"] = True
        lines.append("publish_soccer_vision is true: the parameters are those of bit-bots' vision")
    return OwnParameters(values, tuple(lines), frozenset(known))
