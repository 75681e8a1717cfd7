"""Why no image comes, and what to do: from what is seen of the graph to words. Without ROS."""

from __future__ import annotations

from dataclasses import dataclass

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
SUFFIX = "/compressed"
# Of many topics with images, so many are named.
MOST_NAMED = 3


@dataclass(frozen=True)
class Publisher:
    """A publisher of the topic.

    kind: its message, as IMAGE. mismatch: the quality of service that keeps this node from hearing
    it, in words, "" where it fits.
    """

    node: str
    kind: str = IMAGE
    reliable: bool = False
    mismatch: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What the node sees while it waits for images.

    topic, kind: what it listens to. elsewhere: other topics with images, each with its message.
    alone: no other node is seen. lost: the middleware tells that images were sent lately and
    did not arrive. reliable: the node asks for reliable images. room: what makes room for large
    images at the sender, in words.
    """

    topic: str
    kind: str = IMAGE
    publishers: tuple[Publisher, ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()
    alone: bool = False
    lost: bool = False
    reliable: bool = False
    room: str = "give its process more room for messages"


def reason(seen: Surroundings) -> str:
    """Why no image comes through ``seen.topic``, as far as can be told, and what to do."""
    if not seen.publishers:
        return _unpublished(seen)
    right = [publisher for publisher in seen.publishers if publisher.kind == seen.kind]
    if not right:
        return _other_kind(seen)
    heard = [publisher for publisher in right if not publisher.mismatch]
    if not heard:
        return _unheard(right[0])
    remedy = seen.room
    if not seen.reliable and all(publisher.reliable for publisher in heard):
        remedy += ", or set input_reliability to reliable"
    if seen.lost:
        return f"{_names(heard)} sends, and its images are lost on the way: {remedy}"
    return (
        f"{_names(heard)} is connected. Either it sends none (ros2 topic hz {seen.topic}), or they "
        f"are too large for the way here: {remedy}"
    )


def _unpublished(seen: Surroundings) -> str:
    twin, transport = _twin(seen)
    if (twin, COMPRESSED if seen.kind == IMAGE else IMAGE) in seen.elsewhere:
        return f"nobody publishes it, but {twin}: set image_transport to {transport}"
    fitting = [topic for topic, kind in seen.elsewhere if kind == seen.kind]
    if fitting:
        names = ", ".join(sorted(fitting)[:MOST_NAMED])
        return f"nobody publishes it, images are on {names}: set image_topic, or remap it"
    if seen.alone:
        return (
            "nobody publishes it, and no other node is seen: start the camera; if it runs, compare "
            "ROS_DOMAIN_ID and RMW_IMPLEMENTATION with its own"
        )
    return "nobody publishes it: start the camera, or set image_topic to its topic"


def _twin(seen: Surroundings) -> tuple[str, str]:
    """The topic of the other transport of the same camera, and that transport."""
    if seen.kind == IMAGE:
        return seen.topic + SUFFIX, "compressed"
    return seen.topic.removesuffix(SUFFIX), "raw"


def _other_kind(seen: Surroundings) -> str:
    found = seen.publishers[0]
    problem = f"{found.node} publishes {found.kind} there, and {seen.kind} is needed"
    if found.kind == COMPRESSED and seen.topic.endswith(SUFFIX):
        topic = seen.topic.removesuffix(SUFFIX)
        return f"{problem}: set image_topic to {topic} and image_transport to compressed"
    if found.kind == COMPRESSED:
        return (
            f"{problem}: set image_transport to compressed and remap {seen.topic}{SUFFIX} to "
            f"{seen.topic}"
        )
    return f"{problem}: set image_topic to a topic of images"


def _unheard(publisher: Publisher) -> str:
    remedy = f"change the quality of service of {publisher.node} to volatile, without a deadline"
    if not publisher.reliable:
        remedy = "set input_reliability to best_effort"
    return f"{publisher.node} offers less than this node asks for ({publisher.mismatch}): {remedy}"


def _names(publishers: list[Publisher]) -> str:
    return ", ".join(sorted({publisher.node for publisher in publishers})[:MOST_NAMED])
