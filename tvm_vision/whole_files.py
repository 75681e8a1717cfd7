"""Files and folders that are whole or not there at all, and scratch folders that do not stay.

What is written grows in a scratch folder beside it, and gets its name in one step. Who uses a
scratch folder holds a lock on it, which goes with the process, however that ends: the next one that
writes at the same place removes what a killed one left, and never what another one is using, be it
in another container.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from .errors import InputError, TvmVisionError
from .interrupts import held
from .plain_files import remedy_of

_PREFIX, _SUFFIX = ".tvm_vision-", ".part"
_SCRATCH = re.compile(r"\.tvm_vision-[a-z0-9_]{8}\.part")
# In a scratch folder: what stood where something new is being put, for as long as that takes.
_DISPLACED = "displaced"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
# What to do about what is in the way of a file, by the system's number of it.
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some room, or name another place"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "name a folder that you may write to"
    ),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "name a folder where a file is named"),
    errno.EISDIR: "that is a folder, name a file in it",
    errno.ENAMETOOLONG: "choose a shorter name",
}
# Where leftovers were looked for: once in a process, since a folder may have thousands of files.
_visited: set[str] = set()


class ScratchFolder:
    """A new folder, open to this user alone, that goes with this object.

    ``close`` removes it, or the end of the block in ``with``, which gets its path. Where the
    process is killed, the next one that makes a scratch folder at the same place does.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """parent: None for the folder of temporary files, $TMPDIR.

        Raises OSError where it cannot be made.
        """
        where = temporary_folder() if parent is None else parent
        clear_leftovers_once(where)
        # A signal in between would leave it until the next process clears it.
        with held():
            self.path, lock = _locked_folder(where)
            self._finalizer = weakref.finalize(self, _close, self.path, lock, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder; a second call does nothing."""
        with held():
            self._finalizer()


def temporary_folder() -> Path:
    """That of temporary files: $TMPDIR, or the first that there is of those that others take.

    As ``tempfile.gettempdir``, which tries each by a file that stays where it is killed just then.
    """
    if tempfile.tempdir is not None:
        return Path(os.fsdecode(tempfile.tempdir))
    chosen = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    for folder in (*chosen, "/tmp", "/var/tmp"):
        if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path.cwd()


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """What others write as temporary files in the block goes into a scratch folder, and with it.

    For libraries whose own stay where they are killed. Counts for the whole process.
    """
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def whole(path: Path, error: type[TvmVisionError] = InputError) -> Iterator[Path]:
    """The block writes a file or a folder at the path that it gets, which then becomes ``path``.

    Makes the folder that ``path`` lies in. Where the block raises, or is killed, what was there
    before is there still. An OSError becomes ``error`` with a line that names ``path``.
    """
    with writing(path, error):
        path.parent.mkdir(parents=True, exist_ok=True)
        with ScratchFolder(path.parent) as scratch:
            fresh = scratch / path.name
            if path.name in ("", ".."):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            yield fresh
            put(fresh, path)


def need_place(path: Path, error: type[TvmVisionError] = InputError) -> None:
    """Raise ``error``, as ``whole`` would, where ``path`` cannot be written as far as is known:
    before work that takes long. Its folder may have to be made."""
    with writing(path, error):
        folder = Path(path).absolute().parent
        while not os.path.lexists(folder):
            folder = folder.parent
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def need_room(folder: Path, size: int) -> None:
    """Raise OSError where the disk of a folder has no room for so many bytes: before what is
    written by others who do not say that it failed."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def writing(path: Path, error: type[TvmVisionError] = InputError) -> Iterator[None]:
    """An OSError of the block becomes ``error`` with the line that ``path`` cannot be written."""
    try:
        yield
    except OSError as problem:
        raise error(f"'{path}' cannot be written {why_not(problem)}") from None


def why_not(problem: OSError) -> str:
    """Why something cannot be written or made, and what to do, as "(REASON): REMEDY"."""
    remedy = _REMEDIES.get(problem.errno or 0) or remedy_of(problem, "name another place")
    return f"({problem.strerror or problem}): {remedy}"


def write_whole(path: Path, content: bytes, error: type[TvmVisionError] = InputError) -> None:
    """Write a file, whole or not at all; see ``whole``."""
    with whole(path, error) as fresh:
        fresh.write_bytes(content)


def hold(folder: Path) -> int:
    """Keep a scratch folder from being removed as a leftover, until this process ends or closes the
    descriptor that this returns: for processes that work for the one that made it.

    Raises OSError where it is being removed.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks, where nobody removes what others made
            pass
        if not os.path.samestat(os.stat(folder), os.fstat(lock)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    except BaseException:
        os.close(lock)
        raise
    return lock


def clear_leftovers(folder: Path) -> None:
    """Remove the scratch folders of processes that were killed, and put back what they displaced.

    Raises nothing.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _SCRATCH.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_left(folder / entry.name)


def clear_leftovers_once(folder: Path) -> None:
    """``clear_leftovers``, once in a process for each folder."""
    if str(folder) not in _visited:
        _visited.add(str(folder))
        clear_leftovers(folder)


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor whose lock says that it is in use."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=parent))
        # Until it is locked, another process may take it for a leftover: then it is made anew.
        try:
            return path, hold(path)
        except (FileNotFoundError, BlockingIOError):
            continue
        except OSError:
            path.rmdir()
            raise


def _remove_if_left(path: Path) -> None:
    """Remove a scratch folder of this user that no process holds. Raises OSError otherwise."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(lock)


def _close(path: Path, lock: int, owner: int) -> None:
    if os.getpid() != owner:  # a fork, which has it only by inheritance
        return
    # Of the collector's, where nobody closed it.
    with held(in_callback=True):
        with contextlib.suppress(OSError):
            _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a scratch folder. Raises OSError, and removes nothing, where what it displaced cannot
    be put back."""
    displaced = path / _DISPLACED
    for old in displaced.iterdir() if displaced.is_dir() else ():
        if not os.path.lexists(path.parent / old.name):
            old.rename(path.parent / old.name)
    shutil.rmtree(path, ignore_errors=True)


def put(fresh: Path, path: Path) -> None:
    """Give what is complete in a scratch folder beside it its name.

    A folder that has the name is displaced in the same step, and goes with the scratch folder.
    Raises OSError; what had the name then has it still. So do devices, pipes and sockets, which
    root could replace: /dev/null would be a file for all programs.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EEXIST, "it is a device, a pipe or a socket")
    if not (fresh.is_dir() and path.is_dir()):
        fresh.replace(path)
    elif not _exchange(fresh, path):
        old = fresh.parent / _DISPLACED / path.name
        old.parent.mkdir()
        # From here on, who removes the scratch folder puts it back unless the new one stands.
        path.rename(old)
        fresh.rename(path)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names; no where the C library, the kernel or the file system cannot."""
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))
