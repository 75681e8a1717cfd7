"""Convolutions whose windows lie beside each other as products, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from support.compiled import executor_of, kernels_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.operators import operator_of
from tvm_vision.compiler.relax.windows_as_rows import windows_as_rows
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx

APART = {
    "patches": ((2, 3, 128, 96), (5, 3, 16, 8)),
    "patches and a rest": ((1, 2, 67, 47), (5, 2, 4, 4)),
    "few patches": ((1, 3, 64, 72), (5, 3, 16, 16)),
    "one channel": ((1, 1, 64, 32), (5, 1, 4, 4)),
    "rows": ((2, 3, 4160), (4, 3, 64)),
    "volumes": ((1, 2, 16, 32, 16), (5, 2, 2, 4, 4)),
}
BESIDE: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "small": ((1, 3, 64, 64), (5, 3, 2, 2), {}),
    "few": ((1, 3, 40, 24), (5, 3, 8, 8), {}),
    "many channels": ((1, 4, 64, 64), (5, 4, 4, 4), {}),
    "groups": ((1, 2, 64, 64), (4, 1, 4, 4), {"group": 2}),
    "around": ((1, 3, 64, 64), (5, 3, 4, 4), {"pads": [0, 4, 0, 0]}),
    "overlapping": ((1, 3, 64, 64), (5, 3, 4, 4), {"strides": [4, 3]}),
    "far apart": ((1, 3, 64, 64), (5, 3, 4, 4), {"strides": [4, 5]}),
    "dilated": ((1, 3, 64, 64), (5, 3, 4, 4), {"dilations": [1, 2]}),
}


def model_of(image: tuple[int, ...], window: tuple[int, ...], **attributes) -> onnx.ModelProto:
    """A convolution with a bias, steps as large as its window, and what follows in a network."""
    random = np.random.default_rng(1)
    attributes = {"strides": list(window[2:]), **attributes}
    weights = {
        "w": random.standard_normal(window).astype("float32"),
        "b": random.standard_normal(window[0]).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["sums"], **attributes),
        helper.make_node("Relu", ["sums"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def operators(module: tvm.IRModule) -> set[str]:
    return {operator_of(value) for _, value in bindings_of(module["main"])}


@pytest.mark.parametrize("name", APART)
def test_windows_that_lie_apart_are_a_product(name: str, device_info) -> None:
    model = model_of(*APART[name])
    changed = operators(windows_as_rows(import_onnx(model)[0]))
    assert "relax.matmul" in changed
    assert not [each for each in changed if "conv" in each]
    x = np.random.default_rng(2).standard_normal(APART[name][0]).astype("float32")
    executor = executor_of(compile_model(*import_onnx(model), target="vulkan"))
    executor.run(x=x)
    expected = Reference(model).run({"x": x})["y"]
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", BESIDE)
def test_others_stay_convolutions(name: str) -> None:
    image, window, attributes = BESIDE[name]
    module, _ = import_onnx(model_of(image, window, **attributes))
    assert "relax.matmul" not in operators(windows_as_rows(module))


def test_rows_that_matrices_do_not_take_stay_a_convolution() -> None:
    module, _ = import_onnx(model_of((1, 3, 224, 224), (5, 3, 14, 14)))
    assert "relax.matmul" not in operators(windows_as_rows(module, terms=16))
    assert "relax.matmul" in operators(windows_as_rows(module, terms=4))


def test_a_network_without_any_is_left_alone() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    module, _ = import_onnx(model)
    assert windows_as_rows(module) is module


def test_patches_of_a_transformer_are_moved_once() -> None:
    """What a transformer does with its patches takes no kernel of its own: they lie as it wants
    them."""
    model = model_of((1, 3, 64, 64), (32, 3, 4, 4))
    graph = model.graph
    shape = numpy_helper.from_array(np.array([1, 32, -1]), "shape")
    graph.initializer.append(shape)
    graph.node[-1].CopyFrom(helper.make_node("Reshape", ["sums", "shape"], ["flat"]))
    graph.node.append(helper.make_node("Transpose", ["flat"], ["rows"], perm=[0, 2, 1]))
    graph.node.append(helper.make_node("Relu", ["rows"], ["y"]))
    graph.ClearField("value_info")
    graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    module, _ = import_onnx(onnx.shape_inference.infer_shapes(model))
    _, nodes = kernels_of(module, tvm.target.Target("vulkan", host="llvm"))
    assert [names[-1] for names in nodes] == ["Conv_0", "Relu_3", "Relu_3"]  # the last is a view
