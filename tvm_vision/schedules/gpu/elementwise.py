"""Kernels without sums: each thread computes one or a few outputs, whatever leads to it inlined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from ..common import (
    NotThisKind,
    TargetLimits,
    blocks_of,
    extents_of,
    inline_all,
    is_reduction,
    product,
)
from .common_work import Work, of_tile, work_of
from .turns import turned_axis, turned_buffers
from .winograd import is_transform

VECTOR = 4
# Operations of a result below which memory holds up what it is part of, whatever is shared.
LEAST_WORK = 32
# How much less work several outputs have to be than as many alone.
LEAST_GAIN = 1.2
# Results of one thread along another axis than the last; operations that are written out for them.
MOST_ACROSS, MOST_WORK = 20, 1024
# Where a tensor is turned: threads whose results are written side by side before those of others
# that read the same neighbours, and fewest results of each thread.
BESIDE, LEAST_TURNED = 32, 4


@dataclass(frozen=True)
class Outputs:
    """What is computed.

    Attributes:
        extents: of the results.
        work: operations of one result by the axes that they depend on; None where it is not known
            what these are.
        turned: the axis along which what is read lies together, where that is not the last.
    """

    extents: tuple[int, ...]
    work: Work | None = None
    turned: int | None = None


@dataclass(frozen=True)
class ElementwiseShape:
    """How the outputs are spread.

    Attributes:
        threads: threads of a workgroup.
        along: neighbouring outputs of one thread, along the last axis; computed as vectors.
        across: outputs of one thread along another axis, written out one after the other: what
            they have in common is computed once.
        axis: which one that is.
        beside: threads along the last axes that come before the next ones along that axis, so that
            a workgroup reads what lies together, whichever axis it lies along; 1 for all of them.
    """

    threads: int = 256
    along: int = 1
    across: int = 1
    axis: int = 0
    beside: int = 1


def shape_of(schedule: Schedule) -> Outputs:
    """The last output of a kernel; spoils the schedule.

    Raises:
        NotThisKind: the kernel has a sum.
    """
    return _computed(schedule, _outputs(schedule)[-1])


def default(outputs: Outputs, limits: TargetLimits) -> ElementwiseShape:
    """Where there are enough outputs, several along another axis than the last for a thread, if
    these have much in common, and else a vector; one output where there are few.
    """
    extents, threads = outputs.extents, min(ElementwiseShape.threads, limits.threads)
    across = next(_across(outputs, limits), None)
    if across is not None:
        return ElementwiseShape(threads, 1, *across)
    turned = _turned(outputs, limits)
    if turned is not None:
        return replace(turned, threads=threads)
    many = product(extents) >= limits.device.enough.outputs
    vectors = many and extents and extents[-1] % VECTOR == 0
    return ElementwiseShape(threads, VECTOR if vectors else 1)


def _across(outputs: Outputs, limits: TargetLimits) -> Iterator[tuple[int, int]]:
    """How many outputs along which axis are less work together than vectors are, the best first.

    A thread's own place, and what gathers a vector, are not in the estimate of either. Where
    kernels were timed, fewer threads than outputs of a kernel of vectors lost 1 to 2.5 µs each.
    """
    extents, work = outputs.extents, outputs.work
    last = len(extents) - 1
    threads = limits.device.enough.outputs // (1 if limits.device.measured else VECTOR)
    if work is None or last < 1:
        return
    vectors = of_tile(work, {last: VECTOR if extents[last] % VECTOR == 0 else 1})
    most = min(vectors, of_tile(work, {}) / LEAST_GAIN)
    if vectors < LEAST_WORK:
        return
    found = []
    for axis, extent in enumerate(extents[:-1]):
        for across in range(2, min(extent, MOST_ACROSS) + 1):
            each = of_tile(work, {axis: across})
            fits = extent % across == 0 and product(extents) >= threads * across
            if fits and each <= most and each * across <= MOST_WORK:
                found.append((each, across, axis))
    yield from ((across, axis) for _, across, axis in sorted(found))


def _turned(outputs: Outputs, limits: TargetLimits) -> ElementwiseShape | None:
    """Several neighbours of what is read for a thread, and of what is written for its neighbours;
    None where nothing is turned, or nothing divides its axis."""
    extents, axis = outputs.extents, outputs.turned
    if axis is None:
        return None
    fits = [n for n in range(LEAST_TURNED, MOST_ACROSS + 1) if extents[axis] % n == 0]
    if not fits or product(extents) < limits.device.enough.outputs // VECTOR * fits[-1]:
        return None
    return ElementwiseShape(ElementwiseShape.threads, 1, fits[-1], axis, BESIDE)


def keeps_few(outputs: Outputs, shape: ElementwiseShape) -> bool:
    """Whether a thread keeps few values: places and weights of several outputs are many."""
    return shape.across == 1


def candidates(outputs: Outputs, limits: TargetLimits) -> list[ElementwiseShape]:
    """Every way to spread the outputs that the limits allow, the default first."""
    extents = outputs.extents
    found = [default(outputs, limits)]
    across = list(_across(outputs, limits))
    turned = _turned(outputs, limits)
    for threads in (64, 128, 256):
        shapes = [ElementwiseShape(threads, 1, *each) for each in across]
        if turned is not None:
            shapes.append(replace(turned, threads=threads))
        for along in (1, 2, 4):
            if along == 1 or (extents and extents[-1] % along == 0):
                shapes.append(ElementwiseShape(threads, along))
        if threads <= limits.threads:
            found += [shape for shape in shapes if shape not in found]
    return found


def schedule_elementwise(
    schedule: Schedule, limits: TargetLimits, shape: ElementwiseShape | None = None
) -> None:
    """Schedules elementwise kernels, copies, concatenations, pads, resizes, gathers.

    Args:
        shape: how to spread the outputs; None chooses.

    Raises:
        NotThisKind: the kernel has a sum.
    """
    for block in _outputs(schedule):
        chosen = shape or default(_known(schedule, block), limits)
        bind_outputs(schedule, block, chosen)


def _known(schedule: Schedule, block: Any) -> Outputs:
    """What a block computes; without extents where one is no constant."""
    try:
        return _computed(schedule, block)
    except NotThisKind:
        return Outputs(())


def _computed(schedule: Schedule, block: Any) -> Outputs:
    extents, body = tuple(extents_of(schedule, block)), schedule.get(block)
    if not isinstance(body.body, tirx.BufferStore):
        return Outputs(extents)
    value, axes = body.body.value, [axis.var for axis in body.iter_vars]
    return Outputs(extents, work_of(value, axes), turned_axis(value, axes, extents))


def _outputs(schedule: Schedule) -> list[Any]:
    if is_transform(schedule):
        raise NotThisKind("would compute a whole tile for each output")
    if any(is_reduction(schedule, block) for block in blocks_of(schedule)):
        raise NotThisKind("has a sum")
    return inline_all(schedule)


def bind_outputs(schedule: Schedule, block: Any, shape: ElementwiseShape) -> Any:
    """Spreads a block's loops over threads; returns the loop over the threads."""
    loops = schedule.get_loops(block) or [schedule.add_unit_loop(block)]
    own = _own_across(schedule, loops, shape)
    last = schedule.get(loops[-1]).extent
    if isinstance(last, tirx.IntImm) and int(last) % shape.along == 0 and shape.along > 1:
        last, vector = schedule.split(loops[-1], [None, shape.along])
        loops = [*loops[:-1], last]
        schedule.vectorize(vector)
    if own is not None:
        schedule.reorder(*loops, own)
        if shape.beside > 1:
            loops = _beside(schedule, loops, shape.axis, shape.beside)
    group, thread = schedule.split(schedule.fuse(*loops), [None, shape.threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    if own is not None and shape.beside > 1:
        _fetch_neighbours(schedule, block, thread, shape)
    return thread


def _fetch_neighbours(schedule: Schedule, block: Any, thread: Any, shape: ElementwiseShape) -> None:
    """Has a thread fetch what it reads of turned tensors first, in vectors."""
    body = schedule.get(block)
    axes = [axis.var for axis in body.iter_vars]
    extents = [int(axis.dom.extent) for axis in body.iter_vars]
    lanes = next((n for n in (VECTOR, 2) if shape.across % n == 0), 1)
    if lanes == 1:
        return
    for buffer in turned_buffers(body.body.value, axes, extents, shape.axis):
        place = next(i for i, read in enumerate(body.reads) if read.source.same_as(buffer))
        fetched = schedule.cache_read(block, place, "local")
        schedule.compute_at(fetched, thread)
        loop = schedule.fuse(*schedule.get_loops(fetched)[2:])
        loop, vector = schedule.split(loop, [None, lanes])
        schedule.unroll(loop)
        schedule.vectorize(vector)


def _beside(schedule: Schedule, loops: list[Any], axis: int, beside: int) -> list[Any]:
    """Cuts the loops so that so many threads along all other axes come before the next ones along
    this."""
    others = [loop for at, loop in enumerate(loops) if at != axis]
    schedule.reorder(*others, loops[axis])
    outer, inner = schedule.split(schedule.fuse(*others), [None, beside])
    schedule.reorder(outer, loops[axis], inner)
    return [outer, loops[axis], inner]


def _own_across(schedule: Schedule, loops: list[Any], shape: ElementwiseShape) -> Any:
    """Cuts a thread's outputs off the loop of their axis, which takes the place of that loop in
    ``loops``; returns their loop, None where there is one output."""
    if shape.across == 1 or shape.axis >= len(loops) - 1:
        return None
    extent = schedule.get(loops[shape.axis]).extent
    if not isinstance(extent, tirx.IntImm) or int(extent) % shape.across:
        return None
    loops[shape.axis], own = schedule.split(loops[shape.axis], [None, shape.across])
    schedule.unroll(own)
    return own
