"""Kernels without sums: arithmetic, copies, concatenations, pads, resizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.s_tir import Schedule

from support.schedule_runs import check, fused, noise, run, target
from tvm_vision.schedules import choices
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.cost.device_model import DISCRETE, INTEGRATED
from tvm_vision.schedules.gpu.elementwise import (
    BESIDE,
    ElementwiseShape,
    Outputs,
    default,
    schedule_elementwise,
)

pytestmark = pytest.mark.usefixtures("device_info")

OP = relax.op


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.integers(1, 30), min_size=0, max_size=4))
def test_arithmetic_on_any_shape(shape: list[int]) -> None:
    x, y = noise([shape, shape])
    expected = np.maximum(x + y, 0) * 3
    kinds = check(
        lambda a, b: OP.multiply(OP.nn.relu(OP.add(a, b)), relax.const(3.0)), [x, y], expected
    )
    assert kinds == ["elementwise"]


def test_concatenation_of_computed_parts() -> None:
    x, y = noise([(1, 3, 5, 7), (1, 4, 5, 7)])
    expected = np.concatenate([np.maximum(x, 0), np.exp(y)], 1)
    kinds = check(lambda a, b: OP.concat([OP.nn.relu(a), OP.exp(b)], 1), [x, y], expected)
    assert kinds == ["elementwise"]


def test_shuffled_channels() -> None:
    x = noise([(1, 6, 5, 3)])[0]
    expected = x.reshape(1, 2, 3, 5, 3).transpose(0, 2, 1, 3, 4).reshape(1, 6, 5, 3)

    def build(a: Any) -> Any:
        split = OP.reshape(a, (1, 2, 3, 5, 3))
        return OP.reshape(OP.permute_dims(split, [0, 2, 1, 3, 4]), (1, 6, 5, 3))

    assert set(check(build, [x], expected)) == {"elementwise"}


def test_doubled_image() -> None:
    x = noise([(1, 3, 5, 7)])[0]
    expected = x.repeat(2, axis=2).repeat(2, axis=3)

    def build(a: Any) -> Any:
        return OP.image.resize2d(
            a, relax.ShapeExpr([10, 14]), layout="NCHW", method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric", rounding_method="floor",
        )  # fmt: skip

    assert check(build, [x], expected) == ["elementwise"]


def _chosen(build: Callable[..., Any], shape: tuple[int, ...], device: Any) -> ElementwiseShape:
    """What a kernel's first candidate is on a device."""
    functions = fused(build, [shape], "float16").functions.values()
    (function,) = (each for each in functions if isinstance(each, tirx.PrimFunc))
    limits = replace(TargetLimits.of(target()), device=device, threads=256)
    return cast(ElementwiseShape, choices(function, limits)[0].parameters)


def _enlarged(a: Any) -> Any:
    return OP.image.resize2d(a, relax.ShapeExpr([40, 48]), layout="NCHW", method="linear")


def _large(a: Any) -> Any:
    return OP.image.resize2d(a, relax.ShapeExpr([160, 128]), layout="NCHW", method="linear")


@pytest.mark.parametrize(
    ("build", "shape", "across", "axis"),
    [
        (_enlarged, (1, 16, 20, 24), 8, 1),  # 16 would leave too few threads
        (_enlarged, (1, 64, 20, 24), 16, 1),
        (_enlarged, (1, 38, 20, 24), 19, 1),
        (_enlarged, (1, 1, 20, 24), 1, 0),
        (OP.nn.relu, (1, 64, 80, 96), 1, 0),
    ],
)
def test_channels_share_what_they_have_in_common(
    build: Any, shape: tuple[int, ...], across: int, axis: int
) -> None:
    chosen = _chosen(build, shape, INTEGRATED)
    assert (chosen.across, chosen.axis if across > 1 else 0) == (across, axis)
    assert _chosen(build, shape, DISCRETE).across == 1  # too few threads would be left


@pytest.mark.parametrize(
    ("channels", "across"), [(1, 1), (16, 2), (64, 8), (65, 5), (67, 10), (256, 16)]
)
def test_larger_gpus_keep_as_many_threads_as_fill_them(channels: int, across: int) -> None:
    chosen = _chosen(_large, (1, channels, 80, 64), DISCRETE)
    assert chosen.across == across


def test_places_are_shared_along_the_axis_that_they_do_not_depend_on() -> None:
    """Of a volume of one channel each axis has places of its own."""
    work = {frozenset((1,)): 16, frozenset((2,)): 16, frozenset((0, 1, 2)): 40}
    limits = replace(TargetLimits.of(target()), device=INTEGRATED)
    chosen = default(Outputs((64, 48, 80), work), limits)
    assert (chosen.along, chosen.across, chosen.axis) == (1, 16, 0)
    alone = default(Outputs((64, 48, 80), {frozenset((0, 1, 2)): 72}), limits)
    assert (alone.along, alone.across) == (4, 1)  # nothing is shared


def _scaled(order: list[int]) -> Callable[[Any], Any]:
    """A tensor's axes in another order, and something done with it."""
    return lambda a: OP.nn.relu(OP.permute_dims(a, order))


@pytest.mark.parametrize(
    ("order", "shape", "across", "axis"),
    [
        ([0, 3, 1, 2], (1, 80, 96, 64), 16, 1),
        ([0, 2, 3, 1], (1, 64, 80, 96), 16, 2),
        ([0, 3, 1, 2], (1, 80, 96, 65), 13, 1),
        ([0, 3, 1, 2], (1, 80, 96, 17), 17, 1),
        ([0, 2, 1], (4, 321, 200), 20, 1),
        ([0, 3, 1, 2], (1, 80, 96, 67), 1, 0),  # nothing divides it
        ([0, 3, 1, 2], (1, 20, 24, 64), 1, 0),  # few threads would be left
        ([0, 2, 3, 1], (1, 3, 320, 320), 1, 0),  # three planes are read side by side
        ([0, 2, 1, 3], (4, 80, 96, 64), 1, 0),  # the last axis stays the last
    ],
)
@pytest.mark.parametrize("device", [INTEGRATED, DISCRETE], ids=["integrated", "discrete"])
def test_neighbours_that_are_read_are_of_one_thread_where_a_tensor_is_turned(
    order: list[int], shape: tuple[int, ...], across: int, axis: int, device: Any
) -> None:
    if device is DISCRETE and across > 1:
        shape = (16, *shape[1:])
    chosen = _chosen(_scaled(order), shape, device)
    assert (chosen.across, chosen.axis if across > 1 else 0) == (across, axis)
    assert (chosen.beside > 1) == (across > 1)


@pytest.mark.parametrize("threads", [64, 256])
@pytest.mark.parametrize(
    ("order", "shape", "across", "axis"),
    [
        ([0, 3, 1, 2], (2, 5, 7, 24), 8, 1),
        ([0, 2, 3, 1], (3, 16, 3, 20), 5, 2),
        ([0, 2, 1], (2, 33, 12), 4, 1),
        ([3, 2, 1, 0], (17, 2, 3, 9), 9, 0),
    ],
)
def test_turned_tensors_are_whole(
    order: list[int], shape: tuple[int, ...], across: int, axis: int, threads: int
) -> None:
    """Of no size that threads divide."""
    x = noise([shape])[0]
    found = _turned(_scaled(order), x, ElementwiseShape(threads, 1, across, axis, BESIDE))
    np.testing.assert_allclose(found, np.maximum(x.transpose(order), 0), rtol=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda a: OP.nn.relu(OP.permute_dims(OP.nn.pad(a, [0, 0, 1, 2, 3, 0, 2, 2]), [0, 3, 1, 2])),
        lambda a: OP.permute_dims(OP.concat([a, OP.nn.relu(a)], 3), [0, 3, 1, 2]),
        lambda a: OP.permute_dims(OP.strided_slice(a, [3], [4], [20]), [0, 3, 1, 2]),
        lambda a: OP.permute_dims(OP.reshape(a, (2, 6, 14, 8)), [0, 3, 1, 2]),
        lambda a: OP.multiply(OP.permute_dims(a, [0, 3, 1, 2]), OP.permute_dims(a, [0, 3, 1, 2])),
    ],
    ids=["padded", "joined", "cut", "divided", "twice"],
)
def test_what_is_turned_is_whole_whatever_is_done_before(build: Any) -> None:
    x = noise([(2, 6, 7, 16)])[0]
    plain = _turned(build, x, ElementwiseShape(64))
    for across in (2, 4, 8):
        found = _turned(build, x, ElementwiseShape(64, 1, across, 1, BESIDE))
        np.testing.assert_array_equal(found, plain)


def _turned(build: Any, x: np.ndarray, spread: ElementwiseShape) -> np.ndarray:
    """What a function makes of a tensor where its outputs are spread like this."""
    mod = fused(build, [x.shape])
    functions = dict(mod.functions_items())
    for name, function in functions.items():
        if isinstance(function, tirx.PrimFunc):
            schedule = Schedule(function)
            schedule_elementwise(schedule, TargetLimits.of(target()), spread)
            functions[name] = schedule.mod["main"]
    return run(tvm.IRModule(functions, attrs=mod.attrs), [x])
