"""Suppression against a reference that follows the words of the definition, one box at a time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.nms_reference import reference, reference_iou
from tvm_vision.models.nms import oriented_exceed, suppress


def arrays(boxes, scores, groups=None):
    groups = [0] * len(boxes) if groups is None else groups
    return (
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(groups, np.int32),
    )


# Whole numbers: the order of comparisons with the threshold is then exact in any precision.
corner = st.integers(0, 20)
side = st.integers(0, 12)
candidates = st.lists(
    st.tuples(corner, corner, side, side, st.integers(1, 99), st.integers(0, 2)), max_size=40
)


@settings(max_examples=300, deadline=None)
@given(candidates, st.sampled_from([0.0, 0.3, 0.45, 1.0]), st.integers(1, 50))
def test_is_the_reference(found, iou, limit):
    boxes, scores, groups = arrays(
        [(x, y, x + w, y + h) for x, y, w, h, _, _ in found],
        [score / 100 for *_, score, _ in found],
        [group for *_, group in found],
    )
    kept = suppress(boxes, scores, groups, iou=iou, limit=limit)
    assert kept.tolist() == reference(boxes.tolist(), scores.tolist(), groups.tolist(), iou, limit)


def test_only_boxes_of_a_group_suppress_each_other():
    same = [(0, 0, 10, 10)] * 3
    given_ = arrays(same, [0.5, 0.9, 0.7], [1, 2, 1])
    assert suppress(*given_, iou=0.4, limit=9).tolist() == [1, 2]


def test_a_box_that_was_suppressed_suppresses_none():
    row = [(0, 0, 10, 10), (4, 0, 14, 10), (8, 0, 18, 10)]
    assert suppress(*arrays(row, [0.9, 0.8, 0.7]), iou=0.4, limit=9).tolist() == [0, 2]


def test_boxes_without_area_and_none_at_all():
    points = [(5, 5, 5, 5), (5, 5, 5, 5), (0, 0, 10, 10)]
    assert suppress(*arrays(points, [0.9, 0.8, 0.7]), iou=0.4, limit=9).tolist() == [0, 1, 2]
    assert suppress(*arrays([], []), iou=0.4, limit=9).tolist() == []


@pytest.mark.parametrize("spread", [0.5, 2000.0])
def test_ten_thousand_candidates(spread):
    rng = np.random.default_rng(0)
    low = rng.uniform(0, spread, (10_000, 2))
    boxes = np.hstack([low, low + rng.uniform(5, 60, (10_000, 2))]).astype(np.float32)
    scores = rng.random(10_000, np.float32)
    kept = suppress(boxes, scores, np.zeros(10_000, np.int32), iou=0.4, limit=300)
    assert 1 <= len(kept) <= 300
    assert (np.diff(scores[kept]) <= 0).all()
    pairs = [(a, b) for i, a in enumerate(kept) for b in kept[:i]]
    assert all(reference_iou(boxes[a], boxes[b]) <= 0.4 + 1e-5 for a, b in pairs)


def prob_iou(a, b):
    """The definition with matrices: 1 less the Hellinger distance of two Gaussians, from the
    Bhattacharyya distance (Llerena et al., 2021)."""
    covariances = []
    for _, _, width, height, angle in (a, b):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        covariances.append(turn @ np.diag([width**2 / 12, height**2 / 12]) @ turn.T)
    mean = sum(covariances) / 2
    apart = np.subtract(a[:2], b[:2])
    distance = apart @ np.linalg.inv(mean) @ apart / 8
    own = math.sqrt(np.linalg.det(covariances[0]) * np.linalg.det(covariances[1]))
    distance += 0.5 * math.log(np.linalg.det(mean) / own)
    return 1 - math.sqrt(max(0.0, 1 - math.exp(-distance)))


def test_oriented_boxes_by_their_gaussians():
    rng = np.random.default_rng(2)
    boxes = np.concatenate(
        (rng.uniform(0, 30, (40, 2)), rng.uniform(3, 25, (40, 2)), rng.uniform(-1, 2, (40, 1))), 1
    )
    exact = np.array([[prob_iou(a, b) for b in boxes] for a in boxes])
    for iou in (0.1, 0.3, 0.6):
        ours = oriented_exceed(boxes.astype(np.float32), boxes.astype(np.float32), iou)
        clear = np.abs(exact - iou) > 1e-3
        assert np.array_equal(ours[clear], (exact > iou)[clear])
        assert 0 < ours.sum() - len(boxes) < ours.size


def test_suppression_of_oriented_boxes():
    """Three long ones over each other: two along the same diagonal, one along the other."""
    boxes = np.array(
        [[50, 50, 80, 8, 0.8], [51, 50, 80, 8, 0.8], [50, 50, 80, 8, -0.8]], np.float32
    )
    scores, groups = np.array([0.5, 0.9, 0.7], np.float32), np.zeros(3, np.int32)
    kept = suppress(boxes, scores, groups, iou=0.4, limit=9, exceeds=oriented_exceed)
    assert kept.tolist() == [1, 2]
    flat = np.zeros((2, 5), np.float32)
    assert len(suppress(flat, scores[:2], groups[:2], iou=0.4, limit=9, exceeds=oriented_exceed))
