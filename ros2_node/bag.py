"""A network over a recorded bag, without ROS: the results that the node would have published.

Needs rosbags (pure Python). First the network runs over all images, into a journal that another
run can go on with; then everything is written to a temporary name that gets the final one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_vision.errors import InputError
from tvm_vision.whole_files import whole

from .bag_messages import builder, own_header, result_qos, result_types
from .bag_reading import Bag, choose_topic, reading
from .bag_space import BagSpace
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
from .settings import Settings, is_topic, shown
from .space_messages import DETECTIONS
from .tracks import MessageTracks

# Of all middlewares (rmw, RMW_TOPIC_MAX_NAME_LENGTH).
LONGEST_TOPIC = 247
LOCATED = "detections_3d"
# Topic -> message, in the order of the journal's kinds: results first, names of classes then.
TOPICS = {
    **{topic.name: topic.message.replace("/", "/msg/") for topic in RESULT_TOPICS},
    LOCATED: DETECTIONS.replace("/", "/msg/"),
    **{name: message.replace("/", "/msg/") for name, message in LATCHED.items()},
}
KINDS = {topic: kind for kind, topic in enumerate(TOPICS)}


@dataclass(frozen=True)
class Summary:
    """images: read. resumed: of them, done by an earlier run. unreadable: of them, no results.

    first_problem: why the first of those had none. messages: written. lost: what of a damaged bag
    could not be read, in lines. unlocated: images of this run with results and no places, and
    first_unlocated why the first of them had none.
    """

    images: int
    resumed: int
    unreadable: int
    first_problem: str
    messages: int
    lost: tuple[str, ...] = ()
    unlocated: int = 0
    first_unlocated: str = ""


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
    locate: Settings | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Summary:
    """Run ``model`` over the images of one topic of ``source`` and write ``target``.

    source: .mcap or .db3 file, or the folder of a bag. target: a file that ends in .mcap, or a
    folder; it must not exist. topic: of the images, where the bag has several. namespace: of the
    results' topics. results_only: leave out what the bag has. restart: drop what an earlier run
    left. most_pixels: images of more have no results, and are not decoded. tracking: objects have
    ids, and keep them for so many seconds without being seen; 0: they have none. locate: how
    detections get a place in space, with the topic detections_3d, by the parameters of Settings for
    that (a topic that is "" is looked for); None: not at all. progress: called with the images done
    and their number.

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
        space = None
        if locate is not None:
            if "detections" not in model.produces:
                raise InputError(f"places need a network that finds boxes, not {model.name}")
            space = BagSpace(reader, connection, locate)
            names.append(LOCATED)
        topics = {name: _join(namespace, name) for name in names}
        if not results_only:
            _check_new(reader.connections, topics.values())
        # Over what is journaled, so that a run which was cut off gives the same ids.
        tracks = MessageTracks(model, tracking) if tracking else None
        if restart:
            journal_path.unlink(missing_ok=True)
        identity = _identity(source, connection.topic, model, space)
        with Journal(journal_path, identity) as journal:
            resumed = journal.images
            # Else it was written by a run that was killed before it removed its journal.
            if exists and resumed < reader.count(connection):
                raise _exists(target)
            run = _Run(reader, connection, model, most_pixels, space)
            run.infer(journal, progress)
        unreadable, messages = _write(
            reader, connection, topics, journal, target, results_only, tracks
        )
        journal_path.unlink()
        lost = tuple(reader.lost)
    return Summary(
        journal.images, resumed, unreadable, next(iter(run.problems), ""), messages, lost,
        len(run.unlocated), next(iter(run.unlocated), ""),
    )  # fmt: skip


def _exists(target: Path) -> InputError:
    return InputError(f"'{target}' exists: remove it, or choose another name")


class _Run:
    """The network over the images that a journal lacks. problems: why images have no results, in
    lines; unlocated: why images have no places."""

    def __init__(
        self, bag: Bag, connection: Any, model: Any, most_pixels: int, space: BagSpace | None
    ) -> None:
        self._bag, self._connection, self._model = bag, connection, model
        self._most_pixels, self._space = most_pixels, space
        self._builder = builder()
        self.problems: list[str] = []
        self.unlocated: list[str] = []

    def infer(self, journal: Journal, progress: Callable[[int, int], object]) -> None:
        """Append the results of all images that it lacks."""
        store, connection = result_types(), self._connection
        total = self._bag.count(connection)
        progress(journal.images, total)
        space = self._space
        images = self._bag.of_topic(connection) if space is None else space.images()
        for index, (_, timestamp, data) in enumerate(images):
            if index < journal.images:
                continue
            found = self._results(index, data)
            journal.append(
                timestamp,
                [(KINDS[name], bytes(store.serialize_cdr(m, TOPICS[name]))) for name, m in found],
            )
            progress(journal.images, total)

    def _results(self, index: int, data: Any) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        try:
            message = self._bag.deserialize(data, self._connection.msgtype)
            header = own_header(message.header, self._builder)
            # With the first image, whether it can be read or not.
            found += labels(self._builder, header, self._model) if index == 0 else []
            image = any_image(message, self._most_pixels)
            result = self._model(image)
            found = [*messages_of(self._builder, header, result), *self._places(
                index, header, (image.shape[0], image.shape[1]), result.detections
            ), *found]  # fmt: skip
        except InputError as error:
            self.problems.append(f"image {index}: {error}")
        return found

    def _places(
        self, index: int, header: Any, size: tuple[int, int], found: Any
    ) -> list[tuple[str, Any]]:
        if self._space is None:
            return []
        try:
            return [(LOCATED, self._space.message(self._builder, header, size, found))]
        except InputError as error:
            self.unlocated.append(f"image {index}: {error}")
            return []


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
        ids = _Ids(tracks)
        for source, timestamp, data in reader.messages(wanted):
            if not results_only:
                writer.write(copies[source.topic, source.msgtype], timestamp, data)
                messages += 1
            if source.topic != connection.topic or source.msgtype != connection.msgtype:
                continue
            group = next(groups)
            unreadable += all(kind >= KINDS["label_info"] for kind, _, _ in group)
            for kind, when, result in group:
                writer.write(outputs[kind], when, ids(kind, result))
                messages += 1
    return unreadable, messages


class _Ids:
    """Sets the ids in the journaled messages of an image: its detections, then their places."""

    def __init__(self, tracks: MessageTracks | None) -> None:
        self._tracks = tracks
        self._named: list[str] = []

    def __call__(self, kind: int, data: bytes) -> bytes:
        """A message of a kind of the journal, with the ids that count."""
        name = list(TOPICS)[kind]
        if name == LOCATED:
            return self._changed(name, data, self._place_ids)
        if self._tracks is None or name != "detections":
            return data
        return self._changed(name, data, self._tracks.set_ids)

    def _changed(self, name: str, data: bytes, change: Callable[[Any], Any]) -> bytes:
        store, kind = result_types(), TOPICS[name]
        message = change(store.deserialize_cdr(data, kind))
        if name != LOCATED:
            self._named = [item.id for item in message.detections]
        return bytes(store.serialize_cdr(message, kind))

    def _place_ids(self, message: Any) -> Any:
        """``id`` is 1 + the position of the detection, as BagSpace has it."""
        for item in message.detections:
            item.id = self._named[int(item.id) - 1] if self._tracks is not None else ""
        return message


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
            offered_qos_profiles=[result_qos(latched=name in LATCHED)],
        )
        for name, topic in topics.items()
    }


def _identity(source: Path, topic: str, model: Any, space: BagSpace | None) -> dict[str, Any]:
    """What decides the results: the bag's files, the topic, the network, its thresholds, and what
    places are by."""
    rules = rules_of(model)
    files = [source] if source.is_file() else sorted(source.iterdir())
    listing = [(item.name, item.stat().st_size, item.stat().st_mtime_ns) for item in files]
    return {
        "format": 4,
        "bag": hashlib.sha256(repr(listing).encode()).hexdigest(),
        "topic": topic,
        "network": model.checksum,
        "thresholds": [
            getattr(model, name, None) for name in ("confidence", "iou", "max_detections")
        ],
        "class_rules": None if rules is None else rules.described(model.class_names),
        "classes": [*model.class_names, *model.segmentation_names],
        "places": None if space is None else space.identity,
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
