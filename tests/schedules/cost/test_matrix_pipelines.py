"""Tiles of cooperative matrices for a GPU whose pipelines are counted: registers, time, choices."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tvm.target import Target

from tvm_vision.devices import known_devices
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.cost import coopmat_gemm, direct_conv
from tvm_vision.schedules.cost.coopmat_gemm import CoopmatTile
from tvm_vision.schedules.cost.device_model import INTEGRATED
from tvm_vision.schedules.cost.direct_conv import DirectConvTile, Windows
from tvm_vision.schedules.cost.gemm_tile import Product
from tvm_vision.schedules.cost.matrix_pipelines import (
    ThreadData,
    WaveWork,
    factor_registers,
    matrix_cycles,
    registers,
)
from tvm_vision.schedules.cost.tile_costs import MatrixPipelineCosts, Units
from tvm_vision.schedules.factors import FP16, INT8

UNITS = Units(12, schedulers=2, lanes=64, threads=2048, shared_bytes=65536, registers=65536)
assert isinstance(INTEGRATED.direct_conv, MatrixPipelineCosts)
COSTS: MatrixPipelineCosts = INTEGRATED.direct_conv
# Layers of the demo, of ResNet-18 and of YOEO, one of bytes.
LAYERS = [
    Windows(1, 104, 104, 64, 64, (3, 3)),
    Windows(1, 7, 7, 512, 512, (3, 3)),
    Windows(1, 256, 256, 72, 24, (3, 3)),
    Windows(1, 208, 208, 128, 32, (3, 3)),
    Windows(1, 128, 128, 24, 48, (3, 3), (2, 2)),
    Windows(1, 28, 28, 128, 128, (3, 3), factors=INT8),
]


def phoenix() -> TargetLimits:
    return TargetLimits.of(Target(known_devices()["phoenix"].target_config()))


def test_lanes_beyond_those_that_hold_a_factor_hold_copies() -> None:
    """A 16x16 matrix of fp16 is 8 registers of every lane, however many lanes there are."""
    assert factor_registers(16, 16 * 2, COSTS) == 8
    assert factor_registers(3 * 16, 16 * 1, COSTS) == 12


@pytest.mark.parametrize("shape", LAYERS)
def test_what_is_offered_has_registers(shape: Windows) -> None:
    limits = phoenix()
    found = direct_conv.candidates(shape, limits)
    assert found
    for tile in found:
        image, weights, sums = tile.matrices(shape)
        held = sums * 4 + (image + weights) * 4 * shape.bytes_each
        threads = 64 * tile.subgroups
        assert held < min(256, 65536 // threads), tile
        assert tile.columns > 0


@pytest.mark.parametrize("name", sorted(known_devices()))
def test_who_takes_a_shape_has_tiles_for_it(name: str) -> None:
    limits = TargetLimits.of(Target(known_devices()[name].target_config()))
    sizes = itertools.product((1, 7, 56), (3, 8, 17, 64), (3, 8, 40, 128), (FP16, INT8))
    for size, channels, filters, factors in sizes:
        shape = Windows(1, size, size, channels, filters, (3, 3), factors=factors)
        assert direct_conv.takes(shape, limits) == bool(direct_conv.candidates(shape, limits))
        of = shape.product
        assert coopmat_gemm.takes(of, limits) == bool(coopmat_gemm.candidates(of, limits))


@pytest.mark.parametrize(
    "tile",
    [
        # What a kernel of the demo had, with 789 registers spilled; and others of that kind.
        DirectConvTile(8, 64, 16, 2, 1, 1, columns=1, ahead=True),
        DirectConvTile(8, 64, 16, 1, 1, 4, columns=3),
        # Waves of 512 threads have 128 registers each.
        DirectConvTile(8, 16, 16, 2, 2, 2, columns=1),
    ],
)
def test_what_spills_is_not_offered(tile: DirectConvTile) -> None:
    assert not direct_conv.fits(tile, LAYERS[0], phoenix())


def test_products_too() -> None:
    limits = phoenix()
    # 16 sums, and 4 + 4 factors: with what it fetches more than 512 threads leave.
    large = CoopmatTile(128, 128, 32, 4, 2)
    assert not coopmat_gemm.fits(large, limits)
    for factors in (FP16, INT8):
        found = coopmat_gemm.candidates(Product(1, 3136, 128, 1152, factors, "m"), limits)
        assert found and all(tile.factors == factors for tile in found)


def work(**other: Any) -> WaveWork:
    numbers: dict[str, Any] = {
        "products": 100, "loads": 100, "fetched": 20, "windowed": 20, "steps": 10, "stops": 10,
        "outputs": 16, "row_bytes": 32,
    }  # fmt: skip
    return WaveWork(**{**numbers, **other})


def cycles(done: WaveWork, data: ThreadData, groups: int = 1000, shared: int = 16384) -> float:
    return matrix_cycles(done, data, groups, 4, shared, COSTS, UNITS)


@pytest.mark.parametrize("name", ["products", "loads", "fetched", "windowed", "steps", "outputs"])
def test_more_work_takes_longer(name: str) -> None:
    data = ThreadData(16, 32, 16)
    few, many = work(), work(**{name: 20 * getattr(work(), name)})
    assert cycles(many, data) > cycles(few, data)


def test_waiting_counts_where_few_waves_hide_it() -> None:
    waits = work(stops=1000)
    lean, heavy = ThreadData(8, 32, 8), ThreadData(64, 112, 16)
    assert registers(lean, COSTS) < 128 < registers(heavy, COSTS) < 256
    assert cycles(waits, heavy) > 1.5 * cycles(waits, lean)
    assert cycles(work(products=1e5), heavy) == pytest.approx(
        cycles(work(products=1e5), lean), rel=0.1
    )


def test_what_is_fetched_takes_the_factors_place_unless_it_comes_ahead() -> None:
    assert registers(ThreadData(16, 64, 8), COSTS) == registers(ThreadData(16, 64, 0), COSTS)
    assert registers(ThreadData(16, 64, 64), COSTS) > registers(ThreadData(16, 64, 8), COSTS)
    ahead = ThreadData(16, 64, 8, ahead=True)
    assert registers(ahead, COSTS) > registers(ThreadData(16, 64, 8), COSTS)
