"""The node's camera: a topic of images, or one that the node opens itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from rclpy.node import Node
from std_msgs.msg import Header

from tvm_vision.errors import InputError

from .camera_source import CameraThread, Format, Source, source_of
from .images import Image
from .ros_camera import RosCamera
from .settings import Settings
from .statistics import Statistics


@dataclass(frozen=True)
class OwnImage:
    """An image that never was a message. header: std_msgs/Header. pixels: as ``Image``."""

    header: Header
    pixels: Image


class OwnCamera:
    """A camera in the node's process. All methods are for the executor's thread."""

    room = ""

    def __init__(self, node: Node, received: Callable[[Any], object]) -> None:
        """received: gets each OwnImage, in a thread of its own."""
        self._node, self._received = node, received
        self._thread: CameraThread | None = None
        self._source = Source("", "")
        self._since = 0.0
        self._told = ""

    def open(self, settings: Settings) -> None:
        """Begin to take images; does nothing where it does already."""
        if self._thread is not None:
            return
        self._source = _source(settings)
        self._since = monotonic()
        frame = settings.camera_frame_id
        self._thread = CameraThread(
            self._source,
            Format(settings.camera_width, settings.camera_height, settings.camera_rate),
            lambda: Header(stamp=self._node.get_clock().now().to_msg(), frame_id=frame),
            lambda image, header: self._received(OwnImage(header, image)),
        )

    def close(self) -> None:
        """Take no more."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._told = ""

    @property
    def waiting(self) -> float | None:
        """Seconds since it was opened, None while it is not."""
        return None if self._thread is None else monotonic() - self._since

    @property
    def reason(self) -> str:
        """Why no image comes, and what to do; "" while they come."""
        return "" if self._thread is None else self._thread.problem

    def topic(self, settings: Settings) -> str:
        """What /diagnostics calls it."""
        return _source(settings).shown

    def watch(self, silent: bool, seconds: float) -> None:
        """As of RosCamera."""
        log, reason = self._node.get_logger(), self.reason
        if silent and reason and reason != self._told:
            log.warning(f"no image of {self._source.shown} for {seconds:g} s: {reason}")
            self._told = reason
        elif not silent and self._told:
            log.info(f"images of {self._source.shown} again")
            self._told = ""


def _source(settings: Settings) -> Source:
    try:
        return source_of(settings.camera)
    except InputError:  # a video that was removed since: it is said when it is opened
        return Source(settings.camera, settings.camera)


class Camera:
    """Either of them, as the parameter ``camera`` says when it is opened."""

    def __init__(
        self, node: Node, received: Callable[[Any], object], statistics: Statistics
    ) -> None:
        """received: gets each message, or OwnImage, in any thread."""
        self._topic = RosCamera(node, received, statistics)
        self._own = OwnCamera(node, received)
        self._used: RosCamera | OwnCamera = self._topic

    def open(self, settings: Settings) -> None:
        """Begin to take images; does nothing where it does already."""
        if self._used.waiting is None:
            self._used = self._choice(settings)
            self._used.open(settings)

    def close(self) -> None:
        """Take no more."""
        self._used.close()

    def topic(self, settings: Settings) -> str:
        """The topic in full, or what the camera is."""
        return self._choice(settings).topic(settings)

    def watch(self, silent: bool, seconds: float) -> None:
        """Log that no image comes and why, or that they come again.

        silent: none came for ``seconds``.
        """
        self._used.watch(silent, seconds)

    @property
    def waiting(self) -> float | None:
        """Seconds since it was opened, None while it is not."""
        return self._used.waiting

    @property
    def reason(self) -> str:
        """Why no image comes, and what to do; "" while they come."""
        return self._used.reason

    @property
    def room(self) -> str:
        """What to do where images are lost on the way."""
        return self._used.room

    def _choice(self, settings: Settings) -> RosCamera | OwnCamera:
        return self._own if settings.camera else self._topic
