"""Functions of vectors: what TVM computes lane by lane elsewhere stays a vector on Vulkan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tvm import tirx
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


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("inner", ["erf", "tanh", "atan", "gelu"])
@pytest.mark.parametrize("outer", ["erf", "atan"])
def test_of_each_other(inner: str, outer: str) -> None:
    """LLVM writes instructions of AVX-512 that lose bits where a number that is no number is
    chosen beside one that takes its sign: llvmpipe's erf(tanh x) and erf(gelu x) were near 0."""

    def number(value: float) -> Any:
        return tirx.const(value, "float32")

    forms: dict[str, Any] = {
        "erf": (lambda x: lowering.call("erf", "float32", x), np.vectorize(math.erf)),
        "tanh": (lambda x: lowering.call("tanh", "float32", x), np.tanh),
        "atan": (lambda x: lowering.call("atan", "float32", x), np.arctan),
        "gelu": (
            lambda x: x * (number(0.5) + erf(x * number(0.5**0.5)) * number(0.5)),
            lambda x: x * (0.5 + 0.5 * np.vectorize(math.erf)(x * 0.5**0.5)),
        ),
    }
    first, second = forms[inner], forms[outer]
    x = np.linspace(-4, 4, 257).astype("float32")
    found = lowering.evaluate(lambda x: second[0](first[0](x)), x, dtype="float32")
    np.testing.assert_allclose(found, second[1](first[1](x.astype("float64"))), rtol=0, atol=1e-6)
