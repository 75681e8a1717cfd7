"""Kernels of fp16 on cooperative matrices: made, printed for a GPU, and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from support.compiled import MATRICES, MATRIX_GPU
from tvm_vision.compiler.tir.cast_buffers import narrowable, narrowed
from tvm_vision.schedules import TargetLimits
from tvm_vision.vulkan.codegen import build

SHAPE = (16, 16, 16)
LIMITS = TargetLimits(threads=1024, shared_bytes=49152, subgroup=32, matrices=(SHAPE,))
ATTRIBUTES = {**MATRIX_GPU, **MATRICES}


def halves(mod: tvm.IRModule) -> tirx.PrimFunc:
    """The kernel of a module with fp16 in memory."""
    function = next(f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return narrowed(function, [i for i, can in enumerate(narrowable(function)) if can])


def printed(function: tirx.PrimFunc, **attributes: Any) -> list[build.Shader]:
    """The GLSL of a scheduled function."""
    device = Target({**ATTRIBUTES, **attributes}, host="llvm")
    found: list[build.Shader] = []
    original = tvm.get_global_func("target.build.vulkan")

    def note(mod: tvm.IRModule, kind: Target) -> Any:
        found.extend(build.print_kernels(mod, kind))
        return original(mod, kind)

    tvm.register_global_func("target.build.vulkan", note, override=True)
    try:
        with device:
            named = function.with_attr("global_symbol", "main")
            tvm.tirx.build(tvm.IRModule({"main": named}), target=device)
    finally:
        tvm.register_global_func("target.build.vulkan", original, override=True)
    return found


def result(
    function: tirx.PrimFunc,
    inputs: list[Any],
    shape: tuple[int, ...],
    made_for: Target,
    dtype: str = "float16",
) -> np.ndarray:
    """What a scheduled function computes on the first device."""
    device = tvm.vulkan(0)
    with made_for:
        named = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        library = tvm.tirx.build(named, target=made_for)
    tensors = [tvm.runtime.tensor(value, device) for value in inputs]
    out = tvm.runtime.empty(shape, dtype, device)
    library["main"](*tensors, out)
    return out.numpy().astype("float64")
