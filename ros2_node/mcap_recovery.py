"""An MCAP file that was cut off, made whole for a reader, without a copy of it.

At the front lies what was recorded, as records, most of them chunks of messages. What a recorder
writes at its end, the index, is made anew from those that are whole. The format: mcap.dev/spec.
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"\x89MCAP0\r\n"
FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK = 0x02, 0x03, 0x04, 0x05, 0x06
CHUNK_INDEX, STATISTICS, DATA_END = 0x08, 0x0B, 0x0F
_HEAD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
# First and last time, size and checksum of the records, length of the compression's name.
_CHUNK = struct.Struct("<QQQII")
# What the index of one message takes; a reader tells by the room for it what a chunk has.
_INDEX_BYTES = 31
NEVER = (1 << 63) - 1
# decompress(data, compression, size, checksum): the records of a chunk, or any exception.
Decompress = Callable[[bytes, str, int, int], bytes]


@dataclass
class Chunk:
    """A chunk in the file: where it lies, and what it has."""

    start: int
    length: int
    compression: bytes
    stored: int
    size: int
    first: int = NEVER
    last: int = 0
    channels: set[int] = field(default_factory=set)


@dataclass
class Whole:
    """What of a file is whole.

    end: of its last whole record. salvaged: a chunk of what is whole in one that was cut off there.
    messages: their number. first, last: their times in ns.
    """

    end: int = 0
    salvaged: bytes = b""
    messages: int = 0
    first: int = NEVER
    last: int = 0
    schemas: dict[int, bytes] = field(default_factory=dict)
    channels: dict[int, bytes] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    chunks: list[Chunk] = field(default_factory=list)

    def add(self, opcode: int, body: memoryview, chunk: Chunk | None = None) -> None:
        """One record, of a chunk or between them."""
        if opcode == MESSAGE:
            channel, _, time, _ = _MESSAGE.unpack(body[: _MESSAGE.size])
            self.counts[channel] += 1
            self.messages += 1
            self.first, self.last = min(self.first, time), max(self.last, time)
            if chunk is not None:
                chunk.channels.add(channel)
                chunk.first, chunk.last = min(chunk.first, time), max(chunk.last, time)
        elif opcode in (SCHEMA, CHANNEL):
            kind = self.schemas if opcode == SCHEMA else self.channels
            kind[int.from_bytes(body[:2], "little")] = bytes(body)

    def tail(self) -> bytes:
        """What has to follow ``end``, so that it is a file with an index."""
        parts = [self.salvaged, _record(DATA_END, bytes(4))]
        summary = self.end + sum(map(len, parts))
        parts += [_record(SCHEMA, body) for body in self.schemas.values()]
        parts += [_record(CHANNEL, body) for body in self.channels.values()]
        parts += [_record(CHUNK_INDEX, _index(chunk)) for chunk in self.chunks]
        parts.append(_record(STATISTICS, self._statistics()))
        parts.append(_record(FOOTER, struct.pack("<QQI", summary, 0, 0)))
        return b"".join([*parts, MAGIC])

    def _statistics(self) -> bytes:
        counts = b"".join(struct.pack("<HQ", *item) for item in sorted(self.counts.items()))
        numbers = (self.messages, len(self.schemas), len(self.channels), 0, 0, len(self.chunks))
        times = struct.pack("<QQI", self.first, self.last, len(counts))
        return struct.pack("<QHIIII", *numbers) + times + counts


def _record(opcode: int, *body: bytes) -> bytes:
    whole = b"".join(body)
    return _HEAD.pack(opcode, len(whole)) + whole


def _index(chunk: Chunk) -> bytes:
    # No index of single messages is there: each channel that the chunk has gets the room of one.
    end = chunk.start + chunk.length
    places = b"".join(
        struct.pack("<HQ", channel, end + place * _INDEX_BYTES)
        for place, channel in enumerate(sorted(chunk.channels))
    )
    return b"".join([
        struct.pack("<QQQQ", chunk.first, chunk.last, chunk.start, chunk.length),
        struct.pack("<I", len(places)), places,
        struct.pack("<Q", _INDEX_BYTES * len(chunk.channels)),
        struct.pack("<I", len(chunk.compression)), chunk.compression,
        struct.pack("<QQ", chunk.stored, chunk.size),
    ])  # fmt: skip


def records(data: bytes) -> Iterator[tuple[int, memoryview]]:
    """The whole records of a chunk, each with its opcode."""
    view, at = memoryview(data), 0
    while at + _HEAD.size <= len(view):
        opcode, length = _HEAD.unpack_from(view, at)
        body = view[at + _HEAD.size : at + _HEAD.size + length]
        # Memory that a disk never wrote is zeros.
        if len(body) < length or not opcode or (opcode == MESSAGE and length < _MESSAGE.size):
            return
        at += _HEAD.size + length
        yield opcode, body


def whole_part(path: Path, decompress: Decompress) -> Whole:
    """What can be read of a file. Raises OSError; of a file that is no MCAP nothing is whole."""
    size, found = path.stat().st_size, Whole()
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return found
        at = found.end = len(MAGIC)
        while len(head := stream.read(_HEAD.size)) == _HEAD.size:
            opcode, length = _HEAD.unpack(head)
            if not opcode or opcode in (FOOTER, DATA_END):
                break
            if at + len(head) + length > size:
                if opcode == CHUNK:
                    _salvage(found, _stored(stream.read()))
                break
            # Of what is left out here, messages without a chunk for one, only the beginning counts.
            needed = length if opcode in (SCHEMA, CHANNEL, CHUNK) else min(length, _MESSAGE.size)
            body = stream.read(needed)
            if opcode == CHUNK and not _add_chunk(found, at, body, decompress):
                break
            if opcode != CHUNK:
                found.add(opcode, memoryview(body))
            at = found.end = at + len(head) + length
            stream.seek(at)
    return found


def _add_chunk(found: Whole, start: int, body: bytes, decompress: Decompress) -> bool:
    """Whether the chunk could be read to its end."""
    try:
        _, _, size, checksum, name = _CHUNK.unpack_from(body)
        compression = body[_CHUNK.size : _CHUNK.size + name]
        at = _CHUNK.size + name
        (stored,) = struct.unpack_from("<Q", body, at)
        raw = decompress(body[at + 8 : at + 8 + stored], compression.decode(), size, checksum)
    # Whatever the decompressors stumble over.
    except Exception:
        return False
    if _size_of_whole(raw) < len(raw):
        # It has its length, by zeros that a file system put where nothing was written.
        _salvage(found, raw)
        return False
    chunk = Chunk(start, _HEAD.size + len(body), compression, stored, size)
    for opcode, record in records(raw):
        found.add(opcode, record, chunk)
    found.chunks.append(chunk)
    return True


def _stored(body: bytes) -> bytes:
    """The records of a chunk that was cut off; none where it is compressed."""
    if len(body) < _CHUNK.size or _CHUNK.unpack_from(body)[4]:
        return b""
    return body[_CHUNK.size + 8 :]


def _size_of_whole(raw: bytes) -> int:
    return sum(_HEAD.size + len(record) for _, record in records(raw))


def _salvage(found: Whole, raw: bytes) -> None:
    """Take in the whole records at the front of a chunk."""
    size = _size_of_whole(raw)
    if not size:
        return
    found.salvaged = _record(
        CHUNK, _CHUNK.pack(0, 0, size, 0, 0), struct.pack("<Q", size), raw[:size]
    )
    chunk = Chunk(found.end, len(found.salvaged), b"", size, size)
    for opcode, record in records(raw[:size]):
        found.add(opcode, record, chunk)
    found.chunks.append(chunk)


class MendedFile:
    """As much of a path as rosbags needs, of a file that reads as if it had been ended."""

    suffix = ".mcap"

    def __init__(self, path: Path, whole: Whole) -> None:
        """whole: of that path."""
        self._path, self._end, self._tail = path, whole.end, whole.tail()

    def __str__(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        """As of a path."""
        return True

    def is_dir(self) -> bool:
        """As of a path."""
        return False

    def open(self, *_: Any, **__: Any) -> BinaryIO:
        """For reading, in binary."""
        return io.BufferedReader(_Joined(self._path.open("rb"), self._end, self._tail))


class _Joined(io.RawIOBase):
    """The first ``end`` bytes of a file, and then others."""

    def __init__(self, front: BinaryIO, end: int, tail: bytes) -> None:
        self._front, self._end, self._tail, self._at = front, end, tail, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._end + len(self._tail))
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = len(buffer)
        if self._at < self._end:
            self._front.seek(self._at)
            data = self._front.read(min(wanted, self._end - self._at))
        else:
            start = self._at - self._end
            data = self._tail[start : start + wanted]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._front.close()
        super().close()
