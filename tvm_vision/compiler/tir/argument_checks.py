"""Checks of what a kernel is called with: as many facts as before, in few branches.

``MakePackedAPI`` writes a branch for each fact of each tensor (a dimension, a stride, the type),
with a message of its own: two thirds of a kernel's code for the host, and a third of the time that
LLVM takes for a kernel of a processor. Here facts are checked together where looking at them is
safe, and there is one message, which says what the kernel takes. Whoever calls a kernel in a
package goes by mod.json, so that none of it fails unless that is not the package's own.
"""

from __future__ import annotations

import re
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from .functions import in_each_function

_ELEMENT = 17  # tvm_struct_get's number for an element of a shape or of strides
_FIELD = ir.Op.get("tirx.tvm_struct_get")
_IS_NULL = ir.Op.get("tirx.isnullptr")
_LENGTH = re.compile(r"T\.int64\((\d+)\)")
_SIGNATURE = " when calling:\n  `"


@tvm.transform.module_pass(opt_level=0, name="tvm_vision.MergeArgumentChecks")
def merge_argument_checks(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """The functions of ``MakePackedAPI`` with their checks merged, and all others as they are."""
    return in_each_function(mod, with_merged_checks)


def with_merged_checks(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with checks of its arguments merged. Raises nothing."""
    checks: list[Any] = []

    def see(check: Any) -> None:
        if _is_check(check):
            checks.append(check)

    tvm_ffi.structural_walk(function.body, (tirx.AssertStmt, see))
    if not checks:
        return function
    merge = _Merge(function, _message(checks[0]))
    kinds = [(tirx.AssertStmt, merge.renamed), (tirx.SeqStmt, merge.merged)]
    return function.with_body(tvm_ffi.structural_map(function.body, kinds, order="post"))


def _is_check(statement: Any) -> bool:
    """Whether a statement checks an argument: its message has the function's signature."""
    return isinstance(statement, tirx.AssertStmt) and _SIGNATURE in map(
        _text, statement.message_parts
    )


def _message(check: Any) -> list[Any]:
    parts = list(map(_text, check.message_parts))
    signature = _LENGTH.sub(r"\1", parts[parts.index(_SIGNATURE) + 1])
    # In one string: a kernel's name is written anew up to a string's end.
    needed = "needs compact tensors of these shapes and types, at offset 0 and on one device"
    return [ir.StringImm(f"{signature} {needed}, found other arguments")]


def _text(part: Any) -> str:
    return str(part.value)


class _Merge:
    """The checks of one function."""

    def __init__(self, function: tirx.PrimFunc, message: list[Any]) -> None:
        self._parameters = set(function.params)
        self._message = message

    def renamed(self, check: Any) -> Any:
        """A check with the one message, so that LLVM makes one place of where they fail."""
        return self._of(check.condition) if _is_check(check) else check

    def merged(self, sequence: Any) -> Any:
        """Statements one after another, with the checks among them put together: before the next
        one that others rest on, and before what is done."""
        statements: list[Any] = []
        waiting: list[Any] = []

        def flush() -> None:
            if waiting:
                statements.append(self._of(tirx.all(*waiting)))
                waiting.clear()

        for statement in sequence.seq:
            if self._is_merged(statement):
                if self._is_first(statement.condition):
                    flush()
                    statements.append(statement)
                    continue
                # An element is there only if the number of dimensions is right.
                if waiting and _has_elements(statement.condition) != _has_elements(waiting[-1]):
                    flush()
                waiting.append(statement.condition)
            elif isinstance(statement, tirx.Bind) or self._is_of_strides(statement):
                statements.append(statement)
            else:
                flush()
                statements.append(statement)
        flush()
        return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]

    def _is_first(self, condition: Any) -> bool:
        """Whether what is looked at behind a check is there only where it holds: arguments at all,
        and tensors that are not NULL."""
        found: list[Any] = []
        tvm_ffi.structural_walk(condition, (ir.Var, found.append))
        return bool(self._parameters.intersection(found)) or _is_of_pointer(condition)

    def _is_of_strides(self, statement: Any) -> bool:
        return isinstance(statement, tirx.IfThenElse) and self._is_merged(statement.then_case)

    def _is_merged(self, statement: Any) -> bool:
        return isinstance(statement, tirx.AssertStmt) and list(
            map(_text, statement.message_parts)
        ) == list(map(_text, self._message))

    def _of(self, condition: Any) -> Any:
        # In the order of the node, which its Python names the other way round.
        return tirx.AssertStmt(condition, ir.StringImm("ValueError"), self._message)


def _is_of_pointer(condition: Any) -> bool:
    """Whether a condition is that a variable is not NULL."""
    call = condition.a if isinstance(condition, prim.Not) else None
    return (
        isinstance(call, ir.Call) and call.op.same_as(_IS_NULL) and isinstance(call.args[0], ir.Var)
    )


def _has_elements(condition: Any) -> bool:
    """Whether a condition looks into a shape or strides."""
    found: list[Any] = []

    def see(call: Any) -> None:
        if call.op.same_as(_FIELD) and int(call.args[2]) == _ELEMENT:
            found.append(call)

    tvm_ffi.structural_walk(condition, (ir.Call, see))
    return bool(found)
