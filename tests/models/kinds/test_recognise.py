"""Kinds by shapes and metadata, as exporters write them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.models.kinds.facts import Facts
from tvm_vision.models.kinds.recognise import KINDS, read_as, recognise
from tvm_vision.models.registry import PREDICTORS
from tvm_vision.package import ModelInfo, TensorInfo
from tvm_vision.package.info import KINDS as PACKAGE_KINDS
from tvm_vision.package.tensors import IntegersInfo

COCO = {"names": str({i: f"thing {i}" for i in range(80)})}


def facts(outputs, *, size=(320, 320), layout="NCHW", channels=3, **more):
    """outputs: name -> shape, or (shape, dtype)."""
    specs = []
    for name, given in outputs.items():
        shape, dtype = given if isinstance(given[0], tuple) else (given, "float32")
        specs.append(TensorSpec(name, shape, dtype))
    shape = (1, channels, *size) if layout == "NCHW" else (1, *size, channels)
    return Facts((TensorSpec("images", shape, "float32"),), tuple(specs), **more)


def task(name, **more):
    return {"task": name, **COCO, **more}


# Outputs, what the file says -> kind and what has to stand in the package.
ULTRALYTICS = {
    "v8": ({"y": (1, 84, 2100)}, task("detect"), "yolo", {"transposed": True, "iou": 0.7}),
    "v8-seg": (
        {"y": (1, 116, 2100), "p": (1, 32, 80, 80)},
        task("segment"), "yolo", {"prototypes": "p"},
    ),
    "v8-pose": (
        {"y": (1, 56, 2100)},
        {"task": "pose", "names": "{0: 'person'}", "kpt_shape": "[17, 3]"},
        "yolo", {"keypoints": 17, "keypoint_values": 3},
    ),
    "pose of two values": (
        {"y": (1, 4 + 80 + 10, 2100)}, task("pose", kpt_shape="[5, 2]"),
        "yolo", {"keypoints": 5, "keypoint_values": 2},
    ),
    "v8-obb": ({"y": (1, 85, 2100)}, task("obb"), "yolo", {"oriented": True}),
    "v10, v26": (
        {"y": (1, 300, 6)}, task("detect", head="Detect", end2end="True"),
        "yolo", {"row": "best", "box": "xyxy", "suppress": False},
    ),
    "v26-seg": (
        {"y": (1, 300, 38), "p": (1, 32, 80, 80)}, task("segment", end2end="True"),
        "yolo", {"row": "best", "prototypes": "p", "keypoints": 0},
    ),
    "v26-pose": (
        {"y": (1, 300, 57)}, task("pose", kpt_shape="[17, 3]", end2end="True"),
        "yolo", {"row": "best", "keypoints": 17},
    ),
    "v26-obb": (
        {"y": (1, 300, 7)}, task("obb", end2end="True"),
        "yolo", {"oriented": True, "box": "cxcywh"},
    ),
    "v5 of its own exporter": (
        {"y": (1, 6300, 85)}, {**COCO, "stride": "32"}, "yolo", {"row": "objectness", "iou": 0.45},
    ),
    "v5-seg": (
        {"y": (1, 6300, 117), "p": (1, 32, 80, 80)}, {**COCO, "stride": "32"},
        "yolo", {"row": "objectness", "prototypes": "p", "prototypes_last": False},
    ),
    "maps of channels last": (
        {"y": (1, 116, 2100), "p": (1, 80, 80, 32)}, task("segment"),
        "yolo", {"prototypes": "p", "prototypes_last": True, "relative": False},
    ),
    "rt-detr": (
        {"y": (1, 300, 6)}, task("detect", head="RTDETRDecoder"),
        "detr", {"row": "best", "relative": True, "box": "cxcywh"},
    ),
    "rt-detr of before": (
        {"y": (1, 300, 84)}, task("detect"), "detr", {"row": "scores", "relative": True},
    ),
    "semantic": (
        {"y": ((1, 320, 320), "uint8")}, task("semantic"), "segmenter", {"form": "indices"},
    ),
    "depth": (
        {"y": (1, 1, 320, 320)}, {"task": "depth", "names": "{0: '0'}"},
        "depth", {"unit": "metres", "inverse": False},
    ),
}  # fmt: skip
SHAPES = {
    "v8 of others": ({"y": (1, 84, 2100)}, "yolo", {"transposed": True}),
    "four strides": ({"y": (1, 6, 2125)}, "yolo", {}),
    "v5": ({"output0": (1, 6300, 85)}, "yolo", {"row": "objectness", "box": "cxcywh"}),
    "v5 with its raw heads": (
        {"y": (1, 6300, 85), "a": (1, 3, 40, 40, 85), "b": (1, 3, 20, 20, 85)}, "yolo", {},
    ),
    "v6": ({"y": (1, 2100, 85)}, "yolo", {"row": "objectness", "strides": ()}),
    "detr": (
        {"logits": (1, 100, 92), "pred_boxes": (1, 100, 4)},
        "detr", {"activation": "softmax", "background": "last", "multi_label": False},
    ),
    "detr with more": (
        {"logits": (1, 300, 80), "pred_boxes": (1, 300, 4), "last_hidden_state": (1, 300, 256)},
        "detr", {"activation": "sigmoid", "background": "none", "multi_label": True},
    ),
    "ssd": (
        {"scores": (1, 4420, 2), "boxes": (1, 4420, 4)},
        "ssd", {"background": "first", "relative": True, "suppress": True},
    ),
    "torchvision": (
        {"boxes": (100, 4), "labels": ((100,), "int64"), "scores": (100,)},
        "ssd", {"classes": "labels", "suppress": False, "relative": False},
    ),
    "torchvision, suppressed here": (
        {
            "boxes": (300, 4), "labels": ((300,), "int64"), "scores": (300,),
            "boxes_count": ((1,), "int64"), "labels_count": ((1,), "int64"),
            "scores_count": ((1,), "int64"),
        },
        "ssd", {"count": "boxes_count", "classes": "labels"},
    ),
    "tensorflow": (
        {
            "detection_boxes": (1, 100, 4), "detection_classes": (1, 100),
            "detection_scores": (1, 100), "num_detections": (1,),
        },
        "ssd", {"box": "yxyx", "relative": True, "first_class": 1, "count": "num_detections"},
    ),
    "tflite": (
        {
            "TFLite_Detection_PostProcess": (1, 20, 4), "TFLite_Detection_PostProcess:1": (1, 20),
            "TFLite_Detection_PostProcess:2": (1, 20), "TFLite_Detection_PostProcess:3": (1,),
        },
        "ssd", {
            "box": "yxyx", "relative": True, "classes": "TFLite_Detection_PostProcess:1",
            "scores": ("TFLite_Detection_PostProcess:2",), "first_class": 0,
        },
    ),
    "suppressed by a plugin": (
        {
            "num_dets": ((1, 1), "int32"), "det_boxes": (1, 100, 4), "det_scores": (1, 100),
            "det_classes": ((1, 100), "int32"),
        },
        "ssd", {"count": "num_dets", "box": "xyxy"},
    ),
    "mmdetection": ({"dets": (1, 100, 5), "labels": ((1, 100), "int64")}, "ssd", {"scores": ()}),
    "picodet": (
        {f"s{n}": (1, n, 10) for n in (1600, 400, 100, 25)}
        | {f"d{n}": (1, n, 32) for n in (1600, 400, 100, 25)},
        "ssd", {"box": "distances", "strides": (8, 16, 32, 64)},
    ),
    "deeplab": ({"out": (1, 21, 320, 320), "aux": (1, 21, 320, 320)}, "segmenter", {}),
    "segformer": ({"logits": (1, 150, 80, 80)}, "segmenter", {"channels_last": False}),
    "keras": ({"y": (1, 320, 320, 19)}, "segmenter", {"channels_last": True}),
    "indices": ({"y": ((1, 1, 320, 320), "int64")}, "segmenter", {"form": "indices"}),
    "midas": ({"predicted_depth": (1, 320, 320)}, "depth", {"inverse": True, "unit": ""}),
}  # fmt: skip
UNCLEAR = {
    "one value a pixel": ({"y": (1, 1, 320, 320)}, ("segmenter", "depth")),
    "boxes without names": ({"y": (1, 300, 6)}, ("yolo",)),
    "another image": ({"y": (1, 3, 320, 320)}, ("segmenter",)),
    "features": ({"y": (1, 64, 80, 80)}, ("segmenter",)),
    "coarse features": ({"y": (1, 64, 10, 10)}, ()),
    "classes": ({"y": (1, 1000)}, ()),
    "nothing": ({}, ()),
}


def part_of(reading):
    return reading.detection or reading.segmentation or reading.depth


def assert_reads(reading, kind, expected, given):
    assert reading is not None and reading.kind == kind
    found = {name: getattr(part_of(reading), name) for name in expected}
    assert found == expected
    # What is said fits the network, as it is checked when a package is written.
    tensors = [TensorInfo(s.name, tuple(s.shape), s.dtype) for s in given.outputs]
    preprocessing = reading.preprocessing.__class__(
        **{**vars(reading.preprocessing), "size": given.size}
    )
    ModelInfo(
        "n", kind, reading.labels, preprocessing,
        detection=reading.detection, segmentation=reading.segmentation, depth=reading.depth,
    ).check(tensors)  # fmt: skip


@pytest.mark.parametrize("case", ULTRALYTICS, ids=str)
def test_files_that_say_what_they_are(case):
    outputs, metadata, kind, expected = ULTRALYTICS[case]
    given = facts(outputs, metadata=metadata)
    if case == "semantic":
        given = facts(outputs, metadata={**metadata, "names": str({0: "road", 1: "sky"})})
    reading = recognise(given).reading
    assert_reads(reading, kind, expected, given)
    names = given.literal("names")
    assert isinstance(names, dict) and (kind == "depth" or reading.labels == tuple(names.values()))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_shapes_that_say_it(case, layout):
    outputs, kind, expected = SHAPES[case]
    given = facts(outputs, layout=layout)
    found = recognise(given)
    assert_reads(found.reading, kind, expected, given)
    assert read_as(kind, given) == found.reading


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_networks_of_gray_images(case, layout):
    """Those for pixels may be of spectrograms: their kind has to be said."""
    outputs, kind, expected = SHAPES[case]
    given = facts(outputs, layout=layout, channels=1)
    found = recognise(given)
    if kind in ("segmenter", "depth") and case not in ("indices", "midas"):
        assert found.reading is None and found.candidates == (kind,)
    else:
        assert_reads(found.reading, kind, expected, given)
    assert_reads(read_as(kind, given), kind, expected, given)


@pytest.mark.parametrize("case", UNCLEAR, ids=str)
def test_shapes_that_do_not(case):
    outputs, candidates = UNCLEAR[case]
    found = recognise(facts(outputs))
    assert found.reading is None and found.candidates == candidates
    for kind in candidates:
        assert read_as(kind, facts(outputs)).kind == kind


def test_a_network_that_takes_no_image():
    inputs = (TensorSpec("x", (1, 8), "float32"),)
    outputs = (TensorSpec("y", (1, 84, 2100), "float32"),)
    assert recognise(Facts(inputs, outputs)).candidates == ()
    for kind in KINDS:
        with pytest.raises(InputError, match=f"a network of kind {kind} has .*no one image"):
            read_as(kind, Facts(inputs, outputs))


def test_another_kind_than_asked_for():
    given = facts({"y": (1, 84, 2100)})
    for kind in ("detr", "ssd", "segmenter", "depth"):
        with pytest.raises(InputError, match=r"found outputs y \[1, 84, 2100\]: choose another"):
            read_as(kind, given)


def test_labels_tell_what_is_behind_the_scores():
    ten = tuple("abcdefghij")
    for values, expected in ((14, {}), (15, {"oriented": True}), (29, {"keypoints": 5})):
        given = facts({"y": (1, values, 2100)}, labels=ten)
        assert_reads(recognise(given).reading, "yolo", expected, given)
    boxes = facts({"y": (1, 300, 6)}, labels=ten)
    assert_reads(recognise(boxes).reading, "yolo", {"row": "best"}, boxes)
    for classes, activation in ((10, "sigmoid"), (11, "softmax")):
        given = facts({"logits": (1, 200, classes), "boxes": (1, 200, 4)}, labels=ten)
        assert_reads(recognise(given).reading, "detr", {"activation": activation}, given)


@pytest.mark.parametrize("count", [1, 79, 81, 200])
def test_labels_that_do_not_fit_the_task(count):
    """Too few would make an angle or keypoints of the last classes."""
    labels = tuple(str(i) for i in range(count))
    given = facts({"y": (1, 84, 2100)}, metadata=task("detect"), labels=labels)
    with pytest.raises(InputError, match=f"80 labels are needed.*'y', found {count}: use"):
        recognise(given)
    given = facts({"y": (1, 84, 2100)}, labels=tuple(str(i) for i in range(81)))
    with pytest.raises(InputError, match="80 labels are needed.*found 81"):
        recognise(given)


def test_raw_grids_are_those_of_yolox():
    given = facts({"y": (1, 2100, 85)}, raw=frozenset(["y"]))
    reading = recognise(given).reading
    assert_reads(reading, "yolo", {"box": "grid", "strides": (8, 16, 32)}, given)
    made = reading.preprocessing
    assert (made.color_order, made.pad_corner, made.std) == ("bgr", True, (1.0, 1.0, 1.0))


@pytest.mark.parametrize("strides", [(8, 16, 32), (8, 16, 32, 64)])
def test_raw_heads_are_those_of_yolov5(strides):
    """In any order; their anchors are no part of the file, so that the kind has to be said."""
    heads = {f"o{s}": (1, 3, 320 // s, 320 // s, 7) for s in reversed(strides)}
    given = facts(heads, raw=frozenset(heads))
    assert recognise(given).candidates == ("yolo",)
    info = read_as("yolo", given).detection
    assert (info.box, info.boxes, info.strides) == (
        "anchors", tuple(f"o{stride}" for stride in strides), strides,
    )  # fmt: skip
    assert (info.anchors_of_stride, info.activation) == (3, "sigmoid")
    with pytest.raises(InputError, match="2 labels are needed"):
        read_as("yolo", replace(given, labels=("one",)))
    for other in (facts(heads), facts({**heads, "o8": (1, 3, 40, 40, 9)}, raw=given.raw)):
        assert recognise(other).candidates == ()


def test_paddles_names():
    outputs, _, _ = SHAPES["picodet"]
    given = facts(outputs, metadata={"character": "\n".join("abcdefghij")})
    assert recognise(given).reading.labels == tuple("abcdefghij")


@pytest.mark.parametrize(
    "names", ["", "{", "7", "{1: 'a'}", "{'a': 0}", "[" * 500, "__import__('os')", "{}"]
)
def test_metadata_that_make_no_sense(names):
    """A file that says nonsense is read by its shapes."""
    given = facts({"y": (1, 84, 2100)}, metadata={"task": "detect", "names": names})
    assert recognise(given).reading.labels[0] == "class0"


@pytest.mark.parametrize(
    "shape", ["['a', 3]", "[17]", "[-17, -3]", "17", "{", "[17, 3, 1]", "[True, 3]"]
)
def test_keypoints_that_make_no_sense(shape):
    """The file's labels tell how many values are left, and three of them are a point."""
    metadata = {"task": "pose", "names": "{0: 'person'}", "kpt_shape": shape}
    given = facts({"y": (1, 56, 2100)}, metadata=metadata)
    assert_reads(recognise(given).reading, "yolo", {"keypoints": 17}, given)


def test_any_shapes_are_refused_or_read():
    """Whatever outputs there are: nothing raises, and what is sure of itself fits."""
    rng = np.random.default_rng(0)
    sides = (1, 2, 3, 4, 6, 7, 32, 80, 84, 85, 100, 300, 320, 2100, 6300)
    for _ in range(400):
        outputs = {
            f"{rng.choice(['boxes', 'scores', 'logits', 'y', 'num'])}{i}": (
                tuple(int(s) for s in rng.choice(sides, rng.integers(0, 5))),
                str(rng.choice(["float32", "int64"])),
            )
            for i in range(rng.integers(0, 5))
        }
        given = facts({n: (s, d) for n, (s, d) in outputs.items() if s})
        found = recognise(given).reading
        if found is not None:
            assert_reads(found, found.kind, {}, given)


def test_each_kind_has_a_class_and_a_part():
    assert set(KINDS) < set(PREDICTORS) < set(PACKAGE_KINDS)
    assert set(PACKAGE_KINDS) - set(PREDICTORS) == {"network"}


@pytest.mark.parametrize("mask", [((1, 320, 320), "uint8"), ((1, 1, 320, 320), "int64")])
def test_a_mask_beside_boxes_is_not_lost(mask):
    """YOEO's own export has no names of classes; as YOLO it would have boxes alone."""
    found = recognise(facts({"boxes": (1, 6300, 8), "mask": mask}))
    assert found.reading is None and found.candidates == ("yoeo", "yolo")
    assert recognise(facts({"boxes": (1, 6300, 8)})).reading.kind == "yolo"


@pytest.mark.parametrize(("made", "threshold"), [((), 0.0), (("y",), 0.5)])
def test_one_value_a_pixel_of_a_sigmoid_is_a_probability(made, threshold):
    given = facts({"y": (1, 1, 320, 320)}, sigmoid=frozenset(made))
    assert read_as("segmenter", given).segmentation.threshold == threshold


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point", "relative"),
    [("int8", 1 / 255, -128, True), ("uint8", 0.005, 5, True), ("int16", 2**-15, 0, True),
     ("int8", 2.6, -128, False), ("uint8", 1.3, 0, False)],
)  # fmt: skip
def test_integers_tell_parts_from_pixels(dtype, scale, zero_point, relative):
    steps = IntegersInfo(dtype, scale, zero_point)
    given = facts({"y": (1, 84, 2100)})
    output = replace(given.outputs[0], quantization=steps)
    assert recognise(replace(given, outputs=(output,))).reading.detection.relative is relative
