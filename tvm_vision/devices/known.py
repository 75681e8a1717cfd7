"""Descriptions that come along, by name; ``scripts/known_devices.py`` makes them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from .description import DeviceDescription, read_description

FOLDER = Path(__file__).parent / "known"
SUFFIX = ".json"


def known_devices() -> dict[str, DeviceDescription]:
    """All that come along, by name, sorted."""
    return {name: _read(name) for name in known_names()}


def known_names() -> tuple[str, ...]:
    """The names that ``--target`` takes, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def described_device(spelling: str | os.PathLike[str]) -> DeviceDescription | None:
    """The device that a target names, by a name of ``known_names`` or the path of a .json file;
    None for what is neither.

    Raises InputError for a file that is no description.
    """
    if isinstance(spelling, str) and spelling in known_names():
        return _read(spelling)
    path = os.fspath(spelling)
    if not path.startswith("{") and (path.endswith(SUFFIX) or os.sep in path):
        return read_description(spelling)
    return None


@cache
def _read(name: str) -> DeviceDescription:
    return read_description(FOLDER / f"{name}{SUFFIX}")
