"""The descriptions of Vulkan drivers (ICDs) that the loader finds, read without loading any.

Where it looks is in "Driver Discovery on Linux" of the Vulkan loader's LoaderDriverInterface.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .finding import FAIL, OK, WARN, Finding, Machine, read

# In the order in which the loader takes them; the second is the older name.
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
FOLDER = "vulkan/icd.d"
INSTALL = "apt install mesa-vulkan-drivers (Intel, AMD and the CPU), or install the vendor's driver"


@dataclass(frozen=True)
class DriverFile:
    """A driver's description: its path, the library that it names, and what is wrong with it."""

    path: Path
    library: str = ""
    fault: str = ""

    @property
    def name(self) -> str:
        """Of the file, without what all have."""
        return self.path.name.removesuffix(".json")


def driver_files(machine: Machine) -> tuple[str, list[DriverFile]]:
    """The variable that names them, "" for those that are installed, and the descriptions."""
    for variable in VARIABLES:
        named = [part for part in machine.environment.get(variable, "").split(":") if part]
        if named:
            return variable, [file for part in named for file in _described(Path(part))]
    added = machine.environment.get("VK_ADD_DRIVER_FILES", "").split(":")
    paths = [*(Path(part) for part in added if part), *_folders(machine)]
    found = [file for path in paths for file in _described(path) if path.exists()]
    return "", list({file.path: file for file in found}.values())


def _folders(machine: Machine) -> Iterator[Path]:
    said = machine.environment.get
    home = Path(said("HOME") or "/nonexistent")
    for one, many, usual_one, usual_many in (
        ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", ".config", "/etc/xdg"),
        ("XDG_DATA_HOME", "XDG_DATA_DIRS", ".local/share", "/usr/local/share:/usr/share"),
    ):
        yield Path(said(one) or home / usual_one) / FOLDER
        if said(many):
            yield from (Path(part) / FOLDER for part in said(many, "").split(":") if part)
        else:
            yield from (machine.path(part) / FOLDER for part in usual_many.split(":"))
        yield machine.path("/etc") / FOLDER


def _described(path: Path) -> list[DriverFile]:
    """A description, or those of a folder."""
    if path.is_dir():
        return [_read(file) for file in sorted(path.glob("*.json"))]
    return [_read(path)]


def _read(path: Path) -> DriverFile:
    if not path.exists():
        return DriverFile(path, fault="is not there")
    text = read(path)
    try:
        library = json.loads(text)["ICD"]["library_path"]
    except (ValueError, LookupError, TypeError, RecursionError):
        library = None
    if not isinstance(library, str) or not library:
        why = "this user may not read" if not text else "is no description of a driver"
        return DriverFile(path, fault=f"{why} (JSON with a library_path)" if text else why)
    if "/" in library and not library.startswith("/"):
        library = str(path.parent / library)
    return DriverFile(path, library)


def check_driver_files(machine: Machine, faults: dict[str, str]) -> Iterator[Finding]:
    """Which drivers the loader will find, and what is wrong with them.

    faults: library -> why it cannot be loaded, of those that were tried.
    """
    variable, files = driver_files(machine)
    if not files:
        yield Finding("driver files", FAIL, "no Vulkan driver is installed", INSTALL)
        return
    sound: list[DriverFile] = []
    broken: list[tuple[DriverFile, str]] = []
    for file in files:
        fault = file.fault or faults.get(file.library, "")
        if fault:
            broken.append((file, fault))
        else:
            sound.append(file)
    where = f"{variable} names " if variable else ""
    for file, fault in broken:
        state = FAIL if variable or not sound else WARN
        remedy = f"unset {variable}, or name the JSON file of a driver"
        if not variable:
            remedy = "install its package again (dpkg -S FILE says whose it is), or remove the file"
        yield Finding(
            "driver files", state, f"{where}{machine.name(file.path)}, which {fault}", remedy
        )
    if sound:
        names = ", ".join(file.name for file in sound)
        yield Finding("driver files", OK, f"{where}{names}")
