"""A calibration of this machine's device: all of its kernels run, and what it found is used.

Its numbers mean nothing on a processor; their form does.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tvm.target import Target

from tvm_vision import vulkan
from tvm_vision.compiler import parse_target
from tvm_vision.devices import DeviceDescription, known_devices, read_description
from tvm_vision.devices.kept import described_here, keep, kept_path
from tvm_vision.devices.measured import MOST, Measured
from tvm_vision.errors import InputError
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.cost import gemm
from tvm_vision.schedules.cost.device_model import DISCRETE, INTEGRATED, REACHED, DeviceModel
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.cost.tile_costs import PipelineCosts
from tvm_vision.schedules.factors import INT8
from tvm_vision.target_keys import numbers_in
from tvm_vision.tools.cli import main
from tvm_vision.tuning import calibrate as module

MEASURED = Measured("2026-11-22", {"float32": 1.2e12, "dp4a": 4e12}, 38e9, 9e11, 8e-6, 7)


@pytest.fixture
def forgotten(device_info: vulkan.DeviceInfo) -> Any:
    """What a test keeps is removed after it."""
    path = kept_path(DeviceDescription.of(device_info))
    assert path is not None and not path.exists()
    yield path
    path.unlink(missing_ok=True)


def test_the_command_measures_keeps_and_writes(
    device_info: vulkan.DeviceInfo, forgotten: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "ENOUGH_SECONDS", 0.002)
    monkeypatch.setattr(module, "COPIED", 4 << 20)
    done = CliRunner().invoke(main, ["calibrate", "-o", str(tmp_path / "robot.json")])
    assert done.exit_code == 0, done.output
    measured = read_description(tmp_path / "robot.json").measured
    assert measured is not None and all(line in done.stdout for line in measured.lines())
    assert ("float16" in measured.flops) == device_info.supports_float16
    assert ("dp4a" in measured.flops) == device_info.supports_integer_dot_product
    assert ("float16_matrices" in measured.flops) == device_info.supports_cooperative_matrix
    for name in ("bandwidth", "shared", "launch"):
        assert 0 < getattr(measured, name) < MOST[name]
    assert 1e6 < measured.flops["float32"] and 1 <= measured.units <= module.MOST_UNITS
    assert forgotten.exists() and described_here(device_info).measured == measured
    exported = CliRunner().invoke(main, ["devices", "--export", str(tmp_path / "again.json")])
    assert exported.exit_code == 0
    assert read_description(tmp_path / "again.json").measured == measured


def test_every_kind_of_multiply_add_compiles(device_info: vulkan.DeviceInfo) -> None:
    """Where this device has no dot products and matrices, too."""
    from support import lowering
    from tvm_vision.tuning import calibration_kernels
    from tvm_vision.vulkan.codegen.glsl.cooperative_matrix import factors_of

    on = lowering.target(supports_integer_dot_product=True, supports_cooperative_matrix=True)
    for function, matrices in (
        (calibration_kernels.dot_products(4, 64, 16), None),
        (calibration_kernels.multiply_add("float16", 4, 64, 16), None),
        (calibration_kernels.matrix_products("float16", (16, 8, 16), 4, 32, 16), "float16"),
        (calibration_kernels.matrix_products("int8", (16, 16, 32), 4, 32, 16), "int8"),
    ):
        shaders = lowering.kernels(calibration_kernels.scheduled(function), on)
        assert {factors_of(shader.source) for shader in shaders} == {matrices}


def test_what_was_measured_counts_for_later_compilations(
    device_info: vulkan.DeviceInfo, forgotten: Path
) -> None:
    before = list(parse_target("vulkan").keys)
    described = DeviceDescription.of(device_info)
    assert before == ["vulkan", "gpu", *described.keys]
    keep(dataclasses.replace(described, measured=MEASURED))
    told = numbers_in(parse_target("vulkan").keys)
    assert (told["measured_mb_s"], told["measured_launch_ns"]) == (38_000, 8_000)
    forgotten.write_text("{}")  # damaged: as if there were none
    assert list(parse_target("vulkan").keys) == before


def test_a_calibration_of_another_driver_is_not_used(
    device_info: vulkan.DeviceInfo, forgotten: Path
) -> None:
    other = known_devices()["renoir"]
    forgotten.parent.mkdir(parents=True, exist_ok=True)
    forgotten.write_bytes(dataclasses.replace(other, measured=MEASURED).to_bytes())
    assert described_here(device_info).measured is None


def test_the_model_of_a_device_reads_it() -> None:
    renoir = dataclasses.replace(known_devices()["renoir"], measured=MEASURED)
    model = DeviceModel.of(Target(renoir.target_config()))
    assert model.rates is not None and model.units.count == numbers_in(renoir.keys)["compute_units"]
    assert model.rates.bandwidth == 38e9 and model.rates.launch == pytest.approx(8e-6)
    assert model.rates.flops == pytest.approx(1.2e12 * REACHED)
    assert (model.units.threads, model.units.schedulers, model.units.lanes) == (2560, 4, 64)
    v3d = dataclasses.replace(known_devices()["v3d-7.1"], measured=MEASURED)
    assert DeviceModel.of(Target(v3d.target_config())).units.count == 7  # its driver tells none
    plain = DeviceModel.of(Target(known_devices()["v3d-7.1"].target_config()))
    assert plain.rates == INTEGRATED.rates


def limits_of(shared: float = 9e12, **flops: float) -> TargetLimits:
    """A Vega 8 that multiplies and adds so fast."""
    measured = dataclasses.replace(MEASURED, flops={"float32": 1.2e12, **flops}, shared=shared)
    renoir = dataclasses.replace(known_devices()["renoir"], measured=measured)
    return TargetLimits.of(Target(renoir.target_config()))


def test_costs_of_products_read_it() -> None:
    """Rates of float16, dot products of bytes and shared memory; its clock is as they say."""
    device = limits_of(6e11, float16=2.4e12, dp4a=4.8e12).device
    count = device.units.count
    costs, rates = device.gemm, device.rates
    assert isinstance(costs, PipelineCosts) and rates is not None
    assert rates.clock == pytest.approx(1.2e12 / (2 * count * 64))
    assert costs.shared_rate == round(6e11 / (count * rates.clock))
    assert (rates.fp16, rates.dp4a, device.packed_fp16) == (2.0, 1.0, True)

    def seconds(product: Product, dot: int = 1, **flops: float) -> float:
        tile = GemmTile(32, 64, 32, 4, 4, dot=dot)
        return gemm.cycles(tile, product, limits_of(**flops).device)

    halves = Product(1, 512, 4096, 1024, fp16=True)
    assert seconds(halves, float16=2.4e12) > 1.2 * seconds(halves, float16=4.8e12)
    # Without a gain they are added up in float32.
    assert not limits_of(float16=1.2e12).device.packed_fp16
    words = Product(1, 512, 4096, 1024, factors=INT8)
    assert seconds(words, 4, dp4a=2.4e12) > 1.2 * seconds(words, 4, dp4a=4.8e12)
    assert seconds(Product(1, 512, 4096, 1024)) == seconds(Product(1, 512, 4096, 1024), dp4a=1e9)


@pytest.mark.parametrize(("rate", "used"), [(4.8e12, True), (1.3e12, True), (1.1e12, False)])
def test_dot_products_that_are_slower_than_float32_are_not_used(rate: float, used: bool) -> None:
    config = known_devices()["rembrandt"]
    measured = dataclasses.replace(MEASURED, flops={"float32": 1.2e12, "dp4a": rate})
    target = dataclasses.replace(config, measured=measured).target_config()
    assert TargetLimits.of(Target(target)).dp4a == used


def test_fitted_units_stay_and_rates_are_what_was_measured() -> None:
    keys = ["vulkan", "gpu", "measured_mb_s_500000", "unit_threads_1024", "compute_units_30"]
    model = DeviceModel.of(Target({"kind": "vulkan", "keys": keys, "device_type": "discrete"}))
    assert model.units == DISCRETE.units and model.rates is not None
    assert model.rates.bandwidth == 5e11


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"launch": 0}, "measured.launch must be above 0"),
        ({"bandwidth": 1e30}, "measured.bandwidth must be above 0, to 1e"),
        ({"units": 0}, "measured.units must be a whole number from 1"),
        ({"flops": {}}, "measured.flops.float32 is missing"),
        ({"flops": {"float32": 1e9, "float8": 1e9}}, "measured.flops.float8 is not known"),
        ({"flops": {"float32": 1e9, "dp4a": True}}, "must be a number, found true"),
        ({"date": ""}, "measured.date must be a text that is not empty"),
        ({"more": 1}, "measured.more is not known"),
    ],
)
def test_a_measurement_that_cannot_be(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    document = dataclasses.replace(known_devices()["renoir"], measured=MEASURED).to_json()
    path = tmp_path / "robot.json"
    path.write_text(json.dumps(document))
    assert read_description(path).measured == MEASURED
    document["measured"].update(change)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=says):
        read_description(path)


@pytest.mark.parametrize("units", [1, 2, 7, 8, 20, 132, 511])
def test_units_are_counted_whatever_the_clock_does(units: int) -> None:
    """A clock that changes by a factor of three now and then, and noise of a tenth."""
    rng, calls = np.random.default_rng(units), itertools.count()

    def runner(groups: int) -> Callable[[], float]:
        def once() -> float:
            slow = 3.0 if next(calls) // 37 % 2 else 1.0
            return slow * -(-groups // units) * 4e-5 * rng.uniform(0.95, 1.05)

        return once

    assert module.count_units(runner) == units
