"""Kernels whose tensors begin at 0: they load vectors, and a launch gives them no places."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import te, tirx, topi

from support.compiled import FIXED
from support.onnx_models import make_model
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.tir.whole_tensors import whole_tensors
from tvm_vision.frontend.onnx.load import import_onnx

SIZE = 64
MORE = {"TopK": ["indices"]}  # results that an operator has to have


def model(operator: str, shape: list[int], *weights: Any, **attributes: Any) -> onnx.ModelProto:
    """One operator behind a sum, so that it reads no input of the network; its first result."""
    constants = [(f"c{i}", np.asarray(value)) for i, value in enumerate(weights)]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node(operator, ["twice", *dict(constants)], ["y", *MORE.get(operator, [])],
                         **attributes),
    ]  # fmt: skip
    return make_model(nodes, [("x", shape)], [("y", None)], constants, opset=17)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


WEIGHTS = noise(1, 4 * SIZE, SIZE)
MODELS = {
    "LSTM": model("LSTM", [6, 1, SIZE], WEIGHTS, WEIGHTS, hidden_size=SIZE),
    "CumSum": model("CumSum", [3, SIZE], 1),
    "TopK": model("TopK", [3, 8 * SIZE], [8 * SIZE]),
    "ScatterElements": model(
        "ScatterElements", [8, SIZE], np.zeros((2, SIZE), "int64"), noise(2, SIZE), reduction="add"
    ),
    "NonMaxSuppression": model("NonMaxSuppression", [1, SIZE, 4], noise(1, 1, SIZE), [10]),
}


@pytest.mark.parametrize("operator", MODELS)
def test_no_launch_gives_a_place(operator, tmp_path):
    module, signature = import_onnx(MODELS[operator])
    compile_model(module, signature, target=FIXED, kernel_cache=False, dump_shaders=tmp_path)
    texts = [path.read_text() for path in tmp_path.glob("*.comp")]
    assert texts
    assert not [text for text in texts if "elem_offset" in text]
    if operator == "LSTM":
        assert any("readonly buffer in3_v4_block { vec4" in text for text in texts)


def test_parameters_begin_at_zero_and_all_else_stays():
    x = te.placeholder((4, 8), "float32", "x")
    anywhere = te.create_prim_func([x, topi.cumsum(x, axis=1)])
    assert any(isinstance(param.ty.elem_offset, tirx.Var) for param in anywhere.params)
    whole = whole_tensors(anywhere)
    assert [int(param.ty.elem_offset) for param in whole.params] == [0, 0]
    assert [param.name for param in whole.params] == [param.name for param in anywhere.params]
    assert whole_tensors(whole).same_as(whole)
    plain = te.create_prim_func([x, topi.nn.relu(x)])
    assert whole_tensors(plain).same_as(plain)
