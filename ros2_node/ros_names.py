"""Topics as ROS names them in full."""

from __future__ import annotations

from rclpy.node import Node

from tvm_vision.errors import InputError

from .reasons import without_places
from .settings import shown


def resolved(node: Node, topic: str) -> str:
    """A topic in full, after ~, what stands in {}, the namespace and all remappings.

    Raises InputError, with ROS's own reason, where it can make no name of it.
    """
    try:
        return str(node.resolve_topic_name(topic))
    except RuntimeError as error:  # of rcl, which has no public class for it
        reason = without_places(str(error)).removeprefix("failed to resolve name: ")
        raise InputError(
            f"ROS takes no topic {shown(topic)} of {node.get_fully_qualified_name()} ({reason}): "
            "give it another name"
        ) from None
