"""Results on disk, image by image, so that work that was cut off goes on where it stopped.

A line of JSON says what the results belong to. Then follow records: kind, time stamp and length,
then so many bytes; the kind END closes an image. What comes after the last END is not counted.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tvm_vision.errors import InputError
from tvm_vision.whole_files import why_not

RECORD = struct.Struct("<BQI")
END = 255
# A record of more is no record of ours.
MOST_BYTES = 1 << 30

Record = tuple[int, int, bytes]


class Journal:
    """One file, opened to go on where its last complete image ends; use it in a ``with``."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        """identity: what the results are of.

        Raises InputError where the file is of something else, or another process writes it.

        ``images`` is the number of images that are done.
        """
        self.path = path
        self.images = 0
        self._file: BinaryIO | None = None
        header = (json.dumps(identity, sort_keys=True) + "\n").encode()
        try:
            # Not cut before it is known that nobody else writes it.
            stream = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
            self._keep_for_this_process(stream)
            if os.fstat(stream.fileno()).st_size:
                self._go_on(stream, header)
            else:
                stream.write(header)
            self._file = stream
        except OSError as error:
            raise InputError(f"'{path}' cannot be written {why_not(error)}") from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, timestamp: int, messages: Sequence[tuple[int, bytes]]) -> None:
        """All results of the next image, as (kind, data); none for one that cannot be read."""
        assert self._file is not None
        for kind, data in messages:
            self._file.write(RECORD.pack(kind, timestamp, len(data)))
            self._file.write(data)
        self._file.write(RECORD.pack(END, timestamp, 0))
        # Handed to the system: it survives the end of this process.
        self._file.flush()
        self.images += 1

    def groups(self) -> Iterator[list[Record]]:
        """The results of each image, in order."""
        with self.path.open("rb") as stream:
            stream.readline()
            group: list[Record] = []
            while (record := _read(stream)) is not None:
                if record[0] == END:
                    yield group
                    group = []
                else:
                    group.append(record)

    def close(self) -> None:
        """A second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep_for_this_process(self, stream: BinaryIO) -> None:
        """Raise InputError where another one is at the same work."""
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            raise InputError(
                f"another process writes '{self.path}': wait for it, or choose another output"
            ) from None
        except OSError:  # a file system without locks
            pass

    def _go_on(self, stream: BinaryIO, header: bytes) -> None:
        if stream.readline() != header:
            stream.close()
            raise InputError(
                f"'{self.path}' is of another bag, network or choice of options: finish that one, "
                "or drop it with --restart"
            )
        end = stream.tell()
        while (record := _read(stream)) is not None:
            if record[0] == END:
                self.images += 1
                end = stream.tell()
        # Half an image, if the last run ended in the middle of one.
        stream.seek(end)
        stream.truncate()


def _read(stream: BinaryIO) -> Record | None:
    """The next record, None where there is no complete one."""
    head = stream.read(RECORD.size)
    if len(head) < RECORD.size:
        return None
    kind, timestamp, length = RECORD.unpack(head)
    left = os.fstat(stream.fileno()).st_size - stream.tell()
    if length > min(left, MOST_BYTES):
        return None
    return kind, timestamp, stream.read(length)
