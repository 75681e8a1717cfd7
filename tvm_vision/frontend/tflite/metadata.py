"""What a TFLite file says of itself beside its graph: in a zip archive behind it, and in a table of
TensorFlow's metadata schema.

None of it is needed to run a network, and all of it may be damaged: then nothing is said.
"""

from __future__ import annotations

import ast
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import encode
from flatbuffers.number_types import Float32Flags, Uint8Flags, UOffsetTFlags
from flatbuffers.table import Table

# Of a member of the archive and of its list: longer ones are no names of classes.
LONGEST = 2**20
MOST_FILES = 64
MOST_ENTRIES = 4096
TABLE = b"TFLITE_METADATA"
# Places of fields in the tables of metadata_schema.fbs.
_SUBGRAPHS, _INPUTS, _UNITS = 3, 2, 4
_OPTIONS_TYPE, _OPTIONS, _NORMALIZATION = 0, 1, 1
_MEAN, _STD = 0, 1


@dataclass(frozen=True)
class Said:
    """entries: what Ultralytics' exporters write, key -> text as in their ONNX files. labels: of
    the first list of classes. mean, std: of the first input, for its channels or for all of them:
    value = (pixel - mean) / std; empty where nothing is said.
    """

    entries: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def read_metadata(path: Path) -> Said:
    """What a TFLite file says of itself; nothing where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError:
        return Said()
    entries, labels = _of_archive(data)
    mean, std = _normalization(data)
    return Said(entries, labels, mean, std)


def _of_archive(data: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    """Entries and labels of the archive behind the graph."""
    labels: tuple[str, ...] = ()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()[:MOST_FILES]
            texts = [
                archive.read(member).decode("utf-8", "replace")
                for member in members
                if member.file_size <= LONGEST
            ]
    except Exception:  # no archive, or a damaged one, of which zipfile raises every kind there is
        return {}, ()
    for text in texts:
        if entries := _entries(text):
            return entries, ()
        labels = labels or tuple(filter(None, map(str.strip, text.splitlines())))
    return {}, labels


def _entries(text: str) -> dict[str, str]:
    """JSON's object or Python's dict as texts of Python; none of what is neither."""
    found: Any = None
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
            break
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    if not isinstance(found, dict):
        return {}
    return {
        str(key): value if isinstance(value, str) else repr(_with_numbers(value))
        for key, value in found.items()
    }


def _with_numbers(value: Any) -> Any:
    """JSON's keys are texts: those that number classes are numbers again."""
    if isinstance(value, dict) and all(str(key).isdecimal() for key in value):
        return {int(key): item for key, item in value.items()}
    return value


def _normalization(data: bytes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of the first input's pixels."""
    try:
        for unit in _first(_first(_root(data), _SUBGRAPHS), _INPUTS, _UNITS):
            at = unit.Offset(_slot(_OPTIONS_TYPE))
            if at and unit.Get(Uint8Flags, at + unit.Pos) == _NORMALIZATION:
                options = Table(unit.Bytes, unit.Indirect(unit.Offset(_slot(_OPTIONS)) + unit.Pos))
                mean, std = _floats(options, _MEAN), _floats(options, _STD)
                usable = np.isfinite((*mean, *std)).all() and all(value > 0 for value in std)
                return (mean, std) if usable and mean and std else ((), ())
    except Exception:  # what lies beyond the table's end raises every kind there is
        pass
    return (), ()


def _root(data: bytes) -> list[Table]:
    """The table under TABLE, or none."""
    import tflite

    model = tflite.Model.GetRootAs(data, 0)
    for number in range(min(model.MetadataLength(), MOST_ENTRIES)):
        entry = model.Metadata(number)
        if entry.Name() == TABLE:
            content = model.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
            start = encode.Get(UOffsetTFlags.packer_type, content, 0)
            return [Table(bytearray(content), start)]
    return []


def _first(tables: list[Table], *places: int) -> list[Table]:
    """The tables of a list in the first of some tables, and so on for each place."""
    for place in places:
        tables = list(_tables(tables[0], place)) if tables else []
    return tables


def _tables(table: Table, place: int) -> Iterator[Table]:
    return _items(table, place, lambda at: Table(table.Bytes, table.Indirect(at)))


def _floats(table: Table, place: int) -> tuple[float, ...]:
    return tuple(_items(table, place, lambda at: float(table.Get(Float32Flags, at))))


def _items(table: Table, place: int, item: Callable[[int], Any]) -> Iterator[Any]:
    """Each entry, of four bytes, of a list of a table; at most MOST_ENTRIES."""
    if at := table.Offset(_slot(place)):
        first = table.Vector(at)
        for number in range(min(table.VectorLen(at), MOST_ENTRIES)):
            yield item(first + 4 * number)


def _slot(place: int) -> int:
    """Where a table's table of offsets has that of a field."""
    return 4 + 2 * place
