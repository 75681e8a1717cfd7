"""Images, videos and recorded bags published as a camera would: only ``publish`` needs ROS."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_vision.errors import InputError
from tvm_vision.runtime.sources import VIDEOS, frames

from .bag_reading import BAG_FILES
from .images import Image, any_image
from .stop import Stop

# Of images in a folder, and of videos that do not say.
DEFAULT_RATE = 10.0


@dataclass(frozen=True)
class Shot:
    """One image, due ``moment`` seconds after the first one."""

    image: Image
    moment: float


def shots(
    source: Path,
    *,
    rate: float = 0.0,
    topic: str = "",
    tell: Callable[[str], object] = lambda words: None,
) -> Iterator[Shot]:
    """The images of a bag, a video, a folder of images or an image.

    rate: in Hz; 0: as it was recorded, else 10 Hz. topic: of a bag with several cameras. tell: gets
    a line for what of a damaged bag is lost.

    Raises InputError for a source that cannot be read.
    """
    if not source.exists():
        raise InputError(
            f"a bag, video, folder or image is needed, and '{source}' is not there: check the path"
        )
    if is_bag(source):
        recorded = _bag(source, topic, tell)
        if not rate:
            yield from recorded
            return
        shown: Iterator[Image] = (shot.image for shot in recorded)
    else:
        shown = (frame.image for frame in frames([source]))
        rate = rate or _video_rate(source) or DEFAULT_RATE
    for index, image in enumerate(shown):
        yield Shot(image, index / rate)


def is_bag(source: Path) -> bool:
    """Whether it is a recorded bag: a file by its name, a folder by what is in it."""
    if source.is_dir():
        # A recorder that was killed has written no metadata.
        return any(
            path.name == "metadata.yaml" or path.suffix in BAG_FILES for path in source.iterdir()
        )
    return source.suffix.lower() in BAG_FILES


def _bag(source: Path, topic: str, tell: Callable[[str], object]) -> Iterator[Shot]:
    from .bag_reading import choose_topic, reading

    with reading(source) as reader:
        for words in reader.lost:
            tell(words)
        connection = choose_topic(reader.connections, topic)
        first = None
        for _, timestamp, data in reader.of_topic(connection):
            first = timestamp if first is None else first
            message = reader.deserialize(data, connection.msgtype)
            yield Shot(any_image(message), 1e-9 * (timestamp - first))


def _video_rate(source: Path) -> float:
    if source.suffix.lower() not in VIDEOS:
        return 0.0
    import cv2

    capture = cv2.VideoCapture(str(source))
    try:
        rate = float(capture.get(cv2.CAP_PROP_FPS))
    finally:
        capture.release()
    return rate if 0.1 <= rate <= 1000.0 else 0.0


def paced(
    stream: Iterable[Shot],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Image]:
    """Each image when it is due; one that is late comes at once, and the next ones on time."""
    start = None
    for shot in stream:
        start = clock() if start is None else start
        wait = start + shot.moment - clock()
        if wait > 0:
            sleep(wait)
        yield shot.image


def endless(make: Callable[[], Iterator[Shot]]) -> Iterator[Shot]:
    """Again and again; the last image of a round stays as long as the one before it."""
    offset = 0.0
    for _ in itertools.count():
        previous = moment = 0.0
        for shot in make():
            previous, moment = moment, shot.moment
            yield Shot(shot.image, offset + shot.moment)
        offset += moment + max(moment - previous, 1e-3)


# A subscriber that a publisher knows of may not know of it yet, and would miss the first images.
MEETING_SECONDS = 0.5


@dataclass(frozen=True)
class ReplayCamera:
    """How images are published. wait: for a subscriber, before the first one."""

    topic: str = "image"
    frame_id: str = "camera"
    reliability: str = "reliable"
    wait: bool = False


def publish(
    images: Iterable[Image],
    camera: ReplayCamera,
    limit: int | None = None,
    stop: Stop | None = None,
) -> int:
    """Publish images as sensor_msgs/Image in bgr8, stamped when they go out; returns how many.

    Ends with the images, at ``limit``, or when ``stop`` is requested. Raises InputError where
    rclpy is missing, and for a topic that ROS can make no name of.
    """
    from .main import prepare_environment, require_ros

    stop = stop or Stop()
    prepare_environment()
    require_ros("publishing")
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    from sensor_msgs.msg import Image as ImageMessage
    from std_msgs.msg import Header

    from .ros_messages import builder
    from .ros_names import resolved
    from .ros_qos import profile, publisher_events

    # rclpy's handlers would take ROS away in the middle of an image.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("replay")
    count = 0
    try:
        resolved(node, camera.topic)
        publisher = node.create_publisher(
            ImageMessage,
            camera.topic,
            profile(camera.reliability, 1),
            event_callbacks=publisher_events(camera.topic, node.get_logger().warning),
        )
        make = builder()
        met = None
        while camera.wait and not stop.requested:
            if met is None and publisher.get_subscription_count():
                met = time.monotonic()
            if met is not None and time.monotonic() - met >= MEETING_SECONDS:
                break
            rclpy.spin_once(node, timeout_sec=0.05)
        for image in itertools.islice(images, limit):
            if stop.requested:
                break
            header = Header(stamp=node.get_clock().now().to_msg(), frame_id=camera.frame_id)
            publisher.publish(make.image(header, image, "bgr8"))
            # What goes wrong with a subscriber is told in a callback.
            rclpy.spin_once(node, timeout_sec=0.0)
            count += 1
        _let_go(publisher)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    return count


def _let_go(publisher: Any) -> None:
    """Give a reliable subscriber time to get the last image: a publisher's end drops it."""
    from rclpy.duration import Duration

    publisher.wait_for_all_acked(Duration(seconds=1.0))
