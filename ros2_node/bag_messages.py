"""Messages as bags have them, without ROS: their types, how they are made, and their QoS.

Needs rosbags (pure Python).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .messages import MessageBuilder

INTERFACES = Path(__file__).resolve().parent / "interfaces"


@cache
def result_types() -> Any:
    """A store of message types that knows vision_msgs too."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = {}
    for path in sorted((INTERFACES / "vision_msgs" / "msg").glob("*.msg")):
        types |= get_types_from_msg(path.read_text("utf-8"), f"vision_msgs/msg/{path.stem}")
    store.register(types)
    return store


def builder() -> MessageBuilder:
    """Makes messages of ``result_types``."""
    store = result_types()

    def octets(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return data

    return MessageBuilder(lambda name: store.types[name], octets)


def own_header(header: Any, builder: MessageBuilder) -> Any:
    """A bag's header as one of our types, with the same stamp and frame."""
    stamp = builder.make(
        "builtin_interfaces/Time", sec=header.stamp.sec, nanosec=header.stamp.nanosec
    )
    return builder.make("std_msgs/Header", stamp=stamp, frame_id=header.frame_id)


def result_qos(*, latched: bool) -> Any:
    """As the node offers its results, so that a player does the same."""
    from rosbags.interfaces import (
        Qos,
        QosDurability,
        QosHistory,
        QosLiveliness,
        QosReliability,
        QosTime,
    )

    never = QosTime(0x7FFFFFFF, 0xFFFFFFFF)
    return Qos(
        QosHistory.KEEP_LAST,
        1 if latched else 5,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        never,
        never,
        QosLiveliness.AUTOMATIC,
        never,
        False,
    )
