"""Products of one row that follow each other: gates of squeeze-excite, small perceptrons.

Each workgroup computes all of each product but the last, whose results it keeps in shared memory,
and some results of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var
from tvm.s_tir import Schedule

from ..common import (
    NotThisKind,
    TargetLimits,
    blocks_of,
    constant_integer,
    extents_of,
    follows,
    inline_producers,
    is_reduction,
    kinds_of,
    largest_divisor,
    power_of_two_up_to,
    product,
    up,
)
from .reduction import reads_along_rows

MOST_THREADS = 512
ENOUGH_THREADS = 128  # more of them are worth more than vectors
MOST_LANES = 64
MOST_ROWS = 64
SHORT = 256  # terms, up to which a thread adds up a sum alone
TOGETHER = 20  # loads that a thread has under way, and numbers
MOST_TOGETHER = 96
VECTORS = (8, 4, 2, 1)  # neighbours that a thread fetches at once
# How a product is spread: a thread adds up a sum alone, or neighbouring threads do together, or
# rows of threads do, where neighbouring results lie together in memory.
ALONE, LANES_ADD, ROWS_ADD = "alone", "lanes", "rows"
MOST_OF_LAST = 4  # computed again, of all workgroups together, beside the last product
# Weights of the products that each workgroup computes again: on GPUs that kernels were timed on, by
# Intel's model, and by AMD's.
MOST_TIMED, MOST_AGAIN, MOST_OF_AMD = 20_000, 1 << 15, 1 << 16
AMD_LANES = 64
ONE_BY_ONE = 2  # times as long for weights that a thread fetches number by number


@dataclass(frozen=True)
class ChainShape:
    """How threads are spread.

    Attributes:
        lanes: neighbouring threads, along what lies together in memory.
        rows: of such threads.
    """

    lanes: int
    rows: int

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return self.lanes * self.rows


@dataclass(frozen=True)
class RowProduct:
    """One of the products.

    Attributes:
        terms: elements of its row.
        results: what it comes to.
        along_rows: neighbouring results, not neighbouring terms, are neighbours in memory.
    """

    terms: int
    results: int
    along_rows: bool

    @property
    def weights(self) -> int:
        """Of its matrix."""
        return self.terms * self.results

    def way(self, shape: ChainShape) -> str:
        """How it is spread over threads."""
        many = 2 * self.results > shape.threads
        if self.along_rows:
            return ALONE if many or self.terms < shape.rows else ROWS_ADD
        return ALONE if self.terms < shape.lanes or (many and self.terms <= SHORT) else LANES_ADD


@dataclass(frozen=True)
class Chain:
    """What is computed: products, in order."""

    products: tuple[RowProduct, ...]

    @property
    def again(self) -> int:
        """Weights of what each workgroup computes."""
        return sum(each.weights for each in self.products[:-1])


def worth_joining(products: Sequence[RowProduct], limits: TargetLimits) -> bool:
    """Whether products, in order, are sooner done as one kernel."""
    most = MOST_OF_AMD if limits.subgroup == AMD_LANES else MOST_AGAIN
    most = MOST_TIMED if limits.device.measured else most
    again = sum(p.weights * (ONE_BY_ONE if p.along_rows else 1) for p in products[:-1])
    return again <= most


def shape_of(schedule: Schedule) -> Chain:
    """The products of a kernel.

    Raises:
        NotThisKind: it is no chain of them.
    """
    return Chain(tuple(_product_of(schedule, block) for block in _sums(schedule)))


def _product_of(schedule: Schedule, block: Any) -> RowProduct:
    results = _results(schedule, block)
    terms = product(extents_of(schedule, block)) // results
    return RowProduct(terms, results, reads_along_rows(schedule, block))


def default(chain: Chain, limits: TargetLimits) -> ChainShape:
    """As suits the product with the most weights of those that each workgroup computes."""
    return _fitting(max(chain.products[:-1], key=lambda p: p.weights), limits, MOST_THREADS)


def _fitting(product: RowProduct, limits: TargetLimits, threads: int) -> ChainShape:
    """Threads that results and terms divide evenly into, as no load is under a condition then."""
    most = power_of_two_up_to(min(threads, limits.threads))
    if product.along_rows:
        lanes = min(most, 32)
        return ChainShape(lanes, most // lanes)
    rows = largest_divisor(product.results, min(MOST_ROWS, most))
    shapes = []
    for together in VECTORS:
        lanes = min(MOST_LANES, power_of_two_up_to(most // rows))
        while product.terms % (lanes * together):
            lanes //= 2
            if not lanes:
                break
        shapes.append(ChainShape(max(1, lanes), rows))
    return next(
        (shape for shape in shapes if shape.threads >= min(ENOUGH_THREADS, most)),
        max(shapes, key=lambda shape: shape.threads),
    )


def candidates(chain: Chain, limits: TargetLimits) -> list[ChainShape]:
    """Every way to spread the threads, the likeliest first."""
    found = [default(chain, limits)]
    for each in chain.products[:-1]:
        for threads in (256, 512, 1024):
            shape = _fitting(each, limits, threads)
            if shape not in found:
                found.append(shape)
    return found


def schedule_chain(
    schedule: Schedule, limits: TargetLimits, shape: ChainShape | None = None
) -> None:
    """Schedules products of one row, each but the first of what was made of the one before.

    Args:
        shape: how to spread the threads; None chooses.

    Raises:
        NotThisKind: no such kernel.
        tvm.s_tir.ScheduleError: a kernel that resists; the schedule is then spoilt.
    """
    chain = shape_of(schedule)
    _Scheduling(schedule, chain, shape or default(chain, limits)).scheduled()


class _Scheduling:
    """The steps of a schedule."""

    def __init__(self, schedule: Schedule, chain: Chain, shape: ChainShape) -> None:
        self._schedule = schedule
        self._chain = chain
        self._shape = shape
        self._sums = _sums(schedule)

    def scheduled(self) -> None:
        """Schedules the kernel."""
        schedule, before = self._schedule, self._sums[:-1]
        rows = [self._row(block, by) for by, block in zip(before, self._sums[1:], strict=True)]
        inline_producers(schedule, self._sums[0])
        output = self._output()
        group = self._spread_output(output)
        for block, row in reversed(list(zip(before, rows, strict=True))):
            schedule.set_scope(row, 0, "shared")
            schedule.compute_at(row, group, preserve_unit_loops=True)
            lane = self._over_threads(self._own_loops(row))
            if self._product(block).way(self._shape) == ALONE:
                self._add_alone(block, lane)
            else:
                self._add_up(block, group)

    def _row(self, block: Any, before: Any) -> Any:
        """The block that makes the row of a product of the product before it."""
        schedule = self._schedule
        name = schedule.get(before).name_hint
        found = None
        for producer in schedule.get_producers(block):
            if schedule.get(producer).name_hint == name:
                written = schedule.get(producer).writes[0].source
                reads = [read.source.same_as(written) for read in schedule.get(block).reads]
                found = schedule.cache_read(block, reads.index(True), "shared")
            elif follows(schedule, producer, name):
                found = producer
        if found is None or any(
            is_reduction(schedule, producer) and schedule.get(producer).name_hint != name
            for producer in schedule.get_producers(found)
        ):
            raise NotThisKind("has products that do not follow each other")
        inline_producers(schedule, block, schedule.get(found).name_hint)
        inline_producers(schedule, found)
        return found

    def _output(self) -> Any:
        """The block that writes what is made of the last product."""
        schedule, last = self._schedule, self._sums[-1]
        outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
        if len(outputs) != 1:
            raise NotThisKind("has several outputs")
        if is_reduction(schedule, outputs[0]):
            return schedule.cache_write(last, 0, "local")
        inline_producers(schedule, outputs[0])
        if product(extents_of(schedule, outputs[0])) != _results(schedule, last):
            raise NotThisKind("has more results than its last product")
        return outputs[0]

    def _spread_output(self, output: Any) -> Any:
        """Binds the results of the last product; returns the loop over workgroups."""
        schedule, shape, last = self._schedule, self._shape, self._sums[-1]
        way = self._chain.products[-1].way(shape)
        each = {ALONE: shape.threads, LANES_ADD: shape.rows, ROWS_ADD: shape.lanes}[way]
        turns = up(up(self._chain.products[-1].results, each), self._groups(each))
        fused = schedule.fuse(*schedule.get_loops(output))
        group, _, own = schedule.split(fused, [None, turns, each])
        schedule.bind(group, "blockIdx.x")
        if way == ALONE:
            row, lane = schedule.split(own, [shape.rows, shape.lanes])
            schedule.bind(row, "threadIdx.y")
            schedule.bind(lane, "threadIdx.x")
            self._add_alone(last, lane)
            return group
        # One of the threads that add a sum up writes what is made of it.
        axes = [("threadIdx.y", "threadIdx.x"), ("threadIdx.x", "threadIdx.y")]
        own_axis, other_axis = axes[way == ROWS_ADD]
        own, unit = schedule.split(own, [None, 1])
        schedule.bind(own, own_axis)
        _, other = schedule.split(unit, [None, shape.lanes if way == LANES_ADD else shape.rows])
        schedule.bind(other, other_axis)
        self._add_up(last, group)
        return group

    def _groups(self, each: int) -> int:
        """Workgroups: as many as there are results for, but few where what each computes again is
        much beside the last product."""
        last = self._chain.products[-1]
        most = max(1, MOST_OF_LAST * last.weights // self._chain.again)
        return min(up(last.results, each), most)

    def _own_loops(self, block: Any) -> list[Any]:
        count = len(self._schedule.get(block).iter_vars)
        return list(self._schedule.get_loops(block))[-count:]

    def _over_threads(self, loops: list[Any]) -> Any:
        """Spreads loops over all threads; returns the innermost."""
        schedule, shape = self._schedule, self._shape
        cut = [None, shape.rows, shape.lanes]
        _, row, lane = schedule.split(schedule.fuse(*loops), cut)
        schedule.bind(row, "threadIdx.y")
        schedule.bind(lane, "threadIdx.x")
        return lane

    def _add_up(self, block: Any, group: Any) -> None:
        """Spreads the results of a product, and the terms of each, over threads."""
        schedule, shape = self._schedule, self._shape
        schedule.set_scope(block, 0, "shared")
        schedule.compute_at(block, group, preserve_unit_loops=True)
        spatial, reduced = self._sorted(block)
        by_lanes = self._product(block).way(shape) == LANES_ADD
        parts, each = (shape.lanes, shape.rows) if by_lanes else (shape.rows, shape.lanes)
        _, row = schedule.split(schedule.fuse(*spatial), [None, each])
        schedule.bind(row, "threadIdx.y" if by_lanes else "threadIdx.x")
        terms = schedule.fuse(*reduced)
        count = int(schedule.get(terms).extent)
        together = next((v for v in VECTORS if count % (parts * v) == 0), 1) if by_lanes else 1
        turn, part, own = schedule.split(terms, [None, parts, together])
        schedule.bind(part, "threadIdx.x" if by_lanes else "threadIdx.y")
        self._fetch(block, part, together)
        schedule.unroll(own)
        self._unroll(turn, together)

    def _add_alone(self, block: Any, lane: Any) -> None:
        """Has a thread add up a sum for what it makes of it."""
        schedule = self._schedule
        schedule.set_scope(block, 0, "local")
        schedule.compute_at(block, lane, preserve_unit_loops=True)
        _, reduced = self._sorted(block)
        terms = schedule.fuse(*reduced)
        count = int(schedule.get(terms).extent)
        along = self._product(block).along_rows
        together = 1 if along else next(v for v in VECTORS if count % v == 0)
        turn, own = schedule.split(terms, [None, together])
        self._fetch(block, turn, together)
        schedule.unroll(own)
        self._unroll(turn, together)

    def _product(self, block: Any) -> RowProduct:
        names = [self._schedule.get(each).name_hint for each in self._sums]
        return self._chain.products[names.index(self._schedule.get(block).name_hint)]

    def _sorted(self, block: Any) -> tuple[list[Any], list[Any]]:
        """The loops of a block over results and those over terms, which come last."""
        kinds, loops = kinds_of(self._schedule, block), self._own_loops(block)
        of_kind = {
            kind: [loop for loop, of in zip(loops, kinds, strict=True) if of == kind]
            for kind in "SR"
        }
        self._schedule.reorder(*of_kind["S"], *of_kind["R"])
        return of_kind["S"], of_kind["R"]

    def _fetch(self, block: Any, loop: Any, together: int) -> None:
        """Reads some terms at once."""
        if together == 1:
            return
        schedule = self._schedule
        own = schedule.get(block).writes[0].source
        reads = [read.source for read in schedule.get(block).reads]
        for number, source in enumerate(reads):
            if source.same_as(own):
                continue
            local = schedule.cache_read(block, number, "local")
            schedule.compute_at(local, loop, preserve_unit_loops=True)
            schedule.vectorize(schedule.fuse(*self._own_loops(local)))

    def _unroll(self, loop: Any, each: int) -> None:
        """Of a long loop, a few turns at a time: drivers leave it as it is, and a thread waits for
        each load."""
        schedule = self._schedule
        most = min(TOGETHER, MOST_TOGETHER // each)
        together = largest_divisor(int(schedule.get(loop).extent), most)
        if together > 1:
            schedule.unroll(schedule.split(loop, [None, together])[1])


def _sums(schedule: Schedule) -> list[Any]:
    sums = [block for block in blocks_of(schedule) if is_reduction(schedule, block)]
    if len(sums) < 2 or not all(_multiplies_a_row(schedule.get(block)) for block in sums):
        raise NotThisKind("has no products that follow each other")
    return sums


def _multiplies_a_row(block: Any) -> bool:
    """Whether a sum is of products of two numbers, the first of which is the same for all its
    results. Axes of one element are none."""
    results = [axis.var for axis in block.iter_vars if axis.iter_type == tirx.IterVar.DataPar]
    written = block.writes[0].source
    loads: list[Any] = []
    tvm_ffi.structural_walk(block.body, (TensorLoad, loads.append))
    read = [load for load in loads if not load.source.same_as(written)]

    def differ(load: Any) -> bool:
        found: list[Any] = []
        for index, extent in zip(load.indices, load.source.shape, strict=True):
            if constant_integer(extent) != 1:
                tvm_ffi.structural_walk(index, (Var, found.append))
        return any(variable.same_as(axis) for variable in found for axis in results)

    return [differ(load) for load in read] == [False, True]


def _results(schedule: Schedule, block: Any) -> int:
    pairs = zip(extents_of(schedule, block), kinds_of(schedule, block), strict=True)
    return product(extent for extent, kind in pairs if kind == "S")
