"""Results for other tools."""

import json
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.models.converters import run_lengths, to_coco, to_pandas, to_supervision
from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.results import (
    Classification,
    Detections,
    SegmentationMask,
    Timing,
    VisionResult,
)

NAMES = ("ball", "robot")


def found(**more):
    return Detections(
        np.array([[1, 2, 4, 8], [0, 0, 3, 2]], np.float32),
        np.array([0.75, 0.5], np.float32),
        np.array([1, 0], np.int32),
        NAMES,
        **more,
    )


def masks():
    return np.random.default_rng(1).random((2, 8, 9)) > 0.5


def decoded(encoding):
    """A mask of run lengths, by plain loops."""
    height, width = encoding["size"]
    pixels, value = [], False
    for count in encoding["counts"]:
        pixels += [value] * count
        value = not value
    return [[pixels[column * height + row] for column in range(width)] for row in range(height)]


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((3, 4), np.bool_),
        np.ones((3, 4), np.bool_),
        np.eye(5, dtype=np.bool_),
        masks()[0],
        np.ones((1, 1), np.bool_),
    ],
)
def test_run_lengths_by_columns(mask):
    encoding = run_lengths(mask)
    assert sum(encoding["counts"]) == mask.size and encoding["size"] == list(mask.shape)
    assert decoded(encoding) == mask.tolist()


def test_coco_of_objects():
    keypoints = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    entries = to_coco(
        found(masks=InstanceMasks.from_dense(masks()), keypoints=keypoints), 17, (90, 91)
    )
    assert json.loads(json.dumps(entries)) == entries
    assert entries[0] == {
        "image_id": 17,
        "category_id": 91,
        "bbox": [1, 2, 3, 6],
        "score": 0.75,
        "segmentation": run_lengths(masks()[0]),
        "keypoints": [0, 1, 2, 3, 4, 5],
    }
    assert [entry["category_id"] for entry in to_coco(found(), "a.png")] == [2, 1]
    assert to_coco(Detections.none(NAMES), 1) == []


def test_coco_of_pixels_and_of_whole_results():
    pixels = SegmentationMask(np.array([[0, 1], [1, 1]], np.uint8), NAMES)
    entries = to_coco(pixels, 3)
    assert [entry["category_id"] for entry in entries] == [1, 2]
    assert decoded(entries[1]["segmentation"]) == [[False, True], [True, True]]
    whole = VisionResult(Timing(1, 1, 1), detections=found(), segmentation=pixels)
    assert to_coco(whole, 3) == to_coco(found(), 3) + entries


def test_category_ids_for_each_class():
    with pytest.raises(InputError, match="2 category_ids are needed.*found 1"):
        to_coco(found(), 1, (5,))


@pytest.fixture
def supervision(monkeypatch):
    """Stands for the package: the fields of its Detections, kept as they are given."""

    @dataclass
    class Theirs:
        xyxy: Any
        mask: Any = None
        confidence: Any = None
        class_id: Any = None
        data: Any = None

    module = ModuleType("supervision")
    module.Detections = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "supervision", module)


def test_supervision_of_objects(supervision):
    oriented = np.array([[2, 5, 3, 6, 0.5], [1, 1, 3, 2, 0]], np.float32)
    ours = found(masks=InstanceMasks.from_dense(masks()), oriented_boxes=oriented)
    theirs = to_supervision(ours)
    assert np.array_equal(theirs.xyxy, ours.boxes) and np.array_equal(theirs.mask, masks())
    assert theirs.class_id.dtype == np.int64 and theirs.class_id.tolist() == [1, 0]
    assert theirs.data["class_name"].tolist() == ["robot", "ball"]
    assert np.array_equal(theirs.data["xyxyxyxy"], ours.corners())
    plain = to_supervision(found())
    assert plain.mask is None and set(plain.data) == {"class_name"}
    assert len(to_supervision(Detections.none(NAMES)).xyxy) == 0


def test_supervision_of_pixels(supervision):
    mask = np.zeros((4, 6), np.uint8)
    mask[1:3, 2:5] = 1
    theirs = to_supervision(SegmentationMask(mask, NAMES))
    assert theirs.xyxy.tolist() == [[2, 1, 5, 3]] and theirs.class_id.tolist() == [1]
    assert np.array_equal(theirs.mask[0], mask == 1)
    nothing = to_supervision(SegmentationMask(np.zeros((4, 6), np.uint8), NAMES))
    assert nothing.xyxy.shape == (0, 4) and nothing.mask.shape == (0, 4, 6)


def test_supervision_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(InputError, match="pip install supervision"):
        to_supervision(found())


@pytest.fixture
def pandas(monkeypatch):
    """A stand-in, for the package is not needed otherwise: the columns as they were given."""
    module: Any = ModuleType("pandas")
    module.DataFrame = lambda columns: {k: list(np.asarray(v).tolist()) for k, v in columns.items()}
    monkeypatch.setitem(sys.modules, "pandas", module)


def test_pandas_of_objects(pandas):
    expected = {
        "name": ["robot", "ball"], "class_id": [1, 0], "score": [0.75, 0.5],
        "x1": [1, 0], "y1": [2, 0], "x2": [4, 3], "y2": [8, 2],
    }  # fmt: skip
    assert to_pandas(found()) == expected
    assert to_pandas(VisionResult(Timing(1, 2, 3), detections=found())) == expected
    assert to_pandas(Detections.none(NAMES))["name"] == []


def test_pandas_of_classes_and_pixels(pandas):
    classes = Classification((4, 1), ("cat", "dog"), (0.75, 0.25))
    table = {"name": ["cat", "dog"], "class_id": [4, 1], "score": [0.75, 0.25]}
    assert to_pandas(VisionResult(Timing(1, 2, 3), classification=classes)) == table
    pixels = SegmentationMask(np.array([[0, 1], [1, 1]], np.uint8), ("none", "field"))
    assert to_pandas(pixels) == {
        "name": ["none", "field"], "class_id": [0, 1], "share": [0.25, 0.75]
    }  # fmt: skip


@pytest.mark.parametrize("convert", [to_pandas, to_supervision])
def test_what_is_missing_is_one_line(convert, monkeypatch):
    name = convert.__name__.removeprefix("to_")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=f"{name} is needed for .*: pip install {name}$"):
        convert(found())


def test_a_result_of_depth_alone_becomes_neither(pandas, supervision):
    result = VisionResult(Timing(1, 2, 3))
    for convert in (to_pandas, to_supervision):
        with pytest.raises(InputError, match="the result has"):
            convert(result)


def test_supervision_of_a_whole_result(supervision):
    result = VisionResult(Timing(1, 2, 3), detections=found())
    assert np.array_equal(to_supervision(result).xyxy, found().boxes)
