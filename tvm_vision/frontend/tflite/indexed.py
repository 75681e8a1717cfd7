"""Operators that read from and write to places that other numbers name."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from onnx import TensorProto

from ..onnx.graph import Unsupported
from .moves import Moved
from .network import EXPORT, Value
from .step import Converter, Step


def gather(step: Step) -> None:
    options = step.options
    rank = len(step.shape(0))
    moved = Moved(step)
    axis = step.axis(options.Axis(), rank)
    batches = options.BatchDims()
    if not batches:
        moved.give(step.emit("Gather", moved.value, step.stored(1), axis=axis))
        return
    batches += len(step.shape(1)) if batches < 0 else 0
    if not 0 <= batches <= axis:
        raise Unsupported(f"it has {batches} batch dimensions, and takes from axis {axis}", EXPORT)
    # The axis right behind the batches, and what is between them behind the places.
    between = list(range(batches, axis))
    behind = list(range(axis + 1, rank))
    value = _turned(step, moved.value, [*range(batches), axis, *between, *behind])
    places = step.emit("Unsqueeze", _wide(step, step.stored(1)), np.array([-1]))
    found = step.emit("GatherND", value, places, batch_dims=batches)
    more = len(step.shape(1)) - batches
    new = list(range(batches, batches + more))
    between = [batches + more + i for i in range(len(between))]
    rest = range(batches + more + len(between), rank - 1 + more)
    moved.give(_turned(step, found, [*range(batches), *between, *new, *rest]))


def _turned(step: Step, value: Value, perm: list[int]) -> Value:
    if perm == sorted(perm):
        return value
    return step.values.turned(value, perm, step.label)


def gather_nd(step: Step) -> None:
    moved = Moved(step)
    moved.give(step.emit("GatherND", moved.value, _wide(step, step.stored(1))))


def embedding_lookup(step: Step) -> None:
    moved = Moved(step, 1)
    moved.give(step.emit("Gather", moved.value, step.stored(0), axis=0))


def _wide(step: Step, value: Value) -> Value:
    """Indices as int64, which is what ONNX takes."""
    if step.network.dtype(value) == np.int64:
        return value
    return step.emit("Cast", value, to=TensorProto.INT64)


def scatter_nd(step: Step) -> None:
    """Updates at their places of zeros; those at one place are added up."""
    shape = step.numbers(2, "the sizes of its result")
    updates = step.real(1)
    empty = np.zeros(shape, step.network.dtype(updates))
    places = _wide(step, step.stored(0))
    step.give(step.emit("ScatterND", empty, places, updates, reduction="add"))


def segments(step: Step, reduction: str, neutral: float, *, sized: bool = True) -> None:
    """Rows of one number added up, multiplied or compared; a negative number has none.

    neutral: what a number without rows has; infinite for the least or largest of the type.
    sized: whether how many numbers there are is an input; else the ids are constants, and rise.
    """
    values, ids = step.real(0), _wide(step, step.stored(1))
    shape, rows = step.shape(0), step.shape(1)
    if shape[: len(rows)] != rows:
        raise Unsupported(f"its numbers are {list(rows)}, of {list(shape)}", EXPORT)
    count = step.number(2, "how many numbers there are") if sized else _last(step) + 1
    dtype, inner = step.network.dtype(values), shape[len(rows) :]
    size = math.prod(rows)
    values = step.emit("Reshape", values, np.array([size, *inner], np.int64))
    ids = step.emit("Reshape", ids, np.array([size], np.int64))
    if reduction in ("add", "mul"):
        # What has no place goes to a row behind the last, which nothing reads.
        below = step.emit("Less", ids, np.array(0, np.int64))
        ids = step.emit("Where", below, np.array(count, np.int64), ids)
        start = np.full((count + 1, *inner), neutral, dtype)
        places = step.emit("Reshape", ids, np.array([size, 1], np.int64))
        found = step.emit("ScatterND", start, places, values, reduction=reduction)
        ends = [np.array([n], np.int64) for n in (0, count, 0)]
        step.give(step.emit("Slice", found, *ends))
        return
    own = step.emit("Equal", np.arange(count, dtype=np.int64).reshape(-1, 1), ids)
    own = step.emit("Reshape", own, np.array([count, size, *[1] * len(inner)], np.int64))
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    fill = np.array(limits.min if neutral < 0 else limits.max, dtype)
    chosen = step.emit("Where", own, values, fill)
    step.give(step.emit(reduction, chosen, axes=[1], keepdims=0))


def _last(step: Step) -> int:
    ids = step.numbers(1, "its numbers")
    if not ids:
        raise Unsupported("it has no rows", EXPORT)
    return ids[-1]


def dynamic_update_slice(step: Step) -> None:
    """A part of a tensor written anew, from a place on at which all of it fits."""
    moved = Moved(step)
    shape, part = step.shape(0), step.shape(1)
    if len(part) != len(shape) or any(p > s for p, s in zip(part, shape, strict=True)):
        raise Unsupported(f"a part of {list(part)} is of {list(shape)}", EXPORT)
    update = step.stored(1) if moved.is_kept and step.moves(1) else step.real(1)
    if moved.is_kept and not step.moves(1):
        raise Unsupported("its part has another scale", EXPORT)
    # Of axes that are written whole the place is 0: those behind the others are not named.
    open_axes = [a for a, (p, s) in enumerate(zip(part, shape, strict=True)) if p < s]
    named = open_axes[-1] + 1 if open_axes else 1
    room = np.array([s - p for s, p in zip(shape, part, strict=True)][:named], np.int64)
    ends = [np.array([n], np.int64) for n in (0, named, 0)]
    start = step.emit("Slice", _wide(step, step.stored(2)), *ends)
    start = step.emit("Max", step.emit("Min", start, room), np.array(0, np.int64))
    grid = np.stack(np.meshgrid(*map(np.arange, part[:named]), indexing="ij"), -1)
    places = step.emit("Add", grid.astype(np.int64), start)
    moved.give(step.emit("ScatterND", moved.value, places, update))


def reverse_sequence(step: Step) -> None:
    """The first elements of each batch in reverse, as many as its length says."""
    options, rank = step.options, len(step.shape(0))
    time, batch = (step.axis(a, rank) for a in (options.SeqDim(), options.BatchDim()))
    if time == batch:
        raise Unsupported("its batches are what it reverses", EXPORT)
    moved = Moved(step)
    perm = [batch, time, *(a for a in range(rank) if a not in (batch, time))]
    value = _turned(step, moved.value, perm)
    # One element in reverse is as it was; onnxruntime leaves out what is of length 0.
    lengths = step.emit("Max", _wide(step, step.stored(1)), np.array(1, np.int64))
    found = step.emit("ReverseSequence", value, lengths, batch_axis=0, time_axis=1)
    moved.give(_turned(step, found, [perm.index(a) for a in range(rank)]))


def matrix_diag(step: Step) -> None:
    """Matrices of a diagonal, else 0."""
    value, size = step.real(0), step.shape(0)[-1]
    rows = step.emit("Unsqueeze", value, np.array([-1]))
    zero = np.zeros((), step.network.dtype(value))
    step.give(step.emit("Where", np.eye(size, dtype=bool), rows, zero))


def matrix_set_diag(step: Step) -> None:
    """Matrices with another diagonal."""
    value, diagonal = step.real(0), step.real(1)
    height, width = step.shape(0)[-2:]
    places = np.minimum(np.arange(height), min(height, width) - 1)
    rows = step.emit("Unsqueeze", step.emit("Gather", diagonal, places, axis=-1), np.array([-1]))
    step.give(step.emit("Where", np.eye(height, width, dtype=bool), rows, value))


def bucketize(step: Step) -> None:
    """How many boundaries each number has reached."""
    bounds = np.atleast_1d(step.options.BoundariesAsNumpy()).astype(np.float32)
    value = step.real(0)
    if step.network.dtype(value) != np.float32:
        value = step.emit("Cast", value, to=TensorProto.FLOAT)
    last = len(step.shape(0))
    rows = step.emit("Unsqueeze", value, np.array([-1]))
    below = step.emit("Not", step.emit("Less", rows, bounds))
    counted = step.emit("Cast", below, to=TensorProto.INT32)
    step.give(step.emit("ReduceSum", counted, np.array([last]), keepdims=0))


INDEXED: dict[str, Converter] = {
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "SCATTER_ND": scatter_nd,
    "SEGMENT_SUM": partial(segments, reduction="add", neutral=0, sized=False),
    "UNSORTED_SEGMENT_SUM": partial(segments, reduction="add", neutral=0),
    "UNSORTED_SEGMENT_PROD": partial(segments, reduction="mul", neutral=1),
    "UNSORTED_SEGMENT_MAX": partial(segments, reduction="ReduceMax", neutral=-math.inf),
    "UNSORTED_SEGMENT_MIN": partial(segments, reduction="ReduceMin", neutral=math.inf),
    "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "REVERSE_SEQUENCE": reverse_sequence,
    "MATRIX_DIAG": matrix_diag,
    "MATRIX_SET_DIAG": matrix_set_diag,
    "BUCKETIZE": bucketize,
}
