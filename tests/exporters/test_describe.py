"""What a package says of a network: files, options, and the line that tells its kind."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from support import kind_networks
from tvm_vision.errors import InputError
from tvm_vision.exporters.describe import Wishes, describe, kind_line, open_shapes, with_options
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.package import DetectionInfo

LABELS = ("ball", "robot")


def described(path, outputs, **wishes):
    inputs = [TensorSpec("images", (1, 3, *kind_networks.SIZE), "float32")]
    specs = [TensorSpec(name, a.shape, str(a.dtype)) for name, a in outputs.items()]
    return describe(path, inputs, specs, Wishes(**wishes))


def known(tmp_path, form, **wishes):
    outputs, metadata = kind_networks.outputs_of(form)
    path = kind_networks.write(tmp_path / "network.onnx", outputs, metadata)
    return described(path, outputs, **wishes)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("detect", "kind: yolo, 2 classes, boxes in output0, images letterbox, rgb"),
        ("segment", "kind: yolo, 2 classes, boxes in output0 (masks), images letterbox, rgb"),
        ("pose", "kind: yolo, 2 classes, boxes in output0 (5 keypoints), images letterbox, rgb"),
        ("obb", "kind: yolo, 2 classes, boxes in output0 (oriented), images letterbox, rgb"),
        (
            "detr",
            "kind: detr, 2 classes, boxes in pred_boxes (suppressed within), images stretched, rgb",
        ),
        ("depth", "kind: depth, in predicted_depth, images stretched, rgb"),
    ],
)
def test_the_kind_in_a_line(tmp_path, kind, line):
    info, candidates = known(tmp_path, kind)
    assert kind_line(info, candidates) == line and info.name == "network"


def test_candidates_in_a_line(tmp_path):
    info, candidates = described(None, {"y": np.zeros((1, 1, 32, 32), np.float32)}, name="n")
    assert info.kind == "network" and candidates == ("segmenter", "depth")
    assert kind_line(info, candidates) == (
        "kind: network (it may be a segmenter or depth: --kind says which)"
    )


def test_kinds_that_are_asked_for(tmp_path):
    outputs, _ = kind_networks.outputs_of("depth")
    for kind in ("segmenter", "depth"):
        info, _ = described(None, outputs, name="n", kind=kind)
        assert info.kind == kind and info.preprocessing is not None
    info, _ = known(tmp_path, "detect", kind="network")
    assert info.kind == "network" and info.detection is None
    info, _ = known(tmp_path, "detect", kind="classifier", preprocess="unit")
    assert info.kind == "classifier" and info.preprocessing.std == (255.0,) * 3


def test_a_classifier_that_takes_no_images_yet_says_so(tmp_path):
    info, _ = known(tmp_path, "detect", kind="classifier", labels=("a", "b"))
    words = "no images before --preprocess says how they are prepared"
    assert kind_line(info) == f"kind: classifier, 2 classes, {words}"


def test_labels_instead_of_the_files(tmp_path):
    info, _ = known(tmp_path, "detect", labels=("a", "b"))
    assert info.labels == ("a", "b")


def test_a_preset_is_mean_and_deviation_a_file_all_that_it_says(tmp_path):
    info, _ = known(tmp_path, "detect", preprocess="imagenet")
    made = info.preprocessing
    assert made.letterbox and made.pad_value == 114 and made.mean[0] == pytest.approx(0.485 * 255)
    path = tmp_path / "how.json"
    path.write_text(json.dumps({"mean": [0, 0, 0], "color_order": "bgr"}))
    info, _ = known(tmp_path, "detr", preprocess=str(path))
    assert info.preprocessing.stretch and info.preprocessing.color_order == "bgr"
    path.write_text(json.dumps({"letterbox": True, "pad_value": 7}))
    info, _ = known(tmp_path, "detr", preprocess=str(path))
    made = info.preprocessing
    assert (made.stretch, made.letterbox, made.pad_value) == (False, True, 7)


def test_options_of_a_kind(tmp_path):
    info, _ = known(tmp_path, "detect", options={"confidence": "0.6", "across_classes": "on"})
    assert (info.detection.confidence, info.detection.across_classes) == (0.6, True)
    changed = with_options(
        DetectionInfo(("y",)), {"strides": "8,16", "boxes": "a,b", "box": "xyxy"}
    )
    assert (changed.strides, changed.boxes, changed.box) == ((8, 16), ("a", "b"), "xyxy")
    assert with_options(changed, {"suppress": "false"}).suppress is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": "1"}, "--kind-option speed: one of boxes, transposed, .* is needed"),
        ({"confidence": "much"}, "--kind-option confidence: a value as 0.25 .* found 'much'"),
        ({"suppress": "perhaps"}, "--kind-option suppress: a value as True"),
        ({"confidence": "2"}, "--kind-option.confidence must be from 0 to 1, found 2.0: choose"),
        ({"activation": "tanh"}, "activation must be one of 'none', 'sigmoid'"),
    ],
)
def test_options_that_cannot_be(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        known(tmp_path, "detect", options=options)


def test_options_without_a_kind(tmp_path):
    with pytest.raises(InputError, match="--kind-option is for networks of kind yolo"):
        known(tmp_path, "detect", kind="network", options={"confidence": "0.5"})


def test_sizes_that_the_file_says(tmp_path):
    outputs, metadata = kind_networks.outputs_of("detect")
    path = kind_networks.write(tmp_path / "open.onnx", outputs, metadata, open_sides=True)
    assert open_shapes(path) == {"images": (1, 3, 32, 32)}
    assert open_shapes(kind_networks.write(path, outputs, metadata)) == {}
    assert open_shapes(kind_networks.write(path, outputs, open_sides=True)) == {}
    gray = {**metadata, "channels": "1"}
    kind_networks.write(path, outputs, gray, channels=1, open_sides=True)
    assert open_shapes(path) == {"images": (1, 1, 32, 32)}
    other = {**metadata, "imgsz": "[0, 'x']"}
    assert open_shapes(kind_networks.write(path, outputs, other, open_sides=True)) == {}
    path.write_bytes(b"nothing")
    assert open_shapes(path) == {} and open_shapes(object()) == {}


@pytest.mark.parametrize("decoded", [False, True])
def test_grids_that_are_decoded_and_those_that_are_not(tmp_path, decoded):
    """YOLOX: a convolution for each stride, moved into rows; the other has arithmetic behind."""
    nodes, parts = [], []
    for stride in (8, 16, 32):
        side = 32 // stride
        nodes += [
            helper.make_node(
                "Conv", ["images", f"w{stride}"], [f"c{stride}"], strides=[stride] * 2
            ),
            helper.make_node("Sigmoid", [f"c{stride}"], [f"s{stride}"]),
            helper.make_node("Reshape", [f"s{stride}", f"shape{side}"], [f"r{stride}"]),
        ]
        parts.append(f"r{stride}")
    nodes.append(helper.make_node("Concat", parts, ["all"], axis=2))
    if decoded:
        nodes.append(helper.make_node("Mul", ["all", "all"], ["more"]))
    nodes.append(
        helper.make_node("Transpose", ["more" if decoded else "all"], ["y"], perm=[0, 2, 1])
    )
    constants = [
        helper.make_tensor(f"w{s}", TensorProto.FLOAT, [7, 3, s, s], np.zeros(21 * s * s).tolist())
        for s in (8, 16, 32)
    ] + [
        helper.make_tensor(f"shape{side}", TensorProto.INT64, [3], [1, 7, side * side])
        for side in (4, 2, 1)
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, 3, 32, 32))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 21, 7))], constants,
    )  # fmt: skip
    onnx.save(helper.make_model(graph), tmp_path / "x.onnx")
    info, _ = described(tmp_path / "x.onnx", {"y": np.zeros((1, 21, 7), np.float32)})
    assert info.detection.box == ("cxcywh" if decoded else "grid")
    assert info.preprocessing.pad_corner is not decoded


def test_nothing_is_known_of_what_is_no_file():
    info, candidates = described(object(), {"y": np.zeros((1, 7), np.float32)})
    assert (info.name, info.kind, info.preprocessing, candidates) == (
        "network",
        "network",
        None,
        (),
    )


@pytest.mark.parametrize("behind", ["Reshape", "Transpose", "Mul", "Sigmoid"])
def test_sigmoids_are_found_behind_what_moves_them(tmp_path, behind):
    """A segmenter of one class mostly ends in one, and is none where arithmetic follows."""
    nodes = [helper.make_node("Conv", ["images", "w"], ["c"])]
    nodes.append(helper.make_node("Identity" if behind == "Sigmoid" else "Sigmoid", ["c"], ["s"]))
    inputs = {"Reshape": ["s", "shape"], "Mul": ["s", "s"]}.get(behind, ["s"])
    nodes.append(helper.make_node(behind, inputs, ["y"]))
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, [1, 3, 1, 1], [0.1] * 3),
        helper.make_tensor("shape", TensorProto.INT64, [4], [1, 1, 32, 32]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {"images": (1, 3, 32, 32), "y": (1, 1, 32, 32)}.items()
    ]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph), tmp_path / "x.onnx")
    outputs = {"y": np.zeros((1, 1, 32, 32), np.float32)}
    info, _ = described(tmp_path / "x.onnx", outputs, kind="segmenter")
    assert info.segmentation.threshold == (0.0 if behind == "Mul" else 0.5)
