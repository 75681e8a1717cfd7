"""Kernels against float64, on numbers that are hard to compute with.

What is computed, of every schedule template, stands in hard_cases.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import tirx
from tvm.target import Target

from support.compiled import MATRICES, this_processor
from support.lowering import HOST
from support.schedule_runs import target
from tvm_vision.schedules import ScheduleConfig, choices, limits_of, schedule_with
from tvm_vision.schedules.common import NotThisKind
from tvm_vision.schedules.cpu import templates as cpu

Array = npt.NDArray[Any]
# Unit roundoff, IEEE 754: half of the distance from 1 to the next number.
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11}
SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14}


@dataclass(frozen=True)
class Case:
    """A function of one kernel.

    Attributes:
        template: whose candidates are tried.
        function: of a dtype, unscheduled.
        shapes: of its inputs.
        exact: of numpy, in float64.
        terms: of the sums in a result, 0 for none, where each result is a sum of products of the
            first input and the second, or of the first alone.
        magnitudes: the sums of the terms' magnitudes, of the inputs' magnitudes; ``exact`` of them
            where nothing is said.
        bound: of each result's error, in place of that of sums, of the inputs.
        passing_nan: what may come of a NaN that a maximum or minimum meets, beside NaN: GLSL leaves
            it open, and IEEE 754 has both, maxNum and maximum.
        constants: inputs behind those of ``shapes``.
        dtypes: that the template takes.
        on_matrices: whether it needs cooperative matrices, which are emulated.
        limits: of the device's what is otherwise.
        only: which of the candidates are meant.
        offered: candidates that the template does not offer by itself.
    """

    template: str
    function: Callable[[str], tirx.PrimFunc]
    shapes: tuple[tuple[int, ...], ...]
    exact: Callable[..., Array]
    terms: int = 0
    magnitudes: Callable[..., Array] | None = None
    bound: Callable[..., Array] | None = None
    passing_nan: tuple[Callable[..., Array], ...] = ()
    constants: tuple[Array, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "float16")
    on_matrices: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)
    only: Callable[[Any], bool] = lambda parameters: True
    offered: Callable[[tirx.PrimFunc], Sequence[ScheduleConfig]] | None = None

    @property
    def on_processor(self) -> bool:
        """Whether the template is one of processors."""
        return self.template in cpu.TEMPLATES

    @property
    def made_for(self) -> Target:
        """What the kernel is compiled for: this processor, or the first device."""
        if self.on_processor:
            return this_processor()
        if self.on_matrices:
            return Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
        return Target({"kind": "vulkan", "from_device": 0, "host": HOST})


KINDS = ("plain", "cancelling", "denormal", "infinite", "nan")


def numbers(kind: str, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Inputs of one of KINDS."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape)
    if kind == "cancelling":
        # Beside large numbers of both signs, whose sum is small.
        flat = x.reshape(-1)
        flat[: flat.size // 2 * 2 : 2] *= 1e3 if dtype == "float32" else 30
        flat[1 : flat.size // 2 * 2 : 2] = -flat[: flat.size // 2 * 2 : 2] + 1e-3
    elif kind == "denormal":
        x *= SMALLEST_NORMAL[dtype] / 4
    elif kind in ("infinite", "nan"):
        special = np.inf if kind == "infinite" else np.nan
        where = random.random(shape) < 0.02
        x[where] = special * random.choice([-1.0, 1.0], shape)[where]
        x.reshape(-1)[shape[-1] // 2] = special
    return x.astype(dtype)


def configs(case: Case, dtype: str, most: int | None) -> list[tuple[ScheduleConfig, Any]]:
    """Candidates of a case's template with their scheduled functions, at most so many, spread."""
    function = case.function(dtype)
    limits: Any = limits_of(case.made_for if case.on_processor else target())
    if not case.on_processor:
        limits = replace(limits, **case.limits)
    found = case.offered(function) if case.offered else choices(function, limits)
    meant = [c for c in found if c.template == case.template and case.only(c.parameters)]
    step = 1 if most is None else max(1, len(meant) // most)
    scheduled: list[tuple[ScheduleConfig, Any]] = []
    for choice in meant[::step]:
        try:
            scheduled.append((choice, schedule_with(function, limits, choice)))
        except NotThisKind:
            continue
        if most is not None and len(scheduled) == most:
            break
    return scheduled


def inputs_of(case: Case, kind: str, dtype: str) -> list[Array]:
    """Of the later inputs of a sum only the first is hard: else everything is."""
    kinds = [kind, *[kind if not case.terms else "plain"] * (len(case.shapes) - 1)]
    return [
        numbers(k, shape, dtype, seed)
        for seed, (k, shape) in enumerate(zip(kinds, case.shapes, strict=True))
    ]


def built(function: tirx.PrimFunc, case: Case, dtype: str) -> Callable[[list[Array]], Array]:
    """A scheduled function on its device: inputs to the result, in place of other numbers."""
    named = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with case.made_for:
        module = tvm.tirx.build(named, target=case.made_for)
    device = tvm.cpu(0) if case.on_processor else tvm.vulkan(0)
    shape = tuple(int(n) for n in function.params[-1].ty.shape)

    def run(inputs: list[Array]) -> Array:
        result = tvm.runtime.tensor(np.full(shape, 77, dtype), device)
        given = (tvm.runtime.tensor(x, device) for x in (*inputs, *case.constants))
        module["main"](*given, result)
        return np.asarray(result.numpy())

    return run


def wrong(case: Case, inputs: list[Array], found: Array, dtype: str) -> str:
    """Why a result is none that the numbers' precision allows; "" where it is.

    Sums: within (terms + 2) roundoffs of the sum of the magnitudes (Higham, Accuracy and Stability
    of Numerical Algorithms, 3.1), whatever the order. All else: the nearest number. Denormal
    numbers, of inputs and results, may count as zeros, as Vulkan lets devices choose.
    """
    wide = [x.astype(np.float64) for x in inputs]
    with np.errstate(all="ignore"):
        exact = case.exact(*wide)
        sums = case.magnitudes or case.exact
        magnitudes = sums(*(np.abs(x) for x in wide)) if case.terms else np.abs(exact)
        lost = SMALLEST_NORMAL[dtype] * (max(1, case.terms) + 1) * 8
        bound = (case.terms + 2) * ROUNDOFF[dtype] * magnitudes + lost
        if case.bound is not None:
            bound = case.bound(*wide)
    odd = ~np.isfinite(exact)
    with np.errstate(all="ignore"):
        others = [found == passed(*inputs) for passed in case.passing_nan]
    same = (found == exact) | (np.isnan(found) & np.isnan(exact))
    differs = odd & ~np.any([same, *(other & np.isnan(exact) for other in others)], axis=0)
    with np.errstate(all="ignore"):
        off = ~odd & ~(np.abs(found.astype(np.float64) - exact) <= bound)
    for what, where in (("no number where it has to be", differs), ("beyond rounding", off)):
        if where.any():
            at = tuple(int(i[0]) for i in np.nonzero(where))
            return f"{where.sum()} {what}, as at {at}: {found[at]} for {exact[at]}"
    return ""
