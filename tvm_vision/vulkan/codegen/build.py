"""``target.build.vulkan``: a module of lowered kernels to a runtime module of SPIR-V shaders."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tvm_ffi
from tvm import IRModule, tirx
from tvm.target import Target

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import spirv
from tvm_vision.vulkan.codegen.dump import dump
from tvm_vision.vulkan.codegen.glsl.analysis import Analysis
from tvm_vision.vulkan.codegen.glsl.intrinsics import called_function_advice
from tvm_vision.vulkan.codegen.glsl.kernel import LAUNCH_PARAMS, Shader, print_kernel

_DEVICE_KERNEL_LAUNCH = 2  # tvm.ir.CallingConv.DEVICE_KERNEL_LAUNCH


def build_vulkan(mod: IRModule, target: Target) -> Any:
    """Compiles all kernels of a module and hands them to the runtime.

    Args:
        mod: device functions after lowering and splitting, as TVM passes to target.build.*.
        target: kind "vulkan"; attributes say what the device can do.

    Returns:
        A runtime module of kind "vulkan".

    Raises:
        UnsupportedKernelError: a kernel cannot be written for this target.
    """
    kernels = print_kernels(mod, target)
    return module_of(kernels, compile_kernels(kernels, target))


def module_of(kernels: list[Shader], shaders: dict[str, bytes]) -> Any:
    """A runtime module of kind "vulkan", of kernels sorted by name and their SPIR-V by name."""
    dump({kernel.name: kernel.source for kernel in kernels}, shaders)
    create = tvm_ffi.get_global_func("tvm_vision.vulkan.module_create")
    source = "\n".join(kernel.source for kernel in kernels)
    return create(describe(kernels), shaders, {"glsl": source})


def print_kernels(mod: IRModule, target: Target) -> list[Shader]:
    """The GLSL of every kernel, sorted by name."""
    attributes = dict(target.attrs)
    kernels = []
    for variable, function in mod.functions_items():
        name = variable.name_hint
        if not isinstance(function, tirx.PrimFunc):
            raise UnsupportedKernelError(
                f"target vulkan takes lowered PrimFuncs only, got a {type(function).__name__}"
            )
        if int(function.attrs.get("calling_conv", 0)) != _DEVICE_KERNEL_LAUNCH:
            raise UnsupportedKernelError(
                f"function {name} runs on the device but is no kernel: "
                + called_function_advice(name)
            )
        lacking = [a for a in ("global_symbol", LAUNCH_PARAMS) if a not in function.attrs]
        if lacking == [LAUNCH_PARAMS] and not Analysis(function).extents:
            lacking = []  # it has neither grid nor workgroups
        if lacking:
            raise UnsupportedKernelError(
                f"kernel {name} lacks the attribute {' and '.join(lacking)}: build it with "
                "tvm.compile, or split it from its host by tirx.transform.SplitHostDevice"
            )
        kernels.append(print_kernel(function, attributes))
    return sorted(kernels, key=lambda kernel: kernel.name)


def compile_kernels(kernels: list[Shader], target: Target) -> dict[str, bytes]:
    """SPIR-V of every kernel; they are compiled side by side."""
    environment = target_environment(target)
    workers = max(1, min(len(os.sched_getaffinity(0)), len(kernels)))
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(spirv.compile_glsl, kernel.source, name=kernel.name, target_env=environment)
            for kernel in kernels
        ]
        return {kernel.name: job.result() for kernel, job in zip(kernels, jobs, strict=True)}


def target_environment(target: Target) -> str:
    """Vulkan 1.2 (SPIR-V 1.5) unless the target names an older version of Vulkan."""
    version = target.attrs.get("vulkan_api_version")
    if version is not None and int(version) < (1 << 22 | 2 << 12):
        return "vulkan1.1"
    return "vulkan1.2"


def describe(kernels: list[Shader]) -> str:
    """The JSON by which the runtime knows each kernel's arguments and launch parameters."""
    return json.dumps(
        {
            kernel.name: {
                "name": kernel.name,
                "arg_types": list(kernel.arg_types),
                "launch_param_tags": list(kernel.launch_param_tags),
                "flags": kernel.flags,
            }
            for kernel in kernels
        },
        sort_keys=True,
    )
