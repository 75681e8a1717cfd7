"""Chooses a schedule for each kernel of a module: the first kind that takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule, dlight
from tvm.target import Target

from .common import FAILURES, Limits
from .contraction import schedule_contraction
from .elementwise import schedule_elementwise
from .reduction import schedule_reduction
from .window import schedule_window

LOGGER = logging.getLogger(__name__)

# Tried in this order; each raises where a kernel is of another kind.
KINDS: tuple[tuple[str, Callable[[Schedule, Limits], None]], ...] = (
    ("elementwise", schedule_elementwise),
    ("contraction", schedule_contraction),
    ("reduction", schedule_reduction),
    ("window", schedule_window),
)
FALLBACK = "fallback"
NONE = "none"


def schedule_module(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """A module in which every PrimFunc has a schedule for a GPU.

    Functions that have one, that run on the host, or that no schedule fits (which is logged) stay
    as they are.

    Args:
        mod: Relax functions (left alone) and PrimFuncs made of blocks.
        target: its attributes set the sizes of workgroups and of shared memory.
    """
    limits = Limits.of(target)
    functions = dict(mod.functions_items())
    for name, function in functions.items():
        if not isinstance(function, tirx.PrimFunc) or is_scheduled(function):
            continue
        functions[name], kind = schedule_function(function, limits, target)
        LOGGER.debug("%s: %s", name.name_hint, kind)
        if kind == NONE:
            LOGGER.warning("kernel %s has no schedule: nothing here fits it", name.name_hint)
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def schedule_function(
    function: tirx.PrimFunc, limits: Limits, target: Target | None = None
) -> tuple[tirx.PrimFunc, str]:
    """A function with a schedule, and the kind that gave it; with NONE as it was.

    Args:
        target: for TVM's own fallback; without one that is not tried.
    """
    for kind, apply in KINDS:
        try:
            schedule = Schedule(function)
            apply(schedule, limits)
        except FAILURES as error:
            LOGGER.debug("%s passed over: %s", kind, error)
            continue
        return _marked(schedule), kind
    try:
        schedule = dlight.gpu.Fallback().apply(function, target, False) if target else None
    except FAILURES as error:
        LOGGER.debug("fallback passed over: %s", error)
        schedule = None
    return (_marked(schedule), FALLBACK) if schedule is not None else (function, NONE)


def _marked(schedule: Schedule) -> tirx.PrimFunc:
    return schedule.mod["main"].with_attr("tirx.is_scheduled", True)


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
