"""Small Relax functions through our schedules, on the first Vulkan device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.target import Target

from support.lowering import HOST
from tvm_vision.schedules import schedule_function
from tvm_vision.schedules.common import TargetLimits

TOLERANCE = 1e-5  # largest error over the largest value, float32


@lru_cache(maxsize=1)
def target() -> Target:
    """The target of the first device, asked of it; with a dot product also where the driver has to
    write it out, as lavapipe's does."""
    config = {"kind": "vulkan", "from_device": 0, "supports_integer_dot_product": True}
    return Target(config, Target(HOST))


def fused(
    build: Callable[..., Any],
    shapes: Sequence[Sequence[int]],
    dtype: str | Sequence[str] = "float32",
) -> tvm.IRModule:
    """The Relax function of ``build`` over inputs of these shapes, its operators as kernels.

    Args:
        dtype: of all inputs, or of each.
    """
    builder = relax.BlockBuilder()
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
    types = [relax.TensorType(*of) for of in zip(shapes, dtypes, strict=True)]
    inputs = [relax.Var(f"x{i}", of) for i, of in enumerate(types)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(build(*inputs))
        builder.emit_func_output(output)
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    with target(), tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(builder.get())


def scheduled(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[str]]:
    """The module with our schedules, and the kind of each of its kernels."""
    functions, kinds = dict(mod.functions_items()), []
    for name, function in functions.items():
        if isinstance(function, tirx.PrimFunc):
            functions[name], kind = schedule_function(function, TargetLimits.of(target()))
            kinds.append(kind)
    return tvm.IRModule(functions, attrs=mod.attrs), kinds


def run(
    mod: tvm.IRModule, inputs: Sequence[np.ndarray], made_for: Target | None = None
) -> np.ndarray:
    """What ``main`` of a scheduled module computes on the device, of its own target if not given
    one."""
    device = tvm.vulkan(0)
    made_for = made_for or target()
    with made_for, tvm.transform.PassContext(opt_level=3):
        executable = relax.build(mod, target=made_for)
    vm = relax.VirtualMachine(executable, device)
    return vm["main"](*(tvm.runtime.tensor(value, device) for value in inputs)).numpy()


def noise(shapes: Sequence[Sequence[int]], seed: int = 0, dtype: str = "float32") -> list[Any]:
    """Normal noise."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(tuple(shape)).astype(dtype) for shape in shapes]


def check(
    build: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    expected: np.ndarray,
    tolerance: float = TOLERANCE,
) -> list[str]:
    """Compares with a reference; returns the kinds of the kernels."""
    mod = fused(build, [value.shape for value in inputs], str(inputs[0].dtype))
    mod, kinds = scheduled(mod)
    result = run(mod, inputs)
    assert result.shape == expected.shape
    error = np.abs(result.astype("float64") - expected).max(initial=0)
    assert error <= tolerance * max(1.0, np.abs(expected).max(initial=0)), kinds
    return kinds
