"""Results check themselves when they are made."""

import copy
import pickle
import re

import numpy as np
import pytest

import tvm_vision
from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.other_names import OF_OBJECTS, OF_RESULTS
from tvm_vision.models.results import (
    Classification,
    DepthMap,
    Detections,
    SegmentationMask,
    Timing,
    VisionResult,
)

NAMES = ("ball", "robot")
PIXELS = np.array([[0, 1], [1, 1]], np.uint8)


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
    # A network for scenes has 150 classes, of which a frame shows a few.
    many = ("background", "field", *(f"class{number}" for number in range(148)))
    assert VisionResult(timing, None, SegmentationMask(mask.mask, many)).describe() == "field 75 %"
    empty = SegmentationMask(np.zeros((2, 2), np.uint8), many)
    assert VisionResult(timing, None, empty).describe() == "background 100 %"
    found = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    assert VisionResult(timing, classification=found).describe() == "cat 75, dog 25"


def test_total_time():
    assert Timing(1.0, 2.0, 0.5).total_ms == 3.5


def full(count=4):
    """Objects with everything that can be known of them, each different."""
    steps = np.arange(count, dtype=np.float32)
    dense = np.zeros((count, 6, 8), np.bool_)
    for index in range(count):
        dense[index, index : index + 2, 1 : 3 + index] = True
    return Detections(
        np.stack((steps, steps, steps + 2, steps + 3), axis=1),
        (0.9 - 0.2 * steps).astype(np.float32),
        np.arange(count, dtype=np.int32) % 2,
        NAMES,
        masks=InstanceMasks.from_dense(dense),
        keypoints=np.arange(count * 6, dtype=np.float32).reshape(count, 2, 3),
        oriented_boxes=np.arange(count * 5, dtype=np.float32).reshape(count, 5),
    )


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (0, [0]),
        (-1, [3]),
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [0, 1, 2, 3]),
        ([2, 0], [0, 2]),
        ([3, 3], [3]),
        ([], []),
        (np.array([True, False, False, True]), [0, 3]),
        (np.array([], np.int64), []),
        ([False] * 4, []),
    ],
)
def test_any_part_of_the_objects_keeps_all_that_is_known_of_them(selector, expected):
    found = full()
    part = found[selector]
    assert part.class_names == NAMES
    for name in ("boxes", "scores", "class_ids", "keypoints", "oriented_boxes"):
        assert np.array_equal(getattr(part, name), getattr(found, name)[expected]), name
    assert np.array_equal(np.asarray(part.masks), np.asarray(found.masks)[expected])


def test_filters_as_people_write_them():
    found = full()
    assert found[found.scores > 0.6].scores == pytest.approx([0.9, 0.7])
    assert found.of_class("robot").class_ids.tolist() == [1, 1]
    assert len(found[found.scores > 2]) == 0
    nothing = Detections.none(NAMES)
    assert len(nothing[nothing.scores > 0.5]) == 0
    classes = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    assert list(classes[classes.scores > 0.5]) == [("cat", 0.75)]
    assert list(classes[:1]) == [("cat", 0.75)] and list(classes[[]]) == []


def test_by_the_name_of_a_class():
    found = full()
    assert np.array_equal(found["robot"].boxes, found.of_class("robot").boxes)
    classes = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    assert list(classes["dog"]) == [("dog", 0.25)] and list(classes["cow"]) == []
    for wrong in (lambda: found["bal"], lambda: SegmentationMask(PIXELS, NAMES)["bal"]):
        with pytest.raises(ValueError, match="^expected a class of ball, robot, got 'bal'$"):
            wrong()


def test_a_result_is_its_objects():
    found, mask = full(), SegmentationMask(PIXELS, NAMES)
    result = VisionResult(Timing(1, 2, 3), found, mask)
    assert len(result) == len(found) and list(result) == list(found)
    sure = result[result.scores > 0.6]
    assert sure.scores == pytest.approx([0.9, 0.7])
    assert (sure.segmentation, sure.timing) == (mask, result.timing)
    assert len(result["robot"]) == 2 and result[0].detections.scores == pytest.approx([0.9])


def test_a_result_is_its_classes_or_has_nothing_to_count():
    classes = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    result = VisionResult(Timing(1, 2, 3), classification=classes)
    assert list(result[result.scores > 0.5]) == [("cat", 0.75)]
    pixels = VisionResult(Timing(1, 2, 3), segmentation=SegmentationMask(PIXELS, NAMES))
    assert (len(pixels), list(pixels), len(pixels.scores)) == (0, [], 0)
    with pytest.raises(ValueError, match=r"pixels alone: use result.segmentation\['NAME'\]"):
        pixels["robot"]


def test_a_frame_without_objects_has_a_result():
    assert VisionResult(Timing(1, 2, 3), Detections.none(NAMES))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("boxes", "use detections.boxes"),
        ("conf", "use scores"),
        ("score", "use scores"),
        ("probs", "use classification"),
        ("plot", "use tvm_vision.models.draw.draw_result"),
        ("to_df", r"use tvm_vision.to_pandas\(result\)"),
        ("nothing", "a VisionResult has no 'nothing'$"),
    ],
)
def test_names_of_other_libraries_say_what_has_it_here(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(VisionResult(Timing(1, 2, 3)), name)


def test_names_of_other_libraries_for_objects():
    for name, ours in (("xyxy", "boxes"), ("class_id", "class_ids"), ("conf", "scores")):
        with pytest.raises(AttributeError, match=f"a Detections has no '{name}': use {ours}"):
            getattr(full(), name)


def test_what_those_lines_name_is_there():
    """Each first word is a name that this library has."""
    result, found = VisionResult(Timing(1, 2, 3)), full()
    for others, known in ((OF_OBJECTS, found), (OF_RESULTS, result)):
        for name, words in others.items():
            assert name not in dir(known), name
            first = re.split(r"[^a-z_.]", words)[0].removeprefix("tvm_vision.").split(".")[0]
            places = (dir(known), dir(tvm_vision), ["models", "it", "the"])
            assert any(first in place for place in places), words


def test_a_result_is_printed_as_a_line():
    result = VisionResult(Timing(1, 2, 3), full())
    assert str(result) == result.describe() and "\n" not in str(result)
    assert "boxes=array" in repr(result)


def test_results_are_copied_and_pickled():
    result = VisionResult(Timing(1, 2, 3), full())
    for other in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert np.array_equal(other.detections.boxes, result.detections.boxes)


@pytest.mark.parametrize("selector", [4, -5, [0, 4], np.array([True, False])])
def test_objects_that_are_not_there(selector):
    with pytest.raises(IndexError):
        full()[selector]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"keypoints": np.zeros((1, 2, 3), np.float32)}, r"keypoints of float32 \[2, n, 3\]"),
        ({"oriented_boxes": np.zeros((2, 4), np.float32)}, r"oriented_boxes of float32 \[2, 5\]"),
        ({"masks": InstanceMasks.from_dense(np.zeros((1, 4, 4), np.bool_))}, "expected 2 masks"),
    ],
)
def test_parts_that_do_not_fit_the_boxes(fields, message):
    boxes = np.array([(1, 2, 3, 4), (0, 0, 9, 9)], np.float32)
    ids = np.zeros(2, np.int32)
    with pytest.raises(ValueError, match=message):
        Detections(boxes, np.array([0.9, 0.5], np.float32), ids, NAMES, **fields)


def test_corners_of_oriented_boxes():
    """A box of 4 by 2 around (10, 20), upright, by a quarter of a turn, and by an eighth."""
    oriented = np.array([[10, 20, 4, 2, angle] for angle in (0, np.pi / 2, np.pi / 4)], np.float32)
    found = Detections(
        np.zeros((3, 4), np.float32), np.ones(3, np.float32), np.zeros(3, np.int32), NAMES,
        oriented_boxes=oriented,
    )  # fmt: skip
    corners = found.corners()
    assert corners is not None
    assert corners[0] == pytest.approx(np.array([[8, 19], [12, 19], [12, 21], [8, 21]]))
    assert corners[1] == pytest.approx(np.array([[11, 18], [11, 22], [9, 22], [9, 18]]), abs=1e-5)
    # The width points down to the right: clockwise to the eye.
    middle_of_the_right_side = corners[2][1:3].mean(axis=0)
    assert middle_of_the_right_side == pytest.approx([10 + 2**0.5, 20 + 2**0.5], abs=1e-5)
    assert Detections.none(NAMES).corners() is None


def test_a_mask_of_one_class():
    mask = SegmentationMask(np.array([[0, 1], [1, 1]], np.uint8), NAMES)
    assert mask["robot"].tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize("inverse", [True, False])
def test_nearness_of_depth(inverse):
    values = np.array([[1, 3], [5, np.nan]], np.float32)
    near = DepthMap(values, inverse=inverse).nearness()
    assert near.dtype == np.float32
    expected = [[0, 0.5], [1, 0]] if inverse else [[1, 0.5], [0, 0]]
    assert near.tolist() == expected
    flat = DepthMap(np.full((2, 2), 3, np.float32), inverse=inverse)
    assert not flat.nearness().any()
    assert not DepthMap(np.full((2, 2), np.inf, np.float32)).nearness().any()


def test_depth_in_words():
    depth = DepthMap(np.array([[0.5, 12.25]], np.float32), unit="metres")
    assert VisionResult(Timing(1, 1, 1), depth=depth).describe() == "depth 0.5 to 12.2 metres"
    with pytest.raises(ValueError, match=r"expected values of float32 \[n, n\]"):
        DepthMap(np.zeros((2, 2)))  # type: ignore[arg-type]
