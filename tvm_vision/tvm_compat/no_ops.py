"""TVM's RemoveNoOp only where a function may have a statement that does nothing.

To find a store of what is there already, the pass simplifies the difference between each stored
value and its place, which the simplification of statements right before it has done. That is a
sixteenth of a compilation for a GPU, and hardly any kernel has a no-op. What the pass removes by
the form of a statement is seen in a walk that takes a hundredth of its time.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir.instrument import pass_instrument

PASS = "tirx.RemoveNoOp"
_MARKS = ("pragma_debug_skip_region", "async_wait_queue_scope")


@pass_instrument
class _WhereNeeded:
    def should_run(self, module: tvm.IRModule, info: Any) -> bool:
        return str(info.name) != PASS or may_have_no_ops(module)


def lowering_context() -> tvm.transform.PassContext:
    """The context in which kernels are lowered: all of TVM's passes, this one where needed."""
    return tvm.transform.PassContext(opt_level=3, instruments=[_WhereNeeded()])


def may_have_no_ops(module: tvm.IRModule) -> bool:
    """Whether a function has a statement that evaluates no call, a loop that may have no turn, or
    a region that is marked to be skipped."""
    found: list[Any] = []

    def see(node: Any) -> Any:
        if isinstance(node, tirx.BufferStore):  # it stands alone, with nothing inside
            return tvm_ffi.WalkResult.SKIP
        if _may_do_nothing(node):
            found.append(node)
        return None

    kinds = (tirx.BufferStore, tirx.Evaluate, tirx.For, tirx.AttrStmt)
    for _, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and not found:
            tvm_ffi.structural_walk(function.body, (kinds, see), order="pre")
    return bool(found)


def _may_do_nothing(node: Any) -> bool:
    if isinstance(node, tirx.For):
        return not isinstance(node.extent, tirx.IntImm) or int(node.extent) <= 0
    if isinstance(node, tirx.Evaluate):
        return not isinstance(node.value, ir.Call)
    return str(node.attr_key) in _MARKS
