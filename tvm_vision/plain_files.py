"""Plain files, opened without waiting for anybody and read up to a bound.

A pipe in place of a file would be waited for, a device has no end, and a sparse file of 20 GiB fits
into one block of a disk: kind and size are looked at first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# Of a file that describes something: labels, preprocessing, a configuration.
MOST_TEXT = 16 << 20


# What is wrong with the process or the machine, whatever was opened.
_REMEDIES = {
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE), "close files, or raise the limit of open ones (ulimit -n)"
    ),
    errno.ENOMEM: "end what else needs memory",
}


def remedy_of(error: OSError, usual: str) -> str:
    """What to do about a file that cannot be opened: ``usual``, where it is the file's fault."""
    return _REMEDIES.get(error.errno or 0, usual)


def stem_of(path: str | os.PathLike[str]) -> str:
    """The name of a file without its ending, as text: bytes that are no UTF-8 are replaced, which
    file names may have and a manifest may not."""
    return os.fsencode(Path(path).stem).decode("utf-8", "replace")


def open_plain(path: str | os.PathLike[str]) -> BinaryIO:
    """A plain file, or a link to one, to read. Raises OSError for anything else."""
    return open(path, "rb", opener=_open_plain)


def _open_plain(path: str, flags: int) -> int:
    # Not blocking: a pipe is refused below instead of waited for.
    handle = os.open(path, flags | os.O_NONBLOCK)
    try:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            found = "it is a folder" if stat.S_ISDIR(kind) else "it is no plain file"
            raise OSError(errno.EINVAL, found, os.fspath(path))
    except BaseException:
        # Nobody else has it yet, so that it is closed once, whatever signal comes.
        os.close(handle)
        raise
    return handle


def read_plain(path: str | os.PathLike[str], most: int = MOST_TEXT) -> bytes:
    """The content of a plain file of at most so many bytes. Raises OSError for anything else."""
    with open_plain(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise OSError(
                errno.EFBIG, f"it has {size} bytes, and {most} are allowed", os.fspath(path)
            )
        return stream.read(most)


def read_text(path: str | os.PathLike[str], most: int = MOST_TEXT) -> str:
    """The text of a plain file of at most so many bytes, as people's programs write it: UTF-8, or
    as Windows has it, UTF-16 or one byte a character. Raises OSError as ``read_plain``."""
    content = read_plain(path, most)
    kinds = ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252")
    for kind in kinds:
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode(kind)
    return content.decode("utf-8", "replace")
