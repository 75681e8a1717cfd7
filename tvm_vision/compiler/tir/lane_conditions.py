"""Conditions that are the same for all lanes of a vector, said without them.

Where a choice's condition names the lane, as whether a channel is of the first of two tensors that
are concatenated, TVM takes the loop over lanes for what differs from lane to lane, and stores one
number after the other. As a rule tensors end with a vector: then 48 * x + 4 * y + lane < 768 is
12 * x + y < 192.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import prim

from .functions import in_each_function

_CONDITIONS = (prim.LT, prim.LE, prim.GT, prim.GE)
_INDICES = ("int32", "int64")


@tvm.transform.module_pass(opt_level=0, name="tvm_vision.LaneConditions")
def lane_conditions(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """The functions for targets of kind vulkan with such conditions, and all others as they are."""
    return in_each_function(mod, _of_vulkan)


def _of_vulkan(function: tirx.PrimFunc) -> tirx.PrimFunc:
    target: Any = (function.attrs or {}).get("target", None)
    return function if target is None or target.kind.name != "vulkan" else without_lanes(function)


def without_lanes(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function whose loops over lanes have no such conditions. Raises nothing."""
    body = tvm_ffi.structural_map(function.body, [(tirx.For, _in_loop)], order="post")
    return function.with_body(body)


def _in_loop(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.VECTORIZED or not isinstance(loop.extent, prim.IntImm):
        return loop
    analyzer = sym.Analyzer()
    analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))

    def names_lane(condition: Any) -> bool:
        found: list[Any] = []
        tvm_ffi.structural_walk(condition, (ir.Var, found.append))
        return any(loop.loop_var.same_as(variable) for variable in found)

    def simpler(condition: Any) -> Any:
        if not names_lane(condition) or not _is_of_places(condition):
            return condition
        forms = map(analyzer.simplify, _forms(condition))
        return next((form for form in forms if not names_lane(form)), condition)

    body = tvm_ffi.structural_map(loop.body, [(_CONDITIONS, simpler)], order="post")
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding,
        loop.annotations, loop.step,
    )  # fmt: skip


def _is_of_places(condition: Any) -> bool:
    """Whether a condition compares indices: numbers of a tensor may be the largest of their type,
    and of real ones there are some between a and a + 1."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(condition, (ir.TensorLoad, loads.append))
    return not loads and str(condition.a.ty.dtype) in _INDICES


def _forms(condition: Any) -> list[Any]:
    """The same as "less than", of which alone TVM takes common factors out, either way around."""
    a, b = condition.a, condition.b
    if isinstance(condition, (prim.GT, prim.GE)):
        a, b = b, a
    if isinstance(condition, (prim.LT, prim.GT)):
        return [prim.LT(a, b), prim.Not(prim.LT(b, a + 1))]
    return [prim.LT(a, b + 1), prim.Not(prim.LT(b, a))]
