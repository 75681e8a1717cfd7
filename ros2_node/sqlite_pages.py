"""Rows of a table of messages from the pages of an SQLite file, without its tree.

A file that was cut off may have lost the page that leads to all others, as SQLite moves that to the
back when the tree grows. The format: sqlite.org/fileformat2.html, sections 1.6 and 2.1.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator
from pathlib import Path

Row = tuple[int, int, int, bytes]
_LEAF = 0x0D  # of a table
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}  # bytes by serial type
_NULL, _FIRST_BLOB = 0, 12


def page_size(head: bytes) -> int:
    """Bytes of a page, by the first bytes of a file."""
    size = int.from_bytes(head[16:18], "big")
    return 65536 if size == 1 else size


def rows(path: Path, topics: Collection[int]) -> Iterator[Row]:
    """Id, topic, time and data of all messages that are whole, in the order of their pages.

    topics: the ids that there are. Raises OSError, and ValueError for an empty file.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = page_size(data[:32])
        if size < 512 or size & (size - 1):
            return
        usable = size - data[20]
        for start in range(0, len(data) - size + 1, size):
            if data[start] == _LEAF:
                yield from _leaf(data, start, size, usable, topics)


def _leaf(
    data: mmap.mmap, start: int, size: int, usable: int, topics: Collection[int]
) -> Iterator[Row]:
    cells = int.from_bytes(data[start + 3 : start + 5], "big")
    for place in range(start + 8, min(start + 8 + 2 * cells, start + size), 2):
        at = start + int.from_bytes(data[place : place + 2], "big")
        try:
            length, at = _varint(data, at)
            number, at = _varint(data, at)
            row = _row(number, _payload(data, at, length, size, usable), topics)
        except (IndexError, ValueError):
            continue  # cut off, or no cell at all
        if row is not None:
            yield row


def _payload(data: mmap.mmap, at: int, length: int, size: int, usable: int) -> bytes:
    """What is in the cell, and on the pages of its chain."""
    if length > len(data):
        raise ValueError
    most, least = usable - 35, (usable - 12) * 32 // 255 - 23
    if length <= most:
        return data[at : at + length]
    local = least + (length - least) % (usable - 4)
    local = local if local <= most else least
    parts, left = [data[at : at + local]], length - local
    page = int.from_bytes(data[at + local : at + local + 4], "big")
    while left > 0:
        start = (page - 1) * size
        if page < 1 or start + size > len(data):
            raise ValueError
        parts.append(data[start + 4 : start + 4 + min(left, usable - 4)])
        left -= usable - 4
        page = int.from_bytes(data[start : start + 4], "big")
    return b"".join(parts)


def _row(number: int, record: bytes, topics: Collection[int]) -> Row | None:
    """A row of messages, None where it is of another table."""
    end, at = _varint(record, 0)
    kinds = []
    while at < end:
        kind, at = _varint(record, at)
        kinds.append(kind)
    # The id is the number of the row, and stored as NULL.
    if len(kinds) != 4 or kinds[0] != _NULL or kinds[3] < _FIRST_BLOB or kinds[3] % 2:
        return None
    values = []
    for kind in kinds[1:3]:
        width = _INTEGERS[kind] if kind in _INTEGERS else -1
        if width < 0:
            return None
        stored = int.from_bytes(record[end : end + width], "big", signed=True)
        values.append(kind - 8 if kind in (8, 9) else stored)
        end += width
    content = record[end:]
    if len(content) != (kinds[3] - _FIRST_BLOB) // 2 or values[0] not in topics:
        return None
    return number, values[0], values[1], content


def _varint(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where the next one stands."""
    value = 0
    for _ in range(8):
        byte = data[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1
