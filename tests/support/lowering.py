"""TensorIR on its way to the device, for tests of the code generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx
from tvm.s_tir import dlight
from tvm.target import Target
from tvm.tirx.build import split_host_device_mods

from tvm_vision.compiler.kernels.lowering import lower
from tvm_vision.vulkan.codegen import build, spirv
from tvm_vision.vulkan.codegen.glsl.analysis import Analysis
from tvm_vision.vulkan.codegen.glsl.kernel import LAUNCH_PARAMS, Shader

ABSENT: Mapping[str, Any] = {}
# Code that only launches kernels, or gives values to compare with: to optimize it takes half of
# what it takes to build one.
HOST = {"kind": "llvm", "opt-level": 0}
ALL_FEATURES = {
    "kind": "vulkan",
    "max_threads_per_block": 256,
    "max_shared_memory_per_block": 16384,
    "thread_warp_size": 32,
    "supports_float16": True,
    "supports_float64": True,
    "supports_int8": True,
    "supports_int16": True,
    "supports_int64": True,
    "supports_8bit_buffer": True,
    "supports_16bit_buffer": True,
}


def target(**changes: Any) -> Target:
    """A target that has everything, whatever this machine has; keyword arguments change it."""
    return Target({**ALL_FEATURES, **changes})


def device_module(function: Any, on: Target) -> Any:
    """What is passed to target.build.vulkan for a scheduled PrimFunc of a network."""
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    mod = tirx.transform.BindTarget(on.with_host(Target("llvm")))(mod)
    _, _, finalize = tirx.get_tir_pipeline("s_tir")
    _, by_target = split_host_device_mods(lower(mod))
    (found,) = by_target.values()
    return finalize()(found)


def schedule(function: Any, on: Target) -> Any:
    """A PrimFunc under dlight's default schedules."""
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    rules = (dlight.gpu.Matmul, dlight.gpu.Reduction, dlight.gpu.GeneralReduction)
    with on:
        mod = dlight.ApplyDefaultSchedule(*(rule() for rule in rules), dlight.gpu.Fallback())(mod)
    return mod["main"]


def kernels(function: Any, on: Target | None = None, check: bool = True) -> list[Shader]:
    """The GLSL of a scheduled PrimFunc; ``check``: compile it and run spirv-val."""
    on = on or target()
    found = build.print_kernels(device_module(function, on), on)
    if check:
        for kernel in found:
            spirv.validate(spirv.compile_glsl(kernel.source, name=kernel.name))
    return found


def elementwise(
    body: Callable[..., Any], dtypes: Sequence[str], n: int = 64, vector: int = 1
) -> Any:
    """A scheduled PrimFunc: out[i] = body(x0[i], x1[i], ...), ``vector`` lanes a thread."""
    inputs = [te.placeholder((n,), dtype, f"x{i}") for i, dtype in enumerate(dtypes)]
    out = te.compute((n,), lambda i: body(*(x[i] for x in inputs)), "out")
    sch = tvm.s_tir.Schedule(te.create_prim_func([*inputs, out]))
    (loop,) = sch.get_loops(sch.get_sblock("out"))
    threads = min(32, -(-n // vector))
    outer, thread, lanes = sch.split(loop, [None, threads, vector])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if vector > 1:
        sch.vectorize(lanes)
    return sch.mod["main"]


def execute(
    function: Any, *arrays: np.ndarray, lacking: Mapping[str, Any] = ABSENT
) -> list[np.ndarray]:
    """Runs a scheduled PrimFunc on the first Vulkan device; gives all its buffers back.

    lacking: attributes of a target that has less than the device.
    """
    module = tvm.tirx.build(
        tvm.IRModule({"main": function.with_attr("global_symbol", "main")}),
        Target({"kind": "vulkan", "from_device": 0, "host": HOST, **lacking}),
    )
    device = tvm.vulkan(0)
    buffers = [tvm.runtime.tensor(array, device) for array in arrays]
    module["main"](*buffers)
    return [buffer.numpy() for buffer in buffers]


def evaluate(
    body: Callable[..., Any],
    *inputs: np.ndarray,
    dtype: str,
    vector: int = 1,
    lacking: Mapping[str, Any] = ABSENT,
) -> np.ndarray:
    """``body`` of each element on the device; ``dtype`` is the result's.

    The kernel is launched without a host's code, which would take most of the time.
    """
    on = Target({"kind": "vulkan", "from_device": 0, **lacking})
    function = elementwise(body, [str(x.dtype) for x in inputs], inputs[0].size, vector)
    module = device_module(function, on)
    ((name, kernel),) = module.functions_items()
    arrays = {f"x{i}": x for i, x in enumerate(inputs)}
    arrays["out"] = np.zeros(inputs[0].size, dtype)
    buffers = {n: tvm.runtime.tensor(array, tvm.vulkan(0)) for n, array in arrays.items()}
    given = [buffers[param.name.removesuffix("_ptr")] for param in kernel.params]
    extents = Analysis(kernel).extents
    launch = [int(extents[tag]) for tag in kernel.attrs[LAUNCH_PARAMS]]
    build.build_vulkan(module, on)[name.name_hint](*given, *launch)
    return buffers["out"].numpy()


def call(name: str, dtype: str, *args: Any) -> Any:
    """An operator of TensorIR by its bare name."""
    family = "prim" if name in ("ceil", "log2", "clz") else "tirx"
    return tirx.call_intrin(dtype, f"{family}.{name}", *args)
