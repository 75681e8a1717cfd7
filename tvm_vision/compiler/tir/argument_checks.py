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
_NEEDED = "needs compact tensors of these shapes and types, at offset 0 and on one device"
_NUMBER = r"\1"
_LENGTH = re.compile(r"T\.int64\((\d+)\)")
_SIGNATURE = " when calling:\n  `"


@tvm.transform.module_pass(opt_level=0, name="tvm_vision.MergeArgumentChecks")
def merge_argument_checks(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """The functions of ``MakePackedAPI`` with their checks merged, and all others as they are."""
    return in_each_function(mod, with_merged_checks)


def with_merged_checks(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with checks of its arguments merged. Raises nothing."""
    merge = _Merge(function)
    kinds = [(tirx.AssertStmt, merge.renamed), (tirx.SeqStmt, merge.merged)]
    return function.with_body(tvm_ffi.structural_map(function.body, kinds, order="post"))


def _signature(check: Any) -> str | None:
    """What a check's message says that the function takes; None for other checks."""
    parts = [str(part.value) for part in check.message_parts]
    return parts[parts.index(_SIGNATURE) + 1] if _SIGNATURE in parts else None


class _Merge:
    """The checks of one function."""

    def __init__(self, function: tirx.PrimFunc) -> None:
        self._parameters = set(function.params)
        self._message: Any = None

    def renamed(self, check: Any) -> Any:
        """A check with the one message, so that LLVM makes one place of where they fail."""
        signature = _signature(check)
        if signature is None:
            return check
        if self._message is None:
            # In one string: a kernel's name is written anew up to a string's end.
            text = f"{_LENGTH.sub(_NUMBER, signature)} {_NEEDED}, found other arguments"
            self._message = tvm_ffi.convert([ir.StringImm(text)])
        return self._of(check.condition)

    def merged(self, sequence: Any) -> Any:
        """Statements one after another, with the checks among them put together: before the next
        one that others rest on, and before what is done."""
        statements: list[Any] = []
        waiting: list[Any] = []

        def flush() -> None:
            if waiting:
                statements.append(self._of(tirx.all(*waiting)))
                waiting.clear()

        if self._message is None:
            return sequence
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
        if isinstance(condition, prim.EQ):
            return condition.a in self._parameters  # their number
        if not isinstance(condition, prim.Not) or not _calls(condition.a, _IS_NULL):
            return False
        return isinstance(condition.a.args[0], ir.Var)

    def _is_of_strides(self, statement: Any) -> bool:
        return isinstance(statement, tirx.IfThenElse) and self._is_merged(statement.then_case)

    def _is_merged(self, statement: Any) -> bool:
        return (
            isinstance(statement, tirx.AssertStmt)
            and self._message is not None
            and statement.message_parts.same_as(self._message)
        )

    def _of(self, condition: Any) -> Any:
        # In the order of the node, which its Python names the other way round.
        return tirx.AssertStmt(condition, ir.StringImm("ValueError"), self._message)


def _has_elements(condition: Any) -> bool:
    """Whether a condition looks into a shape or strides."""
    if isinstance(condition, (prim.And, prim.EQ)):
        return _has_elements(condition.a) or _has_elements(condition.b)
    return _calls(condition, _FIELD) and int(condition.args[2]) == _ELEMENT


def _calls(value: Any, operator: Any) -> bool:
    return isinstance(value, ir.Call) and value.op.same_as(operator)
