"""What was compiled, kept on disk by content: one file an entry, a checksum in front.

The folders lie in that of TVM_VISION_CACHE_DIR. One that cannot be read or written means no cache,
and a damaged entry is none. A folder bounds itself: entries that were used last stay; one that is
used after a day counts as new again. One of a time to come, written while the clock was wrong, goes
first unless it is used. A leaf, which needs no native library.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from . import environment
from .errors import InputError
from .plain_files import open_plain
from .whole_files import clear_leftovers_once, write_whole

_DAY = 86400.0
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class KeptFiles:
    """Entries of one kind.

    Attributes:
        name: of the folder.
        suffix: of its files.
        most_bytes: of one entry.
        most_total: bytes of all together, now and then somewhat more.
        few: whether entries are few and large: then ``most_total`` counts at once.
    """

    name: str
    suffix: str
    most_bytes: int
    most_total: int
    few: bool = False

    def folder(self) -> Path | None:
        """Where the entries are, or None when caching is switched off."""
        chosen = environment.cache_folder()
        return Path(chosen) / self.name if chosen else None

    def load(self, key: str) -> bytes | None:
        """What is stored under ``key``; None when absent, no plain file, too large or damaged."""
        where = self.folder()
        if where is None:
            return None
        path = where / f"{key}{self.suffix}"
        # Who finds all that it needs writes nothing, and would leave them.
        clear_leftovers_once(where)
        try:
            with open_plain(path) as stream:
                size = os.fstat(stream.fileno()).st_size - _DIGEST_BYTES
                if not 0 <= size <= self.most_bytes:
                    return None
                digest, content = stream.read(_DIGEST_BYTES), stream.read(size)
        except OSError:
            return None
        if hashlib.sha256(content).digest() != digest:
            return None
        with contextlib.suppress(OSError):
            if abs(time.time() - path.stat().st_mtime) > _DAY:
                os.utime(path)
        return content

    def store(self, key: str, content: bytes) -> None:
        """Write an entry, whole or not at all; nothing where the folder cannot be written.

        key: hexadecimal digits.
        """
        where = self.folder()
        if where is None or len(content) > self.most_bytes:
            return
        with contextlib.suppress(InputError, OSError):
            digest = hashlib.sha256(content).digest()
            write_whole(where / f"{key}{self.suffix}", digest + content)
            # Else one of 256: to list a folder takes longer than to store.
            if self.few or key.startswith("00"):
                self._keep_newest(where)

    def _keep_newest(self, where: Path) -> None:
        entries, to_come = [], time.time() + _DAY
        with os.scandir(where) as found:
            for entry in found:
                if entry.name.endswith(self.suffix):
                    with contextlib.suppress(OSError):  # another process may tidy up, too
                        status = entry.stat()
                        used = status.st_mtime if status.st_mtime < to_come else 0.0
                        entries.append((used, status.st_size, entry.path))
        total = 0
        for _, size, path in sorted(entries, reverse=True):
            total += size
            if total > self.most_total:
                with contextlib.suppress(OSError):
                    os.unlink(path)
