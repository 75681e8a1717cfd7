"""Kernels without sums: arithmetic, copies, concatenations, pads, resizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax

from support.schedule_runs import check, noise

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
