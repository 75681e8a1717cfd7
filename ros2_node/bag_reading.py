"""Recorded bags, opened for reading; those that a power cut ended as far as they go. Without ROS.

Needs rosbags (pure Python).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_vision.errors import InputError
from tvm_vision.file_kinds import BAG, FOLDER, need
from tvm_vision.whole_files import ScratchFolder

from .mcap_recovery import MendedFile, Whole, whole_part
from .sqlite_recovery import copy_whole_part, is_cut, logs_of

IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
BAG_FILES = frozenset({".mcap", ".db3"})


@dataclass
class Bag:
    """A bag that is open. lost: what of it cannot be read, in a line for each file; empty: nothing.

    connections, typestore: as rosbags has them.
    """

    path: Path
    reader: Any
    lost: list[str] = field(default_factory=list)

    @property
    def connections(self) -> list[Any]:
        return list(self.reader.connections)

    @property
    def typestore(self) -> Any:
        return self.reader.typestore

    def count(self, connection: Any) -> int:
        """How many messages the topic of a connection has."""
        return sum(item.msgcount for item in self._same(connection))

    def of_topic(self, connection: Any) -> Iterator[tuple[Any, int, Any]]:
        """The messages of its topic, of all files of the bag."""
        return self.messages(self._same(connection))

    def messages(self, connections: Sequence[Any]) -> Iterator[tuple[Any, int, Any]]:
        """Connection, time in ns and data of each. Raises InputError where damage shows."""
        done = 0
        stream = self.reader.messages(connections)
        while True:
            try:
                item = next(stream)
            except StopIteration:
                return
            except Exception as error:
                raise InputError(
                    f"'{self.path}' is damaged behind its message {done} ({_line(error)}): "
                    "'mcap recover', or 'sqlite3 bag.db3 .recover', saves what can be saved"
                ) from None
            done += 1
            yield item

    def deserialize(self, data: Any, kind: str) -> Any:
        """A message. Raises InputError where its bytes are no such message."""
        try:
            return self.reader.deserialize(data, kind)
        except Exception as error:
            raise InputError(f"a {kind} is needed, found {len(data)} bytes that are none "
                             f"({_line(error)})") from None  # fmt: skip

    def _same(self, connection: Any) -> list[Any]:
        key = (connection.topic, connection.msgtype)
        return [item for item in self.connections if (item.topic, item.msgtype) == key]


def choose_topic(connections: Sequence[Any], topic: str) -> Any:
    """The connection with the images. Raises InputError where it is not clear which one."""
    images = [item for item in connections if item.msgtype in IMAGE_TYPES]
    named = {item.topic: item for item in images}
    listing = ", ".join(sorted(named)) or "none"
    if topic:
        if topic not in named:
            raise InputError(f"images on the topic {topic} are needed, the bag has: {listing}")
        return named[topic]
    if len(named) != 1:
        raise InputError(f"one topic with images is needed, the bag has: {listing}; use --topic")
    return images[0]


@contextlib.contextmanager
def reading(source: Path) -> Iterator[Bag]:
    """A bag, opened. Raises InputError where nothing of it can be read."""
    _need_rosbags()
    need(source, "a bag", BAG, FOLDER)
    if source.is_dir() and not _files(source):
        endings = " or ".join(sorted(BAG_FILES))
        raise InputError(
            f"a bag is needed, and the folder '{source}' has no {endings} file: check the path"
        )
    with contextlib.ExitStack() as stack:
        yield _opened(source, stack)


def _opened(source: Path, stack: contextlib.ExitStack) -> Bag:
    problem = ""
    if not any(map(_is_unfinished, _files(source))):
        try:
            return Bag(source, stack.enter_context(_any_reader([source])))
        # Whatever a damaged file makes the readers stumble over.
        except Exception as error:
            problem = _line(error)
    folder = stack.enter_context(ScratchFolder())
    files = _files(source)
    paths, lost = [], []
    for path in files:
        try:
            found, words = _recovered(path, folder)
        except (OSError, sqlite3.Error) as error:
            found, words = None, f"'{path.name}' cannot be read ({_line(error)}), and is lost"
        paths += [found] if found is not None else []
        lost += [words] if words else []
    try:
        if not paths:
            raise ValueError(problem if len(files) < 2 else "; ".join(lost))
        return Bag(source, stack.enter_context(_any_reader(paths)), lost)
    except Exception as error:
        raise InputError(
            f"'{source}' is not a bag that can be read ({_line(error)}): copy or record it again"
        ) from None


def _any_reader(paths: Sequence[Any]) -> Any:
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    return AnyReader(paths, default_typestore=get_typestore(Stores.ROS2_JAZZY))


def _files(source: Path) -> list[Path]:
    """Of a bag, in the order in which they were recorded: bag_2.mcap before bag_10.mcap."""
    if not source.is_dir():
        return [source]
    found = [path for path in source.iterdir() if path.suffix in BAG_FILES]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def _is_unfinished(path: Path) -> bool:
    """Whether it is an SQLite bag which opens as if it were whole, and is not."""
    try:
        return path.suffix == ".db3" and bool(logs_of(path) or is_cut(path))
    except OSError:  # who opens it says why
        return False


def _recovered(path: Path, folder: Path) -> tuple[Any, str]:
    """What rosbags can open, None for nothing; and what was lost, "" for nothing."""
    if not _is_unfinished(path) and _opens(path):
        return path, ""
    if path.suffix == ".mcap":
        whole = whole_part(path, _decompress())
        if not whole.messages:
            return None, f"'{path.name}' has no message that is whole"
        return MendedFile(path, whole), _lost_mcap(path, whole)
    copy, count, all_read = copy_whole_part(path, folder)
    if all_read:
        return copy, ""
    if not count:
        return None, f"'{path.name}' has no message that is whole"
    return copy, (
        f"'{path.name}' is damaged, as by a power cut: {count} messages are read, the others are "
        "lost"
    )


def _opens(path: Path) -> bool:
    try:
        with _any_reader([path]):
            return True
    # As above.
    except Exception:
        return False


def _lost_mcap(path: Path, whole: Whole) -> str:
    left = path.stat().st_size - whole.end - len(whole.salvaged)
    seconds = 1e-9 * (whole.last - whole.first)
    return (
        f"'{path.name}' was cut off, as by a power cut: {whole.messages} messages of {seconds:.1f} "
        f"s are read, the last {max(left, 0)} bytes are lost"
    )


def _decompress() -> Callable[[bytes, str, int, int], bytes]:
    from rosbags.rosbag2.storage_mcap import decompress

    return decompress


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _need_rosbags() -> None:
    try:
        import rosbags  # noqa: F401
    except ImportError:
        raise InputError(
            "reading bags needs the package rosbags, which is not installed: pip install rosbags"
        ) from None
