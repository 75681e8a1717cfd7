"""Ids of objects: that they stay, are never given twice, and go with everything that is written."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.models.draw import draw_detections
from tvm_vision.models.results import Detections, Timing, VisionResult
from tvm_vision.models.tracking import FrameTracker, Tracker, class_groups, need_tracker
from tvm_vision.runtime.sources import Frame

NAMES = ("ball", "robot_red", "robot_blue")
STEP = 1 / 30


def objects(boxes, class_ids=None, scores=None):
    count = len(boxes)
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array([0.9] * count if scores is None else scores, np.float32),
        np.array([0] * count if class_ids is None else class_ids, np.int32),
        NAMES,
    )


def box(x, y=50.0, side=20.0):
    return (x, y, x + side, y + side)


def world(seed, count, frames=150, miss=0.1):
    """Objects that cross, each seen with some noise or missed: (who, Detections) of each frame."""
    rng = np.random.default_rng(seed)
    place, speed = rng.uniform((40, 40), (600, 440), (count, 2)), rng.normal(0, 3, (count, 2))
    sides = rng.uniform(24, 70, (count, 2))
    for _ in range(frames):
        place = place + speed
        speed = np.where((place < 40) | (place > (600, 440)), -speed, speed)
        place = np.clip(place, 40, (600, 440))
        who = np.flatnonzero(rng.random(count) > miss)
        scores = np.sort(rng.uniform(0.3, 0.95, len(who)))[::-1]
        centre = place[who] + rng.normal(0, 1, (len(who), 2))
        yield (
            who,
            objects(
                np.concatenate((centre - sides[who] / 2, centre + sides[who] / 2), axis=1),
                None,
                scores,
            ),
        )


@pytest.mark.parametrize(("count", "most"), [(1, 0), (5, 2), (10, 12)])
def test_objects_that_move_keep_their_ids(count, most):
    """With a tenth of them missed in each frame. most: changes of an id in 150 frames."""
    tracker, changes = Tracker([0, 1, 1]), 0
    last: dict[int, int] = {}
    for frame, (who, found) in enumerate(world(1, count)):
        ids = tracker(found, frame * STEP).track_ids.tolist()
        assert len(set(ids)) == len(ids) and min(ids, default=1) >= 1
        for name, number in zip(who.tolist(), ids, strict=True):
            changes += last.get(name, number) != number
            last[name] = number
    assert changes <= most
    assert len(set(last.values())) == count


def test_everything_else_of_a_detection_stays():
    found = objects([box(10), box(200)], [0, 1])
    given = Tracker([0, 1, 1])(found, 0.0)
    assert replace(given, track_ids=None).boxes is found.boxes
    assert given.track_ids.dtype == np.int64 and given.track_names() == ["1", "2"]
    assert given[1].track_ids.tolist() == [2] and given["ball"].track_ids.tolist() == [1]
    assert found.track_ids is None and found.track_names() == ["", ""]


def test_classes_of_a_group_share_an_id_and_others_do_not():
    tracker = Tracker([0, 1, 1])
    assert tracker(objects([box(10)], [1]), 0.0).track_ids.tolist() == [1]
    assert tracker(objects([box(11)], [2]), STEP).track_ids.tolist() == [1]
    assert tracker(objects([box(12)], [0]), 2 * STEP).track_ids.tolist() == [2]


def test_what_is_gone_for_long_comes_back_as_another():
    tracker = Tracker([0, 1, 1], memory=0.5)
    assert tracker(objects([box(10)]), 0.0).track_ids.tolist() == [1]
    for frame in range(1, 10):
        assert tracker(objects([]), frame * STEP).track_ids.tolist() == []
    assert tracker(objects([box(10)]), 10 * STEP).track_ids.tolist() == [1]
    for frame in range(11, 60):
        tracker(objects([]), frame * STEP)
    assert tracker(objects([box(10)]), 60 * STEP).track_ids.tolist() == [2]


@pytest.mark.parametrize("jump", [-10.0, 10.0])
def test_where_the_time_jumps_all_is_new_and_no_id_comes_again(jump):
    tracker = Tracker([0, 1, 1])
    assert tracker(objects([box(10)]), 100.0).track_ids.tolist() == [1]
    assert tracker(objects([box(10)]), 100.0 + jump).track_ids.tolist() == [2]
    tracker.reset()
    assert tracker(objects([box(10)]), 100.0 + jump).track_ids.tolist() == [3]


def test_a_weak_object_keeps_an_id_and_gets_none():
    tracker = Tracker([0, 1, 1], start=0.6)
    assert tracker(objects([box(10)], scores=[0.5]), 0.0).track_names() == [""]
    assert tracker(objects([box(10)], scores=[0.7]), STEP).track_names() == ["1"]
    assert tracker(objects([box(11)], scores=[0.5]), 2 * STEP).track_names() == ["1"]


def test_names_of_tracks_that_are_over_are_let_go():
    tracker = Tracker([0, 1, 1], memory=0.1)
    for frame in range(400):
        row = [box(30.0 * i, 40.0 * (frame % 2)) for i in range(10)]
        tracker(objects(row if frame % 6 < 2 else []), frame * STEP)
    assert len(tracker._numbers) < 1100 and tracker._given > 500


@pytest.mark.parametrize(
    ("options", "words"),
    [({"start": 1.5}, "from 0 to 1 is needed"), ({"memory": 0.0}, "up to 60 seconds is needed")],
)
def test_other_values_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Tracker([0], **options)


def test_without_the_package_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "edgefirst.tracker", None)
    with pytest.raises(InputError, match=r"pip install 'tvm_vision\[track\]'") as refused:
        need_tracker()
    assert "\n" not in str(refused.value)


def test_each_video_has_tracks_of_its_own():
    model = SimpleNamespace(name="n", class_names=NAMES, produces=("detections",))
    assert class_groups(model) == [0, 1, 2]
    follow = FrameTracker(model)  # type: ignore[arg-type]
    result = VisionResult(Timing(0, 0, 0), detections=objects([box(10)]))
    image = np.zeros((4, 4, 3), np.uint8)
    ids = [
        follow(Frame("f", image, stream, 25.0), result).detections.track_ids[0]  # type: ignore
        for stream in ("a.mp4", "a.mp4", "b.mp4", "b.mp4")
    ]
    assert ids == [1, 1, 2, 2]
    assert follow(Frame("f", image), result).describe() == "ball #3 90"
    with pytest.raises(InputError, match="finds boxes, not c"):
        FrameTracker(SimpleNamespace(name="c", produces=("classification",)))  # type: ignore


def test_an_object_keeps_its_colour():
    image = np.zeros((200, 300, 3), np.uint8)
    numbers = np.array([3, 4], np.int64)
    both = replace(objects([box(20), box(150)]), track_ids=numbers)
    swapped = replace(objects([box(150), box(20)]), track_ids=numbers[::-1].copy())
    one, other = draw_detections(image, both), draw_detections(image, swapped)
    assert one[60, 20].tolist() == other[60, 20].tolist() != one[60, 150].tolist()


def test_boxes_that_no_world_has_get_ids_of_their_own():
    """Whatever a network finds: points, lines, and what is larger than any image."""
    rng = np.random.default_rng(0)
    odd = np.array([0, -1, 1, 1e-40, 640, 1e30, -1e30, 3.4e38, -3.4e38], np.float32)
    for _ in range(100):
        tracker, seconds = Tracker([0, 1, 1], start=0.3), 0.0
        for count in rng.integers(0, 6, 6):
            corners = np.sort(rng.choice(odd, (count, 2, 2)), axis=1)
            scores = np.sort(rng.choice([0.0, 0.2, 0.5, 1.0], count))[::-1]
            seconds += rng.choice([0, STEP, 0.5, 5, -3])
            found = objects(corners, rng.integers(0, 3, count), scores)
            ids = tracker(found, seconds).track_ids
            assert ids is not None and len(ids) == count
            assert len(set(ids[ids > 0])) == np.count_nonzero(ids)
