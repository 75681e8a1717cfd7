"""Devices that are elsewhere: what the compiler has to know of one, as a file; those that come
along; and what it means when a package was made for another device than the one it is on."""

from .description import DeviceDescription, read_description
from .difference import difference
from .known import described_device, known_devices

__all__ = [
    "DeviceDescription",
    "described_device",
    "difference",
    "known_devices",
    "read_description",
]
