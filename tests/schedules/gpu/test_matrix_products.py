"""Matrix products of every shape, and the tiles they are cut into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from support.schedule_runs import check, fused, noise, run, target
from tvm_vision.compiler.target import parse_target
from tvm_vision.devices.known import known_devices
from tvm_vision.options import CompileOptions
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.cost.gemm import SMALLEST, candidates, default, fits
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.gpu.contraction import schedule_contraction

pytestmark = pytest.mark.usefixtures("device_info")

MEASURED = str(Path(__file__).parents[3] / "benchmarks/results/nvidia-h200-device.json")
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


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    "tile",
    [
        SMALLEST,
        GemmTile(32, 32, 32, 4, 4),
        GemmTile(8, 32, 128, 4, 4, slice_k=16),
        GemmTile(16, 64, 32, 8, 4, slice_k=4),
    ],
)
def test_any_tile_gives_the_right_product(tile: GemmTile, ahead: bool) -> None:
    inputs = noise([(21, 77), (77, 35)])
    mod = fused(relax.op.matmul, [value.shape for value in inputs])
    functions = dict(mod.functions_items())
    for name, function in functions.items():
        if isinstance(function, tirx.PrimFunc):
            schedule = Schedule(function)
            limits = replace(TargetLimits.of(target()), fetch_ahead=ahead)
            schedule_contraction(schedule, limits, tile)
            functions[name] = schedule.mod["main"]
    result = run(type(mod)(functions, attrs=mod.attrs), inputs)
    np.testing.assert_allclose(result, inputs[0] @ inputs[1], rtol=1e-4, atol=1e-4)


def _conv(x: Any, w: Any, bias: Any) -> Any:
    return relax.op.nn.relu(
        relax.op.add(relax.op.nn.conv2d(x, w, padding=(1, 1), strides=(2, 2)), bias)
    )


def _products(x: Any, y: Any, bias: Any) -> Any:
    return relax.op.nn.gelu(relax.op.add(relax.op.matmul(x, y), bias))


# A last tile in part, rows that are not of whole vectors, windows, several products.
AHEAD: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "rows of vectors": (relax.op.matmul, [(70, 160), (160, 96)]),
    "no rows of vectors": (relax.op.matmul, [(37, 95), (95, 29)]),
    "several": (relax.op.matmul, [(3, 40, 100), (3, 100, 36)]),
    "something behind": (_products, [(33, 68), (68, 50), (50,)]),
    "windows": (_conv, [(1, 19, 15, 17), (24, 19, 3, 3), (1, 24, 1, 1)]),
    "one step": (relax.op.matmul, [(64, 8), (8, 64)]),
}


@pytest.mark.parametrize("name", AHEAD)
def test_fetching_ahead_changes_no_bit(name: str) -> None:
    build, shapes = AHEAD[name]
    inputs = noise(shapes)
    results, texts = [], []
    for ahead in (False, True):
        mod = fused(build, shapes)
        functions = dict(mod.functions_items())
        for gv, function in mod.functions_items():
            if isinstance(function, tirx.PrimFunc):
                schedule = Schedule(function)
                limits = replace(TargetLimits.of(target()), fetch_ahead=ahead)
                schedule_contraction(schedule, limits, GemmTile(16, 32, 16, 4, 4))
                functions[gv] = schedule.mod["main"]
                texts.append(functions[gv].script())
        results.append(run(type(mod)(functions, attrs=mod.attrs), inputs))
    assert ["software_pipeline" in text for text in texts] == [False, name != "one step"]
    np.testing.assert_array_equal(results[0], results[1])


def test_what_is_timed_is_fetched_ahead() -> None:
    timed = parse_target(MEASURED)
    assert TargetLimits.of(timed).fetch_ahead
    assert not TargetLimits.of(timed, CompileOptions(fetch_ahead=False)).fetch_ahead
    assert not TargetLimits.of(Target(known_devices()["renoir"].target_config())).fetch_ahead
