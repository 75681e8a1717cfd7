"""Winograd's two transforms: a thread takes a tile of one channel, and keeps it in registers.

Neighbouring threads take neighbouring tiles, or with channels last neighbouring channels: what the
batched product reads and writes is then read and written side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from ...topi.winograd import TILES, TRANSFORM
from ..common import NotThisKind, TargetLimits, blocks_of, extents_of, is_reduction, product

SIZES = (32, 64, 128, 256)


@dataclass(frozen=True)
class TransformShape:
    """How the tiles are spread.

    Attributes:
        threads: threads of a workgroup.
        wide: a row of an output tile is written as one vector.
    """

    threads: int = 128
    wide: bool = False


@dataclass(frozen=True)
class Tiles:
    """What is transformed.

    Attributes:
        count: tiles, over all channels.
        even: rows of output pixels divide into tiles, so that a tile's can be written as vectors.
    """

    count: int
    even: bool


def shape_of(schedule: Schedule) -> Tiles:
    """The tiles of a transform.

    Raises:
        NotThisKind: the kernel is no transform.
    """
    last = _stages(schedule)[-1]
    count = product(extents_of(schedule, last)[:2])
    tiles, output = _output_tiles(schedule, last), extents_of(schedule, blocks_of(schedule)[-1])
    even = tiles is not None and tiles[0] + 2 == len(output) and output[-1] % tiles[1] == 0
    return Tiles(count, even)


def default(tiles: Tiles, limits: TargetLimits) -> TransformShape:
    """Smaller workgroups where there are few tiles, so that more of a GPU works.

    The last workgroup is full where that can be: else every statement stands under a condition.
    """
    wanted = min(128 if tiles.count >= limits.device.enough.transforms else 64, limits.threads)
    full = [n for n in SIZES if limits.wave <= n <= wanted and tiles.count % n == 0]
    return TransformShape(max(full, default=wanted), tiles.even)


def candidates(tiles: Tiles, limits: TargetLimits) -> list[TransformShape]:
    """Every way to spread the tiles that the limits allow, the default first."""
    first = default(tiles, limits)
    ways = (True, False) if tiles.even else (False,)
    sizes = [n for n in SIZES if limits.wave <= n <= limits.threads]
    others = [TransformShape(n, wide) for n in sizes for wide in ways]
    return [first, *(shape for shape in others if shape != first)]


def is_transform(schedule: Schedule) -> bool:
    """Whether a kernel is one of the two transforms, with whatever follows it."""
    return any(TRANSFORM in schedule.get(b).annotations for b in blocks_of(schedule))


def schedule_transform(
    schedule: Schedule, limits: TargetLimits, shape: TransformShape | None = None
) -> None:
    """Schedules a transform of an image or of an output, with whatever follows it.

    Args:
        shape: how to spread the tiles; None chooses.

    Raises:
        NotThisKind: another kernel.
        tvm.s_tir.ScheduleError: a kernel that resists; the schedule is then spoilt.
    """
    stages = _stages(schedule)
    found = shape_of(schedule)
    shape = shape or default(found, limits)
    if shape.wide and not found.even:
        raise NotThisKind("rows do not divide into tiles")
    own = [schedule.get(stage).name_hint for stage in stages]
    *others, output = blocks_of(schedule)
    if schedule.get_consumers(output) or any(is_reduction(schedule, b) for b in (*others, output)):
        raise NotThisKind("has a sum, or several outputs")
    for block in others:
        if schedule.get(block).name_hint not in own:
            schedule.compute_inline(block)
    tiles = _output_tiles(schedule, stages[-1])
    if tiles is None:
        within, *across = schedule.get_loops(output)
        inner = [within]
    else:
        across, inner = _loops_of_output(schedule, output, *tiles)
    schedule.reorder(*across, *inner)
    group, thread = schedule.split(schedule.fuse(*across), [None, shape.threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    for stage in reversed(stages):
        schedule.compute_at(stage, thread, preserve_unit_loops=True)
        schedule.set_scope(stage, 0, "local")
        for loop in schedule.get_loops(stage)[-2:]:
            schedule.unroll(loop)
    if shape.wide:
        schedule.vectorize(inner.pop())
    for loop in inner:
        schedule.unroll(loop)


def _stages(schedule: Schedule) -> list[Any]:
    """The blocks of a transform that go through registers, in order."""
    found = {}
    for block in blocks_of(schedule):
        place = schedule.get(block).annotations.get(TRANSFORM)
        if place is not None:
            found[int(place)] = block
    if not found:
        raise NotThisKind("is no transform of Winograd's")
    return [found[place] for place in sorted(found)]


def _output_tiles(schedule: Schedule, stage: Any) -> tuple[int, int] | None:
    """The axis of rows of an output transform, and m; None for that of an image."""
    found = schedule.get(stage).annotations.get(TILES)
    return None if found is None else (int(found[0]), int(found[1]))


def _loops_of_output(
    schedule: Schedule, output: Any, axis: int, m: int
) -> tuple[list[Any], list[Any]]:
    """The loops over tiles and channels, and those within a tile."""
    loops = schedule.get_loops(output)
    if len(loops) != 4:
        raise NotThisKind("the output is no image")
    inner = []
    for place in (axis, axis + 1):
        loops[place], own = schedule.split(loops[place], [None, m])
        inner.append(own)
    return loops, inner
