"""Which topics a network's results have, and the message of each: one table for node and bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_vision.models.results import VisionResult

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


# Keypoints have no message in vision_msgs; the debug image shows them.
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


def messages_of(
    builder: MessageBuilder, header: Any, result: VisionResult
) -> list[tuple[str, Message]]:
    """The messages of one image by topic, the same in a bag as the node publishes them."""
    found = [(topic.name, topic.of(builder, header, result)) for topic in RESULT_TOPICS]
    return [(name, message) for name, message in found if message is not None]
