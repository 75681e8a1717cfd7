"""Every schedule template against float64: sums that cancel, denormals, infinities and NaN.

The bounds are those of docs/reliability.md. Winograd's transforms, and matrices, which lavapipe has
not, have tests of their own.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.hard_numbers import CASES, KINDS, built, configs, inputs_of, wrong

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
