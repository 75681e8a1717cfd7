"""A network over a recorded bag, without ROS: the results that the node would have published.

Needs rosbags (pure Python). First the network runs over all images, into a journal that another
run can go on with; then everything is written to a temporary name that gets the final one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError
from tvm_vision.whole_files import whole

from .bag_reading import Bag, choose_topic, reading
from .image_headers import MOST_PIXELS
from .images import any_image
from .journal import Journal
from .messages import MessageBuilder
from .result_topics import (
    LATCHED,
    RESULT_TOPICS,
    label_messages,
    latched_of,
    messages_of,
    rules_of,
    topics_of,
)
from .settings import is_topic, shown
from .tracks import MessageTracks

# Of all middlewares (rmw, RMW_TOPIC_MAX_NAME_LENGTH).
LONGEST_TOPIC = 247
INTERFACES = Path(__file__).resolve().parent / "interfaces"
# Topic -> message, in the order of the journal's kinds: results first, names of classes then.
TOPICS = {
    **{topic.name: topic.message.replace("/", "/msg/") for topic in RESULT_TOPICS},
    **{name: message.replace("/", "/msg/") for name, message in LATCHED.items()},
}
KINDS = {topic: kind for kind, topic in enumerate(TOPICS)}


@dataclass(frozen=True)
class Summary:
    """images: read. resumed: of them, done by an earlier run. unreadable: of them, no results.

    first_problem: why the first of those had none. messages: written. lost: what of a damaged bag
    could not be read, in lines.
    """

    images: int
    resumed: int
    unreadable: int
    first_problem: str
    messages: int
    lost: tuple[str, ...] = ()


def process_bag(
    source: Path,
    target: Path,
    model: Any,
    *,
    topic: str = "",
    namespace: str = "",
    results_only: bool = False,
    restart: bool = False,
    most_pixels: int = MOST_PIXELS,
    tracking: float = 0.0,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Summary:
    """Run ``model`` over the images of one topic of ``source`` and write ``target``.

    source: .mcap or .db3 file, or the folder of a bag. target: a file that ends in .mcap, or a
    folder; it must not exist. topic: of the images, where the bag has several. namespace: of the
    results' topics. results_only: leave out what the bag has. restart: drop what an earlier run
    left. most_pixels: images of more have no results, and are not decoded. tracking: objects have
    ids, and keep them for so many seconds without being seen; 0: they have none. progress: called
    with the images done and their number.

    Every result has the header of its image, and its place right behind it, at the same time.
    Raises InputError where the bag cannot be read, or the target not written.
    """
    journal_path = target.with_name(f"{target.name}.progress")
    exists = target.exists()
    if exists and not journal_path.exists():
        raise _exists(target)
    with reading(source) as reader:
        connection = choose_topic(reader.connections, topic)
        names = [*(topic.name for topic in topics_of(model)), *latched_of(model)]
        topics = {name: _join(namespace, name) for name in names}
        if not results_only:
            _check_new(reader.connections, topics.values())
        # Over what is journaled, so that a run which was cut off gives the same ids.
        tracks = MessageTracks(model, tracking) if tracking else None
        if restart:
            journal_path.unlink(missing_ok=True)
        identity = _identity(source, connection.topic, model)
        with Journal(journal_path, identity) as journal:
            resumed = journal.images
            # Else it was written by a run that was killed before it removed its journal.
            if exists and resumed < reader.count(connection):
                raise _exists(target)
            problems = _infer(reader, connection, model, journal, most_pixels, progress)
        unreadable, messages = _write(
            reader, connection, topics, journal, target, results_only, tracks
        )
        journal_path.unlink()
        lost = tuple(reader.lost)
    problem = problems[0] if problems else ""
    return Summary(journal.images, resumed, unreadable, problem, messages, lost)


def _exists(target: Path) -> InputError:
    return InputError(f"'{target}' exists: remove it, or choose another name")


def _infer(
    bag: Bag,
    connection: Any,
    model: Any,
    journal: Journal,
    most_pixels: int,
    progress: Callable[[int, int], object],
) -> list[str]:
    """Results of all images that the journal lacks; returns why some have none."""
    store = result_types()
    builder = _builder(store)
    problems, total = [], bag.count(connection)
    progress(journal.images, total)
    for index, (_, timestamp, data) in enumerate(bag.of_topic(connection)):
        if index < journal.images:
            continue
        found: list[tuple[str, Any]] = []
        try:
            message = bag.deserialize(data, connection.msgtype)
            header = _own(message.header, builder)
            # With the first image, whether it can be read or not.
            found += labels(builder, header, model) if index == 0 else []
            found = messages_of(builder, header, model(any_image(message, most_pixels))) + found
        except InputError as error:
            problems.append(f"image {index}: {error}")
        journal.append(
            timestamp,
            [(KINDS[name], bytes(store.serialize_cdr(m, TOPICS[name]))) for name, m in found],
        )
        progress(journal.images, total)
    return problems


def labels(builder: MessageBuilder, header: Any, model: Any) -> list[tuple[str, Any]]:
    """The names of the classes and what counts of each, once."""
    return label_messages(builder, header, model, rules_of(model))


def _write(
    reader: Bag,
    connection: Any,
    topics: dict[str, str],
    journal: Journal,
    target: Path,
    results_only: bool,
    tracks: MessageTracks | None,
) -> tuple[int, int]:
    """The bag, under its name only when it is complete; returns images without, and messages."""
    with whole(target) as fresh:
        bag = fresh.with_name(f"{target.stem}.bag") if target.suffix == ".mcap" else fresh
        counts = _write_bag(reader, connection, topics, journal, bag, results_only, tracks)
        if bag is not fresh:
            (bag / f"{bag.name}.mcap").rename(fresh)
    return counts


def _write_bag(
    reader: Bag,
    connection: Any,
    topics: dict[str, str],
    journal: Journal,
    bag: Path,
    results_only: bool,
    tracks: MessageTracks | None,
) -> tuple[int, int]:
    from rosbags.rosbag2 import StoragePlugin, Writer

    groups = journal.groups()
    wanted = [connection] if results_only else list(reader.connections)
    unreadable = messages = 0
    with Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        copies = {} if results_only else _copies(reader, writer)
        outputs = _outputs(writer, topics)
        for source, timestamp, data in reader.messages(wanted):
            if not results_only:
                writer.write(copies[source.topic, source.msgtype], timestamp, data)
                messages += 1
            if source.topic != connection.topic or source.msgtype != connection.msgtype:
                continue
            group = next(groups)
            unreadable += all(kind >= KINDS["label_info"] for kind, _, _ in group)
            for kind, when, result in group:
                ided = tracks is not None and kind == KINDS["detections"]
                writer.write(outputs[kind], when, _with_ids(tracks, result) if ided else result)
                messages += 1
    return unreadable, messages


def _with_ids(tracks: MessageTracks | None, result: bytes) -> bytes:
    assert tracks is not None
    store, kind = result_types(), TOPICS["detections"]
    return bytes(store.serialize_cdr(tracks.set_ids(store.deserialize_cdr(result, kind)), kind))


def _copies(reader: Any, writer: Any) -> dict[tuple[str, str], Any]:
    """The bag's own connections, in the new bag."""
    made = {}
    for item in reader.connections:
        key = (item.topic, item.msgtype)
        if key in made:
            continue
        text = item.msgdef.data
        made[key] = writer.add_connection(
            *key,
            typestore=reader.typestore,
            msgdef=text if text and item.digest else None,
            rihs01=item.digest or None,
            serialization_format=item.ext.serialization_format,
            offered_qos_profiles=item.ext.offered_qos_profiles,
        )
    return made


def _outputs(writer: Any, topics: dict[str, str]) -> dict[int, Any]:
    """A connection for each kind of result."""
    store = result_types()
    return {
        KINDS[name]: writer.add_connection(
            topic,
            TOPICS[name],
            typestore=store,
            offered_qos_profiles=[_qos(latched=name in LATCHED)],
        )
        for name, topic in topics.items()
    }


def _qos(*, latched: bool) -> Any:
    """As the node offers its results, so that a player does the same."""
    from rosbags.interfaces import (
        Qos,
        QosDurability,
        QosHistory,
        QosLiveliness,
        QosReliability,
        QosTime,
    )

    never = QosTime(0x7FFFFFFF, 0xFFFFFFFF)
    return Qos(
        QosHistory.KEEP_LAST,
        1 if latched else 5,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        never,
        never,
        QosLiveliness.AUTOMATIC,
        never,
        False,
    )


@cache
def result_types() -> Any:
    """A store of message types that knows vision_msgs too."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = {}
    for path in sorted((INTERFACES / "vision_msgs" / "msg").glob("*.msg")):
        types |= get_types_from_msg(path.read_text("utf-8"), f"vision_msgs/msg/{path.stem}")
    store.register(types)
    return store


def _builder(store: Any) -> MessageBuilder:
    def octets(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return data

    return MessageBuilder(lambda name: store.types[name], octets)


def _own(header: Any, builder: MessageBuilder) -> Any:
    """The bag's header as one of our types, with the same stamp and frame."""
    stamp = builder.make(
        "builtin_interfaces/Time", sec=header.stamp.sec, nanosec=header.stamp.nanosec
    )
    return builder.make("std_msgs/Header", stamp=stamp, frame_id=header.frame_id)


def _identity(source: Path, topic: str, model: Any) -> dict[str, Any]:
    """What decides the results: the bag's files, the topic, the network and its thresholds."""
    rules = rules_of(model)
    files = [source] if source.is_file() else sorted(source.iterdir())
    listing = [(item.name, item.stat().st_size, item.stat().st_mtime_ns) for item in files]
    return {
        "format": 3,
        "bag": hashlib.sha256(repr(listing).encode()).hexdigest(),
        "topic": topic,
        "network": model.checksum,
        "thresholds": [
            getattr(model, name, None) for name in ("confidence", "iou", "max_detections")
        ],
        "class_rules": None if rules is None else rules.described(model.class_names),
        "classes": [*model.class_names, *model.segmentation_names],
    }


def _check_new(connections: Sequence[Any], topics: Any) -> None:
    taken = sorted({item.topic for item in connections} & set(topics))
    if taken:
        raise InputError(
            f"the bag has {', '.join(taken)} already: give the results another place with "
            "--namespace, or leave the bag's own messages out with --results-only"
        )


def _join(namespace: str, topic: str) -> str:
    inner = namespace.strip("/")
    name = f"/{inner}/{topic}" if inner else f"/{topic}"
    if not is_topic(name) or len(name) > LONGEST_TOPIC or set(name) & set("{}"):
        raise InputError(
            f"--namespace must be one of ROS, as /robot_1/vision, found {shown(namespace)}"
        )
    return name
