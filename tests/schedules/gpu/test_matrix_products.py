"""Matrix products of every shape, and the tiles they are cut into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.s_tir import Schedule

from support.schedule_runs import check, fused, noise, run, target
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.cost.gemm import SMALLEST, candidates, default, fits
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.gpu.contraction import schedule_contraction

pytestmark = pytest.mark.usefixtures("device_info")

LEAST = TargetLimits(threads=128, shared_bytes=16384, subgroup=8)  # what every Vulkan device has
LARGE = TargetLimits(threads=1024, shared_bytes=49152, subgroup=32)


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ((37, 45), (45, 29), "contraction"),
        ((3, 17, 40), (3, 40, 21), "contraction"),
        ((2, 50, 32), (32, 64), "contraction"),
        ((5, 9, 96), (5, 96, 7), "contraction"),
        ((3, 2, 40), (3, 40, 21), "contraction"),
        ((40, 96), (96, 2), "contraction"),
        ((1, 320), (320, 100), "reduction"),
        ((1, 1), (1, 1), "window"),
    ],
)
def test_product_equals_numpy(a: Any, b: Any, kind: str) -> None:
    left, right = noise([a, b])
    bias = noise([b[-1:]], 3)[0]
    expected = left.astype("float64") @ right + bias

    def build(x: Any, y: Any, z: Any) -> Any:
        return relax.op.add(relax.op.matmul(x, y), z)

    assert check(build, [left, right, bias], expected) == [kind]


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 70))
def test_any_product_equals_numpy(m: int, n: int, k: int) -> None:
    left, right = noise([(m, k), (k, n)])
    check(relax.op.matmul, [left, right], left.astype("float64") @ right)


@pytest.mark.parametrize("limits", [LEAST, LARGE])
@pytest.mark.parametrize("shape", [(1, 3, 8, 4), (1, 512, 49, 4608), (64, 8, 9000, 27)])
def test_every_candidate_fits_the_device(shape: Any, limits: TargetLimits) -> None:
    product = Product(*shape)
    tiles = candidates(product, limits)
    assert tiles[0] == default(product, limits)
    assert all(fits(tile, limits) for tile in tiles)
    assert all(tile.threads <= limits.threads for tile in tiles)


def test_smallest_tile_fits_every_device() -> None:
    assert fits(SMALLEST, TargetLimits(threads=32, shared_bytes=2048, subgroup=1))
    assert default(Product(1, 64, 64, 64), TargetLimits(32, 2048, 1)).shared_bytes <= 2048


@pytest.mark.parametrize(
    "tile",
    [
        SMALLEST,
        GemmTile(32, 32, 32, 4, 4),
        GemmTile(8, 32, 128, 4, 4, slice_k=16),
        GemmTile(16, 64, 32, 8, 4, slice_k=4),
    ],
)
def test_any_tile_gives_the_right_product(tile: GemmTile) -> None:
    inputs = noise([(21, 77), (77, 35)])
    mod = fused(relax.op.matmul, [value.shape for value in inputs])
    functions = dict(mod.functions_items())
    for name, function in functions.items():
        if isinstance(function, tirx.PrimFunc):
            schedule = Schedule(function)
            schedule_contraction(schedule, TargetLimits.of(target()), tile)
            functions[name] = schedule.mod["main"]
    result = run(type(mod)(functions, attrs=mod.attrs), inputs)
    np.testing.assert_allclose(result, inputs[0] @ inputs[1], rtol=1e-4, atol=1e-4)
