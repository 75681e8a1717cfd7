"""Calibrations of this machine's devices: descriptions in the folder of caches, by device and
driver. A driver of another version is measured again."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

from ..errors import TvmVisionError
from ..vulkan import DeviceInfo
from ..vulkan.options import device_options
from .description import DeviceDescription, read_description

LOGGER = logging.getLogger(__name__)


def described_here(device: DeviceInfo) -> DeviceDescription:
    """A device of this machine, with what a calibration measured, where one is kept."""
    plain = DeviceDescription.of(device)
    path = kept_path(plain)
    if path is None or not path.exists():
        return plain
    try:
        kept = read_description(path)
    except TvmVisionError as error:
        LOGGER.warning("the calibration that was kept is passed over: %s", error)
        return plain
    same = (kept.name, kept.driver) == (plain.name, plain.driver)
    return replace(plain, measured=kept.measured) if same else plain


def keep(described: DeviceDescription) -> Path | None:
    """Keep a calibration for later compilations; the file, or None where nothing is cached.

    Raises InputError where it cannot be written.
    """
    path = kept_path(described)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        described.write(path)
    return path


def kept_path(described: DeviceDescription) -> Path | None:
    """Where the calibration of a device is kept; None where nothing is cached."""
    chosen = device_options()["TVM_VISION_CACHE_DIR"]
    if not chosen:
        return None
    key = hashlib.sha256(f"{described.name}\0{described.driver}".encode()).hexdigest()[:24]
    return Path(chosen) / "devices" / f"{key}.json"
