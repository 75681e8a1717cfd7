"""Memory between the launches of one function, planned with everything else.

A function of several kernels (a sort, a sum in two steps) keeps what one hands to the next in
buffers of its own, which the host would take from the device at every call. They become arguments,
after the results, so that the plan holds all memory there is.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from ..tir.prescheduled import launches, parts_of, variables_of
from .code import Workspace


def with_workspaces(mod: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, tuple[Workspace, ...]]]:
    """The scheduled GPU functions of ``mod`` with arguments for their workspaces, and these by the
    functions' names."""
    functions, added = {}, {}
    for gv, func in mod.functions_items():
        buffers = _handed_on(func)
        functions[gv] = _with_arguments(func, buffers) if buffers else func
        added[gv.name_hint] = tuple(
            (tuple(int(n.value) for n in b.ty.shape), str(b.ty.dtype)) for b in buffers
        )
    return tvm.IRModule(functions, attrs=mod.attrs), added


def _handed_on(func: Any) -> list[Any]:
    """Buffers in device memory that more than one launch of ``func`` uses."""
    if not isinstance(func.body, s_tir.SBlockRealize):
        return []
    root = func.body.block
    fixed = [
        b
        for b in root.alloc_buffers
        if b.ty.storage_scope in ("", "global")
        and all(isinstance(size, tirx.IntImm) for size in b.ty.shape)
    ]
    # A part that launches by hand may do so many times.
    users = [(variables_of(part), 2 if launches(part) else 1) for part in parts_of(func)]
    return [b for b in fixed if sum(launches for used, launches in users if b in used) > 1]


def _with_arguments(func: tirx.PrimFunc, buffers: list[Any]) -> tirx.PrimFunc:
    root = func.body.block
    kept = [b for b in root.alloc_buffers if b not in buffers]
    block = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, root.body, root.init, kept,
        root.match_buffers, root.annotations, root.span,
    )  # fmt: skip
    body = s_tir.SBlockRealize(func.body.iter_values, func.body.predicate, block)
    return tirx.PrimFunc([*func.params, *buffers], body, func.ret_type, func.attrs, func.span)
