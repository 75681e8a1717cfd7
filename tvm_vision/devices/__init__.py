"""Devices that are elsewhere: what the compiler has to know of one, as a file; those that come
along; and what it means when a package was made for another device than the one it is on.

What is here is imported on first use: running a network needs ``difference`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .description import DeviceDescription, read_description
    from .known import described_device, known_devices

__all__ = [
    "DeviceDescription",
    "described_device",
    "known_devices",
    "read_description",
]

if not TYPE_CHECKING:  # for which no name would be a wrong one
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(("DeviceDescription", "read_description"), ".description"),
            **dict.fromkeys(("described_device", "known_devices"), ".known"),
        },
    )
