"""Decoding, thresholds, groups and places against a reference in the test's own words."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.nms_reference import reference as reference_nms
from tvm_vision.errors import InputError
from tvm_vision.models.frames import Letterbox
from tvm_vision.models.values import sigmoid
from tvm_vision.models.yoeo.postprocess import (
    decoded_rows,
    find_detections,
    find_mask,
    group_numbers,
    head_rows,
)
from tvm_vision.package import ClassGroup, YoeoHead

LABELS = ("ball", "robot_red", "robot_blue")
ALONE = group_numbers(LABELS, ())
ROBOTS = group_numbers(LABELS, (ClassGroup("robot", LABELS[1:]),))
FULL = Letterbox.fit((96, 96), (96, 96))
HEADS = (
    YoeoHead("Head0", 16, ((20.0, 30.0), (50.0, 40.0))),
    YoeoHead("Head1", 8, ((9.0, 8.0),)),
)


def reference_decode(outputs, heads):
    """All rows, box by box: head, anchor, y, x."""

    def s(value):
        return 1 / (1 + math.exp(-value))

    rows = []
    for head in heads:
        values = outputs[head.output].astype(np.float64)
        size = values.shape[1] // len(head.anchors)
        for a, (anchor_width, anchor_height) in enumerate(head.anchors):
            for y in range(values.shape[2]):
                for x in range(values.shape[3]):
                    t = values[0, a * size : (a + 1) * size, y, x]
                    rows.append(
                        [
                            (s(t[0]) + x) * head.stride,
                            (s(t[1]) + y) * head.stride,
                            math.exp(t[2]) * anchor_width,
                            math.exp(t[3]) * anchor_height,
                            *(s(value) for value in t[4:]),
                        ]
                    )
    return np.array(rows)


def reference_detections(rows, confidence, iou, limit, groups):
    """(box, score, class) of the square input, as YOEO's description says."""
    boxes, scores, classes = [], [], []
    for x, y, w, h, objectness, *found in rows.tolist():
        if objectness <= confidence:
            continue
        for class_id, score in enumerate(found):
            if objectness * score > confidence:
                boxes.append((x - w / 2, y - h / 2, x + w / 2, y + h / 2))
                scores.append(objectness * score)
                classes.append(class_id)
    kept = reference_nms(boxes, scores, [groups[c] for c in classes], iou, limit)
    return [(boxes[i], scores[i], classes[i]) for i in kept]


def random_heads(seed, scale=2.0):
    rng = np.random.default_rng(seed)
    return {
        "Head0": (scale * rng.standard_normal((1, 16, 6, 6))).astype(np.float32),
        "Head1": (scale * rng.standard_normal((1, 8, 12, 12))).astype(np.float32),
    }


def detections(rows, letterbox=FULL, groups=ALONE, confidence=0.3, iou=0.4, limit=300):
    return find_detections(
        np.asarray(rows, np.float32).reshape(-1, 8),
        LABELS,
        groups,
        letterbox,
        confidence=confidence,
        iou=iou,
        limit=limit,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("confidence", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_heads_are_decoded_where_it_counts(seed, confidence):
    outputs = random_heads(seed)
    every = reference_decode(outputs, HEADS)
    wanted = every[every[:, 4] > confidence]
    rows = head_rows(outputs, HEADS, confidence)
    assert rows.dtype == np.float32
    assert rows == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    decoded = decoded_rows(every[None].astype(np.float32), confidence)
    assert decoded == pytest.approx(wanted, rel=1e-6)


def test_halves_are_decoded_as_single_precision():
    outputs = {name: head.astype(np.float16) for name, head in random_heads(0).items()}
    exact = {name: head.astype(np.float32) for name, head in outputs.items()}
    assert np.array_equal(head_rows(outputs, HEADS, 0.3), head_rows(exact, HEADS, 0.3))


@pytest.mark.parametrize("groups", [ALONE, ROBOTS])
@pytest.mark.parametrize("seed", range(3))
def test_is_the_reference_from_heads_to_boxes(seed, groups):
    outputs = random_heads(seed, scale=1.0)
    rows = reference_decode(outputs, HEADS)
    wanted = reference_detections(rows, 0.3, 0.4, 300, groups.tolist())
    found = detections(head_rows(outputs, HEADS, 0.3), groups=groups)
    assert 5 < len(found) == len(wanted)
    assert found.class_ids.tolist() == [class_id for *_, class_id in wanted]
    assert found.scores == pytest.approx([score for _, score, _ in wanted], abs=1e-5)
    boxes = np.clip([box for box, *_ in wanted], 0, 96)
    assert found.boxes == pytest.approx(boxes, abs=1e-3)


def test_each_class_above_the_confidence_gives_a_box():
    found = detections([[50, 50, 20, 20, 1.0, 0.9, 0.8, 0.2]])
    assert [(name, round(score, 3)) for name, score, _ in found] == [
        ("ball", 0.9),
        ("robot_red", 0.8),
    ]


def test_classes_of_a_group_suppress_each_other_and_keep_their_names():
    rows = [[50, 50, 20, 20, 1, 0.0, 0.7, 0.0], [51, 50, 20, 20, 1, 0.0, 0.0, 0.8]]
    assert {name for name, *_ in detections(rows)} == {"robot_red", "robot_blue"}
    assert [name for name, *_ in detections(rows, groups=ROBOTS)] == ["robot_blue"]


def test_groups_are_numbers_that_differ():
    assert ALONE.tolist() == [0, 1, 2]
    assert ROBOTS.tolist() == [0, 1, 1]


def test_no_detections():
    assert len(detections(np.zeros((0, 8)))) == 0
    assert len(detections([[50, 50, 20, 20, 0.2, 1, 1, 1]])) == 0
    assert len(detections([[50, 50, 20, 20, 1, 1, 1, 1]], confidence=1.0)) == 0


def test_ten_thousand_candidates_leave_three_hundred():
    rng = np.random.default_rng(0)
    rows = np.zeros((10_000, 8))
    rows[:, :2] = rng.uniform(0, 96, (10_000, 2))
    rows[:, 2:4] = rng.uniform(0.5, 2, (10_000, 2))
    rows[:, 4:6] = rng.uniform(0.6, 1, (10_000, 2))
    assert len(detections(rows)) == 300
    assert len(detections(rows, limit=7)) == 7


def test_boxes_in_the_padding_are_no_boxes():
    wide = Letterbox.fit((48, 96), (96, 96))
    rows = [[48, 10, 20, 20, 1, 0.9, 0, 0], [48, 48, 20, 200, 1, 0.8, 0, 0]]
    found = detections(rows, wide)
    assert found.boxes.tolist() == [[38, 0, 58, 48]]


@pytest.mark.parametrize("side", [np.inf, 1e30, 3e38])
def test_endless_boxes_end_at_the_image(side):
    found = detections([[48, 48, side, side, 1, 0.9, 0, 0], [48, 48, side, 5, 1, 0.8, 0, 0]])
    assert found.boxes.tolist() == [[0, 0, 96, 96], [0, 45.5, 96, 50.5]]


def test_an_exponent_that_overflows():
    outputs = random_heads(0)
    outputs["Head0"][:, 2:5] = 1000
    outputs["Head1"][:, 2:4] = -1000
    outputs["Head1"][:, 4] = 1000
    found = detections(head_rows(outputs, HEADS, 0.5))
    assert np.isfinite(found.boxes).all()


@pytest.mark.parametrize("column", range(8))
def test_nan_is_an_error(column):
    row = [50.0, 50, 20, 20, 1, 0.9, 0.8, 0.7]
    row[column] = math.nan
    with pytest.raises(InputError, match="from the network, found .*[nN]a[nN]"):
        detections(decoded_rows(np.array([[row]], np.float32), 0.3))
    outputs = random_heads(0)
    outputs["Head0"][0, column] = math.nan
    with np.errstate(all="raise"), pytest.raises(InputError, match="from the network, found"):
        detections(head_rows(outputs, HEADS, 0.1))


def test_scores_that_are_none():
    with pytest.raises(InputError, match=r"scores of 0 to 1 are needed .* found 0 to 35\.7"):
        detections([[50, 50, 20, 20, 51, 0.7, 0, 0]])


def test_sigmoid_of_anything():
    values = np.array([-1e30, -100, -1, 0, 1, 100, 1e30, np.inf, -np.inf], np.float32)
    with np.errstate(all="raise"):
        found = sigmoid(values)
    exact = [0, 0, 1 / (1 + math.e), 0.5, 1 / (1 + math.exp(-1)), 1, 1, 1, 0]
    assert found == pytest.approx(exact, abs=1e-7)


def test_masks_of_any_integer():
    output = np.arange(9).reshape(1, 3, 3) % 3
    mask = find_mask(output, ("a", "b", "c"), Letterbox.fit((6, 6), (3, 3)))
    assert mask.mask.dtype == np.uint8
    assert np.array_equal(mask.mask[::2, ::2], output[0])


image_side = st.integers(1, 2000)
fraction = st.floats(0, 1, width=32)


@settings(max_examples=300, deadline=None)
@given(image_side, image_side, fraction, fraction, fraction, fraction)
def test_a_box_comes_back_to_its_place(height, width, x1, y1, x2, y2):
    """Drawn into the network's output where it lies in the letterboxed input."""
    x1, x2 = sorted((x1 * width, x2 * width))
    y1, y2 = sorted((y1 * height, y2 * height))
    # The exact letterbox of the original: no size rounded.
    scale = 416 / max(height, width)
    left, top = (416 - width * scale) / 2, (416 - height * scale) / 2
    row = [
        (x1 + x2) / 2 * scale + left,
        (y1 + y2) / 2 * scale + top,
        (x2 - x1) * scale,
        (y2 - y1) * scale,
        1,
        1,
        0,
        0,
    ]
    box = Letterbox.fit((height, width), (416, 416))
    found = detections([row], box).boxes
    # Rounding moves an edge by up to half a pixel of the input, and that may be a large one.
    tolerance = max(1.0, 1.0 / scale)
    if len(found):
        assert found[0] == pytest.approx([x1, y1, x2, y2], abs=tolerance)
        assert (found[0] >= 0).all() and found[0][2] <= width and found[0][3] <= height
    else:
        assert min(x2 - x1, y2 - y1) <= tolerance
