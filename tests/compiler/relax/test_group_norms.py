"""Normalizations of numbers far from 0, where the mean of squares less the square of the mean is
rounding alone."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (1, 8, 16, 64)
OPERATORS = {
    "GroupNormalization": (8, {"num_groups": 2}),
    "InstanceNormalization": (8, {}),
    "LayerNormalization": (64, {}),
}


def exact(operator: str, x: np.ndarray) -> np.ndarray:
    groups = {"G": (1, 2, -1), "I": (1, 8, -1), "L": (1, 8 * 16, -1)}[operator[0]]
    parts = x.astype("float64").reshape(groups)
    variance = parts.var(-1, keepdims=True)
    return ((parts - parts.mean(-1, keepdims=True)) / np.sqrt(variance + 1e-5)).reshape(x.shape)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.usefixtures("device_info")
def test_numbers_far_from_zero(operator: str, target: str) -> None:
    extent, attributes = OPERATORS[operator]
    node = helper.make_node(operator, ["x", "scale", "shift"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy"]
    constants = [
        numpy_helper.from_array(np.full(extent, value, "float32"), name)
        for name, value in (("scale", 1.0), ("shift", 0.0))
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    compiled = compile_model(*import_onnx(model), target=target)
    noise = np.random.default_rng(3).standard_normal(SHAPE)
    for mean, spread, bound in ((100, 1, 1e-4), (1000, 1, 2e-3), (10, 0, 1e-2)):
        x = (mean + 0.1 + spread * noise).astype("float32")
        (found,) = run(compiled, [x])
        np.testing.assert_allclose(found, exact(operator, x), atol=bound)
