"""From the functions of kernels to their code, by TVM's passes, one object file a kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target
from tvm.tirx.build import split_host_device_mods

from ...errors import TvmVisionError
from ...schedules import (
    TUNED,
    ScheduleConfig,
    TargetLimits,
    check_writes,
    cpu_schedules,
    schedule_module,
)
from ...vulkan.codegen import build as shader_build
from ..target import host_of, with_llvm_opt_level
from ..tir.prescheduled import finish_prescheduled
from .code import KernelCode, KernelShader, Workspace
from .lowering import lower

_ENTRY = "tirx.is_entry_func"


def schedule_kernels(
    functions: Mapping[str, tirx.PrimFunc],
    target: Target,
    limits: TargetLimits | None,
    choices: Mapping[str, ScheduleConfig | None],
) -> tvm.IRModule:
    """The functions with schedules for a target, by their names.

    limits: what kernels may have; None on a processor, of which the target says all. choices: what
    tuning chose, by name.

    Raises UnsupportedKernelError where there is none for one of them.
    """
    named = {name: f.with_attr("global_symbol", name) for name, f in sorted(functions.items())}
    module = tvm.IRModule(named)

    def choose(function: tirx.PrimFunc) -> ScheduleConfig | None:
        return choices[str(function.attrs["global_symbol"])]

    if "gpu" in target.keys:
        return schedule_module(finish_prescheduled(module), target, choose, limits)
    module = cpu_schedules(module, target, choose)
    for variable, function in module.functions_items():
        check_writes(variable.name_hint, function)
    return module


def build_kernels(
    module: tvm.IRModule,
    target: Target,
    placeholders: Mapping[str, str],
    workspaces: Mapping[str, tuple[Workspace, ...]],
) -> dict[str, KernelCode]:
    """The code of scheduled functions, by their names, in which the placeholders are their names.

    Raises UnsupportedKernelError, and what TVM raises, by the names in ``module``.
    """
    functions = {variable.name_hint: f for variable, f in module.functions_items()}
    renamed = {
        placeholders[name]: function.with_attr("global_symbol", placeholders[name])
        for name, function in functions.items()
    }
    names = {placeholder: name for name, placeholder in placeholders.items()}
    with _by_names(names):
        hosts, shaders = _code_of(tvm.IRModule(renamed, attrs=module.attrs), target, names)
    return {
        name: KernelCode(
            placeholders[name],
            hosts[placeholders[name]],
            tuple(shaders.get(placeholders[name], ())),
            tuple(workspaces.get(name, ())),
            TUNED in (function.attrs or {}),
        )
        for name, function in functions.items()
    }


def _code_of(
    module: tvm.IRModule, target: Target, names: Mapping[str, str]
) -> tuple[dict[str, bytes], dict[str, list[KernelShader]]]:
    """Object files and shaders by the placeholder that their functions begin with; the steps of
    ``tvm.tirx.build``, up to code."""
    host_target = host_of(target)
    _, finish_host, finish_device = tirx.get_default_tir_pipeline(target)
    module = tirx.transform.BindTarget(target.with_host(host_target))(module)
    host, devices = split_host_device_mods(lower(module))
    if devices:
        # Code that only launches kernels, once when a network is loaded: to optimize it takes a
        # quarter of a compilation.
        host_target = with_llvm_opt_level(host_target, 0)
    shaders: dict[str, list[KernelShader]] = {}
    # LLVM works by itself, while Python writes the shaders.
    with ThreadPoolExecutor(1) as beside:
        objects = beside.submit(_objects, finish_host()(host), host_target, names)
        for device, kernels in devices.items():
            for shader in _shaders(finish_device()(kernels), device, names):
                shaders.setdefault(_owner(shader.told.name, names), []).append(shader)
        return objects.result(), shaders


def _shaders(
    module: tvm.IRModule, target: Target, names: Mapping[str, str]
) -> Iterator[KernelShader]:
    printed = shader_build.print_kernels(module, target)
    # By their names, which messages have and the file with what is refused.
    owners = [_owner(shader.name, names) for shader in printed]
    known = [
        replace(
            shader,
            name=shader.name.replace(owner, names[owner]),
            source=shader.source.replace(owner, names[owner]),
        )
        for shader, owner in zip(printed, owners, strict=True)
    ]
    compiled = shader_build.compile_kernels(known, target)
    for shader, by_name in zip(printed, known, strict=True):
        yield KernelShader(shader, compiled[by_name.name])


def _objects(module: tvm.IRModule, target: Target, names: Mapping[str, str]) -> dict[str, bytes]:
    generate = tvm_ffi.get_global_func(f"target.build.{target.kind.name}")
    parts: dict[str, dict[Any, Any]] = {}
    for variable, function in module.functions_items():
        # TVM marks a function that is made alone, and its code would be another.
        plain = function.without_attr(_ENTRY)
        parts.setdefault(_owner(variable.name_hint, names), {})[variable] = plain
    return {
        name: _object(generate(tvm.IRModule(part, attrs=module.attrs), target))
        for name, part in parts.items()
    }


def _object(module: Any) -> bytes:
    # A file in memory: LLVM ends the process where a disk is full.
    with open(os.memfd_create("kernel.o"), "rb") as stream:
        module.write_to_file(f"/proc/self/fd/{stream.fileno()}", "o")
        return stream.read()


def _owner(name: str, names: Mapping[str, str]) -> str:
    """The placeholder that a name begins with."""
    return next(placeholder for placeholder in names if name.startswith(placeholder))


@contextmanager
def _by_names(names: Mapping[str, str]) -> Iterator[None]:
    """Errors that name kernels as people know them."""
    try:
        yield
    except Exception as error:
        text = str(error)
        for placeholder, name in names.items():
            text = text.replace(placeholder, name)
        if text == str(error):
            raise
        kind = type(error) if isinstance(error, TvmVisionError) else RuntimeError
        raise kind(text) from error
