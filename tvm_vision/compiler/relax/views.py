"""Tensors as views of tensors further up: turned axes, reshapes and parts, as digits of a place.

Where numpy has one stride for an axis, an axis here has one for each of its digits: [4, 6] turned
and then flattened is no view there, and here one axis of two digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import Lookup, constant_of, resolve, value_of

# An extent above 1, and the elements from one to the next.
Digit = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """Where a tensor's elements lie in ``source``, which is contiguous.

    Attributes:
        source: a tensor that is kept.
        axes: the digits of each axis, the largest first; none for an axis of one element.
        offset: elements of the source before the tensor's first.
    """

    source: Any
    axes: tuple[tuple[Digit, ...], ...]
    offset: int = 0

    @classmethod
    def whole(cls, source: Any, shape: Sequence[int]) -> Place:
        """That of a tensor that is kept, itself."""
        steps = [int(step) for step in np.cumprod([1, *shape[:0:-1]])[::-1][: len(shape)]]
        each = zip(shape, steps, strict=True)
        return cls(source, tuple(((count, step),) if count > 1 else () for count, step in each))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(count for axis in self.axes for count, _ in axis)

    def turned(self, order: Sequence[int] | None) -> Place:
        """With axes in another order; None: the last one first."""
        places = reversed(range(len(self.axes))) if order is None else order
        return replace(self, axes=tuple(self.axes[place] for place in places))

    def reshaped(self, shape: Sequence[int]) -> Place:
        """With the same elements in that shape. Raises ValueError where digits do not divide so."""
        left = [digit for axis in self.axes for digit in axis][::-1]
        axes = []
        for extent in shape:
            axis = []
            while extent > 1 and left:
                count, step = left.pop()
                if count > extent and count % extent == 0:
                    left.append((count // extent, step))
                    count, step = extent, step * (count // extent)
                if extent % count:
                    raise ValueError(f"{extent} is no multiple of {count}")
                axis.append((count, step))
                extent //= count
            if extent != 1:
                raise ValueError(f"no elements are left for an axis of {extent}")
            axes.append(tuple(axis))
        return replace(self, axes=tuple(axes))

    def part(self, axis: int, begin: int, end: int, step: int = 1) -> Place:
        """Elements of one axis. Raises ValueError where they are none, or no digits."""
        digits = self.axes[axis]
        inner = math.prod(count for count, _ in digits[1:])
        whole = inner * (digits[0][0] if digits else 1)
        count = -(-(end - begin) // step)
        if not 0 <= begin < end <= whole or step < 1:
            raise ValueError(f"a part of {whole} elements is needed, found {begin} to {end}")
        offset, rest = self.offset, begin
        if count == 1:
            for extent, stride in reversed(digits):
                offset, rest = offset + rest % extent * stride, rest // extent
            digits = ()
        elif begin % inner or end % inner or (step > 1 and inner > 1):
            raise ValueError("whole numbers of the first digit are needed")
        else:
            stride = digits[0][1]
            offset += begin // inner * stride
            first = count // inner
            digits = ((first, stride * step), *digits[1:]) if first > 1 else digits[1:]
        axes = (*self.axes[:axis], digits, *self.axes[axis + 1 :])
        return replace(self, axes=axes, offset=offset)

    def broadcast(self, shape: Sequence[int]) -> Place:
        """Repeated along axes of one element, and along new ones in front, to that shape. Raises
        ValueError where extents differ otherwise."""
        missing = len(shape) - len(self.axes)
        axes = [*((),) * missing, *self.axes]
        for axis, extent in enumerate(shape):
            own = math.prod(count for count, _ in axes[axis])
            if own not in (1, extent):
                raise ValueError(f"an axis of 1 or {extent} is needed, found {own}")
            if own < extent:
                axes[axis] = ((extent, 0),)
        return replace(self, axes=tuple(axes))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one to the next along each axis; 0 along one of a single element. Raises
        ValueError where that differs along an axis."""
        joined = [join(axis) for axis in self.axes]
        if any(len(axis) > 1 for axis in joined):
            raise ValueError("one stride for each axis is needed")
        return tuple(axis[0][1] if axis else 0 for axis in joined)


def join(digits: Sequence[Digit]) -> list[Digit]:
    """The same digits, with those as one that follow each other without a gap."""
    joined: list[Digit] = []
    for count, step in digits:
        if joined and joined[-1][1] == count * step:
            count *= joined.pop()[0]
        joined.append((count, step))
    return joined


def place_of(expr: Any, lookup: Lookup) -> Place | None:
    """Where a tensor of fixed shape lies: in one further up, if all between only says how it is
    read, else in itself; None for anything else, and for one without elements."""
    shape = fixed_shape(expr)
    if shape is None or 0 in shape:
        return None
    found = value_of(expr, lookup)
    item = found.index if isinstance(found, relax.TupleGetItem) else None
    made = found if item is None else value_of(found.tuple_value, lookup)
    name = operator_of(made)
    if name in VIEWS if item is None else name == "relax.split":
        inner = place_of(made.args[0], lookup)
        try:
            if inner is not None:
                return view_of(made, inner, lookup) if item is None else _piece(inner, made, item)
        except (ValueError, LookupError):
            pass
    return Place.whole(resolve(expr, lookup), shape)


def view_of(call: relax.Call, place: Place, lookup: Lookup) -> Place:
    """Where the result of an operator of VIEWS lies, by where its operand does. Raises ValueError
    where the result is no view."""
    return VIEWS[operator_of(call)](place, call, lookup)


def _taken(place: Place, call: Any, lookup: Lookup) -> Place:
    index, axis = constant_of(call.args[1], lookup), call.attrs.axis
    shape, given = fixed_shape(call), fixed_shape(call.args[0])
    if index is None or index.size != 1 or axis is None or shape is None or given is None:
        raise ValueError("one place of an axis is needed")
    axis = int(axis) % len(given)
    at = int(index.reshape(()))
    at += given[axis] if at < 0 else 0
    return place.part(axis, at, at + 1).reshaped(shape)


def _sliced(place: Place, call: Any, lookup: Lookup) -> Place:
    axes, begins, ends, *steps = (numbers(given, lookup) for given in call.args[1:])
    for at, axis in enumerate(axes):
        place = place.part(axis, begins[at], ends[at], steps[0][at] if steps else 1)
    return place


def numbers(given: Any, lookup: Lookup) -> list[int]:
    """Those of a tuple that is an operator's argument, as of axes and ends. Raises ValueError
    where one is known only at run time."""
    found = value_of(given, lookup)
    values = [getattr(field, "value", None) for field in getattr(found, "fields", [None])]
    if not all(isinstance(value, int) for value in values):
        raise ValueError("numbers are needed that are known")
    return [int(value) for value in values if value is not None]


def _turned(place: Place, call: Any, lookup: Lookup) -> Place:
    axes = call.attrs.axes
    return place.turned(None if axes is None else [int(axis) for axis in axes])


def _reshaped(place: Place, call: Any, lookup: Lookup) -> Place:
    shape = fixed_shape(call)
    if shape is None:
        raise ValueError("a shape that is known is needed")
    return place.reshaped(shape)


def _piece(place: Place, split: Any, item: int) -> Place:
    shape, axis = fixed_shape(split.args[0]) or (), int(split.attrs.axis)
    pieces = split.attrs.indices_or_sections
    extent = shape[axis]
    if isinstance(pieces, tvm_ffi.Array):
        edges = [0, *(int(end) for end in pieces), extent]
    else:
        size = -(-extent // int(pieces))
        edges = [min(extent, size * n) for n in range(int(pieces) + 1)]
    return place.part(axis % len(shape), edges[item], edges[item + 1])


VIEWS: dict[str, Any] = {
    "relax.permute_dims": _turned,
    "relax.reshape": _reshaped,
    "relax.squeeze": _reshaped,
    "relax.expand_dims": _reshaped,
    "relax.take": _taken,
    "relax.strided_slice": _sliced,
}
