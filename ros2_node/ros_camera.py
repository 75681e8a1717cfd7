"""The node's subscription to the images, and what it sees of the graph while none comes."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, ReliabilityPolicy, qos_check_compatible
from sensor_msgs.msg import CompressedImage, Image

from .dds_profile import dds_profile, profile_variables
from .ros_names import resolved
from .ros_qos import UnsupportedEventTypeError, overridden, profile, subscription_events
from .settings import Settings, input_topics
from .silence import COMPRESSED, IMAGE, Publisher, Surroundings, reason
from .statistics import Statistics

# Between two looks at the graph.
LOOK_SECONDS = 1.0


class RosCamera:
    """Listens to one topic of images. All methods are for the executor's thread."""

    def __init__(
        self, node: Node, received: Callable[[Any], object], statistics: Statistics
    ) -> None:
        """received: gets each message."""
        self._node = node
        self._received = received
        self._statistics = statistics
        self._subscription: Any = None
        self._settings = Settings()
        self._since = 0.0
        self._look_due = 0.0
        # Why no image comes through, and what to do; "" while they come.
        self.reason = ""
        self.room = room_for_large_images()

    def open(self, settings: Settings) -> None:
        """Subscribe; does nothing where it listens already."""
        if self._subscription is not None:
            return
        self._settings = settings
        self._since = monotonic()
        try:
            self._subscription = self._subscribe(self._statistics.lost)
        except UnsupportedEventTypeError:
            # A middleware that does not tell of losses.
            self._subscription = self._subscribe(None)

    def close(self) -> None:
        """Listen no more."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None
        self._forget()

    @property
    def waiting(self) -> float | None:
        """Seconds since it listens, None while it does not."""
        return None if self._subscription is None else monotonic() - self._since

    def topic(self, settings: Settings) -> str:
        """The topic in full, after all remappings."""
        return resolved(self._node, _topic(settings))

    def watch(self, silent: bool, seconds: float) -> None:
        """Log that no image comes and why, another reason for it, or that they come again.

        silent: none came for ``seconds``.
        """
        topic = self.topic(self._settings)
        if silent:
            if self._look():
                words = f"no image on {topic} for {seconds:g} s: {self.reason}"
                self._node.get_logger().warning(words)
        elif self.reason:
            self._node.get_logger().info(f"images on {topic} again")
            self._forget()

    def _subscribe(self, lost: Callable[[int], object] | None) -> Any:
        settings = self._settings
        log = self._node.get_logger()
        return self._node.create_subscription(
            CompressedImage if settings.image_transport == "compressed" else Image,
            _topic(settings),
            self._received,
            self._qos(),
            event_callbacks=subscription_events(self.topic(settings), log.warning, lost),
        )

    def _qos(self) -> Any:
        settings = self._settings
        qos = profile(settings.input_reliability, settings.input_depth)
        return overridden(self._node, _topic(settings), "subscription", qos)

    def _look(self) -> bool:
        """Find the reason again; returns whether it is another one."""
        now = monotonic()
        if now < self._look_due:
            return False
        self._look_due = now + LOOK_SECONDS
        before, self.reason = self.reason, reason(self._surroundings())
        return self.reason != before

    def _forget(self) -> None:
        self.reason = ""
        self._look_due = 0.0

    def _surroundings(self) -> Surroundings:
        settings, node = self._settings, self._node
        publishers = tuple(
            map(self._publisher, node.get_publishers_info_by_topic(_topic(settings)))
        )
        own = (node.get_name(), node.get_namespace())
        return Surroundings(
            topic=self.topic(settings),
            kind=COMPRESSED if settings.image_transport == "compressed" else IMAGE,
            publishers=publishers,
            elsewhere=() if publishers else tuple(self._elsewhere(own)),
            alone=all(found == own for found in node.get_node_names_and_namespaces()),
            lost=self._statistics.snapshot().rate_lost > 0,
            reliable=self._qos().reliability == ReliabilityPolicy.RELIABLE,
            room=self.room,
        )

    def _publisher(self, info: Any) -> Publisher:
        fits, why = qos_check_compatible(info.qos_profile, self._qos())
        unheard = fits == QoSCompatibility.ERROR
        return Publisher(
            node=f"{info.node_namespace.rstrip('/')}/{info.node_name}",
            kind=info.topic_type,
            reliable=info.qos_profile.reliability == ReliabilityPolicy.RELIABLE,
            mismatch=why.removeprefix("ERROR: ").rstrip("; ").lower() if unheard else "",
        )

    def _elsewhere(self, own: tuple[str, str]) -> list[tuple[str, str]]:
        """Topics of images that others publish, with their messages."""
        return [
            (topic, kind)
            for topic, kinds in self._node.get_topic_names_and_types()
            for kind in kinds
            if kind in (IMAGE, COMPRESSED)
            and any(
                (info.node_name, info.node_namespace) != own
                for info in self._node.get_publishers_info_by_topic(topic)
            )
        ]


def _topic(settings: Settings) -> str:
    return input_topics(settings)["image_topic"]


def room_for_large_images() -> str:
    """How the sender gets room for large images, for the middleware in use."""
    middleware = rclpy.get_rmw_implementation_identifier()
    if "fastrtps" not in middleware:
        return f"give {middleware} room for large messages in the camera's process"
    path = dds_profile() or "config/fastdds.xml"
    return f"start the camera's process with {profile_variables()[-1]}={path}"
