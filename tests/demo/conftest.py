"""A network of the demo's input and output that is small enough to compile in a test."""

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

SEED = 3


def tiny_classifier(classes=1000):
    """Conv 3 -> 8 with stride 8, Clip to 0..6, global average, 8 -> classes: random weights."""
    rng = np.random.default_rng(SEED)
    weights = {
        "kernel": rng.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "matrix": rng.standard_normal((8, classes)).astype(np.float32),
        "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["conv"], strides=[8, 8]),
        helper.make_node("Clip", ["conv", "low", "high"], ["clipped"]),
        helper.make_node("GlobalAveragePool", ["clipped"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 224, 224))],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, classes))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def make_classifier():
    """The function that makes the network, for another number of classes."""
    return tiny_classifier


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny_classifier(), path)
    return path


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    pixels = np.random.default_rng(SEED).integers(0, 256, (60, 90, 3), np.uint8)
    cv2.imwrite(str(path), pixels)
    return path
