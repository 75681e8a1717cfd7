"""The messages of rclpy for messages.py."""

from __future__ import annotations

from array import array
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError

from .messages import MessageBuilder


def octets(data: npt.NDArray[np.uint8]) -> Any:
    """A field of uint8[]: anything but an array('B') is copied value by value, or checked so."""
    result = array("B")
    result.frombytes(np.ascontiguousarray(data).data)
    return result


def message_class(name: str) -> type:
    """The class of "package/msg/Name". Raises InputError where the package is not installed."""
    package, kind, message = name.split("/")
    try:
        return getattr(import_module(f"{package}.{kind}"), message)
    except ImportError as error:
        raise InputError(
            f"{name} is needed, and the package {package} is not installed ({error}): apt install "
            f"ros-$ROS_DISTRO-{package.replace('_', '-')}, or, without ROS, make ros"
        ) from None


def builder() -> MessageBuilder:
    """Makes messages that rclpy publishes."""
    return MessageBuilder(message_class, octets)
