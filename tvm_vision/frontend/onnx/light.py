"""ONNX files without the values of their large weights: for what asks for nodes, shapes and
metadata alone, as much of a file of a gigabyte as of one of a kilobyte is read then.

Of protobuf's wire format (protobuf.dev, "Encoding") this needs no more than where fields end.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx
from google.protobuf.message import DecodeError

from .tools import SMALL

_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_WEIGHTS = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_ABOUT = frozenset(
    onnx.TensorProto.DESCRIPTOR.fields_by_name[name].number
    for name in ("dims", "data_type", "name", "external_data", "data_location")
)
_KEPT = 8 * SMALL  # bytes: smaller weights are read whole, as sizes and axes are
# Kinds of fields: numbers of as many bytes as they need, what says its size, and bytes of others.
_VARINT, _BYTES, _PLAIN = 0, 2, {1: 8, 5: 4}


class _Field(NamedTuple):
    """Of a message: the field's number, where it begins, and from where to where its value is."""

    number: int
    start: int
    value: int
    end: int


def load_light(path: Path) -> onnx.ModelProto:
    """The model of a file; of large weights their names, types and shapes alone, as
    ``tools.without_large_values`` has it.

    Raises OSError where it cannot be read, DecodeError where it is no protobuf message of a model.
    """
    model = onnx.ModelProto()
    with path.open("rb") as stream:
        if not stream.seek(0, 2):  # of an empty file there is no map
            return model
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            model.ParseFromString(_without_weights(content))
    return model


def _without_weights(content: mmap.mmap) -> bytes:
    kept = bytearray()
    for field in _fields(content, 0, len(content)):
        if field.number == _GRAPH:
            graph = bytearray()
            for part in _fields(content, field.value, field.end):
                large = part.number == _WEIGHTS and part.end - part.value > _KEPT
                graph += _about(content, part) if large else content[part.start : part.end]
            kept += _message(_GRAPH, graph)
        else:
            kept += content[field.start : field.end]
    return bytes(kept)


def _about(content: mmap.mmap, weight: _Field) -> bytes:
    """What is said of a weight beside its values."""
    inner = bytearray()
    for part in _fields(content, weight.value, weight.end):
        if part.number in _ABOUT:
            inner += content[part.start : part.end]
    return _message(weight.number, inner)


def _message(number: int, content: bytes | bytearray) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + bytes(content)


def _fields(content: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """Those of the message between two places."""
    while start < end:
        tag, place = _read_varint(content, start, end)
        value = place
        kind = tag & 7
        if kind == _VARINT:
            _, place = _read_varint(content, place, end)
        elif kind == _BYTES:
            size, value = _read_varint(content, place, end)
            place = value + size
        elif kind in _PLAIN:
            place += _PLAIN[kind]
        else:
            raise DecodeError(f"a field of kind {kind} at byte {start}")
        if place > end:
            raise DecodeError(f"a field at byte {start} that ends behind its message")
        yield _Field(tag >> 3, start, value, place)
        start = place


def _read_varint(content: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= end:
            break
        byte = content[place]
        number |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return number, place
    raise DecodeError(f"a number that does not end at byte {place}")


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)
