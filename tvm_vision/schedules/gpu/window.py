"""Short sums, one or a few outputs a thread: depthwise convolutions and pools.

Also the last resort for any kernel with sums that no other schedule takes.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Var
from tvm.s_tir import Schedule

from ..common import (
    FAILURES,
    NotThisKind,
    TargetLimits,
    extents_of,
    inline_all,
    is_reduction,
    kinds_of,
    product,
)

MOST_UNROLLED = 64  # terms of a sum that are written out
VECTOR_BYTES = 16  # of a load
BYTES = ("int8", "uint8")
BESIDE = (4, 2)  # vectors of a thread, of bytes: to unpack them takes more than to multiply them
SEVEN = 7  # pixels of a thread, where there are so many rows that twice as many threads have some


@dataclass(frozen=True)
class WindowShape:
    """How the outputs are spread.

    Attributes:
        threads: threads of a workgroup.
        along: neighbouring outputs of one thread, along the last axis; computed as vectors where
            they are neighbours in all that is read (channels last).
        beside: such vectors of one thread, along the axis before: what neighbours read, weights
            too, is read and unpacked once for all of them.
    """

    threads: int = 128
    along: int = 1
    beside: int = 1


def schedule_window(
    schedule: Schedule, limits: TargetLimits, shape: WindowShape | None = None
) -> None:
    """Schedules a kernel so that a thread computes all that its outputs need.

    Args:
        shape: how to spread the outputs; None chooses.

    Raises:
        NotThisKind: the kernel has more than one output, or no sum.
    """
    blocks = inline_all(schedule)
    outputs = [block for block in blocks if not schedule.get_consumers(block)]
    sums = [block for block in blocks if is_reduction(schedule, block)]
    if len(outputs) != 1 or not sums:
        raise NotThisKind("has several outputs, or no sum")
    anchor, output = sums[-1], outputs[0]
    vectors = _reads_vectors(schedule, anchor)
    shape = shape or default(_sum_of(schedule, anchor, vectors), limits)
    if schedule.get(anchor).name_hint == schedule.get(output).name_hint:
        output = schedule.cache_write(anchor, 0, "local")
    thread = _bind(schedule, anchor, shape, vectors)
    _fetch_at_once(schedule, anchor, thread)
    for number in range(len(schedule.get(anchor).writes)):
        schedule.set_scope(anchor, number, "local")
    schedule.reverse_compute_at(output, thread, preserve_unit_loops=True)
    loops = list(schedule.get_loops(output))
    last = loops[-1]
    if vectors and shape.along > 1 and int(schedule.get(last).extent) == shape.along:
        schedule.vectorize(last)
        if shape.beside > 1 and int(schedule.get(loops[-2]).extent) == shape.beside:
            schedule.unroll(loops[-2])
    for block in reversed(sums[:-1]):
        schedule.compute_at(block, thread, preserve_unit_loops=True)
        for number in range(len(schedule.get(block).writes)):
            schedule.set_scope(block, number, "local")
        start_before_loops(schedule, block, thread)
    start_before_loops(schedule, anchor, thread)


@dataclass(frozen=True)
class WindowSum:
    """What is summed.

    Attributes:
        extents: of the outputs of the last sum.
        vectors: neighbours along the last of them are neighbours in all that is read.
        overlap: they read the same numbers, all but one: windows of step one.
        of_bytes: all that is read are bytes.
    """

    extents: tuple[int, ...]
    vectors: bool
    overlap: bool = False
    of_bytes: bool = False


def shape_of(schedule: Schedule) -> WindowSum:
    """The last sum of a kernel; spoils the schedule.

    Raises:
        NotThisKind: the kernel has no sum.
    """
    sums = [block for block in inline_all(schedule) if is_reduction(schedule, block)]
    if not sums:
        raise NotThisKind("has no sum")
    return _sum_of(schedule, sums[-1], _reads_vectors(schedule, sums[-1]))


def _sum_of(schedule: Schedule, block: Any, vectors: bool) -> WindowSum:
    read = schedule.get(block).reads
    of_bytes = all(str(region.source.ty.dtype.dtype) in BYTES for region in read)
    return WindowSum(_extents(schedule, block), vectors, _overlap(schedule, block), of_bytes)


def default(window: WindowSum, limits: TargetLimits) -> WindowShape:
    """Several outputs a thread where there are more than enough of them."""
    extents, outputs = window.extents, product(window.extents)
    enough = limits.device.enough
    # Of a row of 14 or 7 pixels two or one have hardly anything in common (by models alone).
    untimed = window.overlap and not limits.device.measured
    whole = untimed and outputs >= 2 * SEVEN * enough.threads
    lengths = (4, SEVEN, 2, 3) if whole else (4, 2, 3)
    along = next((n for n in lengths if extents and extents[-1] % n == 0), 1)
    if outputs // along < (enough.vectors if window.vectors else enough.threads):
        along = 1
    most = min(128, limits.threads)
    # Without a rest none of the terms needs a condition.
    sizes = (n for n in (128, 64, 96, 32) if n <= most and n % limits.wave == 0)
    beside = next(
        (n for n in _besides(window, along, limits) if outputs // (n * along) >= enough.threads), 1
    )
    even = (n for n in sizes if outputs // (along * beside) % n == 0)
    return WindowShape(1 if outputs == 1 else next(even, most), along, beside)


def candidates(window: WindowSum, limits: TargetLimits) -> list[WindowShape]:
    """Every way to spread the outputs that the limits allow, the default first."""
    found, extents = [default(window, limits)], window.extents
    for threads, along in itertools.product((32, 64, 128, 256), (1, 2, 3, 4, 8)):
        shape = WindowShape(threads, along)
        divides = along == 1 or (extents and extents[-1] % along == 0)
        if limits.wave <= threads <= limits.threads and divides:
            besides = (1, *_besides(window, along, limits))
            found += [replace(shape, beside=n) for n in besides]
    return list(dict.fromkeys(found))


def _besides(window: WindowSum, along: int, limits: TargetLimits) -> list[int]:
    """How many vectors of ``along`` bytes a thread may have, but one; none where the driver would
    have to spill them, as subgroups are as wide as they can be."""
    if not (window.of_bytes and window.vectors and along > 1 and len(window.extents) > 1):
        return []
    return [n for n in BESIDE if window.extents[-2] % n == 0 and not limits.wide_subgroup]


def _reads_vectors(schedule: Schedule, block: Any) -> bool:
    """Whether the last axis of the outputs is the last index, and only that, of all it indexes."""
    body = schedule.get(block)
    spatial = [axis.var for axis in body.iter_vars if axis.iter_type == tirx.IterVar.DataPar]
    if not spatial or len(body.writes) != 1:
        return False
    last = spatial[-1]
    analyzer = sym.Analyzer()
    for axis in body.iter_vars:  # those of one value do not move an index
        analyzer.bind(axis.var, axis.dom)
    for region in (*body.reads, *body.writes):
        if not len(region.region):  # one value for all
            continue
        *outer, inner = (analyzer.simplify(place.min) for place in region.region)
        if any(_mentions(index, last) for index in outer):
            return False
        if _mentions(inner, last) and not inner.same_as(last):
            return False
    return True


def _overlap(schedule: Schedule, block: Any) -> bool:
    """Whether the last axis of the outputs moves windows by one."""
    axes = schedule.get(block).iter_vars
    spatial = [axis.var for axis in axes if axis.iter_type == tirx.IterVar.DataPar]
    sums = [axis for axis in axes if axis.iter_type == tirx.IterVar.CommReduce]
    summed = [axis.var for axis in sums if int(axis.dom.extent) > 1]
    if not spatial:
        return False
    last, analyzer = spatial[-1], sym.Analyzer()
    for region in schedule.get(block).reads:
        for index in (place.min for place in region.region):
            if not _mentions(index, last) or not any(_mentions(index, each) for each in summed):
                continue
            ahead = tvm_ffi.structural_map(
                index, [(Var, lambda var: last + 1 if last.same_as(var) else var)], order="post"
            )
            return bool(analyzer.can_prove_equal(ahead - index, 1))
    return False


def _mentions(expression: Any, variable: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (Var, found.append))
    return any(variable.same_as(other) for other in found)


def _extents(schedule: Schedule, block: Any) -> tuple[int, ...]:
    axes = zip(extents_of(schedule, block), kinds_of(schedule, block), strict=True)
    return tuple(extent for extent, kind in axes if kind == "S")


def _bind(schedule: Schedule, block: Any, shape: WindowShape, vectors: bool) -> Any:
    kinds = kinds_of(schedule, block)
    loops = schedule.get_loops(block)
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != "S"]
    spatial = spatial or [schedule.add_unit_loop(block)]
    *outer, last = spatial
    along, own = schedule.split(last, [None, shape.along])
    if shape.beside > 1:
        *outer, before = outer
        before, beside = schedule.split(before, [None, shape.beside])
        outer.append(before)
        schedule.reorder(*outer, along, *reduced, beside, own)
        schedule.unroll(beside)
    else:
        schedule.reorder(*outer, along, *reduced, own)
    fused = schedule.fuse(*outer, along)
    group, thread = schedule.split(fused, [None, shape.threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    if vectors and shape.along > 1:
        schedule.vectorize(own)
    else:
        schedule.unroll(own)
    return thread


def _fetch_at_once(schedule: Schedule, block: Any, thread: Any) -> None:
    """Fetches in vectors what a short sum runs over where its terms lie side by side: the channels
    of a pixel under a 1×1 convolution, channels last."""
    body = schedule.get(block)
    if len(body.writes) != 1:
        return
    sums = [axis for axis in body.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
    long = [axis for axis in sums if int(axis.dom.extent) > 1]
    if len(long) != 1 or int(long[0].dom.extent) > MOST_UNROLLED:
        return
    terms = int(long[0].dom.extent)
    for place, region in enumerate(body.reads):
        if not len(region.region):
            continue
        *outer, inner = (index.min for index in region.region)
        beside = inner.same_as(long[0].var)
        lanes = VECTOR_BYTES // tvm_ffi.dtype(str(region.source.ty.dtype.dtype)).itemsize
        if not beside or terms % lanes or any(_mentions(index, long[0].var) for index in outer):
            continue
        fetched = schedule.cache_read(block, place, "local")
        schedule.compute_at(fetched, thread, preserve_unit_loops=True)
        _, own = schedule.split(schedule.get_loops(fetched)[-1], [None, lanes])
        schedule.vectorize(own)
        return


def start_before_loops(schedule: Schedule, block: Any, thread: Any) -> None:
    """Takes the start value out of the loops of a sum; writes them out where they are short.

    Where TVM cannot, the start value stays within, under a condition.
    """
    inner = schedule.get_loops(block)
    own = schedule.get(thread).loop_var
    place = [schedule.get(loop).loop_var.same_as(own) for loop in inner].index(True)
    terms = product(
        e
        for e, kind in zip(extents_of(schedule, block), kinds_of(schedule, block), strict=True)
        if kind == "R"
    )
    if terms <= MOST_UNROLLED:
        for loop in inner[place + 1 :]:
            if schedule.get(loop).kind != tirx.ForKind.VECTORIZED:
                schedule.unroll(loop)
    if place + 1 < len(inner):
        with contextlib.suppress(*FAILURES):
            schedule.decompose_reduction(block, inner[place + 1])
