"""Processes that work for this one end with it, whatever they are at."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.child_processes import start_python


def slow() -> onnx.ModelProto:
    """What ONNX's reference works at for minutes."""
    few, sizes = np.zeros((1, 64, 48, 48), np.float32), np.array([1, 64, 300, 300])
    graph = helper.make_graph(
        [helper.make_node("Resize", ["few", "", "", "sizes"], ["many"], mode="cubic")],
        "slow", [], [helper.make_tensor_value_info("many", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(few, "few"), numpy_helper.from_array(sizes, "sizes")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_one_ends_amid_its_work_once_nobody_waits_for_it():
    process, connection = start_python("tvm_vision.frontend.onnx.worker")
    connection.send_bytes(json.dumps({"step": "evaluate", "options": {}}).encode())
    connection.send_bytes(slow().SerializeToString())
    assert not connection.poll(3)
    assert process.poll() is None
    connection.close()
    process.wait(20)
