"""Simple schedules for processors: threads over the outer loops, vectors over the innermost.

Sums (convolutions, products, pools) keep a tile of outputs in registers: a few channels times one
vector along the last axis. What cannot be scheduled so stays as it is, which is slow but right.
"""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import prim
from tvm.s_tir import Schedule

from ..common import blocks_of, kinds_of
from .long_sums import SumLoops, is_long, schedule_long_sum
from .loops import NotWritten
from .processor import Processor

LOGGER = logging.getLogger(__name__)

FAILURES = (s_tir.ScheduleError, tvm.error.InternalError, ValueError)
# Sums of fewer terms have little to reuse in registers: depthwise convolutions and pools.
LONG_SUM = 64
VECTOR_TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")
QUOTIENTS = (prim.FloorDiv, prim.FloorMod, prim.Mod)
# Functions of the C library that TVM calls for one value at a time and not for vectors.
SCALAR_CALLS = ("tirx.cosh", "tirx.sinh")
CHANNELS = (8, 5, 4, 3, 2)


@dataclass(frozen=True)
class NestShape:
    """How the loops of a kernel's blocks are cut.

    Attributes:
        channels: most channels of a sum that are in registers at a time.
        vectors: most registers that a vector of neighbours takes.
        threads_from: operations of a block from which threads share it: with fewer it is done
            before the others have woken up.
    """

    channels: int = 8
    vectors: int = 2
    threads_from: int = 1 << 14


@dataclass(frozen=True)
class _Cut:
    """What a NestShape comes to in one block: channels and elements of a vector in registers, and
    whether threads share it."""

    channels: int
    width: int
    parallel: bool


@dataclass(frozen=True)
class Nest:
    """A block that is scheduled: what its cut depends on.

    Attributes:
        channels: that a tile may divide; 1 where there is nothing to reuse.
        last: the extent of the last axis; 1 where vectors would be wrong along it.
        operations: of the whole block.
    """

    channels: int
    last: int
    operations: int

    def cut(self, shape: NestShape, processor: Processor) -> _Cut:
        """Of this block."""
        few = (c for c in CHANNELS if c <= shape.channels and self.channels % c == 0)
        most = shape.vectors * processor.lanes
        width = max(w for w in range(1, most + 1) if self.last % w == 0)
        return _Cut(next(few, 1), width, self.operations >= shape.threads_from)


def nests_of(function: Any) -> tuple[Nest, ...]:
    """The blocks of a function that are scheduled. Raises NotWritten where there are none."""
    schedule = inlined(function)
    found = [_nest(schedule, block) for block in blocks_of(schedule)]
    nests = tuple(nest for nest in found if nest is not None)
    if not nests:
        raise NotWritten("blocks with loops of their own are needed")
    return nests


def candidates(nests: tuple[Nest, ...], processor: Processor) -> list[NestShape]:
    """What comes to different loops, the likeliest, ``NestShape()``, first."""
    found: dict[tuple[_Cut, ...], NestShape] = {}
    least = NestShape().threads_from
    for channels, vectors, threads in itertools.product(
        (8, 4, 2, 1), (2, 1, 4), (least, least >> 3, least << 3, least << 6)
    ):
        shape = NestShape(channels, vectors, threads)
        found.setdefault(tuple(nest.cut(shape, processor) for nest in nests), shape)
    return list(found.values())


def schedule_nests(function: Any, processor: Processor, shape: NestShape | None = None) -> Any:
    """A function with threads and vectors where that is possible; shape: None for the likeliest.

    Raises NotWritten where TVM cannot take its blocks apart.
    """
    schedule = inlined(function)
    for block in blocks_of(schedule):
        _attempt(schedule, block, shape or NestShape(), processor)
    return schedule.mod["main"].with_attrs(function.attrs)


def inlined(function: Any) -> Schedule:
    try:
        schedule = Schedule(function)
        _inline(schedule)
    except FAILURES as error:
        raise NotWritten(f"steps of a schedule do not fit: {error}") from error
    return schedule


def _attempt(schedule: Schedule, block: Any, shape: NestShape, processor: Processor) -> None:
    try:
        nest = _nest(schedule, block)
        if nest is None:
            return
        kinds, cut = kinds_of(schedule, block), nest.cut(shape, processor)
        if is_long(schedule, block):
            loops = _sum_loops(schedule, block, kinds, cut, processor)
            schedule_long_sum(schedule, block, loops, shape.threads_from)
        elif "R" in kinds:
            _sum(schedule, block, kinds, cut)
        else:
            _elementwise(schedule, block, cut)
    except FAILURES as error:
        LOGGER.debug("a block left as it is: %s", error)


def _nest(schedule: Schedule, block: Any) -> Nest | None:
    """What a block's cut depends on; None for one that stays as it is."""
    kinds, loops = kinds_of(schedule, block), schedule.get_loops(block)
    if "O" in kinds or not kinds or len(loops) != len(kinds):
        return None
    extents = [_extent(schedule, loop) for loop in loops]
    spatial = [extent for extent, kind in zip(extents, kinds, strict=True) if kind == "S"]
    terms = math.prod(extent for extent, kind in zip(extents, kinds, strict=True) if kind == "R")
    last = kinds.rfind("S")
    place = _channel_place(spatial)
    reused = "R" in kinds and terms > LONG_SUM and 0 <= place < len(spatial) - 1
    return Nest(
        # Extents that are not known are 0.
        channels=spatial[place] or 1 if reused else 1,
        last=spatial[-1] or 1 if spatial and _is_in_vectors(schedule, block, last) else 1,
        operations=math.prod(extents),
    )


def _channel_place(spatial: list[Any]) -> int:
    """Which of a sum's spatial axes has the channels: matrix products have them last, convolutions
    second."""
    return 1 if len(spatial) > 2 else len(spatial) - 1


def _extent(schedule: Schedule, loop: Any) -> int:
    extent = schedule.get(loop).extent
    return int(extent.value) if isinstance(extent, tirx.IntImm) else 0


def _inline(schedule: Schedule) -> None:
    """Elementwise blocks go into those that read them.

    Not those with functions such as tanh, which LLVM writes out with their argument many times,
    nested ones exponentially; nor choices (padding, concatenation), which would put a comparison
    into innermost loops; nor reshapes: TVM simplifies remainders of remainders to wrong ones.

    Nor results, which TVM would refuse: the first error of a process takes it as long as some
    kernels, as its trace reads the debug information of all libraries.
    """
    results = schedule.mod["main"].params
    for block in blocks_of(schedule):
        written = schedule.get(block).writes
        if any(region.source.same_as(result) for region in written for result in results):
            continue
        if "R" in kinds_of(schedule, block) or _stays(schedule, block):
            continue
        try:
            schedule.compute_inline(block)
        except FAILURES:
            continue


def _stays(schedule: Schedule, block: Any) -> bool:
    """True where a block calls a function, chooses, or takes quotients and remainders."""
    found: list[Any] = []
    tvm_ffi.structural_walk(
        schedule.get(block).body, ((tvm.ir.Call, *QUOTIENTS), lambda node: found.append(node))
    )
    return bool(found)


def chooses(value: Any) -> bool:
    """True for a call of if_then_else."""
    return getattr(getattr(value, "op", None), "name", "").endswith("if_then_else")


def _is_in_vectors(schedule: Schedule, block: Any, axis: int) -> bool:
    found = schedule.get(block)
    return in_vectors(found.body, found.iter_vars[axis].var)


def in_vectors(statement: Any, along: Any) -> bool:
    """False where TVM's vectors would be wrong along an axis of a block's statement, given by its
    variable.

    Quotients, remainders and conditions along it are simplified to wrong ones or refused, as are
    types that LLVM does not have.
    """
    odd: list[Any] = []

    def check(node: Any) -> None:
        if chooses(node):
            node = node.args[0]
        elif isinstance(node, tvm.ir.Call) and getattr(node.op, "name", "") not in SCALAR_CALLS:
            return
        if _mentions(node, along):
            odd.append(node)

    def check_type(node: Any) -> None:
        buffer = node.source if isinstance(node, tvm.ir.TensorLoad) else node.buffer
        if str(buffer.ty.dtype) not in VECTOR_TYPES:
            odd.append(node)

    tvm_ffi.structural_walk(
        statement,
        [
            ((tvm.ir.Call, *QUOTIENTS), check),
            ((tvm.ir.TensorLoad, tirx.BufferStore), check_type),
        ],
    )
    return not odd


def _mentions(node: Any, var: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(
        node, (tvm.ir.Var, lambda other: found.append(other) if other.same_as(var) else None)
    )
    return bool(found)


def _elementwise(schedule: Schedule, block: Any, cut: _Cut) -> None:
    loops = schedule.get_loops(block)
    if cut.width > 1:
        outer, inner = schedule.split(loops[-1], factors=[None, cut.width])
        schedule.vectorize(inner)
        loops = [*loops[:-1], outer]
    if cut.parallel:
        schedule.parallel(schedule.fuse(*loops))


def _sum_loops(
    schedule: Schedule, block: Any, kinds: str, cut: _Cut, processor: Processor
) -> SumLoops:
    loops = schedule.get_loops(block)
    spatial, reduced = (
        [loop for loop, kind in zip(loops, kinds, strict=True) if kind == letter] for letter in "SR"
    )
    terms, lanes = _extent(schedule, reduced[-1]), processor.lanes
    # Neighbours in memory are results where those are in vectors, else terms.
    fits = cut.width == 1 and terms % lanes == 0 and terms >= 2 * lanes
    fits = fits and _is_in_vectors(schedule, block, kinds.rfind("R"))
    return SumLoops(spatial, reduced, cut.width, lanes if fits else 1)


def _sum(schedule: Schedule, block: Any, kinds: str, cut: _Cut) -> None:
    loops = schedule.get_loops(block)
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    inner = []
    if cut.channels > 1:
        place = _channel_place(spatial)
        spatial[place], channel = schedule.split(spatial[place], factors=[None, cut.channels])
        inner.append((channel, "unroll"))
    if cut.width > 1:
        spatial[-1], vector = schedule.split(spatial[-1], factors=[None, cut.width])
        inner.append((vector, "vectorize"))
    schedule.reorder(*spatial, *reduced, *[loop for loop, _ in inner])
    for loop, kind in inner:
        getattr(schedule, kind)(loop)
    # Of a block that is in two TVM takes no loop for one that threads may share.
    if spatial and cut.parallel:
        schedule.parallel(schedule.fuse(*spatial))
    schedule.decompose_reduction(block, reduced[0])
