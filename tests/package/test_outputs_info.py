"""What a package says about outputs is checked against them when it is read."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from tvm_vision.errors import PackageError
from tvm_vision.package import (
    DepthInfo,
    DetectionInfo,
    ModelInfo,
    Preprocessing,
    SegmentationInfo,
    TensorInfo,
)
from tvm_vision.package.info import plain

SIZE = (64, 96)
HEAD = DetectionInfo(
    ("y",), box="anchors", strides=(16,), anchors=(1.0, 2.0, 3.0, 4.0), row="objectness"
)
PREPROCESSING = Preprocessing(SIZE, stretch=True)
NAMES = ("a", "b", "c")


def outputs(**shapes):
    return [TensorInfo(name, shape, "float32") for name, shape in shapes.items()]


def model(kind="yolo", names=NAMES, **parts):
    return ModelInfo("network", kind, names, PREPROCESSING, **parts)


SOUND = [
    (model(detection=DetectionInfo(("y",), transposed=True)), outputs(y=(1, 7, 126))),
    (model(detection=DetectionInfo(("y",), row="objectness")), outputs(y=(1, 126, 8))),
    (
        model(detection=DetectionInfo(("y",), box="grid", strides=(8, 16, 32), row="objectness")),
        outputs(y=(1, 126, 8)),
    ),
    (model(detection=HEAD), outputs(y=(1, 2, 4, 6, 8))),
    (model(detection=HEAD), outputs(y=(1, 2 * 8, 4, 6))),
    (model(detection=DetectionInfo(("y",), box="xyxy", row="best")), outputs(y=(1, 9, 6))),
    (
        model(detection=DetectionInfo(("y",), transposed=True, prototypes="p", keypoints=2)),
        outputs(y=(1, 7 + 8 + 6, 9), p=(1, 8, 16, 24)),
    ),
    (
        model("detr", detection=DetectionInfo(("b",), scores=("l",), background="last")),
        outputs(b=(1, 9, 4), l=(1, 9, 4)),
    ),
    (
        model("ssd", detection=DetectionInfo(("b",), scores=("s",), classes="c", count="n")),
        outputs(b=(9, 4), s=(9,), c=(9,), n=(1,)),
    ),
    (model("segmenter", segmentation=SegmentationInfo("y")), outputs(y=(1, 3, 8, 12))),
    (
        model("segmenter", segmentation=SegmentationInfo("y", channels_last=True)),
        outputs(y=(1, 8, 12, 3)),
    ),
    (model("depth", (), depth=DepthInfo("y")), outputs(y=(1, 1, 8, 12))),
]


@pytest.mark.parametrize("case", SOUND, ids=lambda case: str(case[0].kind))
def test_what_fits_is_read_as_it_was_written(case):
    info, tensors = case
    info.check(tensors)
    assert ModelInfo.from_json(plain(asdict(info))) == info


def test_packages_from_before_have_none_of_it():
    document = plain(asdict(ModelInfo("n", "classifier", NAMES, PREPROCESSING)))
    for name in ("detection", "segmentation", "depth"):
        del document[name]
    for name in ("stretch", "pad_value", "pad_corner"):
        del document["preprocessing"][name]
    found = ModelInfo.from_json(document)
    assert found.detection is None and found.preprocessing == Preprocessing(SIZE)


@pytest.mark.parametrize(
    ("info", "tensors", "message"),
    [
        (
            DetectionInfo(("y",), transposed=True),
            outputs(y=(1, 8, 126)),
            "of 7 values for each box",
        ),
        (DetectionInfo(("z",)), outputs(y=(1, 9, 7)), 'outputs among y, found "z"'),
        (DetectionInfo(()), outputs(y=(1, 9, 7)), "boxes must be one output or more"),
        (DetectionInfo(("y",)), outputs(y=(2, 9, 7)), "of 7 values for each box"),
        (DetectionInfo(("y",), box="grid"), outputs(y=(1, 9, 7)), "strides must be there"),
        (DetectionInfo(("y",), strides=(8,)), outputs(y=(1, 9, 7)), "strides must be there for"),
        (HEAD, outputs(y=(1, 2, 4, 4, 8)), r"of grids with \[32\] cells"),
        (replace(HEAD, anchors=(1.0, 2.0, 3.0)), outputs(y=(1, 3, 4, 6, 8)), "anchors must be"),
        (replace(HEAD, anchors=()), outputs(y=(1, 3, 4, 6, 8)), "anchors must be pairs"),
        (HEAD, outputs(y=(1, 2, 4, 6, 9)), "of 8 values for each box"),
        (
            DetectionInfo(("y",), box="grid", strides=(8,)),
            outputs(y=(1, 95, 7)),
            r"of grids with \[95\] cells at an input of 64x96",
        ),
        (DetectionInfo(("y",), box="distances", strides=(8,)), outputs(y=(1, 96, 32)), "scores"),
        (
            DetectionInfo(("y",), box="xyxy", oriented=True),
            outputs(y=(1, 9, 8)),
            "box must be cxcywh",
        ),
        (
            DetectionInfo(("b",), scores=("s",)),
            outputs(b=(1, 9, 4), s=(1, 8, 3)),
            "as many as the scores",
        ),
        (
            DetectionInfo(("b",), scores=("s",), classes="c"),
            outputs(b=(1, 9, 4), s=(1, 9), c=(1, 7)),
            "as many boxes as classes",
        ),
        (DetectionInfo(("y",), prototypes="p"), outputs(y=(1, 9, 7), p=(8, 4)), "prototypes must"),
    ],
)
def test_boxes_that_do_not_fit(info, tensors, message):
    with pytest.raises(PackageError, match=message):
        model(detection=info).check(tensors)


@pytest.mark.parametrize(
    ("info", "shape", "message"),
    [
        (SegmentationInfo("y"), (1, 4, 8, 12), "of 3 classes, one for each label"),
        (SegmentationInfo("z"), (1, 3, 8, 12), 'one of y, found "z"'),
        (SegmentationInfo("y", form="indices"), (1, 3, 8, 12), r"must be \[1, height, width\]"),
        (SegmentationInfo("y", form="logit"), (1, 8, 12), "must be two"),
    ],
)
def test_pixels_that_do_not_fit(info, shape, message):
    with pytest.raises(PackageError, match=message):
        model("segmenter", segmentation=info).check(outputs(y=shape))
    with pytest.raises(PackageError, match=r"2 to 256 for a segmentation"):
        model("segmenter", ("a",), segmentation=info).check(outputs(y=shape, z=shape))


def test_depth_that_does_not_fit():
    with pytest.raises(PackageError, match=r"output 'y' must be \[1, height, width\]"):
        model("depth", (), depth=DepthInfo("y")).check(outputs(y=(1, 3, 8, 12)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "depth"}, "model.detection must be in networks of kind yolo or detr or ssd"),
        ({"preprocessing": None}, "model.detection must be in networks of kind"),
    ],
)
def test_parts_belong_to_their_kinds(change, message):
    document = plain(asdict(model(detection=DetectionInfo(("y",)))))
    with pytest.raises(PackageError, match=message):
        ModelInfo.from_json({**document, **change})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("confidence", 1.5, "confidence must be from 0 to 1"),
        ("box", "xywh", "box must be one of 'cxcywh'"),
        ("strides", [0], "a whole number from 1"),
        ("max_detections", 0, "a whole number from 1"),
        ("keypoint_values", 4, "a whole number from 2 to 3"),
        ("more", 1, "detection.more is not known"),
    ],
)
def test_values_that_are_none(field, value, message):
    document = plain(asdict(DetectionInfo(("y",))))
    with pytest.raises(PackageError, match=message):
        DetectionInfo.from_json({**document, field: value}, "model.detection")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"letterbox": True}, "stretch must be without letterbox"),
        ({"crop": 0.5}, "stretch must be without letterbox"),
        ({"pad_value": 300.0}, "a grey from 0 to 255"),
    ],
)
def test_preprocessing_that_is_none(change, message):
    document = plain(asdict(replace(PREPROCESSING, **change)))
    with pytest.raises(PackageError, match=message):
        Preprocessing.from_json(document)
