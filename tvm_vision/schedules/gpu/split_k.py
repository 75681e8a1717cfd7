"""Products whose sums workgroups share: partial sums first, then a kernel that adds them up.

A product with few results and a long sum (the late layers of a network at batch 1) has too few
tiles to occupy a large GPU. Cut along k it has as many times more, each of which leaves a partial
sum in device memory; the second kernel adds those up, always in the same order, and computes what
follows the product. The memory between is planned with the network's
(compiler/kernels/workspaces.py).
"""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from ..common import NotThisKind, TargetLimits, extents_of, index_map, inline_consumers
from ..iter_maps import transform_block_layout

THREADS = 128
VECTOR = 4


def split_reduction(schedule: Schedule, block: Any, parts: int) -> tuple[Any, Any]:
    """Cuts the sum of a block b, m, n, k; returns the block of the parts and the one of their sum.

    The former has the variables b, m, n, k again, b being part and batch. Of one part there is no
    sum: the block stays as it is, without another one.

    Raises:
        NotThisKind: the parts would be unequal.
    """
    if parts == 1:
        return block, None
    batches, *_, terms = extents_of(schedule, block)
    if terms % parts:
        raise NotThisKind(f"a sum of {terms} terms has no {parts} equal parts")
    part, _ = schedule.split(schedule.get_loops(block)[-1], [parts, None])
    partial = schedule.rfactor(part, 0)
    *outer, part, rest = schedule.get_loops(partial)
    schedule.reorder(part, *outer, rest)
    fuse = index_map(schedule, partial, lambda p, b, m, n, k: [p * batches + b, m, n, k], 5)
    transform_block_layout(schedule, partial, fuse)
    return partial, block


def schedule_total(schedule: Schedule, total: Any, limits: TargetLimits) -> None:
    """Schedules the kernel that adds up the parts: a thread takes a few neighbours of the output.

    Raises:
        NotThisKind: more than one output is made of the sums.
        tvm.s_tir.ScheduleError: the kernel does not fit; the schedule is then spoilt.
    """
    output = schedule.reindex(total, ("write", 0))
    inline_consumers(schedule, output)
    *outer, last, part = schedule.get_loops(total)
    neighbours = VECTOR if int(schedule.get(last).extent) % VECTOR == 0 else 1
    last, own = schedule.split(last, [None, neighbours])
    schedule.reorder(*outer, last, part, own)
    threads = min(THREADS, limits.threads)
    group, thread = schedule.split(schedule.fuse(*outer, last), [None, threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    schedule.set_scope(total, 0, "local")
    schedule.reverse_compute_at(output, thread, preserve_unit_loops=True)
    schedule.unroll(part)
    for loop in (own, schedule.get_loops(output)[-1]):
        schedule.vectorize(loop)
    schedule.decompose_reduction(total, part)
