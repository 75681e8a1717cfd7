"""A schedule for every GPU kernel, without tuning: dlight's rules, kept to where they pay off."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.target import Target

# From about this many outputs on, one thread for each keeps a GPU of a robot busy.
MANY_OUTPUTS = 4096


def default_schedules() -> tvm.transform.Pass:
    """A pass that schedules each kernel by the first rule that takes it."""
    return dlight.ApplyDefaultSchedule(
        dlight.gpu.Matmul(),
        FewOutputs(dlight.gpu.GEMV()),
        FewOutputs(dlight.gpu.Reduction()),
        FewOutputs(dlight.gpu.GeneralReduction()),
        dlight.gpu.Fallback(),
    )


class FewOutputs(dlight.ScheduleRule):
    """Another rule, but only for kernels with few outputs.

    dlight's rules for reductions let a workgroup share one sum. That pays off where sums are long
    and few; a depthwise convolution has many sums of 9 or 25 numbers, and most threads would idle:
    on lavapipe a network of them ran 10 times slower.
    """

    def __init__(self, rule: dlight.ScheduleRule) -> None:
        self._rule = rule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Any:
        """The schedule of the other rule, or None; called by ApplyDefaultSchedule."""
        if reduction_outputs(func) >= MANY_OUTPUTS:
            return None
        return self._rule.apply(func, target, tunable)


def reduction_outputs(func: tirx.PrimFunc) -> int:
    """Most outputs that any reduction of ``func`` has; 0 where none is found or sizes are open."""
    blocks = normalize_prim_func(s_tir.Schedule(func)) or []
    return max((_outputs(block) for block in blocks if block.is_reduction()), default=0)


def _outputs(block: Any) -> int:
    outputs = 1
    for axis in block.iters:
        if axis.kind == "S":
            outputs *= axis.dom if isinstance(axis.dom, int) else 0
    return outputs
