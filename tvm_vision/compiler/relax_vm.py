"""Compile a Relax module for TVM's virtual machine, on a GPU with default schedules."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import dlight


def compile_relax(mod: tvm.IRModule, target: tvm.target.Target) -> Any:
    """Compile ``mod`` for ``target`` and return the executable for tvm.relax.VirtualMachine.

    On a GPU every kernel gets one of dlight's schedules, which need no tuning; on a CPU the loops
    stay as they are and LLVM vectorises them.
    """
    with target, tvm.transform.PassContext(opt_level=3):
        fused = _fusion()(mod)
        if "gpu" in target.keys:
            fused = _default_schedules()(fused)
        return relax.build(fused, target=target)


def _fusion() -> tvm.transform.Pass:
    """Operators to kernels, constants to values, neighbours to one kernel."""
    return tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(),
        ]
    )


def _default_schedules() -> tvm.transform.Pass:
    return dlight.ApplyDefaultSchedule(
        dlight.gpu.Matmul(),
        dlight.gpu.GEMV(),
        dlight.gpu.Reduction(),
        dlight.gpu.GeneralReduction(),
        dlight.gpu.Fallback(),
    )
