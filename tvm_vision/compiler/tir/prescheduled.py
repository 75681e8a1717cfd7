"""Functions that launch threads by hand: sorts, scatters, scans as TVM writes them for GPUs.

Schedules bind the loops of blocks; a block that launches threads itself must be left alone. The
blocks beside it, copies and gathers, get one thread for each value.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

SCHEDULED = "tirx.is_scheduled"
THREADS = 64


def finish_prescheduled(mod: tvm.IRModule) -> tvm.IRModule:
    """Bind what such functions leave open, and mark them as scheduled."""
    finished = dict(mod.functions_items())
    for gv, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc) or func.attrs.get(SCHEDULED, False):
            continue
        if any(map(launches, parts_of(func))):
            finished[gv] = _finished(func).with_attr(SCHEDULED, True)
    result = tvm.IRModule(dict(mod.functions_items()), attrs=mod.attrs)
    for gv, func in finished.items():
        result.update_func(gv, func)
    return result


def parts_of(func: tirx.PrimFunc) -> list[Any]:
    """The statements below the root block, each a launch or more; none without a root block."""
    if not isinstance(func.body, s_tir.SBlockRealize):
        return []
    body = func.body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def variables_of(statement: Any) -> set[Any]:
    """All variables in a statement, buffers among them."""
    found: set[Any] = set()
    tvm_ffi.structural_walk(statement, (ir.Var, lambda var: found.add(var)))
    return found


def launches(statement: Any) -> bool:
    """True where a statement launches threads by hand."""
    found: list[Any] = []

    def note(node: Any) -> None:
        if str(node.attr_key) in ("thread_extent", "virtual_thread"):
            found.append(node)

    tvm_ffi.structural_walk(statement, (tirx.AttrStmt, note))
    return bool(found)


def _finished(func: tirx.PrimFunc) -> tirx.PrimFunc:
    schedule = Schedule(func)
    # A function that is one block has no block around it, and nothing beside the launches.
    root = schedule.get_sblock(func.body.block.name_hint)
    for block in schedule.get_child_blocks(root):
        if launches(schedule.get(block).body):
            continue
        try:
            schedule.compute_inline(block)
        except s_tir.ScheduleError:  # An output, or a sum.
            _bind(schedule, block)
    return schedule.mod["main"].with_attrs(func.attrs)


def _bind(schedule: Schedule, block: Any) -> None:
    """A thread for each value that a block computes; sums stay loops inside it."""
    axes = schedule.get(block).iter_vars
    loops = schedule.get_loops(block)
    spatial = [
        loop
        for loop, axis in zip(loops, axes, strict=True)
        if axis.iter_type == tirx.IterVar.DataPar
    ]
    reduced = [loop for loop in loops if not any(loop.same_as(s) for s in spatial)]
    spatial = spatial or [schedule.add_unit_loop(block)]
    schedule.reorder(*spatial, *reduced)
    group, thread = schedule.split(schedule.fuse(*spatial), factors=[None, THREADS])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
