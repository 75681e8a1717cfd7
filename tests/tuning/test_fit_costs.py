"""The fit of costs: what made up timings is found again, and a tuner's records are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from benchmarks import convolutions, products
from benchmarks.fit_costs import (
    COSTS,
    CYCLES,
    RESULTS,
    Sample,
    errors,
    fit,
    functions_of,
    main,
    measured_launch,
    names_of,
    regret,
    samples_of,
    with_costs,
)
from support.networks import Builder
from tvm_vision.schedules import (
    TargetLimits,
    choices,
)
from tvm_vision.schedules.cost import coopmat_gemm as coopmat_gemm_cost
from tvm_vision.schedules.cost import direct_conv as direct_conv_cost
from tvm_vision.schedules.cost import gemm as gemm_cost
from tvm_vision.schedules.cost.device_model import DISCRETE, DeviceModel
from tvm_vision.schedules.cost.direct_conv import Windows
from tvm_vision.schedules.cost.gemm_tile import Product
from tvm_vision.schedules.factors import FP16
from tvm_vision.tuning.records import Record, TuningKey, read_records

CLOCK = 2e9
LIMITS = TargetLimits(1024, 49152, 32, matrices=((16, 16, 16),))
SIZES = [(64, 3136, 576), (128, 784, 1152), (256, 196, 2304), (512, 49, 4608), (96, 3136, 24)]
WINDOWS = [(416, 32, 64), (104, 64, 64), (52, 128, 256), (26, 256, 640), (13, 512, 512)]


def tiles(template: str) -> list[tuple[Any, Any]]:
    """Shapes with some of their tiles, from the likeliest to the least."""
    if template == "direct_conv":
        shapes: list[Any] = [Windows(1, n, n, c, f, (3, 3)) for n, f, c in WINDOWS]
        candidates: Any = direct_conv_cost.candidates
    elif template == "coopmat_gemm":
        shapes = [Product(1, *size, FP16) for size in SIZES]
        candidates = coopmat_gemm_cost.candidates
    else:
        shapes, candidates = [Product(1, *size) for size in SIZES], gemm_cost.candidates
    found = []
    for shape in shapes:
        offered = candidates(shape, LIMITS)
        found += [(shape, tile) for tile in offered[:: max(1, len(offered) // 24)]]
    return found


def timed(template: str, device: DeviceModel, noise: float) -> list[Sample]:
    errors = np.random.default_rng(7).normal(0, noise, 1000)
    return [
        Sample(shape, tile, CYCLES[template](tile, shape, device) / CLOCK * float(np.exp(error)))
        for (shape, tile), error in zip(tiles(template), errors, strict=False)
    ]


@pytest.mark.parametrize("template", CYCLES)
def test_the_costs_of_the_tree_are_found_again(template: str) -> None:
    """From other ones, by timings of the tree's model."""
    names = names_of(template, DISCRETE)
    true = {name: getattr(getattr(DISCRETE, COSTS[template]), name) for name in names}
    factors = np.exp(np.random.default_rng(3).uniform(-0.7, 0.7, len(names)))
    guessed = {name: true[name] * float(f) for name, f in zip(names, factors, strict=True)}
    samples = timed(template, DISCRETE, 0.0)
    fitted = fit(template, samples, with_costs(template, DISCRETE, guessed), CLOCK, draw=1e-6)
    assert np.abs(errors(template, samples, fitted, CLOCK)).max() < 1e-3
    found = getattr(fitted, COSTS[template])
    told = [name for name in names if getattr(found, name) == pytest.approx(true[name], rel=0.02)]
    assert len(told) >= len(names) - 2, (found, true)  # some weigh nothing in these samples


@pytest.mark.parametrize("template", CYCLES)
def test_noise_moves_costs_little_and_what_is_not_told_stays(template: str) -> None:
    samples = timed(template, DISCRETE, 0.05)
    fitted = fit(template, samples, DISCRETE, CLOCK)
    before = np.mean(errors(template, samples, DISCRETE, CLOCK) ** 2)
    assert np.mean(errors(template, samples, fitted, CLOCK) ** 2) <= before
    assert 1.0 <= regret(template, samples, fitted) < 1.1
    for name in names_of(template, DISCRETE):
        there = getattr(getattr(DISCRETE, COSTS[template]), name)
        assert getattr(getattr(fitted, COSTS[template]), name) == pytest.approx(there, rel=0.5)


def test_the_launch_is_that_of_the_recorded_comparison() -> None:
    assert DISCRETE.rates is not None
    assert round(measured_launch(), 6) == DISCRETE.rates.launch
    result = CliRunner().invoke(main, ["--recorded"])
    assert "rates.launch 1.89e-06 s" in result.output


def test_large_convolutions_get_tiles_as_fast_as_the_best_that_were_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the GPU whose timings are kept; those of the whole list are 1.03 times as slow."""
    layers = [layer for layer in convolutions.LAYERS if layer.channels in (192, 384, 512, 768)]
    monkeypatch.setattr(convolutions, "LAYERS", layers)
    onnx.save(convolutions.network(), tmp_path / "model.onnx")
    functions = functions_of(
        [str(tmp_path / "model.onnx")], str(RESULTS.parent / "nvidia-h200-device.json"), "fp16"
    )
    records = read_records(RESULTS.parent / "nvidia-h200-convolutions.jsonl")
    found = samples_of(records, functions, "NVIDIA H200")["direct_conv"]
    assert len({sample.shape for sample in found}) == len(layers)
    assert regret("direct_conv", found, DISCRETE) < 1.1


def test_products_and_layers_of_float32_get_tiles_as_fast_as_the_best_that_were_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the GPU whose timings are kept; those of both lists are 1.05 times as slow."""
    monkeypatch.setattr(products, "FP32_CHAINS", products.FP32_CHAINS[:4])
    layers = [layer for layer in convolutions.FP32_LAYERS if layer.edge in (14, 28)]
    monkeypatch.setattr(convolutions, "FP32_LAYERS", layers)
    for name, module in (("products", products), ("convolutions", convolutions)):
        path = tmp_path / f"{name}.onnx"
        onnx.save(module.network(fp32=True), path)
        target = str(RESULTS.parent / "nvidia-h200-device.json")
        records = read_records(RESULTS.parent / f"nvidia-h200-{name}-fp32.jsonl")
        found = samples_of(records, functions_of([str(path)], target, "fp32"), "NVIDIA H200")
        assert len({sample.shape for sample in found["contraction"]}) >= len(layers) // 2
        assert regret("contraction", found["contraction"], DISCRETE) < 1.15, name


def small_model() -> onnx.ModelProto:
    builder = Builder(1)
    return builder.model(24, [(builder.conv("input", 3, 32, 3), onnx.TensorProto.FLOAT)])


def test_records_are_fitted_by_the_kernels_of_their_models(tmp_path: Path) -> None:
    """As a user does: a tuner's file of records, and the network that it was tuned for."""
    onnx.save(small_model(), tmp_path / "model.onnx")
    functions = functions_of([str(tmp_path / "model.onnx")], "vulkan", "fp32")
    (key, function), *_ = functions.items()
    place = TuningKey("GPU", "driver", "fp32")
    offered = [c for c in choices(function, LIMITS) if c.template == "contraction"][:6]
    records = [
        Record(key, "conv", place, choice.to_dict(), (1e-5 * n,), checked=True)
        for n, choice in enumerate(offered, 1)
    ]
    failed = Record(key, "conv", place, offered[0].to_dict(), error="TimeoutError: hung")
    unknown = Record("0" * 16, "conv", place, offered[0].to_dict(), (1e-5,))
    found = samples_of([*records, failed, unknown], functions)
    assert [s.seconds for s in found["contraction"]] == [r.best for r in records]
    assert samples_of(records, functions, "another") == {}
    file = tmp_path / "records.jsonl"
    file.write_text("".join(record.to_json() + "\n" for record in records))
    result = CliRunner().invoke(main, [str(file), str(tmp_path / "model.onnx")])
    assert result.exit_code == 0, result.output
    assert "contraction: 6 tiles of 1 kernels" in result.output and "regret" in result.output


def test_records_of_other_models_are_one_line(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "m.onnx")
    (tmp_path / "none.jsonl").write_text("")
    result = CliRunner().invoke(main, [str(tmp_path / "none.jsonl"), str(tmp_path / "m.onnx")])
    assert result.exit_code == 1 and "records of kernels of these models" in result.output
