"""Arg max and arg min, with places counted in int32: TVM's own count in the type of the loops,
int64, which many GPUs compute in several steps, and some not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import te, tirx, topi
from tvm.ir import prim

from .moments import row_at

MOST = int(np.iinfo("int32").max)


def arg_reduce(x: Any, axis: int | None, keepdims: bool, largest: bool) -> Any:
    """Places of the largest or smallest values, int64; of equal ones the first.

    Args:
        x: a tensor expression, of static shape.
        axis: along which values are compared; None for all, where places are those of the tensor
            as one row.
        keepdims: whether axes that are gone are kept with extent 1.
    """
    sizes = [int(size) for size in x.shape]
    gone = list(range(len(sizes))) if axis is None else [axis % len(sizes)]
    if math.prod(sizes[a] for a in gone) > MOST:
        return (topi.argmax if largest else topi.argmin)(x, axis, keepdims)
    reduced = {a: te.reduce_axis((0, x.shape[a]), name=f"k{a}") for a in gone}
    kept = [a for a in range(len(sizes)) if a not in reduced]
    shape = [1 if a in reduced else x.shape[a] for a in (range(len(sizes)) if keepdims else kept)]

    def combined(one: Any, other: Any) -> tuple[Any, Any]:
        better = one[1] > other[1] if largest else one[1] < other[1]
        first = tirx.any(better, tirx.all(one[1] == other[1], one[0] < other[0]))
        return tirx.Select(first, one[0], other[0]), tirx.Select(better, one[1], other[1])

    def worst(place: str, value: str) -> tuple[Any, Any]:
        return tirx.const(-1, place), (te.min_value if largest else te.max_value)(value)

    def compared(*at: Any) -> Any:
        own = dict(zip(kept, [at[a] for a in kept] if keepdims else at, strict=True))
        indices = [reduced[a].var if a in reduced else own[a] for a in range(len(sizes))]
        place = tirx.const(0, "int32")
        for a in gone:
            place = place * sizes[a] + indices[a].astype("int32")
        return reducer((place, x(*indices)), axis=list(reduced.values()))

    reducer = te.comm_reducer(combined, worst, name="argmax" if largest else "argmin")
    name = f"{x.op.name}_red"
    places, _ = te.compute(shape, compared, name=f"{name}_temp")
    # No place is better than none in a row of nothing but the worst number, or of what lies beyond,
    # as -inf does: TVM puts parts together of reductions alone that begin before the first.
    first = tirx.const(0, "int32")
    return te.compute(shape, lambda *at: tirx.max(places(*at), first).astype("int64"), name=name)


def best_of_parts(x: Any, places: Any) -> Any:
    """What rows in parts have at the places of the best of each part, (before, parts, after).

    It is a function of its own, as ``place_in_row`` is: where a place is an index TVM compares it
    as one, in int64, and no longer knows how to put the best of parts together.

    Args:
        x: (before, parts, terms, after); rows lie along parts and terms.
        places: (before, parts, after), as ``arg_reduce`` finds them along the terms.
    """
    before, parts, _, after = map(int, x.shape)
    return te.compute((before, parts, after), lambda b, p, a: x(b, p, places(b, p, a), a), "best")


def place_in_row(part: Any, places: Any, terms: int, shape: Sequence[int]) -> Any:
    """Places in whole rows, int64.

    Args:
        part: in which the best of each row is, (before, after).
        places: of the best of each part, (before, parts, after).
        terms: of a part.
        shape: of the result: that of rows, with any axes of one element between.
    """
    after = int(part.shape[1])

    def place(*at: Any) -> Any:
        row = row_at(at, shape)
        b, a = row // after, row % after
        return part(b, a) * terms + places(b, part(b, a), a)

    return te.compute(shape, place, name="place")


def places_in_int32(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function of ``arg_reduce`` whose places are compared as int32, as they were written.

    TVM widens comparisons to the type of its loops, by which they are no longer those of a
    reduction that it can put together from parts: of a row of an image one thread would look at
    all.
    """
    body = tvm_ffi.structural_map(function.body, (prim.LT, _in_int32), order="post")
    return function.with_body(body)


def _in_int32(compared: Any) -> Any:
    one, other = compared.a, compared.b
    if not isinstance(one, prim.Cast) or str(one.value.ty.dtype) != "int32":
        return compared
    if str(other.ty.dtype) != "int64":
        return compared
    return one.value < other.astype("int32")
