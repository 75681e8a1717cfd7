"""Every schedule template against float64: sums that cancel, denormals, infinities and NaN.

The bounds are those of docs/reliability.md. Matrices, which lavapipe has not, are emulated;
Winograd's transforms have tests of their own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from support.compiled import MATRICES
from support.emulated_matrices import emulated, need_right_arrays
from support.hard_numbers import CASES, KINDS, ON_MATRICES, built, configs, inputs_of, wrong
from support.matrix_runs import SHAPE, halves
from support.schedule_runs import fused, target
from tvm_vision.schedules import ScheduleConfig, TargetLimits, choices, schedule_with
from tvm_vision.schedules.cost.direct_conv import DirectConvTile
from tvm_vision.vulkan.codegen import build

pytestmark = pytest.mark.usefixtures("device_info")
# One of each template, and each of maximum and minimum.
QUICK = ("maximum", "relu", "matmul", "max", "max_pool2d")


def check(name: str, dtype: str, most: int | None) -> None:
    case = CASES[name]
    found = configs(case, dtype, most)
    assert found
    for choice, function in found:
        run = built(function, case, dtype)
        for kind in KINDS:
            inputs = inputs_of(case, kind, dtype)
            problem = wrong(case, inputs, run(inputs), dtype)
            assert not problem, f"{choice}, {kind}: {problem}"


@pytest.mark.parametrize("name", QUICK)
def test_the_first_candidate(name: str) -> None:
    check(name, "float32", 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_every_candidate(name: str, dtype: str) -> None:
    check(name, dtype, None)


DIRECT = [
    DirectConvTile(rows=2, filters=16, k=16, subgroups_n=1, columns=columns, matrix=SHAPE)
    for columns in (1, 3)
]


def on_matrices(name: str, template: str, most: int | None, patch: pytest.MonkeyPatch) -> None:
    case = ON_MATRICES[name]
    function = halves(fused(case.build, case.shapes))
    limits = dataclasses.replace(TargetLimits.of(target()), matrices=(SHAPE,))
    print_kernels = build.print_kernels
    patch.setattr(build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)])
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host="llvm")
    # Which is offered for larger convolutions alone.
    offered = [ScheduleConfig("direct_conv", tile) for tile in DIRECT]
    if template != "direct_conv":
        offered = [c for c in choices(function, limits) if c.template == template]
    assert offered
    for choice in offered[:most]:
        run = built(schedule_with(function, limits, choice), case, "float16", device)
        for kind in KINDS:
            inputs = inputs_of(case, kind, "float16")
            problem = wrong(case, inputs, run(inputs), "float16")
            assert not problem, f"{choice}, {kind}: {problem}"


TEMPLATES = pytest.mark.parametrize(
    ("name", "template"),
    [("matmul", "coopmat_gemm"), ("conv2d", "coopmat_gemm"), ("conv2d", "direct_conv")],
)


@TEMPLATES
def test_the_first_on_emulated_matrices(
    name: str, template: str, monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    need_right_arrays(device_info)
    on_matrices(name, template, 1, monkeypatch)


@pytest.mark.slow
@TEMPLATES
def test_every_candidate_on_emulated_matrices(
    name: str, template: str, monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    need_right_arrays(device_info)
    on_matrices(name, template, None, monkeypatch)


def test_what_is_wrong_is_found() -> None:
    case = CASES["matmul"]
    inputs = inputs_of(case, "cancelling", "float32")
    exact = case.exact(*(x.astype(np.float64) for x in inputs))
    assert wrong(case, inputs, exact.astype(np.float32), "float32") == ""
    # One of the terms left out.
    less = case.exact(inputs[0][:, 1:], inputs[1][1:])
    assert "beyond rounding" in wrong(case, inputs, less.astype(np.float32), "float32")
    larger = CASES["maximum"]
    pair = inputs_of(larger, "nan", "float32")
    assert wrong(larger, pair, np.maximum(*pair), "float32") == ""
    assert wrong(larger, pair, np.fmax(*pair), "float32") == ""
    assert "no number where" in wrong(larger, pair, np.nan_to_num(np.maximum(*pair)), "float32")
