"""Which topics a network's results have, and the message of each: one table for node and bags."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_vision.models.class_options import ClassRules
from tvm_vision.models.results import VisionResult
from tvm_vision.models.thresholds import Thresholds

from .messages import Message, MessageBuilder

IMAGE = "sensor_msgs/Image"
LABELS = "vision_msgs/LabelInfo"


@dataclass(frozen=True)
class ResultTopic:
    """name, message: of the topic. part: what a network must produce to have it. setting: the
    node's parameter that leaves it out; "" for none. value: what of a result it tells, or None.
    make: the message of that.
    """

    name: str
    message: str
    part: str
    setting: str
    value: Callable[[VisionResult], Any]
    make: Callable[[MessageBuilder, Any, Any], Message]

    def of(self, builder: MessageBuilder, header: Any, result: VisionResult) -> Message | None:
        """The message of a result; None where it has nothing for this topic."""
        value = self.value(result)
        return None if value is None else self.make(builder, header, value)


def _image(pixels: Callable[[Any], Any], encoding: str) -> Callable[..., Message]:
    return lambda builder, header, value: builder.image(header, pixels(value), encoding)


# Keypoints have no message in vision_msgs; yolo_messages.py has one.
RESULT_TOPICS = (
    ResultTopic(
        "detections",
        "vision_msgs/Detection2DArray",
        "detections",
        "publish_detections",
        lambda result: result.detections,
        lambda builder, header, found: builder.detections(header, found),
    ),
    ResultTopic(
        "instances",
        IMAGE,
        "masks",
        "publish_instances",
        lambda result: None if result.detections is None else result.detections.masks,
        _image(lambda masks: masks.ids(), "16UC1"),
    ),
    ResultTopic(
        "segmentation",
        IMAGE,
        "segmentation",
        "publish_segmentation",
        lambda result: result.segmentation,
        _image(lambda found: found.mask, "mono8"),
    ),
    ResultTopic(
        "depth",
        IMAGE,
        "depth",
        "publish_depth",
        lambda result: result.depth,
        _image(lambda found: found.values, "32FC1"),
    ),
    ResultTopic(
        "classification",
        "vision_msgs/Classification",
        "classification",
        "",
        lambda result: result.classification,
        lambda builder, header, found: builder.classification(header, found),
    ),
)
# Latched, with the names of the classes; of the topic beside it.
LABEL_TOPICS = {
    "label_info": ("segmentation", "classification"),
    "detections/label_info": ("detections",),
}

# Latched beside the names of the detected classes.
CLASS_OPTIONS = "detections/class_options"
LATCHED = {**dict.fromkeys(LABEL_TOPICS, LABELS), CLASS_OPTIONS: "std_msgs/String"}


def topics_of(model: Any) -> list[ResultTopic]:
    """The results that a network has."""
    return [topic for topic in RESULT_TOPICS if topic.part in model.produces]


def labels_of(model: Any) -> dict[str, tuple[str, ...]]:
    """The names of the classes by the topic that tells them."""
    found = {}
    for topic, parts in LABEL_TOPICS.items():
        part = next((part for part in parts if part in model.produces), None)
        if part is not None:
            pixels = part == "segmentation"
            found[topic] = model.segmentation_names if pixels else model.class_names
    return found


def latched_of(model: Any) -> list[str]:
    """The latched topics that a network has."""
    boxes = [CLASS_OPTIONS] if "detections" in model.produces else []
    return [*labels_of(model), *boxes]


def rules_of(model: Any) -> ClassRules | None:
    """What counts of each class of a network that finds boxes, else None."""
    network = getattr(model, "network", model)
    return network.class_rules if isinstance(network, Thresholds) else None


def label_messages(
    builder: MessageBuilder, header: Any, model: Any, rules: ClassRules | None
) -> list[tuple[str, Message]]:
    """The latched messages by topic: names of classes, with the least confidence at which one of
    them counts (of a classifier all do), and what counts of each, as JSON.

    rules: of a network that finds boxes, else None.
    """
    least = 0.0 if rules is None else rules.least
    names = labels_of(model)
    found = [(topic, builder.label_info(header, names[topic], least)) for topic in names]
    if rules is not None:
        text = json.dumps(rules.described(model.class_names), ensure_ascii=False)
        found.append((CLASS_OPTIONS, builder.make("std_msgs/String", data=text)))
    return found


def messages_of(
    builder: MessageBuilder, header: Any, result: VisionResult
) -> list[tuple[str, Message]]:
    """The messages of one image by topic, the same in a bag as the node publishes them."""
    found = [(topic.name, topic.of(builder, header, result)) for topic in RESULT_TOPICS]
    return [(name, message) for name, message in found if message is not None]
