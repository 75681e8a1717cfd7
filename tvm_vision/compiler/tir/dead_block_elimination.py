"""What fusion leaves in a kernel though nothing reads it.

Where a network reads one part of a split, fusion joins the split to the choice of the part, and the
function goes on computing the others. As kernels of their own they cost a launch each; beside a
product, no schedule would give them threads.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from .cast_buffers import block_with
from .functions import in_each_function
from .prescheduled import parts_of, variables_of


def eliminate_dead_blocks(mod: tvm.IRModule) -> tvm.IRModule:
    """The same module, its TensorIR functions without what none of their results depends on."""
    return in_each_function(mod, without_dead_blocks)


def without_dead_blocks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """``func`` without the blocks that store only to buffers of its own that no later one reads.

    What does more than store (calls, threads) is kept, and so is a function without a root block.
    """
    parts = parts_of(func)
    if len(parts) < 2:
        return func
    root = func.body.block
    needed = {v for v in func.params if tirx.buffer.is_buffer_var(v)}
    kept = []
    for part in reversed(parts):
        stored = only_stores(part)
        if stored is None or not stored.isdisjoint(needed) or not stored <= {*root.alloc_buffers}:
            needed |= variables_of(part)
            kept.append(part)
    if len(kept) == len(parts):
        return func
    kept.reverse()
    block = block_with(
        root,
        body=tirx.SeqStmt(kept) if len(kept) > 1 else kept[0],
        alloc_buffers=[b for b in root.alloc_buffers if b in needed],
    )
    body = s_tir.SBlockRealize(func.body.iter_values, func.body.predicate, block)
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs, func.span)


def only_stores(statement: tirx.Stmt) -> set[tirx.Var] | None:
    """The buffers that a statement stores to; None where it stores nothing or does more."""
    stored: set[tirx.Var] = set()
    other: list[tirx.Stmt] = []
    tvm_ffi.structural_walk(
        statement,
        [
            (tirx.BufferStore, lambda store: stored.add(store.buffer)),
            ((tirx.Evaluate, tirx.AttrStmt, s_tir.MatchBufferRegion), other.append),
        ],
    )
    return stored if stored and not other else None
