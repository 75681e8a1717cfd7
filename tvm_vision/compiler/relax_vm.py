"""Compile a Relax module for TVM's virtual machine, on a GPU with default schedules."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.target import Target

from ..schedules import schedule_module
from .hand_threaded import finish_hand_threaded
from .passes import to_kernels


def compile_relax(mod: tvm.IRModule, target: Target) -> Any:
    """Compile ``mod`` for ``target`` and return the executable for tvm.relax.VirtualMachine.

    On a GPU every kernel gets a schedule that needs no tuning; on a CPU the loops stay as they are
    and LLVM vectorises them.
    """
    fused, _ = to_kernels(mod, target, opt_level=3)
    with target, tvm.transform.PassContext(opt_level=3):
        if "gpu" in target.keys:
            fused = schedule_module(finish_hand_threaded(fused), target)
        return relax.build(fused, target=target)
