"""Convolutions whose weights are computed, as those of trackers, are in blocks of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from support.interpreter import run
from support.onnx_models import make_model
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "whole blocks": ((2, 32, 9, 11), (16, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
    "parts of blocks": ((1, 21, 9, 11), (7, 21, 3, 5), {}),
    "few channels": ((1, 3, 20, 18), (8, 3, 8, 8), {"pads": [4, 4, 4, 4]}),
    "strides": ((1, 19, 13, 12), (33, 19, 3, 2), {"strides": [2, 1], "pads": [0, 1, 1, 0]}),
    "dilations": ((1, 16, 13, 12), (5, 16, 2, 3), {"dilations": [3, 2]}),
    "single pixels": ((1, 40, 6, 7), (18, 40, 1, 1), {}),
    "groups": ((1, 12, 9, 8), (6, 4, 3, 3), {"group": 3}),
    "each channel": ((1, 20, 9, 8), (20, 1, 4, 4), {"group": 20}),
}


@pytest.mark.parametrize("is_behind", [False, True], ids=["alone", "behind"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnxruntime(case: str, is_behind: bool) -> None:
    """Of an input, and of what a convolution left in blocks; of the weights alike."""
    shape, weights, attributes = CASES[case]
    random = np.random.default_rng(5)
    nodes, constants, image, window = [], [], "x", "w"
    if is_behind:
        for name, channels in (("x", shape[1]), ("w", weights[1])):
            value = random.standard_normal((channels, channels, 1, 1)).astype("float32") / 4
            constants.append((f"{name}_by", value))
            nodes.append(helper.make_node("Conv", [name, f"{name}_by"], [f"{name}_made"]))
        image, window = "x_made", "w_made"
    nodes.append(helper.make_node("Conv", [image, window], ["found"], **attributes))
    nodes.append(helper.make_node("Relu", ["found"], ["y"]))
    model = make_model(nodes, [("x", shape), ("w", weights)], [("y", None)], constants)
    x, w = (random.standard_normal(size).astype("float32") for size in (shape, weights))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, {"x": x, "w": w})
    compiled = compile_model(*import_onnx(model), target="llvm")
    found = run(compiled, [x, w])[0]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6 * np.abs(wanted).max())
    functions = [kernel["function"] for kernel in compiled.graph["kernels"]]
    assert any("pack_weights" in name for name in functions) == ("group" not in attributes)
