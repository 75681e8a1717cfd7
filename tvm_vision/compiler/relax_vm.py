"""Compile a Relax module for TVM's virtual machine, on a GPU with default schedules."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.target import Target

from .default_schedules import default_schedules
from .fold_constants import fold_constants


def compile_relax(mod: tvm.IRModule, target: Target) -> Any:
    """Compile ``mod`` for ``target`` and return the executable for tvm.relax.VirtualMachine.

    On a GPU every kernel gets a schedule that needs no tuning; on a CPU the loops stay as they are
    and LLVM vectorises them.
    """
    with target, tvm.transform.PassContext(opt_level=3):
        fused = _fusion()(mod)
        if "gpu" in target.keys:
            fused = default_schedules()(fused)
        return relax.build(fused, target=target)


def _fusion() -> tvm.transform.Pass:
    """Operators to kernels, constants to values, neighbours to one kernel."""
    return tvm.transform.Sequential(
        [
            fold_constants,
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(),
        ]
    )
