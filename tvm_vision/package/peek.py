"""What a package is made for, as it says itself: told before what checking it needs is imported."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from .container import INFO, PARAMS, Extent, Loading, list_tar, open_file, read_extent


@dataclass(frozen=True)
class Peek:
    """What can be told of a package, of which nothing is checked.

    Attributes:
        target_kind: of the target in mod.json ("vulkan", "llvm"); None where it cannot be told, for
            whatever reason.
        params: mod.params, which is being read meanwhile; None likewise, and for a package for
            several devices.
        is_fleet: whether it is for several devices; its kind is "vulkan" then where any is.
    """

    target_kind: str | None
    params: Loading | None
    is_fleet: bool = False


def peek(path: str | os.PathLike[str]) -> Peek:
    """Look into a package, tar or folder, and begin to read its weights. Raises nothing."""
    try:
        is_folder = Path(path).is_dir()
        files = {name: Path(path) / name if is_folder else Path(path) for name in (INFO, PARAMS)}
        with open_file(files[INFO]) as stream:
            if is_folder:
                extents = {name: Extent(0, file.stat().st_size) for name, file in files.items()}
            else:
                extents = list_tar(stream)
            document = json.loads(read_extent(stream, INFO, extents[INFO]))
        if "variants" in document:
            kinds = {str(variant["target"]["kind"]) for variant in document["variants"]}
            return Peek("vulkan" if "vulkan" in kinds else "llvm", None, is_fleet=True)
        kind = str(document["target"]["kind"])
        return Peek(kind, Loading(files[PARAMS], PARAMS, extents[PARAMS]))
    except Exception:
        return Peek(None, None)
