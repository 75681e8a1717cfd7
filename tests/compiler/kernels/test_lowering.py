"""What kernels of networks store: vectors, whatever function they compute."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx.helper import make_node

from support.onnx_models import make_model
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

TARGET = "renoir"
SIZE = 512
OPSET = 20
# Relu is one that TVM takes for vectors itself.
FUNCTIONS = "Relu Acos Acosh Asin Asinh Atan Atanh Erf Gelu Tanh Sigmoid Softplus Mish".split()


def shaders(nodes, weights, tmp_path, precision):
    model = make_model(nodes, [("x", [SIZE, SIZE])], [("y", None)], weights, opset=OPSET)
    module, signature = import_onnx(model)
    compile_model(
        module, signature, target=TARGET, precision=precision, kernel_cache=False,
        dump_shaders=tmp_path,
    )  # fmt: skip
    return [path.read_text() for path in tmp_path.glob("*.comp")]


def assert_stores_vectors(text):
    stored = re.findall(r"^ *(out\d+\w*)\[.*\] = ", text, re.MULTILINE)
    assert stored and all(name.endswith("_v4") for name in stored), text


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_by_one(function, tmp_path):
    (text,) = shaders([make_node(function, ["x"], ["y"])], [], tmp_path, "fp32")
    assert_stores_vectors(text)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("function", ["Relu", "Erf", "Gelu"])
def test_behind_a_product(function, precision, tmp_path):
    weights = np.random.default_rng(0).standard_normal((SIZE, SIZE), "float32")
    nodes = [make_node("MatMul", ["x", "w"], ["p"]), make_node(function, ["p"], ["y"])]
    (text,) = shaders(nodes, [("w", weights)], tmp_path, precision)
    assert_stores_vectors(text)


def test_of_what_is_joined_and_turned(tmp_path):
    """Whether a vector is of the first tensor or of the second holds for all of it."""
    weights = [("shape", np.array([4, SIZE // 4, 2 * SIZE]))]
    nodes = [
        make_node("Abs", ["x"], ["a"]), make_node("Transpose", ["x"], ["b"]),
        make_node("Concat", ["a", "b"], ["c"], axis=1), make_node("Reshape", ["c", "shape"], ["d"]),
        make_node("Transpose", ["d"], ["y"], perm=[1, 0, 2]),
    ]  # fmt: skip
    for text in shaders(nodes, weights, tmp_path, "fp32"):
        assert_stores_vectors(text)
