"""Qualities of service, and what to do where two do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)

from .qos_overrides import endpoints_missing, overrides_of
from .ros_names import resolved
from .ros_parameters import given

try:
    from rclpy.event_handler import (
        PublisherEventCallbacks,
        SubscriptionEventCallbacks,
        UnsupportedEventTypeError,
    )
except ImportError:  # Humble's name for it
    from rclpy.qos_event import (
        PublisherEventCallbacks,
        SubscriptionEventCallbacks,
        UnsupportedEventTypeError,
    )

__all__ = ["UnsupportedEventTypeError"]

_RELIABILITY = {
    "best_effort": ReliabilityPolicy.BEST_EFFORT,
    "reliable": ReliabilityPolicy.RELIABLE,
}

_KINDS = {
    "history": HistoryPolicy,
    "reliability": ReliabilityPolicy,
    "durability": DurabilityPolicy,
}


def profile(reliability: str, depth: int, *, latched: bool = False) -> QoSProfile:
    """Keep the last ``depth``; latched: who subscribes later gets the last one."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=_RELIABILITY[reliability],
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def overridden(node: Node, topic: str, entity: str, qos: QoSProfile) -> QoSProfile:
    """What the parameters ``qos_overrides`` make of it.

    entity: "publisher" or "subscription". Raises InputError for a value that cannot be, and for a
    topic that ROS can make no name of.
    """
    name = resolved(node, topic)
    for policy, value in overrides_of(given(node), name, entity).items():
        kind = _KINDS.get(policy)
        setattr(qos, policy, value if kind is None else kind[value.upper()])
    return qos


def name_unused(node: Node, inputs: Iterable[str]) -> None:
    """Say which overrides mean no endpoint of the node: rclpy passes over them without a word.

    inputs: topics that it may subscribe to later, when somebody listens to it.
    """
    publishers = [one.topic_name for one in node.publishers]
    subscriptions = [one.topic_name for one in node.subscriptions]
    subscriptions += [resolved(node, topic) for topic in inputs]
    for endpoint in endpoints_missing(given(node), publishers, subscriptions):
        topic, _, entity = endpoint.rpartition(".")
        node.get_logger().warning(
            f"qos_overrides.{endpoint} changes nothing: the node has no {entity} for {topic} now; "
            "'ros2 node info' lists those it has"
        )


def subscription_events(
    topic: str, warn: Callable[[str], Any], lost: Callable[[int], object] | None
) -> SubscriptionEventCallbacks:
    """Say what to do when a publisher of ``topic`` cannot be heard.

    lost: told how many more messages were sent and did not arrive; None: nobody wants to know.
    """

    def incompatible(event: Any) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        remedy = "set input_reliability to best_effort"
        if "RELIABILITY" not in policy:
            remedy = "change the publisher's QoS to keep last, volatile"
        warn(
            f"a publisher of {topic} offers less than this node asks for ({policy}), so that no "
            f"image comes through: {remedy}"
        )

    return SubscriptionEventCallbacks(
        incompatible_qos=incompatible,
        message_lost=None if lost is None else lambda event: lost(event.total_count_change),
    )


def publisher_events(topic: str, warn: Callable[[str], Any]) -> PublisherEventCallbacks:
    """Say what to do when a subscriber to ``topic`` cannot be served."""

    def incompatible(event: Any) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        if "RELIABILITY" in policy:
            remedy = "set output_reliability to reliable, or subscribe with best effort"
        else:
            remedy = "subscribe with durability volatile"
        warn(
            f"a subscriber to {topic} asks for more than this node offers ({policy}), so that it "
            f"gets nothing: {remedy}"
        )

    return PublisherEventCallbacks(incompatible_qos=incompatible)
