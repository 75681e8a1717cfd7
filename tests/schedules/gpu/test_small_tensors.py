"""Every kind of schedule with tensors of no dimensions and of one element, before and after it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, topi

from support.lowering import HOST
from support.matrix_runs import LIMITS
from support.schedule_runs import noise, target
from tvm_vision.schedules import (
    NotThisKind,
    ScheduleConfig,
    TargetLimits,
    choices,
    schedule_function,
    schedule_with,
)

pytestmark = pytest.mark.usefixtures("device_info")

# Shapes of the tensor of one value.
SCALARS = ((), (1,))


def product(x: Any, w: Any) -> Any:
    return topi.matmul(x, w)


def pointwise(x: Any, w: Any) -> Any:
    return topi.nn.conv2d_nchw(x, w, 1, 0, 1)


def window(x: Any, w: Any) -> Any:
    return topi.nn.conv2d_nhwc(x, w, 1, 1, 1)


# name -> (shapes, what it computes in TE)
KINDS: dict[str, tuple[list[tuple[int, ...]], Callable[..., Any]]] = {
    "elementwise": ([(3, 40)], lambda x: topi.sigmoid(x)),
    "product": ([(24, 32), (32, 40)], product),
    "thin product": ([(1, 32), (32, 40)], product),
    "product of one": ([(1, 1), (1, 1)], product),
    "convolution": ([(1, 8, 9, 9), (12, 8, 1, 1)], pointwise),
    "convolution with a window": ([(1, 8, 8, 8), (3, 3, 8, 16)], window),
    "one pixel": ([(1, 8, 1, 1), (12, 8, 1, 1)], pointwise),
    "long sum": ([(4, 300)], lambda x: topi.sum(x, axis=1)),
    "sum of all": ([(4, 75)], lambda x: topi.sum(x)),
    "mean within": ([(4, 300)], lambda x: x / topi.sum(x, axis=1, keepdims=True)),
    "softmax": ([(6, 50)], lambda x: topi.nn.softmax(x)),
    "pool": (
        [(1, 4, 9, 9)],
        lambda x: topi.nn.pool2d(x, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "max"),
    ),
    "depthwise": (
        [(1, 8, 9, 9), (8, 1, 3, 3)],
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, (1, 1), 1, (1, 1)),
    ),
}


def scaled(kind: str, where: str, scalar: tuple[int, ...], dtype: str = "float32") -> Any:
    """A function whose first operand, or result, is multiplied by a tensor of one value."""
    shapes, compute = KINDS[kind]
    inputs = [te.placeholder(shape, dtype, f"x{i}") for i, shape in enumerate(shapes)]
    by = te.placeholder(scalar, dtype, "by")

    def times(x: Any, name: str) -> Any:
        return te.compute(x.shape, lambda *at: x(*at) * by(*(0 for _ in scalar)), name=name)

    if where == "before":
        result = compute(times(inputs[0], "scaled"), *inputs[1:])
    else:
        result = times(compute(*inputs), "result")
    return te.create_prim_func([*inputs, by, result])


def run(function: Any, arrays: list[np.ndarray], shape: tuple[int, ...], kind: Any) -> np.ndarray:
    device = tvm.cpu() if kind.kind.name == "llvm" else tvm.vulkan(0)
    named = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with kind:
        library = tvm.tirx.build(named, target=kind)
    out = tvm.runtime.tensor(np.full(shape, np.nan, "float32"), device)
    library["main"](*(tvm.runtime.tensor(a, device) for a in arrays), out)
    return out.numpy()


def fitting(function: Any, choice: ScheduleConfig) -> Any:
    try:
        return schedule_with(function, TargetLimits.of(target()), choice)
    except NotThisKind:  # a template may still find that it does not fit
        return None


@pytest.mark.parametrize(
    ("kind", "where", "scalar"),
    [
        # By default each place and each shape, if not each pair of them.
        pytest.param(
            *(kind, where, scalar),
            marks=[] if (where == "before") == (scalar == ()) else [pytest.mark.slow],
        )
        for kind, where, scalar in itertools.product(KINDS, ("before", "after"), SCALARS)
    ],
)
def test_a_tensor_of_one_value_beside(
    kind: str, where: str, scalar: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    function = scaled(kind, where, scalar)
    shapes = [tuple(int(n) for n in p.ty.shape) for p in function.params]
    arrays = noise(shapes[:-1])
    expected = run(function, arrays, shapes[-1], tvm.target.Target(HOST))
    limits = TargetLimits.of(target())
    with caplog.at_level(logging.WARNING):
        made, template = schedule_function(function, limits, target())
        offered = choices(function, limits)
    assert not caplog.records, "a template failed on it"
    assert template not in ("fallback", "none")
    others = {choice.template: choice for choice in reversed(offered)}
    for scheduled in (made, *filter(None, (fitting(function, c) for c in others.values()))):
        found = run(scheduled, arrays, shapes[-1], target())
        assert np.abs(found - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize(
    ("kind", "where", "scalar"), list(itertools.product(KINDS, ("before", "after"), SCALARS))
)
def test_a_tensor_of_one_value_beside_matrices_of_halves(
    kind: str, where: str, scalar: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    function = scaled(kind, where, scalar, "float16")
    with caplog.at_level(logging.WARNING):
        assert schedule_function(function, LIMITS, target())[1] not in ("fallback", "none")
        for choice in {c.template: c for c in reversed(choices(function, LIMITS))}.values():
            if choice.template in ("direct_conv", "coopmat_gemm"):
                schedule_with(function, LIMITS, choice)
    assert not caplog.records, "a template failed on it"
