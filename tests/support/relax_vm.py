"""Relax modules on TVM's own virtual machine, with our default schedules: a second way to run."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.target import Target

from support.compiled import kernels_of
from tvm_vision.compiler.tir.prescheduled import finish_prescheduled
from tvm_vision.schedules import schedule_module


def compile_relax(mod: tvm.IRModule, target: Target) -> Any:
    """Compile ``mod`` for a GPU and return the executable for tvm.relax.VirtualMachine."""
    fused, _ = kernels_of(mod, target)
    with target, tvm.transform.PassContext(opt_level=3):
        return relax.build(schedule_module(finish_prescheduled(fused), target), target=target)
