"""Each form of outputs against its definition in plain loops, from random outputs to the frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support import decoding_reference as reference
from support.fake_executor import FakeExecutor
from tvm_vision.errors import InputError
from tvm_vision.models.detection.detector import ObjectDetector
from tvm_vision.package import DetectionInfo, ModelInfo, Preprocessing

SIZE = (64, 96)
FRAME = (50, 60)
NAMES = ("a", "b", "c")
CONFIDENCE, IOU = 0.4, 0.45
LETTERBOX = Preprocessing(SIZE, letterbox=True, std=(255.0,) * 3, pad_value=114.0)
HOW = {
    "middle": LETTERBOX,
    "corner": replace(LETTERBOX, pad_corner=True),
    "stretch": replace(LETTERBOX, letterbox=False, stretch=True),
}


def detector(info, outputs, *, names=NAMES, how="middle", **options):
    model = ModelInfo("network", "yolo", names, HOW[how], detection=info)
    options = {"confidence": CONFIDENCE, "iou": IOU, **options}
    return ObjectDetector(FakeExecutor(model, outputs), **options)  # type: ignore[arg-type]


def found_by(info, outputs, **options):
    return seen(detector(info, outputs, **options))


def seen(network):
    result = network(np.zeros((*FRAME, 3), np.uint8))
    assert result.detections is not None
    return result.detections


def assert_same(found, rows, how="middle"):
    """Boxes in the frame, in any order among equal scores; none without an area there."""
    place = reference.Place(FRAME, SIZE, how)
    expected = [(score, best, place.box(box)) for score, best, box, _ in rows]
    expected = [row for row in expected if row[2][2] > row[2][0] and row[2][3] > row[2][1]]
    assert len(found) == len(expected) > 3
    assert found.scores == pytest.approx([row[0] for row in expected], abs=1e-6)
    assert found.class_ids.tolist() == [row[1] for row in expected]
    assert found.boxes == pytest.approx(np.array([row[2] for row in expected]), abs=1e-3)


def random_boxes(count, seed=0):
    """Centre x, y, width, height in pixels of the input."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform((0, 0), SIZE[::-1], (count, 2))
    return np.concatenate((centre, rng.uniform(4, 40, (count, 2))), axis=1).astype(np.float32)


def random_scores(count, classes=3, seed=1):
    return np.random.default_rng(seed).random((count, classes)).astype(np.float32)


def rows_of(*parts):
    return np.concatenate(parts, axis=1)[None].astype(np.float32)


def corners(boxes):
    half = boxes[:, 2:] / 2
    return np.concatenate((boxes[:, :2] - half, boxes[:, :2] + half), axis=1)


@pytest.mark.parametrize("how", list(HOW))
def test_scores_of_each_class(how):
    """YOLOv8 to v12, and YOLO26 without its end."""
    output = rows_of(random_boxes(60), random_scores(60)).transpose(0, 2, 1)
    found = found_by(DetectionInfo(("y",), transposed=True), {"y": output}, how=how)
    rows = reference.chosen(reference.yolov8(output, 3), CONFIDENCE, IOU)
    assert_same(found, rows, how)


def test_objectness_and_scores():
    """YOLOv5, v6, v7."""
    output = rows_of(random_boxes(80), random_scores(80, 1, 2) ** 0.2, random_scores(80))
    found = found_by(DetectionInfo(("y",), row="objectness"), {"y": output})
    assert_same(found, reference.chosen(reference.yolov5(output), CONFIDENCE, IOU))


@pytest.mark.parametrize("across", [False, True])
def test_grids(across):
    """YOLOX as it is exported, with the frame in the corner."""
    strides = (8, 16, 32)
    cells = sum(SIZE[0] // s * (SIZE[1] // s) for s in strides)
    rng = np.random.default_rng(3)
    t = rng.normal(0, 0.6, (cells, 4))
    t[:, 2:] += 0.5
    output = rows_of(t, random_scores(cells, 1, 4) ** 0.3, random_scores(cells))
    info = DetectionInfo(
        ("y",), box="grid", strides=strides, row="objectness", across_classes=across
    )
    found = found_by(info, {"y": output}, how="corner")
    rows = reference.chosen(reference.yolox(output, SIZE, strides), CONFIDENCE, IOU, across=across)
    assert_same(found, rows, "corner")


@pytest.mark.parametrize("axes", [5, 4])
def test_heads_with_anchors(axes):
    """YOLOv5 and v7 without their decoding, with an axis for the anchors and as convolved."""
    strides, rng = (8, 16, 32), np.random.default_rng(6)
    anchors = rng.integers(4, 30, (3, 3, 2))
    sides = [(SIZE[0] // stride, SIZE[1] // stride) for stride in strides]
    heads = [rng.normal(0, 1.5, (1, 3, *side, 8)).astype(np.float32) for side in sides]
    info = DetectionInfo(
        ("a", "b", "c"), box="anchors", strides=strides, row="objectness", activation="sigmoid",
        anchors=tuple(anchors.reshape(-1).astype(float)),
    )  # fmt: skip
    rows = reference.chosen(reference.yolov5_heads(heads, strides, anchors), CONFIDENCE, IOU)
    if axes == 4:
        moved = [head.transpose(0, 1, 4, 2, 3) for head in heads]
        heads = [head.reshape(1, -1, *head.shape[3:]) for head in moved]
    assert_same(found_by(info, dict(zip("abc", heads, strict=True))), rows)


@pytest.mark.parametrize("first", [0, 1])
def test_what_has_been_suppressed_within(first):
    """YOLOv10, YOLO26, and exports with suppression: padded with rows of zeros."""
    classes = np.random.default_rng(5).integers(0, 3, (40, 1)) + first
    output = rows_of(corners(random_boxes(40)), random_scores(40, 1), classes)
    output = np.concatenate((output, np.zeros((1, 20, 6), np.float32)), axis=1)
    info = DetectionInfo(("y",), box="xyxy", row="best", suppress=False, first_class=first)
    found = found_by(info, {"y": output})
    rows = reference.chosen(reference.end_to_end(output, first=first), CONFIDENCE, None)
    assert_same(found, rows)


def test_as_many_as_are_counted():
    output = rows_of(corners(random_boxes(40)), random_scores(40, 1), np.zeros((40, 1)))
    info = DetectionInfo(("y",), box="xyxy", row="best", suppress=False, count="n")
    found = found_by(info, {"y": output, "n": np.array([[17]], np.int64)})
    assert_same(found, reference.chosen(reference.end_to_end(output[:, :17]), CONFIDENCE, None))


def test_queries_with_a_softmax():
    """DETR: the last class is no object."""
    boxes = random_boxes(50) / np.array([SIZE[1], SIZE[0]] * 2, np.float32)
    logits = np.random.default_rng(6).normal(0, 2, (1, 50, 4)).astype(np.float32)
    outputs = {"boxes": boxes[None], "logits": logits}
    info = DetectionInfo(
        ("boxes",), scores=("logits",), relative=True, activation="softmax", background="last",
        suppress=False,
    )  # fmt: skip
    found = found_by(info, outputs, how="stretch")
    rows = reference.chosen(reference.detr(logits, boxes[None], SIZE), CONFIDENCE, None)
    assert_same(found, rows, "stretch")


def test_queries_with_a_sigmoid():
    """RT-DETR and Deformable DETR: each class of a query is a candidate."""
    boxes = random_boxes(50) / np.array([SIZE[1], SIZE[0]] * 2, np.float32)
    logits = np.random.default_rng(7).normal(-1, 1.5, (1, 50, 3)).astype(np.float32)
    info = DetectionInfo(
        ("boxes",), scores=("logits",), relative=True, activation="sigmoid", multi_label=True,
        suppress=False, max_detections=30,
    )  # fmt: skip
    found = found_by(info, {"boxes": boxes[None], "logits": logits}, how="stretch")
    rows = reference.rt_detr(logits, boxes[None], SIZE)
    assert_same(found, reference.chosen(rows, CONFIDENCE, None, limit=30), "stretch")


@pytest.mark.parametrize("order", ["xyxy", "yxyx"])
def test_boxes_beside_scores_with_a_background(order):
    """SSD as it is exported with decoded boxes, from PyTorch, and with TensorFlow's order."""
    sides = np.array([SIZE[1], SIZE[0]] * 2, np.float32)
    boxes = (corners(random_boxes(60)) / sides)[None]
    scores = random_scores(60, 4)[None]
    info = DetectionInfo(
        ("boxes",), scores=("scores",), box=order, relative=True, background="first",
        multi_label=True,
    )  # fmt: skip
    given = boxes if order == "xyxy" else boxes[..., [1, 0, 3, 2]]
    found = found_by(info, {"boxes": given, "scores": scores}, how="stretch")
    rows = reference.chosen(reference.ssd(boxes, scores, SIZE), CONFIDENCE, IOU)
    assert_same(found, rows, "stretch")


@pytest.mark.parametrize("batch", [True, False])
def test_boxes_scores_and_classes_apart(batch):
    """torchvision's detectors, and TensorFlow's: three outputs, with or without a batch."""
    boxes, scores = corners(random_boxes(40)), random_scores(40, 1)[:, 0]
    classes = np.random.default_rng(8).integers(0, 3, 40)
    outputs = {"boxes": boxes, "scores": scores, "labels": classes}
    if batch:
        outputs = {name: array[None].astype(np.float32) for name, array in outputs.items()}
    info = DetectionInfo(
        ("boxes",), scores=("scores",), classes="labels", box="xyxy", suppress=False
    )
    rows = rows_of(boxes, scores[:, None], classes[:, None])
    assert_same(
        found_by(info, outputs), reference.chosen(reference.end_to_end(rows), CONFIDENCE, None)
    )


def test_boxes_with_their_score_and_classes_apart():
    """mmdetection: dets [1, n, 5] and labels [1, n]."""
    boxes, scores = corners(random_boxes(40)), random_scores(40, 1)
    classes = np.random.default_rng(8).integers(0, 3, (1, 40))
    info = DetectionInfo(("dets",), classes="labels", box="xyxy", suppress=False)
    rows = rows_of(boxes, scores, classes.T)
    found = found_by(info, {"dets": rows_of(boxes, scores), "labels": classes})
    assert_same(found, reference.chosen(reference.end_to_end(rows), CONFIDENCE, None))


def test_distributions_of_distances():
    """PicoDet and NanoDet; a part of a cell at the edge is one."""
    strides = (8, 16, 32, 64)
    rng = np.random.default_rng(9)
    cells = [-(-SIZE[0] // s) * -(-SIZE[1] // s) for s in strides]
    scores = [rng.random((1, n, 3)).astype(np.float32) for n in cells]
    distances = [rng.normal(0, 2, (1, n, 32)).astype(np.float32) for n in cells]
    outputs = {f"s{i}": array for i, array in enumerate(scores)}
    outputs |= {f"d{i}": array for i, array in enumerate(distances)}
    info = DetectionInfo(
        tuple(f"d{i}" for i in range(4)), scores=tuple(f"s{i}" for i in range(4)),
        box="distances", strides=strides, multi_label=True,
    )  # fmt: skip
    found = found_by(info, outputs, how="stretch")
    rows = reference.picodet(scores, distances, SIZE, strides)
    assert_same(found, reference.chosen(rows, CONFIDENCE, IOU), "stretch")


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("how", ["middle", "stretch"])
def test_keypoints(values, how):
    rng = np.random.default_rng(10)
    points = rng.uniform(-10, 100, (40, 5, values)).astype(np.float32)
    if values == 3:
        points[..., 2] = rng.random((40, 5))
    output = rows_of(random_boxes(40), random_scores(40), points.reshape(40, -1))
    output = output.transpose(0, 2, 1)
    info = DetectionInfo(("y",), transposed=True, keypoints=5, keypoint_values=values)
    found = found_by(info, {"y": output}, how=how)
    rows = reference.chosen(reference.yolov8(output, 3), CONFIDENCE, IOU)
    assert_same(found, rows, how)
    place = reference.Place(FRAME, SIZE, how)
    for ours, (*_, more) in zip(found.keypoints, rows, strict=True):
        for index, (x, y, sure) in enumerate(ours.tolist()):
            theirs = more[values * index : values * index + values]
            assert (x, y) == pytest.approx(place.point(*theirs[:2]), abs=1e-3)
            assert sure == pytest.approx(theirs[2] if values == 3 else 1)


@pytest.mark.parametrize("how", list(HOW))
def test_masks(how):
    rng = np.random.default_rng(11)
    # Prototypes that bend slowly, as networks' do.
    coarse = rng.normal(0, 1, (4, 3, 4))
    prototypes = np.kron(coarse, np.ones((1, 6, 6)))[None].astype(np.float32)
    coefficients = rng.normal(0, 1, (30, 4))
    output = rows_of(random_boxes(30), random_scores(30), coefficients).transpose(0, 2, 1)
    info = DetectionInfo(("y",), transposed=True, prototypes="p")
    found = found_by(info, {"y": output, "p": prototypes}, how=how)
    rows = reference.chosen(reference.yolov8(output, 3), CONFIDENCE, IOU)
    assert_same(found, rows, how)
    place = reference.Place(FRAME, SIZE, how)
    for index in range(4):
        box = place.box(rows[index][2])
        sums = np.array(reference.mask(prototypes[0], rows[index][3], box, place, SIZE))
        ours = found.masks[index]
        # OpenCV's weights are of 32 steps: at the very edge it may decide otherwise.
        clear = np.abs(sums) > 0.15
        assert np.array_equal(ours[clear], (sums > 0)[clear]) and clear.mean() > 0.8


def test_masks_of_what_was_suppressed_within():
    rng = np.random.default_rng(12)
    prototypes = rng.normal(0, 1, (1, 4, 16, 24)).astype(np.float32)
    more = np.concatenate((np.zeros((10, 1)), rng.normal(0, 1, (10, 4))), axis=1)
    output = rows_of(corners(random_boxes(10)), random_scores(10, 1), more)
    info = DetectionInfo(("y",), box="xyxy", row="best", suppress=False, prototypes="p")
    found = found_by(info, {"y": output, "p": prototypes})
    assert len(found.masks) == len(found) > 2
    for box, mask in zip(found.boxes, found.masks, strict=True):
        rows, columns = np.nonzero(mask)
        assert len(rows) and columns.min() >= box[0] and columns.max() < box[2]
        assert rows.min() >= box[1] and rows.max() < box[3]


def test_oriented_boxes():
    rng = np.random.default_rng(13)
    angles = rng.uniform(-0.7, 2.3, (25, 1))
    output = rows_of(random_boxes(25), random_scores(25), angles).transpose(0, 2, 1)
    info = DetectionInfo(("y",), transposed=True, oriented=True)
    found = found_by(info, {"y": output}, iou=1.0)
    rows = reference.chosen(reference.yolov8(output, 3), CONFIDENCE, None)
    place = reference.Place(FRAME, SIZE, "middle")
    assert len(found) == len(rows) > 3
    for ours, upright, (_, _, (x1, y1, x2, y2), (angle,)) in zip(
        found.oriented_boxes, found.boxes, rows, strict=True
    ):
        centre = place.point((x1 + x2) / 2, (y1 + y2) / 2)
        sides = ((x2 - x1) * place.scale[0], (y2 - y1) * place.scale[1])
        assert ours[:2] == pytest.approx(centre, abs=1e-2)
        # A letterbox rounds to whole pixels: its axes differ by a little.
        assert ours[2:4] == pytest.approx(sides, rel=0.02)
        assert np.cos(2 * (ours[4] - angle)) == pytest.approx(1, abs=1e-3)
        spread = [
            abs(sides[0] / 2 * np.cos(angle)) + abs(sides[1] / 2 * np.sin(angle)),
            abs(sides[0] / 2 * np.sin(angle)) + abs(sides[1] / 2 * np.cos(angle)),
        ]
        expected = [centre[0] - spread[0], centre[1] - spread[1]]
        assert upright[:2] == pytest.approx(np.clip(expected, 0, (60, 50)), abs=0.5)


def test_a_stretched_oriented_box_keeps_its_corners():
    """A box along a diagonal of the input, in a frame that is wider by a half."""
    box = np.array([[48, 32, 40, 4]], np.float32)
    output = rows_of(box, [[0.9, 0, 0]], [[np.pi / 4]]).transpose(0, 2, 1)
    info = DetectionInfo(("y",), transposed=True, oriented=True)
    found = found_by(info, {"y": output}, how="stretch")
    scale = np.array([FRAME[1] / SIZE[1], FRAME[0] / SIZE[0]])
    end = (np.array([48, 32]) + 20 / 2**0.5) * scale
    middle = found.corners()[0, 1:3].mean(axis=0)
    assert middle == pytest.approx(end, abs=1e-3)


def test_nothing_is_found():
    output = rows_of(random_boxes(20), random_scores(20) * 0.1).transpose(0, 2, 1)
    plain = DetectionInfo(("y",), transposed=True)
    for info in (plain, replace(plain, multi_label=True), replace(plain, suppress=False)):
        assert len(found_by(info, {"y": output})) == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: y.__setitem__((0, 5, 3), np.nan), "found NaN in 1 of"),
        (lambda y: y.__setitem__((0, 5, 3), 7.0), "--kind-option activation=sigmoid"),
        (lambda y: y.__setitem__((0, slice(0, 2)), np.nan), "boxes in pixels are needed"),
    ],
)
def test_outputs_that_make_no_sense(spoil, message):
    output = rows_of(random_boxes(20), random_scores(20)).transpose(0, 2, 1).copy()
    spoil(output)
    with pytest.raises(InputError, match=message):
        found_by(DetectionInfo(("y",), transposed=True), {"y": output})


def test_a_class_that_has_no_name():
    output = rows_of(corners(random_boxes(9)), np.full((9, 1), 0.9), np.full((9, 1), 3))
    with pytest.raises(InputError, match="classes of 0 to 2 are needed.* found 3 to 3"):
        found_by(DetectionInfo(("y",), box="xyxy", row="best", suppress=False), {"y": output})


def test_boxes_beyond_all_bounds_are_cut():
    output = rows_of([[1e30, 5, np.inf, 5], [20, 20, 1e20, 1e20]], [[0.9, 0, 0], [0.8, 0, 0]])
    found = found_by(DetectionInfo(("y",), transposed=True), {"y": output.transpose(0, 2, 1)})
    assert found.boxes[-1].tolist() == [0, 0, FRAME[1], FRAME[0]]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
def test_the_network_gets_the_frame_as_its_input_is(layout, dtype):
    shape = (1, 3, *SIZE) if layout == "NCHW" else (1, *SIZE, 3)
    pixels = replace(HOW["stretch"], std=(1.0,) * 3)
    model = ModelInfo("n", "yolo", NAMES, pixels, detection=DetectionInfo(("y",), transposed=True))
    output = rows_of(random_boxes(9), random_scores(9)).transpose(0, 2, 1)
    executor = FakeExecutor(model, {"y": output}, shape=shape, dtype=dtype)
    frame = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    ObjectDetector(executor)(frame)  # type: ignore[arg-type]
    given = executor.inputs["image"]
    assert given.shape == shape and str(given.dtype) == dtype
    planes = given[0] if layout == "NHWC" else given[0].transpose(1, 2, 0)
    assert np.array_equal(planes, frame[..., ::-1])


def test_thresholds_of_the_package_and_others():
    info = DetectionInfo(("y",), transposed=True, confidence=0.2, iou=0.7, max_detections=3)
    output = rows_of(random_boxes(20), random_scores(20)).transpose(0, 2, 1)
    model = ModelInfo("n", "yolo", NAMES, LETTERBOX, detection=info)
    ours = ObjectDetector(FakeExecutor(model, {"y": output}))  # type: ignore[arg-type]
    assert (ours.confidence, ours.iou, ours.max_detections) == (0.2, 0.7, 3)
    assert len(seen(ours)) == 3
    ours.max_detections = 1
    assert len(seen(ours)) == 1
    with pytest.raises(InputError, match="a confidence from 0 to 1 is needed, found 2"):
        ours.confidence = 2
