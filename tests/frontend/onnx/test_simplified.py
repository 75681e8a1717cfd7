"""What onnxsim leaves of a network computes what the network did, by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

from support.onnx_models import make_model
from support.random_networks import random_network
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx import simplify
from tvm_vision.frontend.onnx.graph import is_quantized
from tvm_vision.frontend.onnx.load import checked_onnx
from tvm_vision.frontend.onnx.rewrites import expand_functions
from tvm_vision.frontend.onnx.simplify import simplified

SEEDS, TOGETHER = 160, 20


def results(model: onnx.ModelProto, image: Any) -> list[Any]:
    """As the model says, without what onnxruntime would make of it."""
    return list(Reference(model, optimized=False).run({"x": image}).values())


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_networks_of_chance_stay_what_they_are(first: int) -> None:
    compared = 0
    for seed in range(first, first + TOGETHER):
        model = random_network(seed)
        if is_quantized(model):  # a sum that is rounded to bytes may be rounded the other way
            continue
        shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
        image = np.random.default_rng(seed).standard_normal(shape, np.float32)
        try:
            expected = results(model, image)
        except UnsupportedModelError:  # onnxruntime has no Resize along axes counted from the last
            continue
        whole, shapes = checked_onnx(model, {})
        simple = simplified(expand_functions(whole), shapes)
        if simple is None:
            continue
        compared += 1
        for wanted, found in zip(expected, results(simple, image), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4, err_msg=f"seed {seed}")
    assert compared > TOGETHER // 2


@pytest.mark.parametrize("pool", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("value", [0.0, -np.inf])
def test_padding_before_windows(pool: str, own: int, counted: int, value: float) -> None:
    """Of a mean's own padding nothing is counted, unless it says so; what is before it is."""
    if pool == "AveragePool" and value:
        pytest.skip("no mean of what is infinite")
    options = {"count_include_pad": counted} if pool == "AveragePool" else {}
    nodes = [
        make_node("Pad", ["x", "around", "value"], ["p"]),
        make_node(pool, ["p"], ["y"], kernel_shape=[3, 3], pads=[own] * 4, **options),
    ]
    around, number = np.array([0, 0, 1, 0, 0, 0, 1, 2]), np.array(value, np.float32)
    model = make_model(
        nodes, [("x", [1, 3, 7, 6])], [("y", None)], [("around", around), ("value", number)]
    )
    image = np.random.default_rng(0).standard_normal((1, 3, 7, 6), "float32") - 2
    simple = simplified(*checked_onnx(model, {}))
    assert simple is not None
    for wanted, found in zip(results(model, image), results(simple, image), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("written, known", [("Gelu", True), ("MadeUp", False)])
def test_onnxruntimes_own_operators_that_onnxsim_writes(
    monkeypatch: pytest.MonkeyPatch, written: str, known: bool
) -> None:
    """From its version 0.8 on it fuses attention to one of them. What there are no words for leaves
    the model as it was."""
    model = make_model([make_node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("y", [2, 3])])
    fused = make_model(
        [make_node(written, ["x"], ["y"], name="n", domain="com.microsoft")],
        [("x", [2, 3])],
        [("y", [2, 3])],
        domain="com.microsoft",
    )
    monkeypatch.setattr(simplify, "_run", lambda *given, **options: fused)
    simple = simplified(*checked_onnx(model, {}))
    if not known:
        assert simple is None
        return
    assert simple is not None and not any(node.domain for node in simple.graph.node)
    image = np.random.default_rng(0).standard_normal((2, 3), "float32")
    for wanted, found in zip(results(fused, image), results(simple, image), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
