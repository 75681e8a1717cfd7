"""Kernels without sums: each thread computes one output, whatever leads to it inlined."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from .common import Limits, NotThisKind, inline_all, is_reduction

THREADS = 256


def schedule_elementwise(schedule: Schedule, limits: Limits) -> None:
    """Schedules elementwise kernels, copies, concatenations, pads, resizes, gathers.

    Raises:
        NotThisKind: the kernel has a sum.
    """
    blocks = inline_all(schedule)
    if any(is_reduction(schedule, block) for block in blocks):
        raise NotThisKind("has a sum")
    for block in blocks:
        bind_outputs(schedule, block, min(THREADS, limits.threads))


def bind_outputs(schedule: Schedule, block: Any, threads: int) -> Any:
    """One thread for each value of a block's loops; returns the loop over the threads."""
    loops = schedule.get_loops(block) or [schedule.add_unit_loop(block)]
    group, thread = schedule.split(schedule.fuse(*loops), [None, threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return thread
