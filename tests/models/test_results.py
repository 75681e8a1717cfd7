"""Results check themselves when they are made."""

import numpy as np
import pytest

from tvm_vision.models.results import (
    Classification,
    Detections,
    SegmentationMask,
    Timing,
    VisionResult,
)

NAMES = ("ball", "robot")


def test_iterates_over_labels_and_probabilities():
    result = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    assert len(result) == 2
    assert list(result) == [("cat", 0.75), ("dog", 0.25)]


def test_may_be_empty():
    assert list(Classification((), (), ())) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((1, 2), ("a",), (0.5, 0.5)), "expected 2 labels, one for each class_id, got 1"),
        (((1,), ("a",), (0.5, 0.5)), "expected 1 probabilities, one for each class_id, got 2"),
        (((-1,), ("a",), (0.5,)), "expected class_ids of at least 0, got -1"),
        (((1, 1), ("a", "b"), (0.5, 0.5)), r"without repetition, got \(1, 1\)"),
        (((1,), ("a",), (1.5,)), r"expected probabilities in 0\.\.1, got 1.5"),
        (((1,), ("a",), (float("nan"),)), r"expected probabilities in 0\.\.1, got nan"),
        (((1, 2), ("a", "b"), (0.2, 0.8)), "expected falling probabilities"),
    ],
)
def test_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        Classification(*fields)


def detections(boxes=((1, 2, 3, 4), (0, 0, 9, 9)), scores=(0.9, 0.5), ids=(1, 0), names=NAMES):
    return Detections(
        np.array(boxes, np.float32), np.array(scores, np.float32), np.array(ids, np.int32), names
    )


def test_detections_iterate_best_first():
    found = detections()
    assert len(found) == 2
    assert [(name, box) for name, _, box in found] == [
        ("robot", (1.0, 2.0, 3.0, 4.0)),
        ("ball", (0.0, 0.0, 9.0, 9.0)),
    ]
    assert [score for _, score, _ in found] == pytest.approx([0.9, 0.5])


def test_no_detections():
    nothing = Detections.none(NAMES)
    assert len(nothing) == 0 and list(nothing) == [] and nothing.boxes.shape == (0, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"boxes": [(1, 2, 3, 4)]}, r"expected boxes of float32 \[2, 4\], got float32 \[1, 4\]"),
        ({"boxes": [(3, 2, 1, 4)] * 2}, "expected finite boxes with x1 <= x2"),
        ({"boxes": [(np.nan, 2, 3, 4)] * 2}, "expected finite boxes"),
        ({"scores": (1.5, 0.5)}, r"expected scores in 0\.\.1, got 0.5 to 1.5"),
        ({"scores": (np.nan, 0.5)}, r"expected scores in 0\.\.1, got nan"),
        ({"scores": (0.1, 0.5)}, "expected scores that do not increase"),
        ({"ids": (0, 2)}, "expected class_ids below the 2 class_names, got 0 to 2"),
        ({"ids": (0, -1)}, "expected class_ids below the 2 class_names, got -1 to 0"),
        ({"ids": (0,)}, r"expected class_ids of int32 \[2\]"),
    ],
)
def test_detections_refuse(fields, message):
    with pytest.raises(ValueError, match=message):
        detections(**fields)


def test_other_types_are_refused():
    ids = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match=r"expected scores of float32 \[n\], got float64 \[1\]"):
        Detections(np.zeros((1, 4), np.float32), np.zeros(1), ids, NAMES)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected mask of uint8 \[n, n\], got int64 \[2, 2\]"):
        SegmentationMask(np.zeros((2, 2), np.int64), NAMES)


def test_share_of_a_mask():
    mask = SegmentationMask(np.array([[0, 1], [1, 1]], np.uint8), NAMES)
    assert mask.share("robot") == 0.75 and mask.share("ball") == 0.25
    with pytest.raises(ValueError):
        mask.share("goalpost")


def test_a_result_in_words():
    mask = SegmentationMask(np.array([[0, 1], [1, 1]], np.uint8), ("background", "field"))
    timing = Timing(1, 1, 1)
    assert VisionResult(timing, detections(), mask).describe() == "robot 90, ball 50; field 75 %"
    assert VisionResult(timing, Detections.none(NAMES)).describe() == "nothing"
    found = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    assert VisionResult(timing, classification=found).describe() == "cat 75, dog 25"


def test_total_time():
    assert Timing(1.0, 2.0, 0.5).total_ms == 3.5
