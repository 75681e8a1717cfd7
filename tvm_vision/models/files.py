"""Files that are whole or not there at all."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write beside and rename, so that an interrupted write leaves what was there before.

    Makes the folder. Raises InputError where it cannot be written.
    """
    scratch = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror or error})") from None
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
