"""Normalizations of numbers far from 0, where the mean of squares less the square of the mean is
rounding alone."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (1, 8, 16, 64)
LONG = (1, 8, 64, 72)  # rows that no workgroup takes alone
# The operator, what it normalizes, the elements of its scale, the rows and its attributes.
CASES = [
    ("GroupNormalization", SHAPE, [8], (1, 2, -1), {"num_groups": 2}),
    ("InstanceNormalization", SHAPE, [8], (1, 8, -1), {}),
    ("LayerNormalization", SHAPE, [64], (1, 8 * 16, -1), {}),
    ("GroupNormalization", LONG, [8], (1, 2, -1), {"num_groups": 2}),
    ("InstanceNormalization", (2, 2, 130, 140), [2], (2, 2, -1), {}),
    ("LayerNormalization", LONG, LONG[1:], (1, 1, -1), {"axis": 1}),
    ("LayerNormalization", LONG, [], (1, 1, -1), {"axis": 0}),
]


def exact(x: np.ndarray, rows: tuple[int, ...]) -> np.ndarray:
    parts = x.astype("float64").reshape(rows)
    variance = parts.var(-1, keepdims=True)
    return ((parts - parts.mean(-1, keepdims=True)) / np.sqrt(variance + 1e-5)).reshape(x.shape)


def network(operator, shape, scale, attributes, dtype="float32"):
    """Of one node, without a scale and a shift of its own."""
    node = helper.make_node(operator, ["x", "scale", "shift"], ["y"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info(name, kind, shape) for name in "xy"]
    of_scale = scale or shape
    constants = [
        numpy_helper.from_array(np.full(of_scale, value, dtype), name)
        for name, value in (("scale", 1.0), ("shift", 0.0))
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return import_onnx(model)


@pytest.mark.parametrize(("operator", "shape", "scale", "rows", "attributes"), CASES)
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.usefixtures("device_info")
def test_numbers_far_from_zero(operator, shape, scale, rows, attributes, target) -> None:
    compiled = compile_model(*network(operator, shape, scale, attributes), target=target)
    noise = np.random.default_rng(3).standard_normal(shape)
    for mean, spread, bound in ((100, 1, 1e-4), (1000, 1, 2e-3), (10, 0, 1e-2)):
        x = (mean + 0.1 + spread * noise).astype("float32")
        (found,) = run(compiled, [x])
        np.testing.assert_allclose(found, exact(x, rows), atol=bound)


@pytest.mark.parametrize(("operator", "shape", "scale", "rows", "attributes"), CASES)
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.usefixtures("device_info")
def test_float64_is_computed(operator, shape, scale, rows, attributes, target) -> None:
    """Mean and variance of a group are float32 where ``stash_type`` says nothing else."""
    bound = 2e-3 if operator == "GroupNormalization" else 1e-7
    made = network(operator, shape, scale, attributes, "float64")
    x = 1000 + np.random.default_rng(3).standard_normal(shape)
    (found,) = run(compile_model(*made, target=target), [x])
    np.testing.assert_allclose(found, exact(x, rows), atol=bound)
