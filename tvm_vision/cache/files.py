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
from typing import Any, BinaryIO

from .. import environment
from ..errors import InputError
from ..plain_files import open_plain
from ..whole_files import clear_leftovers_once, whole, write_whole

_DAY = 86400.0
_DIGEST_BYTES = 32
_PIECE = 1 << 20


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
        found = self._opened(key)
        if found is None:
            return None
        path, stream, digest, size = found
        try:
            with stream:
                content = stream.read(size)
        except OSError:
            return None
        if hashlib.sha256(content).digest() != digest:
            return None
        self._use(path)
        return content

    def open(self, key: str) -> BinaryIO | None:
        """As ``load``, of entries that are not to be in memory: a stream at the begin of what is
        stored, which was read once to see that it is whole."""
        found = self._opened(key)
        if found is None:
            return None
        path, stream, digest, _ = found
        try:
            begin = stream.tell()
            if _digest(stream).digest() == digest:
                stream.seek(begin)
                self._use(path)
                return stream
        except OSError:
            pass
        stream.close()
        return None

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
            self._bound(where, key)

    def store_file(self, key: str, head: bytes, source: BinaryIO) -> None:
        """As ``store``, of ``head`` and the rest of a file, of which a piece at a time is in
        memory."""
        where = self.folder()
        size = len(head) + os.fstat(source.fileno()).st_size - source.tell()
        if where is None or size > self.most_bytes:
            return
        with contextlib.suppress(InputError, OSError):
            with whole(where / f"{key}{self.suffix}") as fresh, fresh.open("wb") as stream:
                stream.write(bytes(_DIGEST_BYTES) + head)
                digest = _digest(source, hashlib.sha256(head), stream)
                stream.seek(0)
                stream.write(digest.digest())
            self._bound(where, key)

    def _opened(self, key: str) -> tuple[Path, BinaryIO, bytes, int] | None:
        """An entry's path, a stream behind its checksum, that, and the bytes behind it."""
        where = self.folder()
        if where is None:
            return None
        path = where / f"{key}{self.suffix}"
        # Who finds all that it needs writes nothing, and would leave them.
        clear_leftovers_once(where)
        try:
            stream = open_plain(path)
        except OSError:
            return None
        try:
            size = os.fstat(stream.fileno()).st_size - _DIGEST_BYTES
            if 0 <= size <= self.most_bytes:
                return path, stream, stream.read(_DIGEST_BYTES), size
        except OSError:
            pass
        stream.close()
        return None

    @staticmethod
    def _use(path: Path) -> None:
        with contextlib.suppress(OSError):
            if abs(time.time() - path.stat().st_mtime) > _DAY:
                os.utime(path)

    def _bound(self, where: Path, key: str) -> None:
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


def _digest(source: BinaryIO, digest: Any = None, copy: BinaryIO | None = None) -> Any:
    """The checksum of the rest of a stream, behind what ``digest`` has, which may be copied."""
    digest = digest or hashlib.sha256()
    while piece := source.read(_PIECE):
        digest.update(piece)
        if copy is not None:
            copy.write(piece)
    return digest
