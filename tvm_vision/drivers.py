"""How drivers are called in packages and records: "NVIDIA 580.159.4". A leaf without TVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The driver, not the vendor: open drivers of NVIDIA's GPUs count as Vulkan does.
_NVIDIA = "NVIDIA"
# Bits of each part, from the highest on.
_NVIDIA_BITS = (10, 8, 8, 6)
_VULKAN_BITS = (10, 10, 12)
_PACKED = re.compile(r"(?:(?P<name>.*) )?(?P<version>[0-9]{1,10})")


def driver_of(attributes: Mapping[str, Any]) -> str:
    """Name and version of a driver by a target's attributes ``driver_name`` and ``driver_version``
    (VkPhysicalDeviceProperties::driverVersion); "" where it has neither."""
    name, version = attributes.get("driver_name", ""), attributes.get("driver_version", "")
    return spelled_out(f"{name} {version}".strip())


def spelled_out(driver: str) -> str:
    """A driver as it is called now; files of former versions have "NVIDIA 2435301632"."""
    found = _PACKED.fullmatch(driver)
    if found is None or int(found["version"]) >= 1 << 32:
        return driver
    name = found["name"] or ""
    return f"{name} {_unpacked(int(found['version']), name)}".strip()


def _unpacked(version: int, name: str) -> str:
    parts = []
    left = 32
    for bits in _NVIDIA_BITS if name == _NVIDIA else _VULKAN_BITS:
        left -= bits
        parts.append(version >> left & (1 << bits) - 1)
    if len(parts) == len(_NVIDIA_BITS) and parts[-1] == 0:
        parts.pop()
    return ".".join(map(str, parts))
