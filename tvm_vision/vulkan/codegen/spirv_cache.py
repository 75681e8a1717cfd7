"""Compiled shaders kept on disk by content: one file a shader, a checksum in front of the words.

The folder is that of TVM_VISION_CACHE_DIR, as the native library reads it; one that cannot be
written means no cache. The newest MOST_ENTRIES stay; one that is used after a day counts as new
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from ...errors import InputError
from ...plain_files import read_plain
from ...whole_files import write_whole
from ..options import device_options

MOST_ENTRIES = 4096  # kernels of some fifty networks: 60 MB
MOST_BYTES = 16 << 20  # of one; the largest kernels have some 100 KB
_DAY = 86400.0
_DIGEST_BYTES = 32
_MAGIC = 0x07230203  # first word of every SPIR-V module


def folder() -> Path | None:
    """The folder of compiled shaders, or None when caching is switched off."""
    chosen = device_options()["TVM_VISION_CACHE_DIR"]
    return Path(chosen) / "spirv" if chosen else None


def load(key: str) -> bytes | None:
    """The module stored under ``key``; None when absent, no plain file, too large or damaged."""
    where = folder()
    if where is None:
        return None
    path = where / f"{key}.spv"
    try:
        entry = read_plain(path, MOST_BYTES)
    except OSError:
        return None
    digest, spirv = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
    if len(spirv) < 20 or len(spirv) % 4 or hashlib.sha256(spirv).digest() != digest:
        return None
    if int.from_bytes(spirv[:4], "little") != _MAGIC:
        return None
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)
    return spirv


def store(key: str, spirv: bytes) -> None:
    """Write an entry, whole or not at all; nothing where the folder cannot be written."""
    where = folder()
    if where is None:
        return
    with contextlib.suppress(InputError, OSError):
        write_whole(where / f"{key}.spv", hashlib.sha256(spirv).digest() + spirv)
        if key.startswith("00"):  # one of 256: to list a folder takes longer than to store
            keep_newest(where, MOST_ENTRIES)


def keep_newest(where: Path, count: int) -> None:
    """Remove all entries of a folder but the ``count`` that were written last."""
    entries = []
    with os.scandir(where) as found:
        for entry in found:
            if entry.name.endswith(".spv"):
                with contextlib.suppress(OSError):  # another process may tidy up, too
                    entries.append((entry.stat().st_mtime, entry.path))
    for _, path in sorted(entries)[: max(0, len(entries) - count)]:
        with contextlib.suppress(OSError):
            os.unlink(path)
