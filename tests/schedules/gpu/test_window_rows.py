"""Windows whose rows lie in registers, large ones of each channel and those of few results, give
what onnxruntime gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import tvm_vision
from support.onnx_models import make_model
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import TargetLimits, choices, first_taking, schedule_with
from tvm_vision.schedules.cost.device_model import INTEGRATED
from tvm_vision.schedules.gpu.window_rows import WindowRows, candidates

RANDOM = np.random.default_rng(11)


def model_of(
    channels: int,
    sizes: list[int],
    kernel: list[int],
    batch: int = 1,
    results: int = 0,
    **more: Any,
) -> Any:
    """A convolution of what a rectifier gives, with bias: by channel, or of all to ``results``."""
    inner, groups, out = (channels, 1, results) if results else (1, channels, channels)
    weights = RANDOM.standard_normal((out, inner, *kernel)).astype("float32")
    bias = RANDOM.standard_normal(out).astype("float32")
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "w", "b"], ["y"], group=groups, **more),
    ]
    given = [("x", (batch, channels, *sizes))]
    return make_model(nodes, given, [("y", None)], [("w", weights), ("b", bias)])


CASES = [
    {"channels": 6, "sizes": [28, 28], "kernel": [13, 13], "pads": [6] * 4},
    {"channels": 32, "sizes": [7, 7], "kernel": [9, 9], "pads": [4] * 4, "batch": 2},
    {"channels": 4, "sizes": [40, 37], "kernel": [11, 11], "pads": [0] * 4},
    {"channels": 4, "sizes": [41, 57], "kernel": [11, 9], "pads": [5, 4, 5, 4], "strides": [2, 2]},
    {"channels": 4, "sizes": [30, 28], "kernel": [9, 9], "pads": [8] * 4, "dilations": [2, 2]},
    {"channels": 3, "sizes": [24, 56], "kernel": [5, 51], "pads": [2, 25, 2, 25]},
    {"channels": 3, "sizes": [400], "kernel": [129], "pads": [64, 64]},
    {"channels": 12, "sizes": [64, 64], "kernel": [3, 3], "pads": [1] * 4, "results": 3},
    {"channels": 5, "sizes": [48, 56], "kernel": [9, 9], "pads": [4] * 4, "results": 1},
    {"channels": 8, "sizes": [50, 60], "kernel": [5, 3], "pads": [0] * 4, "results": 4},
    {"channels": 4, "sizes": [96, 98], "kernel": [7, 5], "strides": [2, 2], "results": 2},
    {"channels": 3, "sizes": [40, 40], "kernel": [5, 5], "batch": 2, "results": 2},
    {"channels": 6, "sizes": [60, 60], "kernel": [5, 5], "dilations": [2, 3], "results": 2},
    {"channels": 12, "sizes": [48, 64], "kernel": [3, 3], "pads": [1] * 4, "results": 5},
    {"channels": 8, "sizes": [50, 60], "kernel": [5, 3], "pads": [0] * 4, "results": 8},
    # Volumes, as those of costs: what is summed up of other slices is a channel more.
    {"channels": 6, "sizes": [10, 20, 24], "kernel": [3, 3, 3], "pads": [1] * 6, "results": 1},
    {"channels": 3, "sizes": [9, 24, 40], "kernel": [2, 3, 5], "strides": [2, 1, 1], "results": 2},
    {"channels": 5, "sizes": [8, 24, 30], "kernel": [3, 3, 3], "dilations": [2, 1, 2],
     "batch": 2, "results": 1},
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_large_windows(case: dict[str, Any], precision: str, tmp_path: Path) -> None:
    model = model_of(**case)
    # Devices that kernels were timed on have none of these: made for another, and run here.
    tvm_vision.compile(model, tmp_path / "net.tar", target="renoir", precision=precision)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = RANDOM.standard_normal(shape).astype("float32")
    found = tvm_vision.load(tmp_path / "net.tar", device="vulkan").frame({"x": x})["y"]
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bound = 3e-6 if precision == "fp32" else 3e-3
    np.testing.assert_allclose(found, wanted, 0, bound * np.abs(wanted).max())


LIMITS = TargetLimits.of(parse_target("renoir"))


def functions_of(model: Any) -> list[Any]:
    """A network's kernels, not scheduled yet."""
    network = Compilation(import_onnx(model)[0], parse_target("renoir"), CompileOptions())
    return list(run(network, last="short_names").graph.functions.values())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_take_large_windows(case: dict[str, Any]) -> None:
    assert "window_rows" in [first_taking(each, LIMITS) for each in functions_of(model_of(**case))]


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_leave_small_windows(kernel: int) -> None:
    model = model_of(32, [28, 28], [kernel] * 2, pads=[kernel // 2] * 4)
    assert "window" in [first_taking(each, LIMITS) for each in functions_of(model)]


@pytest.mark.parametrize("results", [9, 64])
def test_leave_many_results(results: int) -> None:
    model = model_of(16, [64, 64], [9, 9], pads=[4] * 4, results=results)
    assert "contraction" in [first_taking(each, LIMITS) for each in functions_of(model)]


@pytest.mark.parametrize("results", [0, 3])
def test_choices_can_be_built(results: int) -> None:
    sizes = [64, 64] if results else [14, 14]
    model = model_of(4, sizes, [9, 9], pads=[4] * 4, results=results)
    for function in functions_of(model):
        offered = [c for c in choices(function, LIMITS) if c.template == "window_rows"]
        for choice in [*offered[:20], *offered[20::50]]:
            assert schedule_with(function, LIMITS, choice) is not None


def test_volumes_have_choices_that_can_be_built() -> None:
    """As many slices at once as the window has, of each channel."""
    model = model_of(4, [6, 32, 32], [3, 3, 3], pads=[1] * 6, results=1)
    (function,) = (f for f in functions_of(model) if first_taking(f, LIMITS) == "window_rows")
    offered = [c for c in choices(function, LIMITS) if c.template == "window_rows"]
    assert {c.parameters.channels for c in offered} == {1, 3}
    for choice in [*offered[:10], *offered[10::50]]:
        assert schedule_with(function, LIMITS, choice) is not None


def test_how_many_results_are_few_is_the_devices() -> None:
    """Where products of fp16 add up two at once fewer are, and drivers that choose narrow subgroups
    need more places."""
    device = replace(INTEGRATED, packed_fp16=True)
    limits = TargetLimits.of(parse_target("vulkan"))

    def takes(results: int, size: int, rows: int, **more: Any) -> bool:
        window = WindowRows(1, rows, 64, (3, 3), (1, 1), (1, 1), size, results, 16, 16)
        return bool(candidates(window, replace(limits, device=replace(device, **more))))

    assert [n for n in (4, 5, 6, 8) if takes(n, 2, 64)] == [4, 5]
    assert [n for n in (4, 5, 6, 8) if takes(n, 2, 64, packed_fp16=False)] == [4, 5, 6, 8]
    assert all(takes(n, 4, 64) for n in (4, 5, 6, 8))
    assert [n for n in (4, 5) if takes(n, 2, 64, wide_subgroups=True)] == [4]
    assert [n for n in (4, 5) if takes(n, 2, 256, wide_subgroups=True)] == [4, 5]
