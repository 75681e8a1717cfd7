"""The node's publishers: which there are for a network, and what goes out for a frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from rclpy.node import Node
from std_msgs.msg import Header

from tvm_vision.models.draw import draw_result
from tvm_vision.models.results import VisionResult

from . import soccer
from .images import Image
from .messages import MessageBuilder
from .pipeline import Times
from .ros_messages import message_class
from .ros_qos import profile, publisher_events
from .settings import Settings

IMAGE = "sensor_msgs/Image"
LABELS = "vision_msgs/LabelInfo"
DEPTH = 5
# Kept for who subscribes later; nobody who listens to them alone needs results.
LATCHED = ("label_info", "detections/label_info")
SIDE_TOPICS = (*LATCHED, "latency")


def topics_of(model: Any, settings: Settings) -> dict[str, str]:
    """The topics for a network, each with its message."""
    topics = {}
    boxes = model.kind != "classifier" and bool(model.class_names)
    pixels = bool(model.segmentation_names)
    if model.kind == "classifier":
        topics["classification"] = "vision_msgs/Classification"
        topics["label_info"] = LABELS
    if boxes and settings.publish_detections:
        topics["detections"] = "vision_msgs/Detection2DArray"
        topics["detections/label_info"] = LABELS
    if pixels and settings.publish_segmentation:
        topics["segmentation"] = IMAGE
        topics["label_info"] = LABELS
    if pixels and settings.publish_masks:
        topics |= {mask_topic(name): IMAGE for name in model.segmentation_names}
    if settings.publish_soccer_vision:
        topics |= soccer.TOPICS if boxes else {}
        topics |= dict.fromkeys(soccer.MASKS, IMAGE) if pixels else {}
    if settings.publish_debug_image:
        topics["debug_image"] = IMAGE
    if settings.publish_latency:
        topics["latency"] = "std_msgs/Float32MultiArray"
    return topics


def mask_topic(name: str) -> str:
    """mask/CLASS, with what a topic's name cannot have replaced."""
    legal = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"mask/{legal if not legal[:1].isdigit() else f'_{legal}'}"


class Outputs:
    """Publishers by topic. ``publish`` and ``wanted`` may be called from the worker's thread."""

    def __init__(self, node: Node, builder: MessageBuilder, warn: Callable[[str], Any]) -> None:
        self._node = node
        self._builder = builder
        self._warn = warn
        # Held while publishing, never while the network runs.
        self._lock = threading.Lock()
        self._publishers: dict[str, Any] = {}
        self._kinds: dict[str, str] = {}
        self._settings = Settings()
        self._debug_due = 0.0

    def check(self, model: Any, settings: Settings) -> dict[str, type]:
        """The class of each topic's message. Raises InputError where a package is missing."""
        wanted = topics_of(model, settings)
        return {topic: message_class(kind.replace("/", "/msg/")) for topic, kind in wanted.items()}

    def open(self, model: Any, settings: Settings) -> None:
        """Have the publishers for a network, and no others; those that stay are not touched."""
        wanted = topics_of(model, settings)
        # Imported before anything changes: a missing package leaves all as it was.
        classes = self.check(model, settings)
        with self._lock:
            self._settings = settings
            self._remove(
                [topic for topic, kind in self._kinds.items() if wanted.get(topic) != kind]
            )
            for topic in wanted.keys() - self._publishers.keys():
                self._publishers[topic] = self._node.create_publisher(
                    classes[topic],
                    topic,
                    self._qos(topic),
                    event_callbacks=publisher_events(topic, self._warn),
                )
                self._kinds[topic] = wanted[topic]

    def close(self) -> None:
        """Destroy all publishers."""
        with self._lock:
            self._remove(list(self._publishers))

    def wanted(self) -> bool:
        """Whether anybody listens to a result."""
        with self._lock:
            return any(
                publisher.get_subscription_count()
                for topic, publisher in self._publishers.items()
                if topic not in SIDE_TOPICS
            )

    def publish_labels(self, model: Any, header: Header, threshold: float) -> None:
        """The names of the classes, latched. threshold: least confidence of what is published."""
        pixels = model.segmentation_names or model.class_names
        with self._lock:
            for topic, names in (
                ("label_info", pixels),
                ("detections/label_info", model.class_names),
            ):
                if topic in self._publishers:
                    message = self._builder.label_info(header, names, threshold)
                    self._publishers[topic].publish(message)

    def publish(self, header: Header, image: Image, result: VisionResult, times: Times) -> None:
        """Everything that somebody listens to."""
        with self._lock:
            if result.detections is not None:
                self._publish_boxes(header, result)
            if result.segmentation is not None:
                self._publish_masks(header, result)
            if result.classification is not None and self._heard("classification"):
                message = self._builder.classification(header, result.classification)
                self._publishers["classification"].publish(message)
            if self._heard("latency"):
                self._publishers["latency"].publish(self._builder.latency(latencies(times)))
        # Drawing takes longer than all else: not while others wait for the lock.
        self._publish_debug_image(header, image, result, times)

    def _heard(self, topic: str) -> bool:
        publisher = self._publishers.get(topic)
        return publisher is not None and publisher.get_subscription_count() > 0

    def _publish_boxes(self, header: Header, result: VisionResult) -> None:
        assert result.detections is not None
        if self._heard("detections"):
            message = self._builder.detections(header, result.detections)
            self._publishers["detections"].publish(message)
        for topic in soccer.TOPICS:
            if self._heard(topic):
                message = soccer.soccer_message(
                    self._builder, topic, header, result.detections, self._settings.own_team_color
                )
                self._publishers[topic].publish(message)

    def _publish_masks(self, header: Header, result: VisionResult) -> None:
        assert result.segmentation is not None
        if self._heard("segmentation"):
            message = self._builder.image(header, result.segmentation.mask, "mono8")
            self._publishers["segmentation"].publish(message)
        for index, name in enumerate(result.segmentation.class_names):
            if self._heard(mask_topic(name)):
                mask = soccer.class_mask(result.segmentation.mask, index)
                message = self._builder.image(header, mask, "mono8")
                self._publishers[mask_topic(name)].publish(message)
        for topic in soccer.MASKS:
            if self._heard(topic):
                found = soccer.soccer_mask(result.segmentation, topic)
                if found is not None:
                    self._publishers[topic].publish(self._builder.image(header, found, "8UC1"))

    def _publish_debug_image(
        self, header: Header, image: Image, result: VisionResult, times: Times
    ) -> None:
        now = monotonic()
        with self._lock:
            settings = self._settings
            if now < self._debug_due or not self._heard("debug_image"):
                return
        self._debug_due = now + (1.0 / settings.debug_rate if settings.debug_rate else 0.0)
        caption = (
            f"{times.processing:.1f} ms ({times.inference:.1f} ms network), "
            f"image {times.age:.0f} ms old"
        )
        drawn = draw_result(image, result, caption=caption)
        message = self._builder.image(header, drawn, "bgr8")
        with self._lock:
            publisher = self._publishers.get("debug_image")
            if publisher is not None:
                publisher.publish(message)

    def _qos(self, topic: str) -> Any:
        if topic in LATCHED:
            return profile("reliable", 1, latched=True)
        return profile(self._settings.output_reliability, DEPTH)

    def _remove(self, topics: list[str]) -> None:
        for topic in topics:
            self._node.destroy_publisher(self._publishers.pop(topic))
            del self._kinds[topic]


def latencies(times: Times) -> dict[str, float]:
    """The values of the topic latency, in milliseconds."""
    return {
        "preprocess": times.decode + times.preprocess,
        "inference": times.inference,
        "postprocess": times.postprocess,
        "age": times.age,
        "total": times.age + times.processing,
    }
