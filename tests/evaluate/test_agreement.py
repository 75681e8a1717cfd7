"""When two results for a frame count as the same."""

import numpy as np
import pytest

from tvm_vision.evaluate.agreement import agreement
from tvm_vision.models.results import Detections, SegmentationMask

NAMES = ("ball", "robot")
BOXES = [(10, 10, 50, 50, 0.9, 0), (60, 20, 90, 80, 0.5, 1)]


def found(*boxes, mask=0):
    table = np.array(sorted(boxes, key=lambda box: -box[4]), np.float32).reshape(-1, 6)
    detections = Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int32), NAMES)
    pixels = np.zeros((10, 10), np.uint8)
    pixels.reshape(-1)[:mask] = 1
    return detections, SegmentationMask(pixels, NAMES)


def moved(index, **changes):
    """BOXES, one of them changed: x1, score or class_id."""
    boxes = [list(box) for box in BOXES]
    for name, value in changes.items():
        boxes[index][{"x1": 0, "score": 4, "class_id": 5}[name]] = value
    return found(*boxes)


def test_the_same():
    result = agreement(found(*BOXES), found(*BOXES))
    assert (result.boxes, result.missing, result.worst_pixels, result.mask) == (2, 0, 0, 1)
    assert result.within("fp32")
    assert str(result).startswith("2 candidate boxes with a score above 0.3, all the same within")


@pytest.mark.parametrize(
    ("ours", "missing"),
    [
        (moved(0, x1=10.9), 0),
        (moved(0, x1=11.2), 2),
        (moved(0, score=0.7), 0),
        (moved(1, class_id=0), 2),
        (found(BOXES[0]), 1),
        (found(*BOXES, (0, 0, 5, 5, 0.35, 1)), 1),
        (found(*BOXES, (0, 0, 5, 5, 0.29, 1)), 0),
        (found(), 2),
    ],
)
def test_boxes_count_in_both_directions(ours, missing):
    result = agreement(ours, found(*BOXES))
    assert result.missing == missing
    assert result.within("fp16") == (missing == 0)


def test_boxes_of_quantized_networks_may_be_further_apart_and_few_missing():
    many = [(*BOXES[0][:4], score, 0) for score in np.linspace(0.4, 0.9, 20)]
    ours = found((BOXES[0][0] + 2, *BOXES[0][1:4], 0.4, 0), *many[1:])
    assert agreement(ours, found(*many), 3.0).missing == 0
    for missing, same in ((2, True), (3, False)):
        other = [(0, 0, 5, 5, 0.5, 1)] * missing
        result = agreement(found(*many, *other), found(*many), 3.0)
        assert (result.missing, result.within("int8")) == (missing, same)
        assert not result.within("fp16")


def test_a_score_near_the_threshold_may_be_rounded():
    assert agreement(moved(1, score=0.301), moved(1, score=0.299)).missing == 0


@pytest.mark.parametrize(
    ("pixels", "fp32", "fp16"), [(0, True, True), (1, False, True), (2, False, False)]
)
def test_masks(pixels, fp32, fp16):
    result = agreement(found(mask=pixels), found())
    assert result.mask == pytest.approx(1 - pixels / 100)
    assert (result.within("fp32"), result.within("fp16")) == (fp32, fp16)


def test_networks_without_boxes_or_mask():
    only_boxes = (found(*BOXES)[0], None)
    assert agreement(only_boxes, only_boxes).mask is None
    only_mask = (None, found()[1])
    result = agreement(only_mask, only_mask)
    assert (result.boxes, result.missing, result.mask) == (0, 0, 1.0)
    assert str(result) == "mask 100.00 % the same" and result.within("fp32")
    assert result.to_dict()["boxes"] == 0 and not result.to_dict()["finds_boxes"]
    assert str(agreement((None, None), (None, None))) == "neither boxes nor a mask to compare"
