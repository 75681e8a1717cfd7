"""Small networks of one form each, to see which of their tensors are fp16 and what that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.compiler import parse_target, prepare
from tvm_vision.frontend.onnx.load import import_onnx

Nodes = list[Any]
SHAPE = (1, 20, 96)
IMAGE = {"image": np.array([1, 3, 20, 32])}


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def of_image(*nodes: onnx.NodeProto) -> Nodes:
    """Nodes from ``i``, an image of three channels, to ``y``."""
    return [node("Reshape", "r image", "i"), *nodes]


def network_of(nodes: Nodes, constants: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Of nodes from ``r``, which is what is above 0 of the input ``x``, to ``y``."""
    nodes = [node("Relu", "x", "r"), *nodes]
    read = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(value, name)
            for name, value in {**IMAGE, **constants}.items()
            if name in read
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def expected(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What onnxruntime makes of it in float32."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": x})[0])


def shapes_of_fp32(model: onnx.ModelProto) -> list[tuple[int, ...]]:
    """Of the tensors that stay float32, but for what the network is given and gives."""
    graph = prepare(import_onnx(model)[0], target=parse_target("llvm"), precision="fp16")
    ends = {graph.root(tensor) for tensor in (*graph.inputs, *graph.outputs)}
    return [
        tensor.shape
        for place, tensor in enumerate(graph.tensors)
        if tensor.root == place and tensor.dtype == "float32" and place not in ends
    ]
