"""Errors by layer where a node of the model is several kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import tvm_vision
from tvm_vision.evaluate.layers import layer_errors


def test_a_node_of_several_kernels_is_compared_once(tmp_path: Path) -> None:
    """Windows along columns have the size of those of both, and other values."""
    around = {"kernel_shape": [31, 31], "pads": [15] * 4}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], "pool", **around),
        helper.make_node("Conv", ["p", "w"], ["y"], "conv"),
    ]
    weight = onnx.numpy_helper.from_array(np.ones((2, 16, 1, 1), np.float32), "w")
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 64, 64))]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", ends, results, [weight])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "pool.onnx")
    package = tvm_vision.compile(
        tmp_path / "pool.onnx", tmp_path / "pool.tar", target="llvm", layout="NCHW"
    )
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 16, 64, 64)).astype("f4")}
    kernels = tvm_vision.load(package).info["graph"]["kernels"]
    assert [kernel["nodes"][-1] for kernel in kernels].count("pool") == 2
    errors = layer_errors(package, inputs, tmp_path / "pool.onnx")
    assert sorted(error.value for error in errors.values()) == ["p", "y"]
    assert all(error.error.max_rel < 1e-5 for error in errors.values())
