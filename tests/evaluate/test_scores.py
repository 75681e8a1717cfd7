"""The field's measures."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_vision.evaluate.detection import Found, MaskScore, Truth, average_precisions
from tvm_vision.evaluate.scores import box_scores, class_scores, mask_scores

NONE = np.empty((0, 4))


def test_classes() -> None:
    guesses = [[0, 1, 2], [1, 0, 2], [-1, 2, 0], [2, 1, 0]]
    found = class_scores(guesses, [0, 0, 2, 2], ["a", "b", "c"])
    assert (found["top1"], found["top5"]) == (0.5, 1.0)
    assert found["confusion"] == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]
    assert found["classes"] == {"a": 0.5, "b": None, "c": 0.5}


def test_only_the_first_five_count() -> None:
    found = class_scores([[1, 2, 3, 4, 5, 0]], [0], list("abcdef"))
    assert found["top5"] == 0.0


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(rows, float).reshape(-1, 4)


def test_boxes_as_coco_judges_them() -> None:
    truths = [
        Truth(boxes((0, 0, 10, 10), (20, 20, 40, 40)), np.array([0, 1]), NONE),
        Truth(boxes((5, 5, 25, 25)), np.array([0]), NONE),
    ]
    right = [Found(t.boxes, np.full(len(t.boxes), 0.9), t.class_ids) for t in truths]
    found = box_scores(right, truths, ["a", "b", "absent"])
    assert found["ap50_95"] == pytest.approx(1.0) and found["ap50"] == pytest.approx(1.0)
    assert found["classes"]["absent"] == {"ap50_95": None, "ap50": None}
    # Off by a tenth of the width: an IoU of 0.82 counts up to 0.80, that is at 7 of 10 thresholds.
    moved = [Found(f.boxes + (f.boxes[:, 2:3] - f.boxes[:, :1]) * [[0.1, 0, 0.1, 0]], f.scores,
                   f.class_ids) for f in right]  # fmt: skip
    found = box_scores(moved, truths, ["a", "b", "absent"])
    assert found["ap50"] == pytest.approx(1.0) and found["ap50_95"] == pytest.approx(0.7)


def test_boxes_that_were_not_found() -> None:
    truths = [Truth(boxes((0, 0, 10, 10)), np.array([0]), NONE)]
    nothing = [Found(NONE, np.empty(0), np.empty(0, int))]
    found = box_scores(nothing, truths, ["a", "b"])
    assert found["ap50"] == 0.0
    assert found["classes"] == {
        "a": {"ap50_95": 0.0, "ap50": 0.0}, "b": {"ap50_95": None, "ap50": None}
    }  # fmt: skip


def test_a_crowd_is_neither_found_nor_false() -> None:
    truths = [Truth(boxes((0, 0, 10, 10)), np.array([0]), boxes((50, 50, 90, 90)))]
    guess = Found(boxes((55, 55, 80, 80), (0, 0, 10, 10)), np.array([0.9, 0.8]), np.array([0, 0]))
    assert box_scores([guess], truths, ["a"])["ap50"] == pytest.approx(1.0)


def test_masks() -> None:
    score = MaskScore(4, 255)
    score.add(np.array([[0, 0, 1, 1]]), np.array([[0, 1, 1, 255]]))
    found = mask_scores(score, ["a", "b", "c", "d"])
    assert found["classes"] == {"a": 0.5, "b": 0.5, "c": None, "d": None}
    assert (found["miou"], found["pixels"]) == (0.5, pytest.approx(2 / 3))


def test_as_the_measure_of_our_training() -> None:
    """Two measures of average precision, all points and 101 points, on random boxes."""
    random = np.random.default_rng(5)
    truths, guesses = [], []
    for _ in range(40):
        corner = random.uniform(0, 80, (5, 2))
        true = np.hstack([corner, corner + random.uniform(8, 20, (5, 2))])
        ids = random.integers(0, 2, 5)
        kept = random.random(5) < 0.8
        near = true[kept] + random.normal(0, 1.0, (kept.sum(), 4))
        truths.append(Truth(true, ids, NONE))
        guesses.append(Found(near, random.random(kept.sum()), ids[kept]))
    ours = average_precisions(guesses, truths, 2, 0.5)
    theirs = box_scores(guesses, truths, ["a", "b"])["classes"]
    for class_id, name in enumerate("ab"):
        assert theirs[name]["ap50"] == pytest.approx(ours[class_id], abs=0.02)
