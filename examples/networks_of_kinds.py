"""Any network that finds objects: python examples/networks_of_kinds.py [MODEL.onnx IMAGE].

Without arguments a tiny network that always sees the same two objects stands for a YOLOv8 export:
its outputs and metadata have the form that Ultralytics gives them, by which its kind is found.
"""

import json
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvm_vision

SIZE, CELLS = 64, 84


def write_stand_in(path: Path) -> Path:
    """A network [1, 3, 64, 64] -> [1, 4 + 2 classes, cells of strides 8, 16 and 32]."""
    rows = np.zeros((1, 6, CELLS), np.float32)
    rows[0, :, 0] = (16, 32, 16, 16, 0.9, 0)  # centre x, y, width, height, two scores
    rows[0, :, 1] = (44, 32, 20, 40, 0, 0.8)
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["rows", "nothing"], ["output0"]),
    ]
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, 3, SIZE, SIZE))
    output = helper.make_tensor_value_info("output0", TensorProto.FLOAT, rows.shape)
    constants = [numpy_helper.from_array(rows, "rows")]
    constants.append(numpy_helper.from_array(np.float32(0), "zero"))
    graph = helper.make_graph(nodes, "stand_in", [image], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"task": "detect", "names": "{0: 'ball', 1: 'robot'}"})
    onnx.save(model, path)
    return path


with tempfile.TemporaryDirectory() as folder:
    if len(sys.argv) == 3:
        model, frame = Path(sys.argv[1]), cv2.imread(sys.argv[2])
    else:
        model = write_stand_in(Path(folder) / "stand_in.onnx")
        frame = np.full((480, 640, 3), 90, np.uint8)
    package = tvm_vision.compile(model, Path(folder) / "network.tar", target="llvm")
    network = tvm_vision.load_model(package, confidence=0.3)
    print(f"{network.name} is a network of kind {network.kind}")
    result = network(frame)
    print(result.describe())
    if result.detections is not None:
        best = result.detections[result.detections.scores > 0.85]
        print(json.dumps(tvm_vision.to_coco(best, image_id=1)))
