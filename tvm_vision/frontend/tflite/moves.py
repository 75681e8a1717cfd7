"""Operators that move numbers, pick some or join them: on integers where they mean the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..onnx.graph import Unsupported
from .network import EXPORT
from .step import Converter, Step
from .values import LAST

_BIG = np.iinfo(np.int64).max


class Moved:
    """An input in the form in which it can be moved, and how its result is given."""

    def __init__(self, step: Step, place: int = 0, *, order: str = LAST) -> None:
        self.step = step
        self.is_kept = step.moves(place)
        self.order = order
        self.value = step.stored(place, order) if self.is_kept else step.real(place, order)

    def give(self, value: str, order: str = LAST, *, place: int = 0) -> None:
        give = self.step.keep if self.is_kept else self.step.give
        give(value, order, place=place)


def reshape(step: Step) -> None:
    shape = step.numbers(1, "its sizes") if step.has(1) else None
    if shape is None:
        shape = [int(size) for size in np.atleast_1d(step.options.NewShapeAsNumpy())]
    _reshaped(step, _without_open(shape, math.prod(step.shape(0))))


def _without_open(shape: Sequence[int], count: int) -> list[int]:
    """Sizes with the one that is left open. Raises Unsupported where they do not fit."""
    known = math.prod(size for size in shape if size != -1)
    full = [count // max(known, 1) if size == -1 else size for size in shape]
    if min(full, default=0) < 0 or math.prod(full) != count or list(shape).count(-1) > 1:
        raise Unsupported(f"{count} elements are no {list(shape)}", EXPORT)
    return full


def _reshaped(step: Step, shape: Sequence[int]) -> None:
    moved = Moved(step)
    attributes = {"allowzero": 1} if 0 in shape else {}
    moved.give(step.emit("Reshape", moved.value, np.array(shape, np.int64), **attributes))


def squeeze(step: Step) -> None:
    shape, options = step.shape(0), step.operator.options
    named = options.SqueezeDimsLength() if options is not None else 0
    if named > len(shape):
        raise Unsupported(f"it takes {named} of {len(shape)} axes", EXPORT)
    axes = {step.axis(int(options.SqueezeDims(i)), len(shape)) for i in range(named)}
    gone = axes or {axis for axis, size in enumerate(shape) if size == 1}
    if any(shape[axis] != 1 for axis in gone):
        raise Unsupported(f"it takes axes {sorted(gone)} of {list(shape)}", EXPORT)
    _reshaped(step, [size for axis, size in enumerate(shape) if axis not in gone])


def expand_dims(step: Step) -> None:
    shape = list(step.shape(0))
    axis = step.axis(step.number(1, "its axis"), len(shape) + 1)
    _reshaped(step, [*shape[:axis], 1, *shape[axis:]])


def transpose(step: Step) -> None:
    perm = step.numbers(1, "its axes")
    rank = len(step.shape(0))
    perm = [step.axis(axis, rank) for axis in perm]
    if sorted(perm) != list(range(rank)):
        raise Unsupported(f"its axes are {perm} of {rank}", EXPORT)
    moved = Moved(step, order=step.order(0))
    if moved.order != LAST:
        perm = [step.axis(axis, rank, moved.order) for axis in perm]
    moved.give(step.values.turned(moved.value, perm, step.label))


def concatenation(step: Step) -> None:
    """Parts that mean the same are joined as they are; what has no elements is left out."""
    places = [p for p in range(step.count) if math.prod(step.shape(p))] or [0]
    order = step.order(*places)
    axis = step.axis(step.options.Axis(), len(step.shape(places[0])), order)
    whole = step.moves(*places)
    parts = [step.stored(p, order) if whole else step.real(p, order) for p in places]
    value = step.emit("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    function = step.options.FusedActivationFunction()
    if whole and not function:
        step.keep(value, order)
    else:
        step.give(
            value if not whole else _read(step, places, order, axis), order, activation=function
        )


def _read(step: Step, places: Sequence[int], order: str, axis: int) -> str:
    parts = [step.real(place, order) for place in places]
    return step.emit("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def pack(step: Step) -> None:
    rank = len(step.shape(0)) + 1
    axis = step.axis(step.options.Axis(), rank)
    whole = step.moves(*range(step.count))
    shape = list(step.shape(0))
    wide = np.array([*shape[:axis], 1, *shape[axis:]], np.int64)
    parts = [
        step.emit("Reshape", step.stored(p) if whole else step.real(p), wide)
        for p in range(step.count)
    ]
    value = step.emit("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    (step.keep if whole else step.give)(value)


def unpack(step: Step) -> None:
    shape = list(step.shape(0))
    axis = step.axis(step.options.Axis(), len(shape))
    if shape[axis] != len(step.operator.outputs):
        raise Unsupported(f"{shape[axis]} parts are {len(step.operator.outputs)} results", EXPORT)
    moved = Moved(step)
    sizes = np.array([*shape[:axis], *shape[axis + 1 :]], np.int64)
    for place, part in enumerate(_parts(step, moved.value, axis, [1] * shape[axis])):
        moved.give(step.emit("Reshape", part, sizes), place=place)


def split(step: Step) -> None:
    shape = step.shape(1)
    axis, count = step.number(0, "its axis"), len(step.operator.outputs)
    extent = shape[step.axis(axis, len(shape))]
    if not count or extent % count:
        raise Unsupported(f"{extent} are no {count} equal parts", EXPORT)
    _split(step, 1, axis, [extent // count] * count)


def split_v(step: Step) -> None:
    shape, axis = step.shape(0), step.number(2, "its axis")
    extent = shape[step.axis(axis, len(shape))]
    _split(step, 0, axis, _without_open_part(step.numbers(1, "its sizes"), extent))


def _without_open_part(sizes: Sequence[int], extent: int) -> list[int]:
    rest = extent - sum(size for size in sizes if size != -1)
    full = [rest if size == -1 else size for size in sizes]
    if min(full, default=-1) < 0 or sum(full) != extent:
        raise Unsupported(f"{extent} are no parts of {list(sizes)}", EXPORT)
    return full


def _split(step: Step, place: int, axis: int, sizes: Sequence[int]) -> None:
    order = step.order(place)
    moved = Moved(step, place, order=order)
    axis = step.axis(axis, len(step.shape(place)), order)
    for number, part in enumerate(_parts(step, moved.value, axis, sizes)):
        moved.give(part, order, place=number)


def _parts(step: Step, value: str, axis: int, sizes: Sequence[int]) -> list[str]:
    if len(sizes) == 1:
        return [value]
    return step.emit_all(
        "Split", value, np.array(sizes, np.int64), count=len(sizes), axis=axis
    )  # fmt: skip


def slice_(step: Step) -> None:
    shape = step.shape(0)
    begins, sizes = step.numbers(1, "its begins"), step.numbers(2, "its sizes")
    if not len(begins) == len(sizes) == len(shape):
        raise Unsupported(f"{len(begins)} begins are of {len(shape)} axes", EXPORT)
    ends = [
        extent if size == -1 else begin + size
        for begin, size, extent in zip(begins, sizes, shape, strict=True)
    ]
    _sliced(step, begins, ends, [1] * len(shape))


def _sliced(step: Step, begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> None:
    order = step.order(0)
    moved = Moved(step, order=order)
    moved.give(_slice(step, moved.value, begins, ends, steps, order), order)


def _slice(
    step: Step, value: str, begins: Sequence[int], ends: Sequence[int], steps: Sequence[int],
    order: str = LAST,
) -> str:  # fmt: skip
    shape = step.shape(0)
    whole = zip(begins, ends, steps, shape, strict=True)
    cut = [axis for axis, (b, e, s, n) in enumerate(whole) if (b, s) != (0, 1) or e < n]
    if not cut:
        return value
    numbers = [[each[axis] for axis in cut] for each in (begins, ends)]
    axes = [step.axis(axis, len(shape), order) for axis in cut]
    inputs = [*numbers, axes, [steps[axis] for axis in cut]]
    return step.emit("Slice", value, *(np.array(each, np.int64) for each in inputs))


def strided_slice(step: Step) -> None:
    """As Python's subscripts: masks leave ends open, drop axes, add them, and stand for ``...``."""
    shape, options = step.shape(0), step.options
    found = [step.numbers(place, "its begins, ends and strides") for place in (1, 2, 3)]
    if len({len(each) for each in found}) != 1 or options.Offset():
        raise Unsupported("its begins, ends and strides do not fit each other", EXPORT)
    masks = (
        options.BeginMask(), options.EndMask(), options.EllipsisMask(), options.NewAxisMask(),
        options.ShrinkAxisMask(),
    )  # fmt: skip
    begins, ends, steps, sizes = _subscripts(shape, found, masks)
    if sizes is None:
        _sliced(step, begins, ends, steps)
        return
    moved = Moved(step)
    value = _slice(step, moved.value, begins, ends, steps)
    taken = step.network.shape(value)
    final = np.array([1 if axis is None else taken[axis] for axis in sizes], np.int64)
    moved.give(step.emit("Reshape", value, final))


def _subscripts(
    shape: Sequence[int], found: Sequence[Sequence[int]], masks: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[int | None] | None]:
    """Begins, ends and strides for every axis, and the axes of the result: None for a new one;
    None in place of them all where they are those of the input."""
    open_begins, open_ends, ellipsis, fresh, dropped = masks
    count = len(found[0])
    spread = len(shape) - sum(not (fresh >> i | ellipsis >> i) & 1 for i in range(count))
    begins: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    axes: list[int | None] = []

    def whole() -> None:
        axes.append(len(begins))
        begins.append(0)
        ends.append(shape[len(ends)])
        steps.append(1)

    for i, (begin, end, stride) in enumerate(zip(*found, strict=True)):
        bit = 1 << i
        if ellipsis & bit:
            for _ in range(spread):
                whole()
        elif fresh & bit:
            axes.append(None)
        elif len(begins) >= len(shape) or not stride:
            raise Unsupported(f"{count} subscripts are of {len(shape)} axes", EXPORT)
        elif dropped & bit:
            place = begin + shape[len(begins)] if begin < 0 else begin
            if not 0 <= place < shape[len(begins)]:
                raise Unsupported(f"index {begin} is of {shape[len(begins)]}", EXPORT)
            begins.append(place)
            ends.append(place + 1)
            steps.append(1)
        else:
            axes.append(len(begins))
            extent = shape[len(begins)]
            first, last = _ends(begin, end, stride, extent, open_begins & bit, open_ends & bit)
            begins.append(first)
            ends.append(last)
            steps.append(stride)
    while len(begins) < len(shape):
        whole()
    return begins, ends, steps, None if axes == list(range(len(shape))) else axes


def _ends(
    begin: int, end: int, stride: int, extent: int, open_begin: int, open_end: int
) -> tuple[int, int]:
    """Where a slice begins and ends, kept within the axis as TFLite does."""
    low, high = (0, extent) if stride > 0 else (-1, extent - 1)
    first = min(max(begin + extent if begin < 0 else begin, low), high)
    last = min(max(end + extent if end < 0 else end, low), high)
    if open_begin:
        first = low if stride > 0 else high
    if open_end:
        last = high if stride > 0 else low
    # For ONNX -1 is the last place: before the first is beyond all.
    return first, -_BIG if last < 0 else last


def tile(step: Step) -> None:
    moved = Moved(step)
    counts = np.array(step.numbers(1, "its counts"), np.int64)
    moved.give(step.emit("Tile", moved.value, counts))


def broadcast_to(step: Step) -> None:
    moved = Moved(step)
    shape = np.array(step.numbers(1, "its sizes"), np.int64)
    moved.give(step.emit("Expand", moved.value, shape))


def reverse(step: Step) -> None:
    shape = step.shape(0)
    axes = {step.axis(axis, len(shape)) for axis in step.numbers(1, "its axes")}
    begins = [shape[a] - 1 if a in axes else 0 for a in range(len(shape))]
    ends = [-_BIG if a in axes else shape[a] for a in range(len(shape))]
    _sliced(step, begins, ends, [-1 if a in axes else 1 for a in range(len(shape))])


MOVES: dict[str, Converter] = {
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "EXPAND_DIMS": expand_dims,
    "TRANSPOSE": transpose,
    "CONCATENATION": concatenation,
    "PACK": pack,
    "UNPACK": unpack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SLICE": slice_,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
    "REVERSE_V2": reverse,
}
