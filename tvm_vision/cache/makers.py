"""What makes packages: this version's own files, and the distributions of Python beside it.

A leaf that needs neither TVM nor the native library.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ..version import __version__

_PACKAGE = Path(__file__).parent.parent
# What code of the compiler, records and descriptions of devices are written as.
_WRITTEN = (".py", ".json", ".jsonl")
_INSTALLED = (".dist-info", ".egg-info")


def _sources() -> str:
    digest = hashlib.sha256()
    for folder, inner, names in os.walk(_PACKAGE):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted(names):
            if name.endswith(_WRITTEN):
                path = Path(folder, name)
                shown = os.fsencode(path.relative_to(_PACKAGE))
                digest.update(shown + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# Of what was imported: sources may change while this process runs.
SOURCES = _sources()


@cache
def installation() -> tuple[str, ...]:
    """All that a package depends on but for what is asked for: this version, Python, every
    distribution that it finds, by name and version, and the libraries of TVM and of ours, of which
    somebody's own build has the version of the release that it was made from."""
    found = {entry for path in sys.path for entry in _names(path) if entry.endswith(_INSTALLED)}
    return (
        __version__,
        SOURCES,
        sys.version,
        platform.machine(),
        *sorted(found),
        *_libraries(),
    )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or os.curdir)
    except OSError:
        return []


def _libraries() -> Iterator[str]:
    """Name, size and time of each, in nanoseconds."""
    folders = [_PACKAGE / "vulkan"]
    for name in ("tvm", "tvm_ffi"):
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded else find_spec(name)
        places = spec.submodule_search_locations if spec else None
        folders += [Path(place, "lib") for place in places or ()]
    for path in sorted(path for folder in folders for path in folder.glob("*.so")):
        status = path.stat()
        yield f"{path.name} {status.st_size} {status.st_mtime_ns}"
