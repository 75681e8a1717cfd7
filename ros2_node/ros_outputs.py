"""The node's publishers: which there are for a network, and what goes out for a frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from rclpy.node import Node
from std_msgs.msg import Header

from tvm_vision.errors import InputError
from tvm_vision.models.class_options import ClassRules
from tvm_vision.models.draw import draw_result
from tvm_vision.models.results import VisionResult

from . import result_topics, soccer, space_messages, yolo_messages
from .images import Image
from .messages import MessageBuilder
from .pipeline import Times
from .result_topics import (
    CLASS_OPTIONS,
    IMAGE,
    LABEL_TOPICS,
    LATCHED,
    RESULT_TOPICS,
    label_messages,
)
from .ros_locator import TF, RosLocator, needs_transforms
from .ros_messages import message_class
from .ros_names import resolved
from .ros_qos import overridden, profile, publisher_events
from .settings import Settings

DEPTH = 5
# Nobody who listens to these alone needs results.
SIDE_TOPICS = (*LATCHED, "latency")


def topics_of(model: Any, settings: Settings) -> dict[str, str]:
    """The topics for a network, each with its message."""
    wanted = [t for t in result_topics.topics_of(model) if _is_set(settings, t.setting)]
    parts = {topic.part for topic in wanted}
    topics = {topic.name: topic.message for topic in wanted}
    for name, of in LABEL_TOPICS.items():
        topics |= {name: LATCHED[name]} if not parts.isdisjoint(of) else {}
    if "detections/label_info" in topics:
        topics[CLASS_OPTIONS] = LATCHED[CLASS_OPTIONS]
    pixels = "segmentation" in model.produces
    if pixels and settings.publish_masks:
        topics |= {mask_topic(name): IMAGE for name in model.segmentation_names}
    if settings.publish_soccer_vision:
        topics |= soccer.TOPICS if "detections" in model.produces else {}
        topics |= dict.fromkeys(soccer.MASKS, IMAGE) if pixels else {}
    if settings.publish_yolo and "detections" in model.produces:
        topics[yolo_messages.TOPIC] = yolo_messages.KIND
    if settings.locate_by and "detections" in model.produces:
        topics["detections_3d"] = space_messages.DETECTIONS
    if settings.locate_by == "ground" and pixels:
        topics |= {points_topic(name): space_messages.POINTS for name in model.segmentation_names}
    if settings.publish_debug_image:
        topics["debug_image"] = IMAGE
    if settings.publish_latency:
        topics["latency"] = "std_msgs/Float32MultiArray"
    return topics


def _is_set(settings: Settings, name: str) -> bool:
    return not name or bool(getattr(settings, name))


def mask_topic(name: str) -> str:
    """mask/CLASS, with what a topic's name cannot have replaced."""
    return f"mask/{_legal(name)}"


def points_topic(name: str) -> str:
    """points/CLASS, likewise."""
    return f"points/{_legal(name)}"


def _legal(name: str) -> str:
    legal = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return legal if not legal[:1].isdigit() else f"_{legal}"


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
        self._space = RosLocator(node)
        self._told: set[str] = set()

    def check(self, model: Any, settings: Settings) -> dict[str, type]:
        """The class of each topic's message. Raises InputError where a package is missing, and for
        a topic that ROS can make no name of, as a class of a long name makes one."""
        wanted = topics_of(model, settings)
        for topic in wanted:
            resolved(self._node, topic)
        if needs_transforms(settings):
            message_class(TF)
        return {topic: message_class(kind.replace("/", "/msg/")) for topic, kind in wanted.items()}

    def open(self, model: Any, settings: Settings) -> None:
        """Have the publishers for a network, and no others; those that stay are not touched."""
        wanted = topics_of(model, settings)
        # Imported before anything changes: a missing package leaves all as it was.
        classes = self.check(model, settings)
        if settings != self._settings:
            self._told.clear()
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
                    event_callbacks=publisher_events(resolved(self._node, topic), self._warn),
                )
                self._kinds[topic] = wanted[topic]

    def close(self) -> None:
        """Destroy all publishers."""
        self._space.close()
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

    def listen(self, active: bool) -> None:
        """Hear what results need beside the images, while somebody wants these results."""
        with self._lock:
            located = [t for t in self._publishers if t == "detections_3d" or t[:7] == "points/"]
            wanted = active and any(self._heard(topic) for topic in located)
            settings = self._settings
        self._space.listen(settings, wanted)

    def publish_labels(self, model: Any, header: Header, rules: ClassRules | None) -> None:
        """The names of the classes and what counts of each, latched; see ``label_messages``."""
        with self._lock:
            for topic, message in label_messages(self._builder, header, model, rules):
                if topic in self._publishers:
                    self._publishers[topic].publish(message)

    def publish(self, header: Header, image: Image, result: VisionResult, times: Times) -> None:
        """Everything that somebody listens to."""
        with self._lock:
            for topic in RESULT_TOPICS:
                # Asked first: nothing is made that nobody listens to.
                message = (
                    topic.of(self._builder, header, result) if self._heard(topic.name) else None
                )
                if message is not None:
                    self._publishers[topic.name].publish(message)
            if result.detections is not None:
                self._publish_soccer(header, result)
                if self._heard(yolo_messages.TOPIC):
                    self._publishers[yolo_messages.TOPIC].publish(
                        yolo_messages.yolo_message(self._builder, header, result.detections)
                    )
            self._publish_located(header, image, result)
            if result.segmentation is not None:
                self._publish_masks(header, result)
            if self._heard("latency"):
                self._publishers["latency"].publish(self._builder.latency(latencies(times)))
        # Drawing takes longer than all else: not while others wait for the lock.
        self._publish_debug_image(header, image, result, times)

    def _heard(self, topic: str) -> bool:
        publisher = self._publishers.get(topic)
        return publisher is not None and publisher.get_subscription_count() > 0

    def _publish_located(self, header: Header, image: Image, result: VisionResult) -> None:
        builder, settings, locator = self._builder, self._settings, self._space.locator
        try:
            if result.detections is not None and self._heard("detections_3d"):
                size = (image.shape[0], image.shape[1])
                frame, places = locator.places(settings, header, size, result.detections)
                own = space_messages.in_frame(builder, header, frame)
                message = space_messages.detections_3d(builder, own, result.detections, places)
                self._publishers["detections_3d"].publish(message)
            for name in () if result.segmentation is None else result.segmentation.class_names:
                if self._heard(points_topic(name)):
                    assert result.segmentation is not None
                    mask = result.segmentation[name]
                    frame, points = locator.points(settings, header, mask)
                    own = space_messages.in_frame(builder, header, frame)
                    message = space_messages.point_cloud(builder, own, points)
                    self._publishers[points_topic(name)].publish(message)
        except InputError as error:
            self._tell_once(str(error))

    def _tell_once(self, words: str) -> None:
        # Once a kind, whatever the number of seconds.
        kind = "".join(letter for letter in words if not letter.isdigit())
        if kind not in self._told and len(self._told) < 100:
            self._told.add(kind)
            self._warn(f"nothing is located: {words}")

    def _publish_soccer(self, header: Header, result: VisionResult) -> None:
        assert result.detections is not None
        for topic in soccer.TOPICS:
            if self._heard(topic):
                message = soccer.soccer_message(
                    self._builder, topic, header, result.detections, self._settings.own_team_color
                )
                self._publishers[topic].publish(message)

    def _publish_masks(self, header: Header, result: VisionResult) -> None:
        assert result.segmentation is not None
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
        qos = profile(self._settings.output_reliability, DEPTH)
        if topic in LATCHED:
            qos = profile("reliable", 1, latched=True)
        return overridden(self._node, topic, "publisher", qos)

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
