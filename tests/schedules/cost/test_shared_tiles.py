"""Products and convolutions of one network share their tiles: those of a shape are those of the
smallest one that has them all."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tvm_vision.schedules.cost import coopmat_gemm, direct_conv
from tvm_vision.schedules.cost.direct_conv import Windows
from tvm_vision.schedules.cost.gemm_tile import Product
from tvm_vision.schedules.factors import FP16, INT8

MATRIX = {FP16: (16, 16, 16), INT8: (16, 16, 32)}
# Around where tiles end, and far beyond.
SIZES = (1, 8, 9, 16, 17, 32, 33, 34, 63, 64, 65, 127, 128, 129, 1000)


@pytest.mark.parametrize("factors", MATRIX)
@pytest.mark.parametrize("side", ["m", "n", "k"])
def test_of_products(side: str, factors: str) -> None:
    for large, size in itertools.product((20, 1000), SIZES):
        one: dict[str, Any] = {side: size}
        shape = replace(Product(3, large, large, large, factors, "m"), **one)
        same = coopmat_gemm._as_far_as_tiles(shape)
        tiles = [list(coopmat_gemm._tiles(each, MATRIX[factors])) for each in (shape, same)]
        assert tiles[0] == tiles[1], shape


@pytest.mark.parametrize("factors", MATRIX)
@pytest.mark.parametrize("side", ["height", "width", "channels", "filters"])
def test_of_convolutions(side: str, factors: str) -> None:
    matrix = MATRIX[factors]
    for large, size in itertools.product((20, 1000), SIZES):
        one: dict[str, Any] = {side: size}
        shape = Windows(3, large, large, large, large, (3, 3), (2, 2), factors=factors)
        shape = replace(shape, **one)
        same = direct_conv._as_far_as_tiles(shape, matrix)
        tiles = [list(direct_conv._tiles(each, matrix)) for each in (shape, same)]
        assert tiles[0] == tiles[1], shape


def test_shapes_beyond_all_tiles_are_one() -> None:
    products = {
        coopmat_gemm._as_far_as_tiles(Product(b, size, size, size, FP16, windows))
        for b, size, windows in itertools.product((1, 8), (256, 1000), ("", "n"))
    }
    convolutions = {
        direct_conv._as_far_as_tiles(Windows(b, *4 * (size,), (3, 3)), MATRIX[FP16])
        for b, size in itertools.product((1, 8), (256, 1000))
    }
    assert len(products) == len(convolutions) == 1
