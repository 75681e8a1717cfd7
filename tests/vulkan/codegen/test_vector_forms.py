"""Functions of vectors: what TVM computes lane by lane elsewhere stays a vector on Vulkan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tvm.ir import Op

from support import lowering
from tvm_vision.vulkan.codegen.vector_forms import NAMES, NAMESPACE

OF_TWO = ("atan2", "copysign", "fmod", "hypot", "nextafter")


def erf(x: Any) -> Any:
    return lowering.call("erf", "float32", x)


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_stored_at_once(name: str) -> None:
    inputs = ["float32"] * (2 if name in OF_TWO else 1)
    function = lowering.elementwise(lambda *x: lowering.call(name, "float32", *x), inputs, vector=4)
    (kernel,) = lowering.kernels(function)
    arrays = [line for line in kernel.source.splitlines() if "buffer" in line]
    assert arrays and all("vec4" in line for line in arrays), kernel.source


def test_other_targets_keep_their_own() -> None:
    """LLVM has no erf of a vector: TVM's own operator stays as it is."""
    assert Op.get(f"{NAMESPACE}.erf").get_attr("TVectorizable")
    assert not Op.get("tirx.erf").get_attr("TVectorizable")


@pytest.mark.usefixtures("device_info")
def test_erf_everywhere() -> None:
    """Within three units in the last place of 1, and of small values themselves: also where one
    polynomial takes over from the other, and at the ends."""
    x = np.concatenate([np.linspace(-5, 5, 20_001), np.logspace(-30, 1, 501), [1.0, 4.0]])
    x = np.concatenate([x, -x, [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype("float32")
    found = lowering.evaluate(erf, x, dtype="float32")
    assert np.isnan(found[-1])
    found, x = found[:-1], x[:-1]
    expected = np.array([math.erf(float(value)) for value in x])
    assert np.abs(found - expected).max() < 3 * 2.0**-23
    small = np.abs(x) < 1
    np.testing.assert_allclose(found[small], expected[small], rtol=3 * 2.0**-23)
    assert np.array_equal(np.signbit(found), np.signbit(x))
