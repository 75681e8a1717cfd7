"""Winograd's transforms: the matrices exactly, the kernels against numpy on the first device."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from support.numpy_operators import sliding_windows
from support.schedule_runs import noise, target
from tvm_vision.schedules import TargetLimits, choices, schedule_with
from tvm_vision.schedules.common import NotThisKind
from tvm_vision.schedules.gpu.winograd import Tiles, TransformShape, default
from tvm_vision.schedules.templates import ScheduleConfig
from tvm_vision.topi.winograd import (
    MATRICES,
    Tiling,
    operations,
    transform_image,
    transform_output,
    transform_weights,
)

LIMITS = TargetLimits(threads=256, shared_bytes=32768, subgroup=32)
SIZES = (2, 4)


def dot(row: Any, vector: Any) -> Fraction:
    return sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0))


@pytest.mark.parametrize("m", SIZES)
def test_matrices_compute_a_sliding_sum_exactly(m: int) -> None:
    """In fractions, for every pair of unit vectors: that is for all vectors."""
    matrices, edge = MATRICES[m], m + 2
    for at in range(edge):
        for tap in range(3):
            image = [dot(row, [Fraction(i == at) for i in range(edge)]) for row in matrices.image]
            weights = [dot(row, [Fraction(i == tap) for i in range(3)]) for row in matrices.weights]
            products = [a * b for a, b in zip(image, weights, strict=True)]
            found = [dot(row, products) for row in matrices.output]
            assert found == [Fraction(y + tap == at) for y in range(m)]


def test_operations_are_those_of_the_paper_for_small_tiles() -> None:
    assert operations(2) == (32, 24)


def kernel_of_image(tiling: Tiling, shape: tuple[int, ...]) -> tirx.PrimFunc:
    x = te.placeholder(shape, "float32", "x")
    return te.create_prim_func([x, transform_image(x, tiling)])


def kernel_of_output(tiling: Tiling, shape: tuple[int, ...]) -> tirx.PrimFunc:
    x = te.placeholder(shape, "float32", "x")
    return te.create_prim_func([x, transform_output(x, tiling)])


def run(function: tirx.PrimFunc, value: np.ndarray, choice: ScheduleConfig) -> np.ndarray:
    scheduled = schedule_with(function, TargetLimits.of(target()), choice)
    module = tvm.IRModule({"k": scheduled.with_attr("global_symbol", "k")})
    with target():
        library = tvm.tirx.build(module, target=target())
    device = tvm.vulkan(0)
    shape = [int(n) for n in function.params[1].ty.shape]
    output = tvm.runtime.tensor(np.full(shape, np.nan, "float32"), device)
    library["k"](tvm.runtime.tensor(value, device), output)
    return output.numpy()


def windows(x: np.ndarray, tiling: Tiling) -> np.ndarray:
    """Pixels of all tiles of an image (n, c, h, w): (n, rows, columns, c, edge, edge)."""
    down, right = tiling.rows * tiling.m + 2, tiling.columns * tiling.m + 2
    full = np.zeros((*x.shape[:2], down, right))
    full[:, :, tiling.top : tiling.top + x.shape[2], tiling.left : tiling.left + x.shape[3]] = x
    tiles = sliding_windows(full, (tiling.edge,) * 2, (2, 3))
    return tiles[:, :, :: tiling.m, :: tiling.m].transpose(0, 2, 3, 1, 4, 5)


def matrix(rows: Any) -> np.ndarray:
    return np.array(rows, "float64")


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("m", "size", "last"),
    [
        # Each size of tile with whole ones and parts of them, in each layout, if not every pair.
        pytest.param(*(*case, last), marks=[] if last in quick else [pytest.mark.slow])
        for *case, quick in (
            (2, (5, 8), (False,)), (2, (6, 7), (True,)), (4, (8, 12), (True,)),
            (4, (9, 6), (False,)), (4, (1, 3), (False, True)),
        )
        for last in (False, True)
    ],
)  # fmt: skip
def test_transforms_equal_numpy(m: int, size: tuple[int, int], last: bool) -> None:
    batch, channels = 2, 5
    tiling = Tiling(m, batch, *size, top=1, left=0, channels_last=last)
    x = noise([(batch, channels, size[0] + 1, size[1] + 2)])[0]
    b, a = matrix(MATRICES[m].image), matrix(MATRICES[m].output)
    expected = np.einsum("ik,nyzckl,jl->ijcnyz", b, windows(x, tiling), b)
    expected = expected.reshape(-1, channels, tiling.tiles)
    product = noise([expected.shape], 1)[0]
    pixels = np.einsum("ik,klcp,jl->cpij", a, product.reshape(m + 2, m + 2, channels, -1), a)
    pixels = pixels.reshape(channels, batch, tiling.rows, tiling.columns, m, m)
    pixels = pixels.transpose(1, 0, 2, 4, 3, 5).reshape(batch, channels, tiling.rows * m, -1)
    pixels = pixels[:, :, : size[0], : size[1]]
    if last:
        x, pixels = x.transpose(0, 2, 3, 1), pixels.transpose(0, 2, 3, 1)
        expected, product = expected.transpose(0, 2, 1), product.transpose(0, 2, 1)
    for function, value, result in (
        (kernel_of_image(tiling, x.shape), x, expected),
        (kernel_of_output(tiling, product.shape), product, pixels),
    ):
        found = choices(function, LIMITS)
        assert {choice.template for choice in found} == {"winograd"}
        for choice in (found[0], found[-1]):
            error = np.abs(run(function, np.ascontiguousarray(value), choice) - result).max()
            assert error <= 1e-6 * np.abs(result).max()


def test_rows_are_vectors_where_they_divide_into_tiles() -> None:
    def wide(width: int, last: bool = False) -> bool:
        tiling = Tiling(4, 1, 8, width, 1, 1, last)
        shape = (36, tiling.tiles, 16) if last else (36, 16, tiling.tiles)
        return choices(kernel_of_output(tiling, shape), LIMITS)[0].parameters.wide

    assert (wide(8), wide(9), wide(8, last=True)) == (True, False, False)


def test_wide_rows_are_refused_where_they_do_not_divide() -> None:
    function = kernel_of_output(Tiling(4, 1, 8, 9, 1, 1), (36, 16, 6))
    with pytest.raises(NotThisKind, match="winograd does not fit"):
        schedule_with(function, LIMITS, ScheduleConfig("winograd", TransformShape(32, wide=True)))


def test_last_workgroup_is_full_where_that_can_be() -> None:
    assert [default(Tiles(n, False), LIMITS).threads for n in (96, 64 * 49, 1 << 20, 35)] == [
        32, 64, 128, 64,
    ]  # fmt: skip
    assert default(Tiles(1 << 20, True), TargetLimits(64, 16384, 8)) == TransformShape(64, True)


@pytest.mark.parametrize("m", SIZES)
def test_weights_are_transformed_in_double_precision(m: int) -> None:
    weights = noise([(3, 2, 3, 3)])[0]
    g = matrix(MATRICES[m].weights)
    expected = np.einsum("ik,ockl,jl->ijoc", g, weights.astype("float64"), g)
    result = transform_weights(weights, m)
    assert (result.shape, result.dtype) == (((m + 2) ** 2, 3, 2), np.float32)
    np.testing.assert_array_equal(result, expected.reshape(result.shape).astype("float32"))
