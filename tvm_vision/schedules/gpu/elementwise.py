"""Kernels without sums: each thread computes one or a few outputs, whatever leads to it inlined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from .winograd import is_transform

VECTOR = 4
# Operations of a result below which memory holds up what it is part of, whatever is shared.
LEAST_WORK = 32
# How much less work several outputs have to be than as many alone.
LEAST_GAIN = 1.2
# Results of one thread along another axis than the last; operations that are written out for them.
MOST_ACROSS, MOST_WORK = 20, 1024


@dataclass(frozen=True)
class Outputs:
    """What is computed: its extents, and operations of one result by the axes that they depend on;
    None where it is not known what these are."""

    extents: tuple[int, ...]
    work: Work | None = None


@dataclass(frozen=True)
class ElementwiseShape:
    """How the outputs are spread.

    Attributes:
        threads: threads of a workgroup.
        along: neighbouring outputs of one thread, along the last axis; computed as vectors.
        across: outputs of one thread along another axis, written out one after the other: what
            they have in common is computed once.
        axis: which one that is.
    """

    threads: int = 256
    along: int = 1
    across: int = 1
    axis: int = 0


def shape_of(schedule: Schedule) -> Outputs:
    """The last output of a kernel; spoils the schedule.

    Raises:
        NotThisKind: the kernel has a sum.
    """
    block = _outputs(schedule)[-1]
    return Outputs(tuple(extents_of(schedule, block)), _work(schedule, block))


def default(outputs: Outputs, limits: TargetLimits) -> ElementwiseShape:
    """Where there are enough outputs, several along another axis than the last for a thread, if
    these have much in common, and else a vector; one output where there are few.

    Devices that kernels were timed on keep the vectors that they had.
    """
    extents, threads = outputs.extents, min(ElementwiseShape.threads, limits.threads)
    if not limits.device.measured:
        across = next(_across(outputs, limits), None)
        if across is not None:
            return ElementwiseShape(threads, 1, *across)
    many = product(extents) >= limits.device.enough.outputs
    vectors = many and extents and extents[-1] % VECTOR == 0
    return ElementwiseShape(threads, VECTOR if vectors else 1)


def _across(outputs: Outputs, limits: TargetLimits) -> Iterator[tuple[int, int]]:
    """How many outputs along which axis are less work together than vectors are, the best first.

    A thread's own place, and what gathers a vector, are not in the estimate of either.
    """
    extents, work = outputs.extents, outputs.work
    last = len(extents) - 1
    threads = limits.device.enough.outputs // VECTOR
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


def keeps_few(outputs: Outputs, shape: ElementwiseShape) -> bool:
    """Whether a thread keeps few values: places and weights of several outputs are many."""
    return shape.across == 1


def candidates(outputs: Outputs, limits: TargetLimits) -> list[ElementwiseShape]:
    """Every way to spread the outputs that the limits allow, the default first."""
    extents = outputs.extents
    found = [default(outputs, limits)]
    across = list(_across(outputs, limits))
    for threads in (64, 128, 256):
        shapes = [ElementwiseShape(threads, 1, *each) for each in across]
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
        return Outputs(tuple(extents_of(schedule, block)), _work(schedule, block))
    except NotThisKind:
        return Outputs(())


def _work(schedule: Schedule, block: Any) -> Work | None:
    body = schedule.get(block)
    if not isinstance(body.body, tirx.BufferStore):
        return None
    return work_of(body.body.value, [axis.var for axis in body.iter_vars])


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
    group, thread = schedule.split(schedule.fuse(*loops), [None, shape.threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return thread


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
