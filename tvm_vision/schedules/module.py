"""Chooses a schedule for each kernel of a module: the first kind that takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import dlight
from tvm.target import Target

from ..errors import UnsupportedKernelError
from .common import FAILURES, NotThisKind, TargetLimits, left_to_host, tell_fault
from .coverage import unwritten
from .cpu import templates as cpu
from .cpu.processor import Processor
from .templates import (
    TEMPLATES,
    FreshSchedule,
    Limits,
    ScheduleConfig,
    marked,
    schedule_with,
)

LOGGER = logging.getLogger(__name__)

# What a tuner found for a function, or None.
Chooser = Callable[[tirx.PrimFunc], "ScheduleConfig | None"]
FALLBACK = "fallback"
NONE = "none"
TUNED = "tvm_vision.tuned"


def schedule_module(
    mod: tvm.IRModule,
    target: Target,
    choose: Chooser | None = None,
    limits: TargetLimits | None = None,
) -> tvm.IRModule:
    """A module in which every PrimFunc has a schedule for a GPU.

    Functions that have one, or that run on the host, stay as they are.

    Args:
        mod: Relax functions (left alone) and PrimFuncs made of blocks.
        target: its attributes set the sizes of workgroups and of shared memory.
        choose: what to take for a function, which is marked with TUNED; where it has nothing, or
            what it has does not fit (which is logged), the first template that takes the function
            is applied.
        limits: what kernels may have; None for all that the target has.

    Raises:
        UnsupportedKernelError: no schedule fits a function, or one that came with threads has
            parts without, or results that it does not write.
    """
    limits = limits or TargetLimits.of(target)
    functions = dict(mod.functions_items())
    for name, function in functions.items():
        if not isinstance(function, tirx.PrimFunc):
            continue
        if is_scheduled(function):
            _check_threads(name.name_hint, function)
            check_writes(name.name_hint, function)
            continue
        tuned = _tuned(function, limits, choose(function) if choose else None)
        if tuned is not None:
            functions[name] = tuned
            continue
        functions[name], kind = schedule_function(function, limits, target)
        LOGGER.debug("%s: %s", name.name_hint, kind)
        if kind == NONE:
            raise UnsupportedKernelError(
                f"kernel '{name.name_hint}' has no schedule: no template, nor TVM's own, fits it"
            )
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def cpu_schedules(mod: tvm.IRModule, target: Target, choose: Chooser | None = None) -> tvm.IRModule:
    """A module in which every PrimFunc has loops for a processor; choose: as of
    ``schedule_module``. Functions that have a schedule stay as they are."""
    processor = Processor.of(target)
    made = {}
    for variable, function in mod.functions_items():
        wanted = choose(function) if choose and cpu.is_open(function) else None
        tuned = _tuned(function, processor, wanted)
        made[variable] = cpu.scheduled(function, processor) if tuned is None else tuned
    return tvm.IRModule(made, attrs=mod.attrs)


def _check_threads(name: str, function: tirx.PrimFunc) -> None:
    left = [] if (function.attrs or {}).get("tirx.is_host_func", False) else left_to_host(function)
    if left:
        raise UnsupportedKernelError(
            f"kernel '{name}' needs threads for all that it computes, and has none for "
            f"{', '.join(left)}"
        )


def check_writes(name: str, function: tirx.PrimFunc) -> None:
    """Raise UnsupportedKernelError where a scheduled function leaves parts of a result as they
    were."""
    if missed := unwritten(function):
        raise UnsupportedKernelError(
            f"kernel '{name}' must write all of its results, and leaves parts of "
            f"{', '.join(missed)} as they were: compile with --opt-level 1"
        )


def _tuned(
    function: tirx.PrimFunc, limits: Limits, choice: ScheduleConfig | None
) -> tirx.PrimFunc | None:
    """A function as a choice has it; None where there is none, or it does not fit."""
    if choice is None:
        return None
    try:
        return schedule_with(function, limits, choice).with_attr(TUNED, True)
    except NotThisKind as error:
        LOGGER.warning("a tuned choice is passed over: %s", error)
        return None


def schedule_function(
    function: tirx.PrimFunc, limits: TargetLimits, target: Target | None = None
) -> tuple[tirx.PrimFunc, str]:
    """A function with a schedule, and the kind that gave it; with NONE as it was.

    Args:
        target: for TVM's own fallback; without one that is not tried.
    """
    fresh = FreshSchedule(function)
    for kind, template in TEMPLATES.items():
        try:
            return template.applied(fresh, limits, None), kind
        except FAILURES as error:
            LOGGER.debug("%s passed over: %s", kind, error)
        except Exception as error:
            tell_fault(kind, error)
    try:
        schedule = dlight.gpu.Fallback().apply(function, target, False) if target else None
        return (marked(schedule, limits), FALLBACK) if schedule else (function, NONE)
    except Exception as error:  # TVM's own raises every kind for what it does not handle
        LOGGER.debug("fallback passed over: %s", error)
    return function, NONE


def is_scheduled(function: tirx.PrimFunc) -> bool:
    """Whether a function already has threads, or runs on the host."""
    attributes = function.attrs or {}
    if attributes.get("tirx.is_scheduled", False) or attributes.get("tirx.is_host_func", False):
        return True
    threads: list[tirx.For] = []

    def see(loop: tirx.For) -> None:
        if loop.kind == tirx.ForKind.THREAD_BINDING:
            threads.append(loop)

    tvm_ffi.structural_walk(function.body, (tirx.For, see))
    return bool(threads)
