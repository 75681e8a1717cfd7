"""Kernels of fp16 on cooperative matrices: made, printed for a GPU, and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from support.compiled import MATRICES, MATRIX_GPU
from support.lowering import kernels
from tvm_vision.compiler.tir.cast_buffers import narrowable, narrowed
from tvm_vision.schedules import TargetLimits
from tvm_vision.vulkan.codegen.glsl.kernel import Shader

SHAPE = (16, 16, 16)
LIMITS = TargetLimits(threads=1024, shared_bytes=49152, subgroup=32, matrices=(SHAPE,))
ATTRIBUTES = {**MATRIX_GPU, **MATRICES}


def halves(mod: tvm.IRModule) -> tirx.PrimFunc:
    """The kernel of a module with fp16 in memory."""
    function = next(f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return narrowed(function, [i for i, can in enumerate(narrowable(function)) if can])


def printed(function: tirx.PrimFunc, check: bool = True, **attributes: Any) -> list[Shader]:
    """The GLSL of a scheduled function; ``check``: compile it and run spirv-val."""
    return kernels(function, Target({**ATTRIBUTES, **attributes}), check)


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
