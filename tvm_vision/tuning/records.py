"""What was measured: lines of JSON, one a measurement, appended and flushed one at a time.

A record says which kernel (by structure), on which device and driver, in which precision, cut how,
took how long, or why it could not. Nothing in a file is ever changed: a reader skips half a line at
the end, which a machine that lost its power leaves behind.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import re
import statistics
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..drivers import spelled_out
from ..errors import TuningError
from ..file_kinds import FOLDER, JSON, RECORDS, TEXT, need
from ..package.fields import deeper_than
from ..plain_files import read_plain
from ..whole_files import why_not, write_whole
from .locks import take_lock

LOGGER = logging.getLogger(__name__)
FORMAT = 1
MOST_BYTES = 1 << 30
_NEEDED = "a file of tuning records"
MOST_LEVELS = 16  # of lists and objects in each other; records have four
LOCK_SECONDS = 60.0  # a writer has the file for as long as a disk takes to write a line
LOCK_PAUSE = 1e-3
LONGEST = 1e6  # seconds of a run that a record can tell
TEMPLATES, METASCHEDULE = "templates", "metaschedule"
STATIC = "static"  # modelled, without the device: counts where nothing was measured
_IN_BRACKETS = re.compile(r"\(([^()]*)\)\s*$")
_PROCESSOR = re.compile(r"LLVM (\d+), (\d+) threads")


@dataclass(frozen=True)
class TuningKey:
    """Where a measurement holds: name and driver of the device, precision of the network.

    Of a processor the name ends in brackets with what code is made for, and the driver is LLVM with
    the number of threads; see ``places.place_of``.
    """

    device: str
    driver: str
    precision: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "driver", spelled_out(self.driver))

    def is_alike(self, other: TuningKey) -> bool:
        """Whether a model of one holds for the other: the same chip, driver and precision.

        Versions of the driver may differ, and what the vendor calls the chip before its name in
        brackets: "AMD Radeon Graphics (RADV RENOIR)"; of processors the number of threads, too.
        """
        return self._alike == other._alike

    @property
    def threads(self) -> int:
        """Of a processor; 0 for a GPU."""
        found = _PROCESSOR.fullmatch(self.driver)
        return int(found[2]) if found else 0

    def distance(self, other: TuningKey) -> tuple[float, bool, bool]:
        """How far from a processor another alike is: in threads, then by name, then by LLVM."""
        threads = abs(math.log(max(1, self.threads) / max(1, other.threads)))
        return threads, self.device != other.device, self.driver != other.driver

    @property
    def _alike(self) -> tuple[str, str, str]:
        chip = _IN_BRACKETS.search(self.device)
        name = self.driver.rpartition(" ")[0] or self.driver
        if self.threads:
            name = self.driver.partition(" ")[0]
        return (chip[1] if chip else self.device), name, self.precision


@dataclass(frozen=True)
class Record:
    """One measurement.

    Attributes:
        kernel: the kernel's structure, see ``schedules.kernel_key``.
        name: the kernel's name in the network it was first seen in; for people.
        place: where it was measured.
        decision: how the kernel was cut, see ``schedules.Decision``.
        seconds: of one run on the device, a value a repeat, the quickest first; none where it
            failed.
        error: why it failed: a line; "" where it did not.
        checked: its results were compared with the reference and are right.
        chosen: it won its kernel's search, after a last comparison with the default.
        search: "templates", "metaschedule", or "static": then the seconds are a model's, and no
            device has run it.
    """

    kernel: str
    name: str
    place: TuningKey
    decision: Mapping[str, Any]
    seconds: tuple[float, ...] = ()
    error: str = ""
    checked: bool = False
    chosen: bool = False
    search: str = TEMPLATES

    @property
    def best(self) -> float:
        """The median of the repeats; infinite for a failure."""
        return statistics.median(self.seconds) if self.seconds else math.inf

    def to_json(self) -> str:
        """One line without a line break."""
        fields = {"format": FORMAT, **asdict(self), "seconds": list(self.seconds)}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Raises ValueError, naming the field, for a line that is no record of this format."""
        fields = _parsed(line)
        if not isinstance(fields, dict):
            raise ValueError(f"expected an object, got {type(fields).__name__}")
        if fields.pop("format", None) != FORMAT:
            raise ValueError(f"expected format {FORMAT}")
        wanted = set(cls.__dataclass_fields__)
        if set(fields) != wanted:
            raise ValueError(f"expected the fields {sorted(wanted)}, got {sorted(fields)}")
        for name in ("kernel", "name", "error", "search"):
            if not isinstance(fields[name], str):
                raise ValueError(f"expected {name} to be text")
        for name in ("checked", "chosen"):
            if not isinstance(fields[name], bool):
                raise ValueError(f"expected {name} to be true or false")
        if not isinstance(fields["decision"], dict):
            raise ValueError("expected decision to be an object")
        return cls(**{**fields, "place": _place(fields), "seconds": _seconds(fields["seconds"])})


def _parsed(line: str) -> Any:
    """A line of JSON, of which everything can be written and shown again. Raises ValueError."""

    too_deep = ValueError(f"expected at most {MOST_LEVELS} levels")
    try:
        value = json.loads(line)
    except RecursionError:
        raise too_deep from None
    if deeper_than(MOST_LEVELS, value):
        raise too_deep
    try:
        # Half of a surrogate pair is what JSON may have and no output takes.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise ValueError("expected finite numbers, and text in Unicode") from None
    return value


def _place(fields: Mapping[str, Any]) -> TuningKey:
    place = fields["place"]
    names = set(TuningKey.__dataclass_fields__)
    if not isinstance(place, dict) or set(place) != names:
        raise ValueError(f"expected place to have {sorted(names)}")
    if any(not isinstance(value, str) for value in place.values()):
        raise ValueError("expected place to hold text")
    return TuningKey(**place)


def _seconds(values: Any) -> tuple[float, ...]:
    numbers: list[Any] = values if isinstance(values, list) else [values]
    wrong = any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers)
    if wrong or not isinstance(values, list):
        raise ValueError("expected seconds to be a list of numbers")
    # Compared before it is converted: an int can be larger than any float.
    if any(not 0 < number < LONGEST for number in numbers):
        raise ValueError(f"expected seconds above 0 and below {LONGEST:g}")
    return tuple(float(number) for number in numbers)


@dataclass
class Records:
    """Records in the order they were made, from one file or many."""

    items: list[Record] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.items)

    def add(self, records: Iterable[Record]) -> None:
        """Append what is not there yet."""
        known = {record.to_json() for record in self.items}
        for record in records:
            line = record.to_json()
            if line not in known:
                known.add(line)
                self.items.append(record)

    def at(self, place: TuningKey) -> Records:
        """What was measured with one device, driver and precision."""
        here = [record for record in self.items if record.place == place]
        return Records([record for record in here if record.search != STATIC])

    def modelled_for(self, place: TuningKey) -> Records:
        """What a model says of a place: records of STATIC of the same chip."""
        static = [record for record in self.items if record.search == STATIC]
        return Records([record for record in static if record.place.is_alike(place)])

    def chosen_nearby(self, kernel: str, place: TuningKey) -> Record | None:
        """What won a kernel's search on a processor for which the same code is made: one of
        another name, or with other threads; the nearest. None for GPUs."""
        near = [
            record
            for record in self.items
            if record.kernel == kernel and record.chosen and record.search != STATIC
            and place.threads and record.place.threads and record.place.is_alike(place)
        ]  # fmt: skip
        # Of several at the same distance the last.
        return min(reversed(near), key=lambda r: r.place.distance(place), default=None)

    def winner(self, kernel: str, place: TuningKey) -> Record | None:
        """The record to compile a kernel with: the last that was chosen, else the best checked.

        Records of other devices or drivers never count here. What a model chose for such a device
        counts where nothing was measured.
        """
        here = [record for record in self.at(place) if record.kernel == kernel]
        chosen = [record for record in here if record.chosen]
        if chosen:
            return chosen[-1]
        checked = [record for record in here if record.checked and record.seconds]
        if checked:
            return min(checked, key=lambda record: record.best)
        modelled = [r for r in self.modelled_for(place) if r.kernel == kernel and r.chosen]
        return modelled[-1] if modelled else None

    def hints(self, kernel: str, place: TuningKey, most: int = 8) -> list[Mapping[str, Any]]:
        """Decisions that did well for a kernel anywhere, the closest place and the best first."""
        good = [r for r in self.items if r.kernel == kernel and r.seconds and not r.error]

        def distance(record: Record) -> tuple[bool, bool, bool, bool, float]:
            other = record.place
            return (
                record.search == STATIC,
                other.device != place.device,
                other.precision != place.precision,
                other.driver != place.driver,
                record.best,
            )

        found: list[Mapping[str, Any]] = []
        for record in sorted(good, key=distance):
            if record.decision not in found:
                found.append(record.decision)
        return found[:most]

    def chosen(self) -> Records:
        """For each kernel and place the winner of its last comparison alone, as it is shipped."""
        winners = (
            self.winner(*key)
            for key in dict.fromkeys((record.kernel, record.place) for record in self.items)
        )
        return Records([record for record in winners if record is not None and record.chosen])

    def pruned(self) -> Records:
        """For each kernel and place only the winner and the best of the others."""
        kept: list[Record] = []
        for key in dict.fromkeys((record.kernel, record.place) for record in self.items):
            here = [r for r in self.items if (r.kernel, r.place) == key]
            winner = self.winner(*key)
            best = min((r for r in here if r.checked), key=lambda r: r.best, default=None)
            wanted = [record for record in (winner, best) if record is not None]
            kept += [record for record in here if any(record is other for other in wanted)]
        return Records(kept)


def read_records(path: str | os.PathLike[str], *, missing_ok: bool = False) -> Records:
    """All records of a file; half a line at its end is skipped, with a notice in the log.

    Raises TuningError for a file that cannot be read, or that holds anything else.
    """
    try:
        data = read_plain(path, MOST_BYTES)
    except FileNotFoundError:
        if missing_ok:
            return Records()
        raise TuningError(
            f"a file of tuning records is needed, and '{path}' is not there: check the path"
        ) from None
    except OSError as error:
        need(path, _NEEDED, FOLDER, error=TuningError)
        raise TuningError(f"'{path}' cannot be read ({error.strerror}): check the path") from None
    *lines, rest = data.split(b"\n")
    try:
        return _parsed_lines(path, lines, rest)
    except TuningError:
        need(path, _NEEDED, RECORDS, JSON, TEXT, error=TuningError)
        raise


def _parsed_lines(path: str | os.PathLike[str], lines: Sequence[bytes], rest: bytes) -> Records:
    if not _is_half_a_record(rest):
        lines = [*lines, rest]
    elif rest:
        LOGGER.warning("%s: half a record at the end was skipped", path)
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(Record.from_json(line.decode()))
        except ValueError as error:
            reason = textwrap.shorten(str(error), 200, placeholder=" ...")
            raise TuningError(
                f"a tuning record a line is needed, and line {number} of '{path}' is none "
                f"({reason}): take the line out, or use another file"
            ) from None
    return Records(records)


def _is_half_a_record(rest: bytes) -> bool:
    """Whether what follows the last whole line may be cut off: nothing, the begin of a record, or
    the zeros that some file systems leave when the power goes."""
    return rest.startswith(b"{") or not rest.strip(b"\0")


class RecordWriter:
    """Appends to a file of records; each is on the disk before the next is measured."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens or makes the file; half a line at its end is cut off.

        Raises TuningError where it cannot be written, or ends with what is no record.
        """
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what is written in part can be cut off again.
            self._file = open(self._path, "ab+", buffering=0)
            with self._alone():
                self._drop_half_line()
        except OSError as error:
            raise TuningError(f"'{path}' cannot be written {why_not(error)}") from None

    def _drop_half_line(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if not _is_half_a_record(data[whole:]):
            self._file.close()
            raise TuningError(
                f"a file of tuning records is needed, and '{self._path}' ends with something else: "
                "name another file"
            )
        if whole != len(data):
            LOGGER.warning("%s: half a record at the end was cut off", self._path)
            self._file.truncate(whole)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Other processes that append to the file wait: a line is cut off by nobody who sees half
        of it, and nobody cuts off another's. Raises TuningError where one does not let go."""
        try:
            taken = take_lock(self._file.fileno(), LOCK_SECONDS, LOCK_PAUSE)
        except OSError:  # a file system without locks
            yield
            return
        if not taken:
            raise TuningError(
                f"'{self._path}' is needed to write to, and another process has held it for "
                f"{LOCK_SECONDS:g} s: end that one, or name another file"
            )
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def write(self, record: Record) -> None:
        """Raises TuningError where the disk is full; the file then ends with a whole line."""
        line = record.to_json().encode() + b"\n"
        with self._alone():
            before = os.fstat(self._file.fileno()).st_size
            try:
                if self._file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file.fileno())
            except OSError as error:
                self._file.truncate(before)
                raise TuningError(
                    f"'{self._path}' cannot be written ({error.strerror}): the records before are "
                    "safe; make room, then run the same command again"
                ) from None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def merge(paths: Iterable[str | os.PathLike[str]]) -> Records:
    """The records of several files, each once. Raises TuningError as read_records does."""
    merged = Records()
    for path in paths:
        merged.add(read_records(path))
    return merged


def write_records(path: str | os.PathLike[str], records: Records) -> None:
    """Write a file of records, whole or not at all. Raises TuningError where that fails."""
    lines = "".join(record.to_json() + "\n" for record in records)
    write_whole(Path(path), lines.encode(), TuningError)
