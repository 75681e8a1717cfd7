"""What a Locator needs of the graph, calibration, depth and transforms, while somebody listens."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from .locator import Locator
from .ros_messages import message_class
from .ros_qos import overridden, profile
from .settings import Settings, input_topics

TF = "tf2_msgs/msg/TFMessage"


def needs_transforms(settings: Settings) -> bool:
    """Whether results are in another frame than the camera's."""
    return settings.locate_by == "ground" or bool(settings.locate_by and settings.locate_frame)


class RosLocator:
    """The node's subscriptions for a Locator. All methods are for the executor's thread."""

    def __init__(self, node: Node) -> None:
        self.locator = Locator()
        self._node = node
        self._subscriptions: list[Any] = []
        self._made_for: tuple[Any, ...] = ()

    def listen(self, settings: Settings, wanted: bool) -> None:
        """Have the subscriptions that the parameters need, or none."""
        needs: tuple[str, ...] = (
            settings.locate_by, settings.camera_info_topic, settings.depth_topic,
            settings.depth_transport,
            settings.locate_frame, settings.ground_frame,
        )  # fmt: skip
        needs = needs if wanted and settings.locate_by else ()
        if needs == self._made_for:
            return
        self.close()
        self._made_for = needs
        if not needs:
            return
        topics = input_topics(settings)
        self._subscribe(CameraInfo, topics["camera_info_topic"], self.locator.take_calibration)
        if settings.locate_by == "depth":
            kind = Image if settings.depth_transport == "raw" else CompressedImage
            self._subscribe(kind, topics["depth_topic"], self.locator.take_depth)
        if needs_transforms(settings):
            take, kind = self.locator.transforms.take, message_class(TF)
            self._subscribe(
                kind, "/tf", lambda m: take(m, fixed=False), profile("best_effort", 100)
            )
            latched = profile("reliable", 100, latched=True)
            self._subscribe(kind, "/tf_static", lambda m: take(m, fixed=True), latched)

    def close(self) -> None:
        """Listen no more, and forget what came."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions, self._made_for = [], ()
        self.locator.forget()

    def _subscribe(self, kind: type, topic: str, take: Any, qos: Any = None) -> None:
        # Best effort hears every publisher.
        qos = overridden(self._node, topic, "subscription", qos or profile("best_effort", 5))
        self._subscriptions.append(self._node.create_subscription(kind, topic, take, qos))
