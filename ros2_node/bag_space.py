"""Where what is found in the images of a bag is in space, by what else was recorded. Without ROS.

The node can only use what came before an image's turn; here what was recorded shortly behind it
counts as well, and calibrations and fixed transforms that were recorded late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_vision.errors import InputError
from tvm_vision.models.results import Detections

from .bag_reading import IMAGE_TYPES, Bag
from .locator import Locator
from .messages import Message, MessageBuilder
from .settings import Settings
from .space_messages import detections_3d, in_frame

CALIBRATION = "sensor_msgs/msg/CameraInfo"
TRANSFORMS = "tf2_msgs/msg/TFMessage"
# Of a bag's time: a depth image, or a transform, may be recorded so long behind its image.
AHEAD_NS = 250_000_000
# Depth images around an image, at 60 Hz.
DEPTHS = 32
Item = tuple[Any, int, Any]


class BagSpace:
    """The calibration, depth and transforms of a bag, for the images of one of its topics."""

    def __init__(self, bag: Bag, images: Any, settings: Settings) -> None:
        """images: the connection of the images. settings: those of places; a topic that is "" is
        looked for.

        Raises InputError where the bag lacks what they need.
        """
        self._bag, self._images = bag, images
        self._locator = Locator(DEPTHS)
        self._calibration = _one(bag, "--camera-info-topic", settings.camera_info_topic,
                                 [CALIBRATION], _sibling(images.topic, "camera_info"))  # fmt: skip
        self._depth = ""
        if settings.locate_by == "depth":
            self._depth = _one(bag, "--depth-topic", settings.depth_topic, IMAGE_TYPES, "",
                               images.topic)  # fmt: skip
        self._settings = replace(
            settings, camera_info_topic=self._calibration, depth_topic=self._depth
        )
        self._take_what_holds()

    @property
    def identity(self) -> list[Any]:
        """What decides the places."""
        own = self._settings
        return [
            own.locate_by, own.locate_frame, own.ground_frame, own.ball_diameter,
            own.image_rectified, self._calibration, self._depth,
        ]  # fmt: skip

    def images(self) -> Iterator[Item]:
        """The messages of the images' topic, each when all that belongs to it was taken."""
        waiting: deque[Item] = deque()
        for item in self._bag.messages([*self._wanted()]):
            while waiting and item[1] > waiting[0][1] + AHEAD_NS:
                yield waiting.popleft()
            if _is(item[0], self._images.topic, self._images.msgtype):
                waiting.append(item)
            else:
                self._take(item[0], item[2])
        yield from waiting

    def message(
        self, builder: MessageBuilder, header: Any, size: tuple[int, int], found: Detections
    ) -> Message:
        """Detection3DArray of the detections whose place is known; ``id`` is 1 + the position in
        ``found``. Raises InputError as ``Locator.places``."""
        frame, places = self._locator.places(self._settings, header, size, found)
        numbered = replace(found, track_ids=np.arange(1, len(found) + 1, dtype=np.int64))
        return detections_3d(builder, in_frame(builder, header, frame), numbered, places)

    def _take_what_holds(self) -> None:
        """The first calibration, and all fixed transforms: they were meant for all images."""
        for connection, _, data in self._bag.messages(self._of(self._calibration, [CALIBRATION])):
            self._take(connection, data)
            break
        for connection, _, data in self._bag.messages(self._of("/tf_static", [TRANSFORMS])):
            self._take(connection, data)

    def _wanted(self) -> Iterator[Any]:
        yield from self._of(self._images.topic, [self._images.msgtype])
        yield from self._of(self._calibration, [CALIBRATION])
        yield from self._of(self._depth, IMAGE_TYPES)
        yield from self._of("/tf", [TRANSFORMS])

    def _of(self, topic: str, kinds: Sequence[str]) -> list[Any]:
        return [c for c in self._bag.connections if c.topic == topic and c.msgtype in kinds]

    def _take(self, connection: Any, data: Any) -> None:
        try:
            message = self._bag.deserialize(data, connection.msgtype)
        except InputError:  # of one that is broken nothing is known
            return
        if connection.msgtype == TRANSFORMS:
            fixed = connection.topic == "/tf_static"
            self._locator.transforms.take(message, fixed=fixed)
        elif connection.msgtype == CALIBRATION:
            self._locator.take_calibration(message)
        else:
            self._locator.take_depth(message)


def _is(connection: Any, topic: str, kind: str) -> bool:
    return bool(connection.topic == topic and connection.msgtype == kind)


def _sibling(topic: str, name: str) -> str:
    """What image_transport expects beside the images, and their compressed form."""
    base = topic.removesuffix("/compressed").rpartition("/")[0]
    return f"{base}/{name}"


def _one(
    bag: Bag, option: str, topic: str, kinds: Sequence[str], usual: str, other: str = ""
) -> str:
    """The topic that is named, the usual one, or the only one there is but for ``other``.

    Raises InputError where that is none.
    """
    there = sorted({c.topic for c in bag.connections if c.msgtype in kinds} - {other})
    chosen = topic or (usual if usual in there else "") or (there[0] if len(there) == 1 else "")
    if chosen not in there:
        needed = f"the topic {topic}" if topic else "one topic"
        kind = " or ".join(kinds)
        listing = ", ".join(there) or "none"
        raise InputError(f"{needed} of {kind} is needed, the bag has: {listing}; use {option}")
    return chosen
