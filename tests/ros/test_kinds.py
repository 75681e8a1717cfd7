"""The executable with a network of each kind: topics say what the library finds, of colours in
every form that a camera sends and of networks that take grey."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from support import SUPPORT, kind_networks, onnx_models
from support.ros import SURE
from tvm_vision.api import compile as compile_network
from tvm_vision.exporters.describe import Wishes, describe
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.models import load_model
from tvm_vision_ros.images import image_from

PROGRAM = SUPPORT / "ros" / "vision_node_program.py"
LABELS = ("dark", "middle", "bright")
# A colour of each label, whose luma (BT.601) is 29, 76 and 150.
COLORS = {"dark": (255, 0, 0), "middle": (0, 0, 255), "bright": (0, 255, 0)}


def write_gray_classifier(path: Path) -> Path:
    """Scores by the mean of an image of one channel in 0..1: minus the squares of its distances to
    the lumas of COLORS."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["row"]),
        helper.make_node("Sub", ["row", "places"], ["off"]),
        helper.make_node("Mul", ["off", "off"], ["square"]),
        helper.make_node("Mul", ["square", "scale"], ["y"]),
    ]
    places = np.array([[0.114, 0.299, 0.587]], np.float32)
    model = onnx_models.make_model(nodes, [("x", (1, 1, 12, 8))], [("y", (1, 3))])
    constants = {"places": places, "scale": np.float32(-100)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    )
    onnx.save(model, path)
    return path


def packed(path, inputs, outputs, **wishes):
    """The package of an ONNX file, for this machine's processor."""
    info, _ = describe(path, inputs, outputs, Wishes(**wishes))
    return compile_network(path, path.with_suffix(".tar"), target="llvm", model_info=info)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gray")
    path = write_gray_classifier(folder / "gray.onnx")
    ends = TensorSpec("x", (1, 1, 12, 8), "float32"), TensorSpec("y", (1, 3), "float32")
    return packed(path, ends[:1], ends[1:], kind="classifier", preprocess="unit",
                  labels=LABELS)  # fmt: skip


def mosaic(color):
    """What a sensor with the pattern rggb sees of one colour, given as BGR."""
    blue, green, red = color
    cell = np.array([[red, green], [green, blue]], np.uint8)
    return np.tile(cell, (20, 16))


def frames(color):
    """The frame of one colour in each form: encoding -> pixels."""
    shown = np.full((40, 32, 3), color, np.uint8)
    return {
        "bgr8": shown,
        "rgb8": shown[..., ::-1].copy(),
        "bgra8": cv2.cvtColor(shown, cv2.COLOR_BGR2BGRA),
        "mono8": cv2.cvtColor(shown, cv2.COLOR_BGR2GRAY),
        "mono16": cv2.cvtColor(shown, cv2.COLOR_BGR2GRAY).astype(np.uint16) * 257,
        "bayer_rggb8": mosaic(color),
        "uyvy": uyvy(shown),
    }


def uyvy(shown):
    """Of one colour: both pixels of a pair have its chroma."""
    y, v, u = cv2.cvtColor(shown, cv2.COLOR_BGR2YCrCb)[0, 0].astype(float)
    # Video levels: 16 to 235 and 16 to 240.
    pair = [[128 + (u - 128) * 224 / 255, 16 + y * 219 / 255],
            [128 + (v - 128) * 224 / 255, 16 + y * 219 / 255]]  # fmt: skip
    return np.tile(np.rint(pair).astype(np.uint8), (40, 16, 1))


def test_a_network_that_takes_gray_sees_every_form_of_a_frame(graph, start, classifier):
    from vision_msgs.msg import Classification

    start(f"model:={classifier}", SURE, program=PROGRAM)
    graph.wait_for_state("active")
    model = load_model(classifier)
    with graph.listen(Classification, "classification") as inbox, graph.camera() as camera:
        graph.wait_for_subscriber(camera)
        for label, color in COLORS.items():
            for encoding, pixels in frames(color).items():
                sent = graph.image(pixels.view(np.uint8), encoding, width=32)
                expected = model(image_from(sent)).classification
                camera.publish(sent)
                found = inbox.until(lambda message, of=sent: message.header == of.header)
                names = [each.class_id for each in found.results]
                assert names == list(expected.labels), encoding
                assert names[0] == label, encoding
                scores = [each.score for each in found.results]
                np.testing.assert_allclose(scores, expected.probabilities, atol=1e-6)


# The part of a result that each kind's network says: message type and topic.
PARTS = {
    "detr": ("Detection2DArray", "detections"),
    "ssd": ("Detection2DArray", "detections"),
    "detect": ("Detection2DArray", "detections"),
    "obb": ("Detection2DArray", "detections"),
    "segment": ("Image", "instances"),
    "segmenter": ("Image", "segmentation"),
    "depth": ("Image", "depth"),
}


QUICK = ("detr", "obb", "segment", "depth")


@pytest.mark.parametrize(
    "kind",
    [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in PARTS],
)
def test_a_network_of_each_kind_says_what_the_library_finds(graph, start, tmp_path, kind):
    from sensor_msgs.msg import Image
    from vision_msgs.msg import Detection2DArray

    outputs, metadata = kind_networks.outputs_of(kind)
    path = kind_networks.write(tmp_path / "network.onnx", outputs, metadata)
    inputs = [TensorSpec("images", (1, 3, *kind_networks.SIZE), "float32")]
    specs = [TensorSpec(name, array.shape, str(array.dtype)) for name, array in outputs.items()]
    asked = {"kind": kind} if kind in ("ssd", "segmenter", "depth") else {}
    package = packed(path, inputs, specs, **asked)
    shown = np.full((48, 96, 3), 90, np.uint8)
    expected = load_model(package, confidence=0.3)(shown)
    start(f"model:={package}", "confidence:=0.3", SURE, program=PROGRAM)
    graph.wait_for_state("active")
    name, topic = PARTS[kind]
    message_type = {"Image": Image, "Detection2DArray": Detection2DArray}[name]
    with graph.listen(message_type, topic) as inbox, graph.camera() as camera:
        graph.wait_for_subscriber(camera)
        sent = graph.image(shown)
        camera.publish(sent)
        message = inbox.next()
    assert message.header == sent.header
    if name == "Image":
        values = {"instances": lambda: expected.detections.masks.ids(),
                  "segmentation": lambda: expected.segmentation.mask,
                  "depth": lambda: expected.depth.values}[topic]()  # fmt: skip
        pixels = np.frombuffer(message.data, values.dtype).reshape(values.shape)
        assert (message.height, message.width) == (48, 96)
        np.testing.assert_array_equal(pixels, values)
        return
    found = expected.detections
    assert found is not None and len(found) == 2
    for item, (label, score, _), expected_box in zip(
        message.detections, found, boxes_of(found), strict=True
    ):
        (one,) = item.results
        assert one.hypothesis.class_id == label
        assert one.hypothesis.score == pytest.approx(float(score))
        centre, box = item.bbox.center, item.bbox
        numbers = (centre.position.x, centre.position.y, box.size_x, box.size_y, centre.theta)
        assert numbers == pytest.approx(expected_box, abs=1e-4)


def boxes_of(found):
    """Centre, sides and angle of each."""
    if found.oriented_boxes is not None:
        return found.oriented_boxes.tolist()
    x1, y1, x2, y2 = found.boxes.T
    none = np.zeros(len(found))
    return np.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, none], axis=1).tolist()
