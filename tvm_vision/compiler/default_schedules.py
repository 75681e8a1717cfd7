"""A schedule for every GPU kernel, without tuning: dlight's rules, kept to where they pay off."""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.target import Target

LOGGER = logging.getLogger(__name__)

# From about this many outputs on, one thread for each keeps a GPU of a robot busy.
MANY_OUTPUTS = 4096


def default_schedules() -> tvm.transform.Pass:
    """A pass that schedules each kernel by the first rule that takes it."""
    return dlight.ApplyDefaultSchedule(
        UnitReductions(),
        Tried(dlight.gpu.Matmul()),
        FewOutputs(Tried(dlight.gpu.GEMV())),
        FewOutputs(Tried(dlight.gpu.Reduction())),
        FewOutputs(Tried(dlight.gpu.GeneralReduction())),
        dlight.gpu.Fallback(),
    )


class Tried(dlight.ScheduleRule):
    """Another rule, passed over where one of its steps fails inside TVM.

    Reduction, for one, asks for an rfactor of a sum over all of a small tensor and fails a check.
    """

    def __init__(self, rule: dlight.ScheduleRule) -> None:
        self._rule = rule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Any:
        """The schedule of the other rule, or None; called by ApplyDefaultSchedule."""
        try:
            return self._rule.apply(func, target, tunable)
        except (tvm.error.InternalError, s_tir.ScheduleError) as error:
            LOGGER.debug("%s passed over: %s", type(self._rule).__name__, error)
            return None


class UnitReductions(dlight.ScheduleRule):
    """One thread for each output of kernels that sum over a single element (1x1 of one channel).

    TVM's inlining of what follows a sum (``reverse_compute_inline`` of a bias) counts it twice when
    the sum has only one term: the other rules use it, this one does not.
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Any:
        """The schedule, or None for other kernels; called by ApplyDefaultSchedule."""
        schedule = s_tir.Schedule(func)
        blocks = normalize_prim_func(schedule)
        if not blocks or not any(_sums_one_element(schedule, b) for b in blocks):
            return None
        threads = int(target.attrs["max_threads_per_block"])
        for block in _inline_producers(schedule, blocks):
            _bind_outputs(schedule, block, threads)
        return schedule


def _sums_one_element(schedule: Any, block: Any) -> bool:
    # Normalising drops loops of extent 1, so that such a sum has a start value but nothing to sum.
    has_start = schedule.get(block.block_rv).init is not None
    return has_start and all(axis.kind != "R" for axis in block.iters)


def _inline_producers(schedule: Any, blocks: list[Any]) -> list[Any]:
    remaining = []
    for block in blocks:
        try:
            schedule.compute_inline(block.block_rv)
        except s_tir.ScheduleError:  # an output, or a sum: it stays
            remaining.append(block)
    return remaining


def _bind_outputs(schedule: Any, block: Any, threads: int) -> None:
    loops = schedule.get_loops(block.block_rv)
    spatial = [x for x, axis in zip(loops, block.iters, strict=True) if axis.kind == "S"]
    reduced = [x for x, axis in zip(loops, block.iters, strict=True) if axis.kind == "R"]
    spatial = spatial or [schedule.add_unit_loop(block.block_rv)]
    schedule.reorder(*spatial, *reduced)
    outer, inner = schedule.split(schedule.fuse(*spatial), factors=[None, threads])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    if reduced:
        schedule.decompose_reduction(block.block_rv, reduced[0])


class FewOutputs(dlight.ScheduleRule):
    """Another rule, but only for kernels with few outputs.

    dlight's rules for reductions let a workgroup share one sum. That pays off where sums are long
    and few; a depthwise convolution has many sums of 9 or 25 numbers, and most threads would idle:
    on lavapipe a network of them ran 10 times slower.
    """

    def __init__(self, rule: dlight.ScheduleRule) -> None:
        self._rule = rule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Any:
        """The schedule of the other rule, or None; called by ApplyDefaultSchedule."""
        if reduction_outputs(func) >= MANY_OUTPUTS:
            return None
        return self._rule.apply(func, target, tunable)


def reduction_outputs(func: tirx.PrimFunc) -> int:
    """Most outputs that any reduction of ``func`` has; 0 where none is found or sizes are open."""
    blocks = normalize_prim_func(s_tir.Schedule(func)) or []
    return max((_outputs(block) for block in blocks if block.is_reduction()), default=0)


def _outputs(block: Any) -> int:
    outputs = 1
    for axis in block.iters:
        if axis.kind == "S":
            outputs *= axis.dom if isinstance(axis.dom, int) else 0
    return outputs
