"""Average precision and IoU against cases computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.evaluate.detection import (
    Found,
    MaskScore,
    Truth,
    average_precision,
    average_precisions,
    box_iou,
)

NONE = np.zeros((0, 4))


def truth(boxes, class_ids, doubtful=NONE):
    return Truth(
        np.array(boxes, float).reshape(-1, 4), np.array(class_ids, int), np.array(doubtful)
    )


def found(boxes, scores, class_ids):
    return Found(np.array(boxes, float).reshape(-1, 4), np.array(scores), np.array(class_ids, int))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0, 0, 2, 2], [0, 0, 2, 2], 1.0),
        ([0, 0, 2, 2], [1, 0, 3, 2], 1 / 3),
        ([0, 0, 2, 2], [1, 1, 3, 3], 1 / 7),
        ([0, 0, 2, 2], [2, 0, 4, 2], 0.0),
        ([0, 0, 4, 4], [1, 1, 2, 2], 1 / 16),
        ([1, 1, 1, 1], [1, 1, 1, 1], 0.0),
        ([2, 2, 0, 0], [0, 0, 2, 2], 0.0),
    ],
)
def test_iou_of_two_boxes(first, second, expected):
    result = box_iou(np.array([first], float), np.array([second], float))
    assert result == pytest.approx(np.array([[expected]]))


def test_iou_is_of_every_pair():
    assert box_iou(np.zeros((3, 4)), np.zeros((2, 4))).shape == (3, 2)
    assert box_iou(NONE, np.zeros((2, 4))).shape == (0, 2)


@pytest.mark.parametrize(
    ("hits", "scores", "positives", "expected"),
    [
        ([True], [0.9], 1, 1.0),
        ([True], [0.9], 2, 0.5),
        ([False], [0.9], 1, 0.0),
        ([], [], 3, 0.0),
        # Precision 1, 1/2, 2/3 at recall 1/2, 1/2, 1: half at 1, half at 2/3.
        ([True, False, True], [0.9, 0.8, 0.7], 2, 0.5 + 0.5 * 2 / 3),
        # Precision 0, 1/2, 2/3: the envelope lifts the middle to 2/3.
        ([False, True, True], [0.9, 0.8, 0.7], 2, 2 / 3),
        # The order is that of the scores, not of the list.
        ([True, False, True], [0.7, 0.8, 0.9], 2, 0.5 + 0.5 * 2 / 3),
    ],
)
def test_area_under_precision_and_recall(hits, scores, positives, expected):
    result = average_precision(np.array(hits, bool), np.array(scores), positives)
    assert result == pytest.approx(expected)


def test_nothing_to_find_has_no_precision():
    assert math.isnan(average_precision(np.array([False]), np.array([0.5]), 0))


def test_each_object_is_found_once():
    one = truth([[0, 0, 10, 10]], [0])
    twice = found([[0, 0, 10, 10], [0, 0, 10, 9]], [0.6, 0.9], [0, 0])
    # The better detection hits with an IoU of 0.9, the exact one comes second and is false.
    assert average_precisions([twice], [one], 1) == pytest.approx([1.0])
    two = truth([[0, 0, 10, 10], [50, 50, 60, 60]], [0, 0])
    assert average_precisions([twice], [two], 1) == pytest.approx([0.5])


def test_a_second_detection_takes_the_second_object():
    pair = truth([[0, 0, 10, 10], [0, 2, 10, 12]], [0, 0])
    guess = found([[0, 0, 10, 10], [0, 0, 10, 11]], [0.9, 0.8], [0, 0])
    # The second overlaps the taken object more (0.91 against 0.75), and still finds the free one.
    assert average_precisions([guess], [pair], 1) == pytest.approx([1.0])


def test_threshold_is_reached_at_equality():
    one = truth([[0, 0, 10, 10]], [0])
    half = found([[0, 0, 10, 5]], [0.9], [0])
    assert average_precisions([half], [one], 1, iou=0.5) == pytest.approx([1.0])
    assert average_precisions([half], [one], 1, iou=0.51) == pytest.approx([0.0])


def test_classes_are_apart_and_images_together():
    truths = [truth([[0, 0, 10, 10]], [0]), truth([[0, 0, 10, 10]], [1])]
    guesses = [
        found([[0, 0, 10, 10], [20, 20, 30, 30]], [0.9, 0.95], [1, 0]),
        found([[0, 0, 10, 10]], [0.8], [1]),
    ]
    # Class 0: a false box in the first image. Class 1: false at 0.9, right at 0.8: 1/2.
    result = average_precisions(guesses, truths, 3)
    assert result[:2] == pytest.approx([0.0, 0.5])
    assert math.isnan(result[2])


def test_doubtful_regions_neither_help_nor_harm():
    unsure = truth([[0, 0, 10, 10]], [0], [[20, 20, 40, 40]])
    inside, across = [22, 22, 30, 30], [0, 20, 30, 30]
    guess = found([inside, [0, 0, 10, 10]], [0.9, 0.8], [0, 0])
    assert average_precisions([guess], [unsure], 1) == pytest.approx([1.0])
    guess = found([across, [0, 0, 10, 10]], [0.9, 0.8], [0, 0])
    assert average_precisions([guess], [unsure], 1) == pytest.approx([0.5])


def test_results_for_each_image_are_needed():
    with pytest.raises(InputError, match="found 0 for 1 images"):
        average_precisions([], [truth([], [])], 1)


def test_mask_iou_by_hand():
    score = MaskScore(3, ignored=255)
    score.add(np.array([[0, 0, 1], [1, 2, 2]]), np.array([[0, 1, 1], [1, 2, 255]]))
    # Class 0: 1 shared of 2; class 1: 2 of 3; class 2: 1 of 1, the ignored pixel apart.
    assert score.iou() == pytest.approx([1 / 2, 2 / 3, 1])
    assert score.mean_iou() == pytest.approx((1 / 2 + 2 / 3 + 1) / 3)


def test_masks_add_up():
    score = MaskScore(2)
    score.add(np.array([[0]]), np.array([[0]]))
    score.add(np.array([[1]]), np.array([[0]]))
    assert score.iou() == pytest.approx([0.5, 0.0])


def test_classes_that_do_not_occur_do_not_count():
    score = MaskScore(3)
    score.add(np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint8))
    assert score.iou()[0] == 1.0
    assert np.isnan(score.iou()[1:]).all()
    assert score.mean_iou() == 1.0
    assert math.isnan(MaskScore(3).mean_iou())


def test_masks_that_do_not_fit():
    score = MaskScore(2)
    with pytest.raises(InputError, match=r"found \(1, 2\) of the network and \(2, 2\) in"):
        score.add(np.zeros((1, 2), int), np.zeros((2, 2), int))
    with pytest.raises(InputError, match="from 0 to 1 are needed in the result, found 0 to 7"):
        score.add(np.array([[0, 7]]), np.array([[0, 1]]))
    with pytest.raises(InputError, match="in the truth, found 0 to 3"):
        score.add(np.array([[0, 1]]), np.array([[0, 3]]))
