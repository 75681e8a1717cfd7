"""Files of results: names, content, and that a failed run leaves none half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.models.exports import (
    CocoJson,
    Crops,
    Masks,
    YoloText,
    check_exports,
    outline,
    yolo_lines,
)
from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.results import Detections, SegmentationMask, Timing, VisionResult
from tvm_vision.runtime.sources import Frame

NAMES = ("ball", "goal/post")
SHAPE = (40, 80, 3)
TIMING = Timing(1, 2, 3)


def found(**more: Any) -> Detections:
    boxes = np.array([[8, 4, 24, 12], [-5, 30, 90, 50]], np.float32)
    return Detections(
        boxes, np.array([0.75, 0.5], np.float32), np.array([1, 0], np.int32), NAMES, **more
    )


def image(name: str = "photo.jpg") -> Frame:
    pixels = np.arange(np.prod(SHAPE), dtype=np.uint32).reshape(SHAPE).astype(np.uint8)
    return Frame(name, pixels)


def square() -> InstanceMasks:
    masks = np.zeros((2, *SHAPE[:2]), np.bool_)
    masks[0, 4:12, 8:24] = True
    return InstanceMasks.from_dense(masks)


def test_yolo_boxes_are_parts_of_the_frame() -> None:
    lines = list(yolo_lines(found(), SHAPE))
    assert lines[0] == "1 0.200000 0.200000 0.200000 0.200000"
    assert lines[1].split()[0] == "0" and max(map(float, lines[1].split()[1:])) <= 1
    assert next(yolo_lines(found(), SHAPE, scores=True)).split()[-1] == "0.750000"


def test_yolo_outlines_where_there_are_masks() -> None:
    (line,) = yolo_lines(found(masks=square()), SHAPE)
    corners = np.array(line.split()[1:], float).reshape(-1, 2) * SHAPE[1::-1]
    assert sorted(map(tuple, corners.round(3).tolist())) == [(8, 4), (8, 11), (23, 4), (23, 11)]


def test_yolo_corners_of_oriented_boxes() -> None:
    oriented = np.array([[16, 8, 16, 8, 0], [40, 20, 4, 4, 0]], np.float32)
    line = next(yolo_lines(found(oriented_boxes=oriented), SHAPE))
    expected = [1, 0.1, 0.1, 0.3, 0.1, 0.3, 0.3, 0.1, 0.3]
    assert [float(word) for word in line.split()] == pytest.approx(expected)


def test_yolo_keypoints() -> None:
    keypoints = np.array([[[8, 4, 0.9], [8, 4, 0.1], [-1, 4, 0.9]]] * 2, np.float32)
    line = next(yolo_lines(found(keypoints=keypoints), SHAPE))
    assert line.split()[5:] == ["0.100000", "0.100000", "2", "0", "0", "0", "0", "0", "0"]


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (1, 5)])
def test_a_part_without_an_area_has_no_outline(size: tuple[int, int]) -> None:
    assert outline(np.ones(size, np.bool_)).shape == (0, 2)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_text_file_for_each_frame_with_a_name_of_its_own(tmp_path: Path) -> None:
    empty = VisionResult(TIMING, Detections.none(NAMES))
    video = Frame("http://robot:8080/cam#12", image().image, "http://robot:8080/cam")
    with YoloText(tmp_path) as export:
        for frame in (image(), image("photo.png"), video):
            export.write(frame, empty)
    assert files(tmp_path) == ["cam_12.txt", "photo-2.txt", "photo.txt"]
    assert (tmp_path / "photo.txt").read_text() == ""


def test_crops_are_the_pixels_of_the_boxes(tmp_path: Path) -> None:
    frame = image()
    with Crops(tmp_path) as export:
        export.write(frame, VisionResult(TIMING, found()))
    assert files(tmp_path) == ["ball/photo-2.png", "goal_post/photo-1.png"]
    crop: Any = cv2.imread(str(tmp_path / "goal_post/photo-1.png"))
    assert np.array_equal(crop, frame.image[4:12, 8:24])
    assert cv2.imread(str(tmp_path / "ball/photo-2.png")).shape == (10, 80, 3)


def test_masks_are_numbers(tmp_path: Path) -> None:
    classes = np.random.default_rng(0).integers(0, 2, SHAPE[:2], np.uint8)
    result = VisionResult(TIMING, found(masks=square()), SegmentationMask(classes, NAMES))
    with Masks(tmp_path) as export:
        export.write(image(), result)
    read: dict[str, Any] = {
        p.name: cv2.imread(str(p), cv2.IMREAD_UNCHANGED) for p in tmp_path.iterdir()
    }
    assert np.array_equal(read["photo.png"], classes)
    assert read["photo-objects.png"].dtype == np.uint16
    assert np.array_equal(read["photo-objects.png"] == 1, square()[0])


def test_coco(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    with CocoJson(path) as export:
        for name in ("000000000139.jpg", "photo.jpg"):
            export.write(image(name), VisionResult(TIMING, found()))
        assert not path.exists()
    entries = json.loads(path.read_text())
    assert [entry["image_id"] for entry in entries] == [139, 139, "photo.jpg", "photo.jpg"]
    assert entries[0]["bbox"] == [8, 4, 16, 8] and entries[0]["category_id"] == 2
    pixels = SegmentationMask(np.zeros(SHAPE[:2], np.uint8), NAMES)
    with CocoJson(path) as export:
        export.write(image(), VisionResult(TIMING, found(), pixels))
    assert all("bbox" in entry for entry in json.loads(path.read_text()))
    with CocoJson(path):
        pass
    assert json.loads(path.read_text()) == []


@pytest.mark.parametrize(("error", "there"), [(KeyboardInterrupt, True), (InputError, False)])
def test_what_is_kept_of_a_run_that_ends_early(
    error: type[BaseException], there: bool, tmp_path: Path
) -> None:
    path = tmp_path / "found.json"
    with pytest.raises(error), CocoJson(path) as export:
        export.write(image(), VisionResult(TIMING, found()))
        raise error
    assert files(tmp_path) == (["found.json"] if there else [])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for kind, place in ((CocoJson, "file/found.json"), (YoloText, "file/labels")):
        with pytest.raises(InputError, match="cannot be (written|made)"):
            kind(tmp_path / place)


@pytest.mark.parametrize(
    ("kind", "produces", "right"),
    [
        (Crops, ("detections",), True),
        (Crops, ("segmentation",), False),
        (Masks, ("detections", "masks"), True),
        (Masks, ("detections",), False),
        (CocoJson, ("depth",), False),
    ],
)
def test_what_a_network_has_nothing_for_is_refused(
    kind: Any, produces: tuple[str, ...], right: bool
) -> None:
    if right:
        check_exports({"--save": kind}, produces, "n")
        return
    with pytest.raises(InputError, match=f"^--save writes .*'n' gives {', '.join(produces)}: "):
        check_exports({"--save": kind}, produces, "n")
