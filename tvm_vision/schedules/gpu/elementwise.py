"""Kernels without sums: each thread computes one or a few outputs, whatever leads to it inlined."""

from __future__ import annotations

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
from .winograd import is_transform

VECTOR = 4


@dataclass(frozen=True)
class ElementwiseShape:
    """How the outputs are spread.

    Attributes:
        threads: threads of a workgroup.
        along: neighbouring outputs of one thread, along the last axis; computed as vectors.
    """

    threads: int = 256
    along: int = 1


def shape_of(schedule: Schedule) -> tuple[int, ...]:
    """The extents of the last output of a kernel; spoils the schedule.

    Raises:
        NotThisKind: the kernel has a sum.
    """
    return tuple(extents_of(schedule, _outputs(schedule)[-1]))


def default(extents: tuple[int, ...], limits: TargetLimits) -> ElementwiseShape:
    """A vector a thread where there are enough of them, else one output."""
    many = product(extents) >= limits.device.enough.outputs
    vectors = many and extents and extents[-1] % VECTOR == 0
    return ElementwiseShape(min(ElementwiseShape.threads, limits.threads), VECTOR if vectors else 1)


def candidates(extents: tuple[int, ...], limits: TargetLimits) -> list[ElementwiseShape]:
    """Every way to spread the outputs that the limits allow, the default first."""
    found = [default(extents, limits)]
    for threads in (64, 128, 256):
        for along in (1, 2, 4):
            shape = ElementwiseShape(threads, along)
            divides = along == 1 or (extents and extents[-1] % along == 0)
            if threads <= limits.threads and divides and shape not in found:
                found.append(shape)
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
        chosen = shape or default(_constant_extents(schedule, block), limits)
        bind_outputs(schedule, block, chosen)


def _constant_extents(schedule: Schedule, block: Any) -> tuple[int, ...]:
    """The extents of a block; none where one is no constant."""
    try:
        return tuple(extents_of(schedule, block))
    except NotThisKind:
        return ()


def _outputs(schedule: Schedule) -> list[Any]:
    if is_transform(schedule):
        raise NotThisKind("would compute a whole tile for each output")
    if any(is_reduction(schedule, block) for block in blocks_of(schedule)):
        raise NotThisKind("has a sum")
    return inline_all(schedule)


def bind_outputs(schedule: Schedule, block: Any, shape: ElementwiseShape) -> Any:
    """Spreads a block's loops over threads; returns the loop over the threads."""
    loops = schedule.get_loops(block) or [schedule.add_unit_loop(block)]
    last = schedule.get(loops[-1]).extent
    if isinstance(last, tirx.IntImm) and int(last) % shape.along == 0 and shape.along > 1:
        last, own = schedule.split(loops[-1], [None, shape.along])
        loops = [*loops[:-1], last]
        schedule.vectorize(own)
    group, thread = schedule.split(schedule.fuse(*loops), [None, shape.threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return thread
