"""Every schedule template against float64: sums that cancel, denormals, infinities and NaN.

The bounds are those of docs/reliability.md. Matrices, which lavapipe has not, are emulated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.emulated_matrices import emulated, need_right_arrays
from support.hard_cases import CASES
from support.hard_numbers import KINDS, built, configs, inputs_of, wrong
from tvm_vision.schedules.cpu.templates import TEMPLATES as OF_PROCESSORS
from tvm_vision.schedules.templates import TEMPLATES as OF_GPUS
from tvm_vision.vulkan.codegen import build
from tvm_vision.vulkan.codegen.glsl.expressions import ExpressionPrinter

pytestmark = pytest.mark.usefixtures("device_info")
# The first of each template, each of maximum and minimum, and who adds up in two kernels.
QUICK = (
    "maximum", "relu", "enlarged image", "matmul", "max", "max_pool2d", "large depthwise",
    "matmul by split_k", "matmul by a trace",
    "winograd's image, m = 4", "winograd's output, m = 4",
    "winograd's convolution as one", "winograd's convolution as one, packed",
    "attention", "plain attention",
    "products in a row",
    "matmul on matrices",
    "conv2d by windows on matrices", "max, on a processor", "matmul, on a processor",
    "relu, on a processor", "conv2d, on a processor", "product that stores rows, on a processor",
    "max_pool2d, on a processor", "gather, on a processor", "mirrored edges, on a processor",
    "axes in another order, on a processor", "max_pool2d in the network's order, on a processor",
    "winograd's image, m = 4, on a processor", "winograd's output, m = 4, on a processor",
)  # fmt: skip
EVERY = [(name, dtype) for name, case in CASES.items() for dtype in case.dtypes]


def test_every_template_has_a_case() -> None:
    """A new one needs a function of its own in support/hard_cases.py, and one that runs always."""
    templates = {*OF_GPUS, *OF_PROCESSORS}
    assert {case.template for case in CASES.values()} == templates
    assert {CASES[name].template for name in QUICK} == templates


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, device_info: Any) -> Any:
    """Runs candidates of a case, as many as are asked for, on all kinds of numbers."""

    def run(name: str, dtype: str, most: int | None) -> None:
        case = CASES[name]
        if case.on_matrices:
            need_right_arrays(device_info)
            print_kernels = build.print_kernels
            monkeypatch.setattr(
                build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
            )
            monkeypatch.setattr(ExpressionPrinter, "require_subgroup", lambda self, size: None)
        found = configs(case, dtype, most)
        assert found
        for choice, function in found:
            computed = built(function, case, dtype)
            for kind in KINDS:
                inputs = inputs_of(case, kind, dtype)
                problem = wrong(case, inputs, computed(inputs), dtype)
                assert not problem, f"{choice}, {kind}: {problem}"

    return run


@pytest.mark.parametrize("name", QUICK)
def test_the_first_candidate(name: str, check: Any) -> None:
    check(name, CASES[name].dtypes[0], 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_every_candidate(name: str, dtype: str, check: Any) -> None:
    check(name, dtype, None)


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
