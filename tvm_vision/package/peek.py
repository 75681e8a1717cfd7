"""What a package is made for, as it says itself: told before what checking it needs is imported."""

from __future__ import annotations

import json
import os
from pathlib import Path

from . import container


def target_kind(path: str | os.PathLike[str]) -> str | None:
    """Kind of the target ("vulkan", "llvm") in the mod.json of a package, tar or folder.

    Nothing of it is checked: None where it cannot be told, for whatever reason.
    """
    try:
        path = Path(path)
        is_folder = path.is_dir()
        with container.open_file(path / container.INFO if is_folder else path) as stream:
            extent = (
                container.Extent(0, os.fstat(stream.fileno()).st_size)
                if is_folder
                else container.list_tar(stream)[container.INFO]
            )
            info = json.loads(container.read_extent(stream, container.INFO, extent))
        return str(info["target"]["kind"])
    except Exception:
        return None
