"""Large windows over each channel by itself: pieces of rows in registers, their image in shared
memory.

A workgroup computes some rows of one channel or of several, and a thread neighbouring places of one
row. For each row of the window it takes what all of them read once, from a tile without
conditions; each weight is read once for all of them, and where the workgroup has one channel, once
for all threads.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Var
from tvm.s_tir import Schedule

from ..common import (
    NotThisKind,
    TargetLimits,
    blocks_of,
    extents_of,
    inline_all,
    is_reduction,
    kinds_of,
    product,
)
from .window import MOST_UNROLLED

MOST_VALUES = 64  # of a row that a thread holds
MOST_PRODUCTS = 512  # that are written out
# What takes how long, in multiply-adds of a thread: words from shared memory, which four SIMDs
# have together, and from the cache; a value on its way into the tile with its condition.
SHARED_WORD, CACHED_WORD, FETCH = 2.0, 4.0, 12.0
AT_ONCE = 8  # values that a thread fetches before it stores one
ENOUGH_WAVES = 8  # of a unit: two of a SIMD take turns


@dataclass(frozen=True)
class WindowRowShape:
    """How the outputs are spread.

    Attributes:
        planes: channels of a workgroup.
        rows: of each channel in a workgroup.
        along: neighbouring places of one thread.
        part: weights of a row whose values a thread holds at once.
    """

    planes: int
    rows: int
    along: int
    part: int


@dataclass(frozen=True)
class WindowRows:
    """What is summed.

    Attributes:
        planes, rows, width: of the result.
        window: weights of each sum, those along a row last.
        step, spread: pixels from one place to the next, and from one weight to the next.
        strides, spreads: the same from row to row.
        bytes: of a pixel.
    """

    planes: int
    rows: int
    width: int
    window: tuple[int, int]
    step: tuple[int, int]
    spread: tuple[int, int]
    bytes: int

    def reach(self, axis: int, places: int, weights: int) -> int:
        """Pixels that so many neighbouring places read with so many weights."""
        return (places - 1) * self.step[axis] + (weights - 1) * self.spread[axis] + 1


def shape_of(schedule: Schedule) -> WindowRows:
    """The sum of a kernel; spoils the schedule.

    Raises:
        NotThisKind: no sum over a window of each channel that is too large to be written out.
    """
    sums = [block for block in blocks_of(schedule) if is_reduction(schedule, block)]
    if len(sums) != 1:
        raise NotThisKind("has no sum, or several")
    return _form(schedule, sums[0])[0]


def _form(schedule: Schedule, block: Any) -> tuple[WindowRows, int]:
    """What is summed, and which tensor that is read is the image."""
    body = schedule.get(block)
    extents, kinds = extents_of(schedule, block), kinds_of(schedule, block)
    axes = [(axis.var, e) for axis, e in zip(body.iter_vars, extents, strict=True)]
    places = [each for each, kind in zip(axes, kinds, strict=True) if kind == "S"]
    summed = [each for each, kind in zip(axes, kinds, strict=True) if kind == "R"]
    terms = product(extent for _, extent in summed)
    if len(places) < 3 or len(summed) < 2 or kinds.strip("S").strip("R"):
        raise NotThisKind("is no window of images")
    if terms <= MOST_UNROLLED or product(e for _, e in summed[:-2]) > 1 or summed[-1][1] == 1:
        raise NotThisKind("is no large window of each channel")
    analyzer = sym.Analyzer()
    for number, region in enumerate(body.reads):
        steps = [
            [_slope(region.region[axis - 2].min, var, analyzer) for axis in (0, 1)]
            for var, _ in (*places[-2:], *summed[-2:])
        ] if len(region.region) >= 3 else []  # fmt: skip
        if not steps or any(None in each for each in steps):
            continue
        (down, aside), (over, step), (tall, wide), (high, spread) = steps
        if (aside, over, wide, high) == (0, 0, 0, 0) and min(down, step, tall, spread) > 0:
            size = tvm_ffi.dtype(str(region.source.ty.dtype.dtype)).itemsize
            rows = WindowRows(
                product(e for _, e in places[:-2]), places[-2][1], places[-1][1],
                (summed[-2][1], summed[-1][1]), (down, step), (tall, spread), size,
            )  # fmt: skip
            return rows, number
    raise NotThisKind("is no window of images")


def _slope(index: Any, variable: Any, analyzer: Any) -> Any:
    """By how much an index grows with a variable; None where that is no constant."""
    ahead = tvm_ffi.structural_map(
        index, [(Var, lambda var: variable + 1 if variable.same_as(var) else var)], order="post"
    )
    grown = analyzer.simplify(ahead - index)
    return int(grown.value) if isinstance(grown, tirx.IntImm) else None


def candidates(window: WindowRows, limits: TargetLimits) -> list[WindowRowShape]:
    """Every way to spread the outputs that the limits allow, the likeliest first; none for devices
    that kernels were timed on, which keep what they have."""
    if limits.device.measured:
        return []
    height, width = window.window
    part = next((n for n in _divisors(width)[::-1] if n <= MOST_VALUES // 2), 1)
    found = []
    for along, rows in itertools.product(_divisors(window.width), _divisors(window.rows)):
        strips = rows * (window.width // along)
        values = window.reach(1, along, part)
        if strips > limits.threads or values > MOST_VALUES or part * along > MOST_PRODUCTS:
            continue
        pixels = window.reach(0, rows, height) * window.reach(1, window.width, width)
        for planes in _divisors(window.planes) if rows == window.rows else [1]:
            threads, tile = planes * strips, planes * pixels * window.bytes
            if limits.wave // 2 <= threads <= limits.threads and tile <= limits.shared_bytes:
                found.append(WindowRowShape(planes, rows, along, part))
    return sorted(found, key=lambda shape: (_cost(window, shape, limits), shape.along))


def _cost(window: WindowRows, shape: WindowRowShape, limits: TargetLimits) -> float:
    """Of an output, in multiply-adds of a thread."""
    height, width = window.window
    threads = shape.planes * shape.rows * (window.width // shape.along)
    pixels = window.reach(0, shape.rows, height) * window.reach(1, window.width, width)
    tile = shape.planes * pixels
    values = window.reach(1, shape.along, shape.part)
    weights = 0 if shape.planes == 1 else CACHED_WORD * shape.part
    row = shape.part * shape.along + SHARED_WORD * values + weights
    thread = height * (width // shape.part) * row + FETCH * tile / threads
    waves = -(-threads // limits.wave)
    at_once = waves * (limits.device.units.shared_bytes // (tile * window.bytes))
    idle = waves * limits.wave / threads * max(1.0, ENOUGH_WAVES / at_once)
    return thread * idle / shape.along


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def schedule_window_rows(
    schedule: Schedule, limits: TargetLimits, shape: WindowRowShape | None = None
) -> None:
    """Schedules a sum over windows of each channel.

    Args:
        shape: how to spread the outputs; None chooses.

    Raises:
        NotThisKind: the kernel is no such sum, or has several outputs.
    """
    sums = [block for block in blocks_of(schedule) if is_reduction(schedule, block)]
    if len(sums) != 1:
        raise NotThisKind("has no sum, or several")
    window, image = _form(schedule, sums[0])
    shape = shape or next(iter(candidates(window, limits)), None)
    if shape is None:
        raise NotThisKind("fits no workgroup")
    source = schedule.get(sums[0]).reads[image].source
    makers = [
        block
        for block in schedule.get_producers(sums[0])
        if schedule.get(block).writes[0].source.same_as(source)
    ]
    # What makes the image, its pads most of all, is computed on the way into the tile.
    blocks = inline_all(schedule, makers[:1])
    outputs = [block for block in blocks if not schedule.get_consumers(block)]
    if len(outputs) != 1:
        raise NotThisKind("has several outputs")
    anchor, output = sums[0], outputs[0]
    if schedule.get(anchor).name_hint == schedule.get(output).name_hint:
        output = schedule.cache_write(anchor, 0, "local")
    if makers:
        tile = makers[0]
        schedule.set_scope(tile, 0, "shared")
    else:
        tile = schedule.cache_read(anchor, image, "shared")
    held = schedule.cache_read(anchor, image, "local")
    group, thread, part = _bind(schedule, anchor, shape)
    threads = shape.planes * shape.rows * (window.width // shape.along)
    schedule.compute_at(held, part, preserve_unit_loops=True)
    for loop in _within(schedule, held, part):
        schedule.unroll(loop)
    schedule.compute_at(tile, group, preserve_unit_loops=True)
    _fetch(schedule, tile, group, threads)
    schedule.set_scope(anchor, 0, "local")
    schedule.reverse_compute_at(output, thread, preserve_unit_loops=True)
    for loop in _within(schedule, output, thread):
        schedule.unroll(loop)
    schedule.decompose_reduction(anchor, _within(schedule, anchor, thread)[0])


def _bind(schedule: Schedule, block: Any, shape: WindowRowShape) -> tuple[Any, Any, Any]:
    """The loops over workgroups, threads, and parts of rows of the window."""
    kinds, loops = kinds_of(schedule, block), schedule.get_loops(block)
    places = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    summed = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    outer, planes = schedule.split(schedule.fuse(*places[:-2]), [None, shape.planes])
    above, rows = schedule.split(places[-2], [None, shape.rows])
    strips, own = schedule.split(places[-1], [None, shape.along])
    part, weights = schedule.split(summed[-1], [None, shape.part])
    schedule.reorder(outer, above, planes, rows, strips, *summed[:-1], part, weights, own)
    group, thread = schedule.fuse(outer, above), schedule.fuse(planes, rows, strips)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    schedule.unroll(weights)
    schedule.unroll(own)
    return group, thread, part


def _fetch(schedule: Schedule, tile: Any, group: Any, threads: int) -> None:
    """All threads fetch the tile, neighbours what lies side by side."""
    pixels = schedule.fuse(*_within(schedule, tile, group))
    _, together, thread = schedule.split(pixels, [None, AT_ONCE, threads])
    schedule.unroll(together)
    schedule.bind(thread, "threadIdx.x")


def _within(schedule: Schedule, block: Any, loop: Any) -> list[Any]:
    """The loops of a block inside of one of them."""
    loops, outer = schedule.get_loops(block), schedule.get(loop).loop_var
    place = [schedule.get(each).loop_var.same_as(outer) for each in loops].index(True)
    return list(loops[place + 1 :])
