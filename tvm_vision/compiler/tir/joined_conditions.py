"""Neighbouring statements under one condition, under it together.

Where threads have a rest, whether a thread has results at all is a condition of each statement, and
a sum that is written out is dozens of them. Drivers branch around each, and a thread waits for the
numbers of one before it asks for those of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from .functions import in_each_function

# What a condition reads that a statement may change, and what threads have in common.
_STATEMENTS = (tirx.BufferStore, tirx.SeqStmt, tirx.For)
_PRIVATE = ("", "global", "local")


@tvm.transform.module_pass(opt_level=0, name="tvm_vision.JoinedConditions")
def joined_conditions(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """The functions for targets of kind vulkan with such statements joined, all others as they
    are."""
    return in_each_function(mod, _of_vulkan)


def _of_vulkan(function: tirx.PrimFunc) -> tirx.PrimFunc:
    target: Any = (function.attrs or {}).get("target", None)
    return function if target is None or target.kind.name != "vulkan" else joined(function)


def joined(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function in which no two neighbours have the same condition, of those that neither have
    threads wait for each other nor change the condition. Raises nothing."""
    body = tvm_ffi.structural_map(function.body, [(tirx.SeqStmt, _in_sequence)], order="post")
    return function.with_body(body)


def _in_sequence(sequence: Any) -> Any:
    groups: list[list[Any]] = []
    for statement in _flat(sequence):
        if groups and _is_plain(statement) and _is_same(groups[-1][0], statement):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    if all(len(group) == 1 for group in groups):
        return sequence
    return tirx.stmt_seq(*map(_under_one, groups))


def _flat(statement: Any) -> Iterator[Any]:
    for each in statement.seq:
        if isinstance(each, tirx.SeqStmt):
            yield from _flat(each)
        else:
            yield each


def _under_one(group: list[Any]) -> Any:
    if len(group) == 1:
        return group[0]
    return tirx.IfThenElse(group[0].condition, tirx.stmt_seq(*(s.then_case for s in group)), None)


def _is_same(before: Any, after: Any) -> bool:
    same = tvm_ffi.structural_equal
    return _is_plain(before) and bool(same(before.condition, after.condition))


def _is_plain(statement: Any) -> bool:
    """Whether a statement only stores, where no other thread reads what this one does, under a
    condition of places alone."""
    if not isinstance(statement, tirx.IfThenElse) or statement.else_case is not None:
        return False
    read: list[Any] = []
    tvm_ffi.structural_walk(statement.condition, ((ir.TensorLoad, ir.Call), read.append))
    return not read and _only_stores(statement.then_case)


def _only_stores(statement: Any) -> bool:
    others: list[Any] = []

    def see(node: Any) -> None:
        if isinstance(node, ir.TensorLoad):
            buffer = node.source
        elif isinstance(node, tirx.BufferStore):
            buffer = node.buffer
        else:
            if not isinstance(node, _STATEMENTS):
                others.append(node)
            return
        if str(getattr(buffer.ty, "storage_scope", "")) not in _PRIVATE:
            others.append(node)

    tvm_ffi.structural_walk(statement, ((ir.TensorLoad, tirx.Stmt), see))
    return not others
