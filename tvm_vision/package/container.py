"""The tar itself: written the same for the same content, read without trusting a byte of it.

Only what this module writes is read: plain files of known names, in ustar headers. No links, no
devices, no extensions; sizes are held against the file's own before anything is allocated.
Format of a header: POSIX.1-1988 ustar, fields at fixed places of 512 bytes, numbers in octal.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from ..errors import PackageError
from ..plain_files import open_plain, remedy_of
from ..side_threads import done, meanwhile

BLOCK = 512
CHUNK = 1 << 20
LOAD_CHUNK = 16 << 20  # of weights
INFO, PARAMS, LIBRARY = "mod.json", "mod.params", "mod.so"
MEMBERS = (INFO, PARAMS, LIBRARY)
# Of a package that was signed, beside the others.
SIGNATURE = "mod.sig"
# Enough for a graph of a hundred thousand kernels.
MAX_INFO_BYTES = 64 << 20
REMEDY = "copy the package again, or compile the model again"
KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a character device",
    b"4": "a block device", b"5": "a folder", b"6": "a pipe", b"7": "a contiguous file",
    b"x": "an extended header", b"g": "a global extended header", b"L": "a long name",
    b"K": "a long link name", b"S": "a sparse file",
}  # fmt: skip


@dataclass(frozen=True)
class Extent:
    """Where a member's bytes lie in the tar."""

    offset: int
    size: int


# Of a member that lies in several places, in order.
Pieces = tuple[Extent, ...]


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """A plain file to read. Raises PackageError for anything else, without waiting for it."""
    try:
        stream = open_plain(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise PackageError(
                f"a package is a tar or a folder, and '{path}' is neither: check the path"
            ) from None
        raise PackageError(
            f"a package is needed, and '{path}' cannot be opened ({error.strerror}): "
            + remedy_of(error, "check the path")
        ) from None
    with stream:
        yield stream


def write_tar(stream: BinaryIO, members: Mapping[str, Path | bytes]) -> None:
    """Write members sorted by name, without times, owners or modes of this machine."""
    import io
    import tarfile

    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(members):
            content = members[name]
            entry = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                with content.open("rb") as source:
                    entry.size = os.fstat(source.fileno()).st_size
                    archive.addfile(entry, source)


def list_tar(stream: BinaryIO) -> dict[str, Extent]:
    """Where each member lies. Raises PackageError for a damaged tar or any other member."""
    total = stream.seek(0, os.SEEK_END)
    found: dict[str, Extent] = {}
    offset = 0
    while True:
        stream.seek(offset)
        header = stream.read(BLOCK)
        if len(header) < BLOCK:
            _refuse("it ends in the middle" if total else "it is empty")
        if not any(header):
            break
        name, kind, size = _parse_header(header)
        offset += BLOCK
        if size > total - offset:
            _refuse(f"'{name}' has {size} bytes, and {max(0, total - offset)} are left: it is cut")
        if not (kind == "a folder" and name in ("", ".")):
            _check_member(name, kind, found)
            found[name] = Extent(offset, size)
        offset += -(-size // BLOCK) * BLOCK
    missing = [name for name in MEMBERS if name not in found]
    if missing:
        _refuse(f"{', '.join(missing)} missing")
    return found


def read_extent(stream: BinaryIO, name: str, extent: Extent) -> bytes:
    """A member as bytes: mod.json and mod.sig, whose size is bounded."""
    if extent.size > MAX_INFO_BYTES:
        _refuse(f"'{name}' has {extent.size} bytes, and {MAX_INFO_BYTES} are allowed")
    stream.seek(extent.offset)
    return stream.read(extent.size)


def load_extent(stream: BinaryIO, name: str, extent: Extent) -> tuple[mmap.mmap, str]:
    """``load_pieces`` of a member that lies in one place."""
    return load_pieces(stream, name, (extent,))


def load_pieces(stream: BinaryIO, name: str, pieces: Pieces) -> tuple[mmap.mmap, str]:
    """A member in memory that can be written, and its SHA-256.

    Raises PackageError where it is empty, or larger than the memory.
    """
    import hashlib

    total = sum(piece.size for piece in pieces)
    if not total:
        _refuse(f"'{name}' is empty")
    try:
        # Private, and in large pages below: handing out 4 KiB at a time took half as long as all
        # that is done with them here.
        memory = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise PackageError(
            f"{total} bytes of memory are needed for '{name}', and there are not so many "
            f"({error.strerror}): stop other programs"
        ) from None
    with contextlib.suppress(OSError):  # of a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    digest = hashlib.sha256()
    hashed = done
    at = 0
    with memoryview(memory) as view:
        for piece in pieces:
            stream.seek(piece.offset)
            end = at + piece.size
            while at < end:
                chunk = view[at : min(end, at + LOAD_CHUNK)]
                count = stream.readinto(chunk)  # type: ignore[attr-defined]
                if not count:
                    _refuse("it became shorter while it was read")
                # While the next bytes are read.
                hashed()
                read = view[at : at + count]
                hashed = meanwhile(digest.update, read)
                at += count
        hashed()
    return memory, digest.hexdigest()


class Loading:
    """``load_extent`` of a file, in a thread of its own that nothing has to wait for."""

    def __init__(self, path: Path, name: str, extent: Extent) -> None:
        self.extent = extent
        self._path, self._name = path, name
        self._loaded: tuple[mmap.mmap, str] | None = None
        self._error: Exception | None = None
        self._wait = meanwhile(self._load, daemon=True)

    def result(self) -> tuple[mmap.mmap, str]:
        """What ``load_extent`` gave, once it is there; raises what it raised."""
        self._wait()
        if self._error is not None:
            raise self._error
        assert self._loaded is not None
        return self._loaded

    def _load(self) -> None:
        try:
            with open_file(self._path) as stream:
                self._loaded = load_extent(stream, self._name, self.extent)
        except Exception as error:
            self._error = error


def copy_extent(stream: BinaryIO, extent: Extent, target: Path | None) -> str:
    """Copy a member to a new file in pieces, or nowhere; returns its SHA-256."""
    import hashlib

    digest = hashlib.sha256()
    stream.seek(extent.offset)
    left = extent.size
    # "x": never into a file or through a link that is there already.
    with open(os.devnull, "wb") if target is None else target.open("xb") as output:
        while left:
            piece = stream.read(min(CHUNK, left))
            if not piece:
                _refuse("it became shorter while it was read")
            digest.update(piece)
            output.write(piece)
            left -= len(piece)
    return digest.hexdigest()


def _parse_header(header: bytes) -> tuple[str, str, int]:
    """Name, kind ("" for a plain file) and size of a member."""
    summed = header[:148] + b" " * 8 + header[156:]
    if header[257:262] != b"ustar" or sum(summed) != _octal(header[148:156], "checksum"):
        _refuse("it is no tar, or a header is damaged" + _compressed(header))
    name = header[:100].split(b"\0")[0].decode("utf-8", "backslashreplace")
    if any(header[345:500].rstrip(b"\0")) and header[263:265] == b"00":
        name = f"{header[345:500].split(bytes(1))[0].decode('utf-8', 'backslashreplace')}/{name}"
    flag = header[156:157]
    kind = "" if flag in (b"0", b"\0") else KINDS.get(flag, f"an entry of type {flag!r}")
    return name.removeprefix("./").rstrip("/"), kind, _octal(header[124:136], "size")


def _octal(field: bytes, what: str) -> int:
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        _refuse(f"a {what} in a header is no octal number")
    return int(digits or b"0", 8)


def _compressed(header: bytes) -> str:
    known = {b"\x1f\x8b": "gzip", b"\xfd7": "xz", b"BZ": "bzip2", b"PK": "zip", b"(\xb5": "zstd"}
    name = known.get(header[:2])
    return f" (it looks like {name}: decompress it first)" if name else ""


def _check_member(name: str, kind: str, found: Mapping[str, Extent]) -> None:
    if kind:
        _refuse(f"'{name[:60]}' is {kind}, and only plain files are allowed")
    if name not in (*MEMBERS, SIGNATURE):
        _refuse(
            f"'{name[:60]}' is in it, and only {', '.join(MEMBERS)} and {SIGNATURE} are allowed"
        )
    if name in found:
        _refuse(f"'{name}' is in it twice")


def _refuse(reason: str) -> NoReturn:
    raise PackageError(f"it cannot be read: {reason}: {REMEDY}")
