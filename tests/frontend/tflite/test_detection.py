"""The end of TensorFlow's SSD networks, held to LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from support.tflite_models import Graph
from tvm_vision.api import compile as compile_network
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import Reference
from tvm_vision.evaluate.litert import LiteRtReference, has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx
from tvm_vision.runtime.loader import load

needs_litert = pytest.mark.skipif(not has_litert(), reason="needs ai-edge-litert")

ANCHORS, CLASSES, MOST = 60, 3, 10
OPTIONS: dict[str, Any] = {
    "max_detections": MOST,
    "max_classes_per_detection": 1,
    "detections_per_class": 5,
    "use_regular_nms": False,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5,
    "num_classes": CLASSES,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def network(path, *, classes=CLASSES + 1, custom=None, **changed):
    """A file of the operator alone, and inputs for it."""
    random = np.random.default_rng(1)
    options = {**OPTIONS, **changed}
    shapes = [(1, ANCHORS, 4), (1, ANCHORS, classes)]
    centres, sizes = random.random((ANCHORS, 2)), 0.05 + 0.3 * random.random((ANCHORS, 2))
    graph = Graph()
    inputs = [graph.tensor(shape) for shape in shapes]
    anchors = graph.tensor(data=np.concatenate([centres, sizes], axis=1).astype(np.float32))
    most = options["max_detections"]
    outputs = [graph.tensor(shape) for shape in [(1, most, 4), (1, most), (1, most), (1,)]]
    content = bytes(flexbuffers.Dumps(options)) if custom is None else custom
    graph.operator("TFLite_Detection_PostProcess", [*inputs, anchors], outputs, custom=content)
    graph.write(path, inputs, outputs)
    encoded = random.normal(size=shapes[0]).astype(np.float32)
    return {"t0": encoded, "t1": random.random(shapes[1]).astype(np.float32)}


def assert_same(ours, wanted):
    """Boxes, classes, scores as far as they are counted, and their number."""
    *rows, number = wanted
    count = int(wanted[number][0])
    np.testing.assert_array_equal(ours[number], wanted[number])
    for name in rows:
        np.testing.assert_allclose(ours[name][:, :count], wanted[name][:, :count], atol=1e-6)
        assert not ours[name][:, count:].any()
    return count


@needs_litert
@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize(("threshold", "least", "most"), [(0.3, 10, 10), (0.97, 2, 9), (1.5, 0, 0)])
def test_it_is_litert_s(regular, background, threshold, least, most, tmp_path):
    path = tmp_path / "ssd.tflite"
    how = {"use_regular_nms": regular, "nms_score_threshold": threshold}
    feed = network(path, classes=CLASSES + background, **how)
    wanted = LiteRtReference(path, optimized=False).run(feed)
    assert least <= assert_same(Reference(path).run(feed), wanted) <= most


@needs_litert
def test_a_score_that_is_the_threshold_counts(tmp_path):
    path = tmp_path / "ssd.tflite"
    feed = network(path, nms_score_threshold=0.75)
    feed["t1"] = np.where(feed["t1"] > 0.9, 0.75, 0).astype(np.float32)
    wanted = LiteRtReference(path, optimized=False).run(feed)
    assert assert_same(Reference(path).run(feed), wanted) > 3


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_compiled_it_is_onnxruntime_s(target, tmp_path, device_info):
    path = tmp_path / "ssd.tflite"
    feed = network(path, nms_score_threshold=0.97)
    executor = load(compile_network(path, tmp_path / "ssd.tar", target=target))
    executor.run(**feed)
    assert 0 < assert_same(executor.outputs(), Reference(path).run(feed)) < MOST


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"custom": b"\x01"}, "its attributes"),
        ({"custom": b""}, "its attributes"),
        ({"num_classes": 9}, "9 classes of"),
        ({"max_classes_per_detection": 2}, "several classes of a box"),
    ],
)
def test_what_it_cannot_be_is_named(changed, says, tmp_path):
    network(tmp_path / "ssd.tflite", **changed)
    with pytest.raises(UnsupportedModelError, match=f"TFLite_Detection_PostProcess.*{says}"):
        tflite_to_onnx(tmp_path / "ssd.tflite")
