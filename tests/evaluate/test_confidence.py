"""Recall and precision at a confidence, and the confidence of the best F1, from counts by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_vision.evaluate.confidence import best_f1, operating_point
from tvm_vision.evaluate.detection import Found, Truth, judged

HITS = np.array([True, True, False, True, False, False])
SCORES = np.array([0.9, 0.805, 0.705, 0.605, 0.3, 0.2])


@pytest.mark.parametrize(
    "confidence, recall, precision",
    [
        (0.95, 0.0, math.nan),
        (0.9, 0.0, math.nan),  # a score must be above it
        (0.85, 0.25, 1.0),
        (0.7, 0.5, 2 / 3),
        (0.5, 0.75, 0.75),
        (0.1, 0.75, 0.5),
    ],
)
def test_recall_and_precision_count_what_is_above(confidence, recall, precision):
    point = operating_point(HITS, SCORES, 4, confidence)
    assert point.recall == recall
    assert point.precision == pytest.approx(precision, nan_ok=True)
    both = recall + precision
    assert point.f1 == pytest.approx(0 if not both > 0 else 2 * recall * precision / both)


def test_nothing_to_find_has_no_recall():
    point = operating_point(HITS[:0], SCORES[:0], 0, 0.5)
    assert math.isnan(point.recall) and math.isnan(point.precision) and point.f1 == 0


def test_best_f1_is_the_middle_of_the_best():
    """Three of four are found from 0.3 to 0.6 with one false one: no choice is better."""
    point = best_f1(HITS, SCORES, 4)
    assert (point.recall, point.precision) == (0.75, 0.75)
    assert point.confidence == 0.45
    assert all(
        operating_point(HITS, SCORES, 4, choice / 100).f1 <= point.f1 for choice in range(1, 100)
    )


def test_with_slack_the_highest_confidence_that_is_nearly_as_good():
    """Above 0.705 two of four are found and nothing false, an F1 of 2/3 instead of 3/4."""
    assert best_f1(HITS, SCORES, 4, 0.05).confidence == 0.6
    point = best_f1(HITS, SCORES, 4, 0.1)
    assert (point.confidence, point.recall, point.precision) == (0.8, 0.5, 1.0)


def test_doubtful_detections_count_in_neither():
    boxes = np.array([[0, 0, 10, 10], [50, 50, 60, 60], [80, 0, 90, 10]], float)
    truth = Truth(boxes[:1], np.array([2]), boxes[1:2])
    found = Found(boxes, np.array([0.9, 0.8, 0.7]), np.array([2, 2, 2]))
    hits, scores, positives = judged([found], [truth], 2)
    assert hits.tolist() == [True, False] and scores.tolist() == [0.9, 0.7] and positives == 1
