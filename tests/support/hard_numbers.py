"""Kernels of every schedule template against float64, on numbers that are hard to compute with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, tirx
from tvm.target import Target

from support.lowering import HOST
from support.schedule_runs import fused, target
from tvm_vision.schedules import ScheduleConfig, TargetLimits, choices, schedule_with
from tvm_vision.schedules.common import NotThisKind

Array = npt.NDArray[Any]
OP = relax.op
# Unit roundoff, IEEE 754: half of the distance from 1 to the next number.
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11}
SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14}


@dataclass(frozen=True)
class Case:
    """A function of one kernel.

    build: of Relax. exact: of numpy, in float64. terms: of the sums in a result, 0 for none, where
    each result is a sum of products of the first input and the second, or of the first alone.
    passing_nan: what may come of a NaN that a maximum or minimum meets, beside NaN: GLSL leaves it
        open, and IEEE 754 has both, maxNum and maximum.
    """

    template: str
    build: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    exact: Callable[..., Array]
    terms: int = 0
    passing_nan: tuple[Callable[..., Array], ...] = ()

    def typed(self, dtype: str) -> tirx.PrimFunc:
        """Unscheduled, of a type."""
        mod = fused(self.build, self.shapes, dtype)
        return next(f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))


def _windows(x: Array, size: int, pad: float) -> Array:
    """[n, c, h, w, size, size]: windows of a stride of 1 that stay centred."""
    r = size // 2
    padded = np.pad(x, ((0, 0), (0, 0), (r, r), (r, r)), constant_values=pad)
    view: Any = np.lib.stride_tricks.sliding_window_view
    return np.asarray(view(padded, (size, size), (2, 3)))


def _conv(x: Array, w: Array) -> Array:
    return np.einsum("nchwij,ocij->nohw", _windows(x, 3, 0.0), w)


def _clip_low_first(x: Array) -> Array:
    return np.fmin(np.fmax(x, 0.0), 6.0)


def _clip_high_first(x: Array) -> Array:
    return np.fmax(np.fmin(x, 6.0), 0.0)


def _largest(x: Array) -> Array:
    return _windows(x, 3, -np.inf).max((4, 5))


def _depthwise(x: Array, w: Array) -> Array:
    return np.einsum("nchwij,cij->nchw", _windows(x, 3, 0.0), w[:, 0])


PLANE, ROWS, IMAGE = (5, 67), (6, 300), (1, 3, 9, 11)
CASES = {
    "maximum": Case("elementwise", OP.maximum, (PLANE, PLANE), np.maximum, 0, (np.fmax,)),
    "minimum": Case("elementwise", OP.minimum, (PLANE, PLANE), np.minimum, 0, (np.fmin,)),
    "relu": Case(
        "elementwise", OP.nn.relu, (PLANE,), lambda x: np.maximum(x, 0.0), 0,
        (lambda x: np.fmax(x, 0.0),),
    ),
    "clip": Case(
        "elementwise", lambda x: OP.clip(x, 0, 6), (PLANE,), lambda x: np.clip(x, 0, 6), 0,
        (_clip_low_first, _clip_high_first),
    ),
    "add": Case("elementwise", OP.add, (PLANE, PLANE), np.add),
    "multiply": Case("elementwise", OP.multiply, (PLANE, PLANE), np.multiply),
    "matmul": Case("contraction", OP.matmul, ((17, 33), (33, 19)), np.matmul, 33),
    "conv2d": Case(
        "contraction", lambda x, w: OP.nn.conv2d(x, w, padding=1), ((1, 4, 7, 9), (8, 4, 3, 3)),
        _conv, 36,
    ),
    "sum": Case("reduction", lambda x: OP.sum(x, 1), (ROWS,), lambda x: x.sum(1), 300),
    "max": Case(
        "reduction", lambda x: OP.max(x, 1), (ROWS,), lambda x: x.max(1), 0,
        (lambda x: np.nanmax(x, 1),),
    ),
    "min": Case(
        "reduction", lambda x: OP.min(x, 1), (ROWS,), lambda x: x.min(1), 0,
        (lambda x: np.nanmin(x, 1),),
    ),
    "max_pool2d": Case(
        "window", lambda x: OP.nn.max_pool2d(x, (3, 3), padding=(1, 1)), (IMAGE,), _largest, 0,
        (lambda x: _largest(np.where(np.isnan(x), -np.inf, x)),),
    ),
    "depthwise": Case(
        "window", lambda x, w: OP.nn.conv2d(x, w, padding=1, groups=3), (IMAGE, (3, 1, 3, 3)),
        _depthwise, 9,
    ),
}  # fmt: skip


def _conv_channels_last(x: Array, w: Array) -> Array:
    return _conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(0, 2, 3, 1)


# Of fp16 with sums in float32, on matrices, with rims.
ON_MATRICES = {
    "matmul": CASES["matmul"],
    "conv2d": Case(
        "contraction",
        lambda x, w: OP.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
        ((1, 7, 9, 16), (3, 3, 16, 24)), _conv_channels_last, 144,
    ),
}  # fmt: skip
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
    function, limits = case.typed(dtype), TargetLimits.of(target())
    offered = [c for c in choices(function, limits) if c.template == case.template]
    step = 1 if most is None else max(1, len(offered) // most)
    found = []
    for choice in offered[::step]:
        try:
            found.append((choice, schedule_with(function, limits, choice)))
        except NotThisKind:
            continue
        if most is not None and len(found) == most:
            break
    return found


def inputs_of(case: Case, kind: str, dtype: str) -> list[Array]:
    """Of the second input of a sum only the first is hard: else everything is."""
    kinds = [kind, kind if not case.terms else "plain"]
    return [
        numbers(k, shape, dtype, seed)
        for seed, (k, shape) in enumerate(zip(kinds, case.shapes, strict=False))
    ]


def built(
    function: tirx.PrimFunc, case: Case, dtype: str, made_for: Target | None = None
) -> Callable[[list[Array]], Array]:
    """A scheduled function on the device: inputs to the result, in place of other numbers.

    made_for: in place of the device's own target.
    """
    module = tvm.tirx.build(
        tvm.IRModule({"main": function.with_attr("global_symbol", "main")}),
        made_for or Target({"kind": "vulkan", "from_device": 0, "host": HOST}),
    )
    device = tvm.vulkan(0)
    shape = case.exact(*(np.zeros(shape) for shape in case.shapes)).shape

    def run(inputs: list[Array]) -> Array:
        result = tvm.runtime.tensor(np.full(shape, 77, dtype), device)
        module["main"](*(tvm.runtime.tensor(x, device) for x in inputs), result)
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
        magnitudes = case.exact(*(np.abs(x) for x in wide)) if case.terms else np.abs(exact)
    lost = SMALLEST_NORMAL[dtype] * (max(1, case.terms) + 1) * 8
    bound = (case.terms + 2) * ROUNDOFF[dtype] * magnitudes + lost
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
