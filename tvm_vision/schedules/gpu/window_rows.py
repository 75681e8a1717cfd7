"""Windows that few results are made of: pieces of rows in registers, their image in shared memory.

Large windows over each channel by itself, and sums over all channels with few results a pixel, as
the last layers of networks that make images have them. A workgroup computes a part of the rows of
one plane, or several planes, and a thread neighbouring places of one row, all results of them. For
each row of the window it takes what all of them read once, from a tile without conditions; each
weight is read once for all of them, and where the workgroup has the same for all planes, once for
all threads. Of several channels a few are in shared memory at a time.
"""

from __future__ import annotations

import itertools
import math
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
    up,
)
from .window import MOST_UNROLLED

HALF = 2  # bytes of float16
MOST_VALUES = 64  # of a row that a thread holds
MOST_RESULTS = 8  # of a pixel, of sums over channels
MOST_PACKED_RESULTS = 5  # where products of fp16 add up two at once, which these here do not
# Threads of more than so many results run in narrow subgroups where drivers choose these: so many
# times the places that occupy a device otherwise keep it busy.
FEW_RESULTS, NARROW = 4, 5
MOST_SUMS = 32  # of a thread
MOST_CHANNELS = 8  # in shared memory
MOST_PRODUCTS = 512  # that are written out
# What takes how long, in multiply-adds of a thread: words from shared memory, which four SIMDs
# have together, and from the cache; a value on its way into the tile with its condition.
SHARED_WORD, CACHED_WORD, FETCH = 2.0, 4.0, 12.0
# Of a thread, where there are several tiles: what says whether each is a pixel stays in registers.
MOST_HELD = 10
MOST_TURNS, AT_ONCE = 32, 8  # values that a thread fetches, written out: all of them, or so many
BARRIERS = 160.0  # and both waits for the others of a workgroup, at each tile
ENOUGH_WAVES = 8  # of a unit: two of a SIMD take turns


@dataclass(frozen=True)
class WindowRowShape:
    """How the outputs are spread.

    Attributes:
        planes: of a workgroup.
        rows: of each plane in a workgroup.
        along: neighbouring places of one thread.
        part: weights of a row whose values a thread holds at once.
        strips: threads of a workgroup along a row.
        channels: whose pixels are in shared memory at once.
    """

    planes: int
    rows: int
    along: int
    part: int
    strips: int
    channels: int = 1

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return self.planes * self.rows * self.strips


@dataclass(frozen=True)
class WindowRows:
    """What is summed.

    Attributes:
        planes, rows, width: of the result; planes are read each from its own.
        window: weights of each sum, those along a row last.
        step, spread: pixels from one place to the next, and from one weight to the next, down and
            along a row.
        bytes: of a pixel.
        results: of the same pixels.
        channels: that are summed up, each at each place of other axes of the window.
        beside: of these, as many neighbours as are along one axis.
    """

    planes: int
    rows: int
    width: int
    window: tuple[int, int]
    step: tuple[int, int]
    spread: tuple[int, int]
    bytes: int
    results: int = 1
    channels: int = 1
    beside: int = 1

    def reach(self, axis: int, places: int, weights: int) -> int:
        """Pixels that so many neighbouring places read with so many weights."""
        return (places - 1) * self.step[axis] + (weights - 1) * self.spread[axis] + 1


def shape_of(schedule: Schedule) -> WindowRows:
    """The sum of a kernel; spoils the schedule.

    Raises:
        NotThisKind: no sum over windows that is too large to be written out, or one with many
            results of the same pixels.
    """
    sums = [block for block in blocks_of(schedule) if is_reduction(schedule, block)]
    if len(sums) != 1:
        raise NotThisKind("has no sum, or several")
    return _form(schedule, sums[0]).window


@dataclass(frozen=True)
class _Form:
    """What is summed, which tensor that is read is the image, and which axes of the result are of
    the same pixels."""

    window: WindowRows
    image: int
    results: tuple[int, ...]


def _form(schedule: Schedule, block: Any) -> _Form:
    body = schedule.get(block)
    extents, kinds = extents_of(schedule, block), kinds_of(schedule, block)
    axes = [(axis.var, e) for axis, e in zip(body.iter_vars, extents, strict=True)]
    places = [each for each, kind in zip(axes, kinds, strict=True) if kind == "S"]
    summed = [each for each, kind in zip(axes, kinds, strict=True) if kind == "R"]
    terms = product(extent for _, extent in summed)
    if len(places) < 3 or len(summed) < 2 or kinds.strip("S").strip("R"):
        raise NotThisKind("is no window of images")
    if terms <= MOST_UNROLLED or summed[-1][1] == 1:
        raise NotThisKind("is no large window")
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
            outer = [place for place, _ in places[:-2]]
            own = [n for n, place in enumerate(outer) if not _reads(region, place)]
            results = product(places[n][1] for n in own)
            channels = product(e for _, e in summed[:-2])
            others = [each for each in body.reads if not each.source.same_as(region.source)]
            grouped = any(
                _reads(each, place) and extent > 1
                for n, (place, extent) in enumerate(places[:-2])
                for each in others
                if n not in own
            )
            if results > MOST_RESULTS or (channels > 1 and grouped):
                raise NotThisKind("has many results of the same pixels, or sums of groups")
            size = tvm_ffi.dtype(str(region.source.ty.dtype.dtype)).itemsize
            several = [e for _, e in summed[:-2] if e > 1]
            window = WindowRows(
                product(e for _, e in places[:-2]) // results, places[-2][1], places[-1][1],
                (summed[-2][1], summed[-1][1]), (down, step), (tall, spread), size, results,
                channels, several[-1] if several else 1,
            )  # fmt: skip
            return _Form(window, number, tuple(own))
    raise NotThisKind("is no window of images")


def _reads(region: Any, variable: Any) -> bool:
    """Whether where a tensor is read depends on a variable."""
    found: list[Any] = []
    for each in region.region:
        tvm_ffi.structural_walk(each.min, (Var, found.append))
    return any(variable.same_as(each) for each in found)


def _slope(index: Any, variable: Any, analyzer: Any) -> Any:
    """By how much an index grows with a variable; None where that is no constant."""
    ahead = tvm_ffi.structural_map(
        index, [(Var, lambda var: variable + 1 if variable.same_as(var) else var)], order="post"
    )
    grown = analyzer.simplify(ahead - index)
    return int(grown.value) if isinstance(grown, tirx.IntImm) else None


def candidates(window: WindowRows, limits: TargetLimits) -> list[WindowRowShape]:
    """Every way to spread the outputs that the limits allow, the likeliest first; none of sums over
    channels for devices that products were timed on, which keep what they have, nor at so few
    places that each needs several threads, nor of more results than are few there."""
    summed = window.channels * window.results > 1
    places = window.planes * window.rows * window.width
    if summed and (limits.device.measured or places < _least_places(window, limits)):
        return []
    width = window.window[1]
    part = next((n for n in _divisors(width)[::-1] if n <= MOST_VALUES // 2), 1)
    rows_of, channels_of = _divisors(window.rows), _divisors(window.beside)
    found = []
    for along in _divisors(window.width):
        each = along * window.results
        if window.reach(1, along, part) > MOST_VALUES or part * each > MOST_PRODUCTS:
            continue
        if summed and each > MOST_SUMS:
            continue
        whole = window.width // along
        for rows, strips in itertools.product(rows_of, _divisors(whole)):
            if rows * strips > limits.threads:
                continue
            apart = summed or (rows, strips) != (window.rows, whole)
            for planes, channels in itertools.product(
                [1] if apart else _divisors(window.planes),
                [n for n in channels_of if n <= MOST_CHANNELS],
            ):
                shape = WindowRowShape(planes, rows, along, part, strips, channels)
                threads, tile = shape.threads, _pixels(window, shape) * window.bytes
                turns = up(_pixels(window, shape), threads)
                if summed and turns > MOST_HELD:
                    continue
                if limits.wave // 2 <= threads <= limits.threads and tile <= limits.shared_bytes:
                    found.append(shape)
    return sorted(found, key=lambda shape: (_cost(window, shape, limits), shape.along))


def _least_places(window: WindowRows, limits: TargetLimits) -> float:
    """Of a sum over channels that is not left to products."""
    device = limits.device
    if window.results <= FEW_RESULTS:
        return device.enough.rows
    if device.packed_fp16 and window.bytes == HALF and window.results > MOST_PACKED_RESULTS:
        return math.inf
    return device.enough.rows * (NARROW if device.wide_subgroups else 1)


def _pixels(window: WindowRows, shape: WindowRowShape) -> int:
    """In shared memory at once."""
    places = shape.strips * shape.along
    tile = window.reach(0, shape.rows, window.window[0]) * window.reach(1, places, window.window[1])
    return shape.planes * shape.channels * tile


def _cost(window: WindowRows, shape: WindowRowShape, limits: TargetLimits) -> float:
    """Of a unit, for each channel, in multiply-adds of a wave."""
    height, width = window.window
    threads, tile, units = shape.threads, _pixels(window, shape), limits.device.units
    values = window.reach(1, shape.along, shape.part)
    weights = 0 if shape.planes == 1 else CACHED_WORD * shape.part
    row = shape.part * shape.along * window.results + SHARED_WORD * values + weights
    fetched = FETCH * tile / threads + (BARRIERS if window.channels > 1 else 0)
    thread = height * (width // shape.part) * row + fetched / shape.channels
    waves = up(threads, limits.wave)
    groups = up(window.planes * window.rows * window.width // (threads * shape.along), units.count)
    at_once = waves * min(units.shared_bytes // (tile * window.bytes), groups)
    return groups * waves * thread * max(1.0, ENOUGH_WAVES / at_once)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def schedule_window_rows(
    schedule: Schedule, limits: TargetLimits, shape: WindowRowShape | None = None
) -> None:
    """Schedules a sum over windows that few results are made of.

    Args:
        shape: how to spread the outputs; None chooses.

    Raises:
        NotThisKind: the kernel is no such sum, or has several outputs.
    """
    sums = [block for block in blocks_of(schedule) if is_reduction(schedule, block)]
    if len(sums) != 1:
        raise NotThisKind("has no sum, or several")
    form = _form(schedule, sums[0])
    shape = shape or next(iter(candidates(form.window, limits)), None)
    if shape is None:
        raise NotThisKind("fits no workgroup")
    source = schedule.get(sums[0]).reads[form.image].source
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
        tile = schedule.cache_read(anchor, form.image, "shared")
    held = schedule.cache_read(anchor, form.image, "local")
    thread, step, part = _bind(schedule, anchor, shape, form.results)
    schedule.compute_at(held, part, preserve_unit_loops=True)
    for loop in _within(schedule, held, part):
        schedule.unroll(loop)
    schedule.compute_at(tile, step, preserve_unit_loops=True)
    _fetch(schedule, tile, step, shape.threads)
    schedule.set_scope(anchor, 0, "local")
    schedule.reverse_compute_at(output, thread, preserve_unit_loops=True)
    for loop in _within(schedule, output, thread):
        schedule.unroll(loop)
    schedule.decompose_reduction(anchor, _within(schedule, anchor, thread)[0])


def _bind(
    schedule: Schedule, block: Any, shape: WindowRowShape, results: tuple[int, ...]
) -> tuple[Any, Any, Any]:
    """The loops over threads, tiles, and parts of rows of the window."""
    kinds, loops = kinds_of(schedule, block), schedule.get_loops(block)
    places = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    summed = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    same = [places[n] for n in results]
    apart = [place for n, place in enumerate(places[:-2]) if n not in results]
    schedule.reorder(*apart, *same)
    first = schedule.fuse(*apart) if apart else schedule.add_unit_loop(loops[0])
    outer, planes = schedule.split(first, [None, shape.planes])
    above, rows = schedule.split(places[-2], [None, shape.rows])
    before, strips, own = schedule.split(places[-1], [None, shape.strips, shape.along])
    part, weights = schedule.split(summed[-1], [None, shape.part])
    tiles = schedule.fuse(*summed[:-2]) if summed[:-2] else schedule.add_unit_loop(summed[-2])
    step, channels = schedule.split(tiles, [None, shape.channels])
    schedule.reorder(
        outer, above, before, planes, rows, strips,
        step, channels, summed[-2], part, weights, *same, own,
    )  # fmt: skip
    schedule.bind(schedule.fuse(outer, above, before), "blockIdx.x")
    thread = schedule.fuse(planes, rows, strips)
    schedule.bind(thread, "threadIdx.x")
    for loop in (weights, *same, own):
        schedule.unroll(loop)
    return thread, step, part


def _fetch(schedule: Schedule, tile: Any, step: Any, threads: int) -> None:
    """All threads fetch the tile, neighbours what lies side by side. Where all turns are written
    out, none but the last needs a condition for where the tile ends."""
    pixels = schedule.fuse(*_within(schedule, tile, step))
    turns = up(int(schedule.get(pixels).extent), threads)
    together = turns if turns <= MOST_TURNS else AT_ONCE
    _, turn, thread = schedule.split(pixels, [None, together, threads])
    schedule.unroll(turn)
    schedule.bind(thread, "threadIdx.x")


def _within(schedule: Schedule, block: Any, loop: Any) -> list[Any]:
    """The loops of a block inside of one of them."""
    loops, outer = schedule.get_loops(block), schedule.get(loop).loop_var
    place = [schedule.get(each).loop_var.same_as(outer) for each in loops].index(True)
    return list(loops[place + 1 :])
