"""Simple schedules for processors: threads over the outer loops, vectors over the innermost.

Sums (convolutions, products, pools) keep a tile of outputs in registers: a few channels times one
vector along the last axis. What cannot be scheduled so stays as it is, which is slow but right.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import prim
from tvm.s_tir import Schedule
from tvm.target import Target

from .casts import cast_by_steps
from .gather import write_gather
from .loops import NotWritten, Processor
from .processor import vector_lanes, vector_registers
from .windows import write_window

LOGGER = logging.getLogger(__name__)

FAILURES = (s_tir.ScheduleError, tvm.error.InternalError, ValueError)
# Below this many operations a kernel is done before other threads have woken up.
WORTH_THREADS = 16384
# Sums of fewer terms have little to reuse in registers: depthwise convolutions and pools.
LONG_SUM = 64
VECTOR_TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")
QUOTIENTS = (prim.FloorDiv, prim.FloorMod, prim.Mod)
# Functions of the C library that TVM calls for one value at a time and not for vectors.
SCALAR_CALLS = ("tirx.cosh", "tirx.sinh")
CHANNELS = (8, 5, 4, 3, 2)
# Loops written out; each raises NotWritten where a function is of another kind.
WRITERS = (write_window, write_gather)


def cpu_schedules(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """A schedule for each TensorIR function of ``mod`` that has none."""
    processor = Processor(vector_lanes(target), vector_registers(target))
    scheduled = {gv: _scheduled(func, processor) for gv, func in mod.functions_items()}
    return tvm.IRModule(scheduled, attrs=mod.attrs)


def _scheduled(func: Any, processor: Processor) -> Any:
    plain = isinstance(func, tirx.PrimFunc) and isinstance(func.body, s_tir.SBlockRealize)
    if not plain or func.attrs.get("tirx.is_scheduled", False):
        return func
    func = cast_by_steps(func)
    for write in WRITERS:
        try:
            return write(func, processor)
        except NotWritten as error:
            LOGGER.debug("not written by %s: %s", write.__name__, error)
    try:
        schedule = Schedule(func)
        _inline(schedule)
        for block in _blocks(schedule):
            _attempt(schedule, block, processor.lanes)
        return schedule.mod["main"].with_attrs(func.attrs)
    except FAILURES as error:
        LOGGER.debug("left without a schedule: %s", error)
        return func


def _blocks(schedule: Schedule) -> list[Any]:
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def _attempt(schedule: Schedule, block: Any, lanes: int) -> None:
    try:
        kinds = _kinds(schedule, block)
        if "O" in kinds or not kinds or len(schedule.get_loops(block)) != len(kinds):
            return
        if "R" in kinds:
            _sum(schedule, block, kinds, lanes)
        else:
            _elementwise(schedule, block, lanes)
    except FAILURES as error:
        LOGGER.debug("a block left as it is: %s", error)


def _kinds(schedule: Schedule, block: Any) -> str:
    """A letter for each axis of a block: S(patial), R(educed), O(ther)."""
    letters = {tirx.IterVar.DataPar: "S", tirx.IterVar.CommReduce: "R"}
    return "".join(letters.get(axis.iter_type, "O") for axis in schedule.get(block).iter_vars)


def _extent(schedule: Schedule, loop: Any) -> int:
    extent = schedule.get(loop).extent
    return int(extent.value) if isinstance(extent, tirx.IntImm) else 0


def _inline(schedule: Schedule) -> None:
    """Elementwise blocks go into those that read them.

    Not those with functions such as tanh, which LLVM writes out with their argument many times,
    nested ones exponentially; nor choices (padding, concatenation), which would put a comparison
    into innermost loops; nor reshapes: TVM simplifies remainders of remainders to wrong ones.
    """
    for block in _blocks(schedule):
        if "R" in _kinds(schedule, block) or _stays(schedule, block):
            continue
        try:
            schedule.compute_inline(block)
        except FAILURES:  # An output: it stays.
            continue


def _stays(schedule: Schedule, block: Any) -> bool:
    """True where a block calls a function, chooses, or takes quotients and remainders."""
    found: list[Any] = []
    tvm_ffi.structural_walk(
        schedule.get(block).body, ((tvm.ir.Call, *QUOTIENTS), lambda node: found.append(node))
    )
    return bool(found)


def _chooses(value: Any) -> bool:
    """True for a call of if_then_else."""
    return getattr(getattr(value, "op", None), "name", "").endswith("if_then_else")


def _lanes(schedule: Schedule, block: Any, axis: int, lanes: int) -> int:
    """``lanes``, or 1 where TVM's vectors would be wrong along an axis.

    Quotients, remainders and conditions along it are simplified to wrong ones or refused, as are
    types that LLVM does not have.
    """
    found = schedule.get(block)
    along = found.iter_vars[axis].var
    odd: list[Any] = []

    def check(node: Any) -> None:
        plain = isinstance(node, tvm.ir.Call) and not _chooses(node)
        plain = plain and getattr(node.op, "name", "") not in SCALAR_CALLS
        if not plain and _mentions(node, along):
            odd.append(node)

    def check_type(node: Any) -> None:
        buffer = node.source if isinstance(node, tvm.ir.TensorLoad) else node.buffer
        if str(buffer.ty.dtype) not in VECTOR_TYPES:
            odd.append(node)

    tvm_ffi.structural_walk(
        found.body,
        [
            ((tvm.ir.Call, *QUOTIENTS), check),
            ((tvm.ir.TensorLoad, tirx.BufferStore), check_type),
        ],
    )
    return 1 if odd else lanes


def _mentions(node: Any, var: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(
        node, (tvm.ir.Var, lambda other: found.append(other) if other.same_as(var) else None)
    )
    return bool(found)


def _elementwise(schedule: Schedule, block: Any, lanes: int) -> None:
    loops = schedule.get_loops(block)
    total = math.prod(_extent(schedule, loop) for loop in loops)
    width = _width(_extent(schedule, loops[-1]), _lanes(schedule, block, -1, lanes))
    if width > 1:
        outer, inner = schedule.split(loops[-1], factors=[None, width])
        schedule.vectorize(inner)
        loops = [*loops[:-1], outer]
    if total >= WORTH_THREADS:
        schedule.parallel(schedule.fuse(*loops))


def _sum(schedule: Schedule, block: Any, kinds: str, lanes: int) -> None:
    loops = schedule.get_loops(block)
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    terms = math.prod(_extent(schedule, loop) for loop in reduced)
    total = terms * math.prod(_extent(schedule, loop) for loop in spatial)
    inner = []
    width = 1
    if spatial:
        last = kinds.rindex("S")
        width = _width(_extent(schedule, spatial[-1]), _lanes(schedule, block, last, lanes))
    # Matrix products have their channels last, convolutions second.
    place = 1 if len(spatial) > 2 else len(spatial) - 1
    if terms > LONG_SUM and 0 <= place < len(spatial) - 1:
        extent = _extent(schedule, spatial[place])
        tile = next((c for c in CHANNELS if extent % c == 0), 1)
        spatial[place], channel = schedule.split(spatial[place], factors=[None, tile])
        inner.append((channel, "unroll"))
    if width > 1:
        spatial[-1], vector = schedule.split(spatial[-1], factors=[None, width])
        inner.append((vector, "vectorize"))
    schedule.reorder(*spatial, *reduced, *[loop for loop, _ in inner])
    for loop, kind in inner:
        getattr(schedule, kind)(loop)
    schedule.decompose_reduction(block, reduced[0])
    if spatial and total >= WORTH_THREADS:
        schedule.parallel(schedule.fuse(*spatial))


def _width(extent: int, lanes: int) -> int:
    """Elements of a vector: the largest divisor of ``extent`` that fits two registers."""
    if lanes == 1:
        return 1
    return max((w for w in range(1, 2 * lanes + 1) if extent and extent % w == 0), default=1)
