"""Kernels without sums: arithmetic, copies, concatenations, pads, resizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, tirx

from support.schedule_runs import check, fused, noise, target
from tvm_vision.schedules import choices
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.cost.device_model import DISCRETE, INTEGRATED
from tvm_vision.schedules.gpu.elementwise import ElementwiseShape, Outputs, default

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


@pytest.mark.parametrize(
    ("build", "shape", "across", "axis"),
    [
        (_enlarged, (1, 16, 20, 24), 8, 1),  # 16 would leave too few threads
        (_enlarged, (1, 64, 20, 24), 16, 1),
        (_enlarged, (1, 38, 20, 24), 19, 1),
        (_enlarged, (1, 1, 20, 24), 1, 0),
        (OP.nn.relu, (1, 64, 80, 96), 1, 0),
        (lambda a: OP.permute_dims(a, [0, 2, 3, 1]), (1, 64, 80, 96), 1, 0),
    ],
)
def test_channels_share_what_they_have_in_common(
    build: Any, shape: tuple[int, ...], across: int, axis: int
) -> None:
    chosen = _chosen(build, shape, INTEGRATED)
    assert (chosen.across, chosen.axis if across > 1 else 0) == (across, axis)
    assert _chosen(build, shape, DISCRETE).across == 1  # it was timed as it is


def test_places_are_shared_along_the_axis_that_they_do_not_depend_on() -> None:
    """Of a volume of one channel each axis has places of its own."""
    work = {frozenset((1,)): 16, frozenset((2,)): 16, frozenset((0, 1, 2)): 40}
    limits = replace(TargetLimits.of(target()), device=INTEGRATED)
    chosen = default(Outputs((64, 48, 80), work), limits)
    assert (chosen.along, chosen.across, chosen.axis) == (1, 16, 0)
    alone = default(Outputs((64, 48, 80), {frozenset((0, 1, 2)): 72}), limits)
    assert (alone.along, alone.across) == (4, 1)  # nothing is shared
