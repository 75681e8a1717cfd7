"""Options of classes: how they are said, and what of a network's candidates is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.fake_executor import FakeExecutor
from tvm_vision.errors import InputError, PackageError
from tvm_vision.models.class_options import (
    ClassOptions,
    ClassRules,
    from_plain,
    parse_class_options,
    plain,
    read_class_options,
)
from tvm_vision.models.detection.detector import ObjectDetector
from tvm_vision.models.frames import Letterbox
from tvm_vision.models.yoeo.postprocess import find_detections, group_numbers
from tvm_vision.package import ClassGroup, DetectionInfo, ModelInfo, Preprocessing

NAMES = ("ball", "robot_red", "robot_blue")
SIZE = (64, 96)
LETTERBOX = Preprocessing(SIZE, letterbox=True, std=(255.0,) * 3)


def rows(seed=0, count=200):
    """Candidates: centre x, y, width, height, objectness, scores of classes."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform((0, 0), SIZE[::-1], (count, 2))
    scores = rng.random((count, 3)) ** 2
    parts = (centre, rng.uniform(2, 30, (count, 2)), rng.random((count, 1)) ** 0.2, scores)
    return np.concatenate(parts, axis=1).astype(np.float32)


def detector(table, *, oriented=False, suppress=True, thresholds=None, **options):
    """Of scores without objectness, with a class for each box."""
    info = DetectionInfo(("y",), multi_label=True, suppress=suppress, oriented=oriented, iou=1.0)
    model = ModelInfo(
        "network", "yolo", NAMES, LETTERBOX, detection=info, class_thresholds=thresholds or {}
    )
    parts = [table[:, :4], table[:, 5:]]
    parts += [np.full((len(table), 1), 0.3)] if oriented else []
    output = np.concatenate(parts, axis=1)[None].astype(np.float32)
    return ObjectDetector(FakeExecutor(model, {"y": output}), **options)  # type: ignore[arg-type]


def objects(found):
    return [
        (name, round(score, 5), tuple(np.round(box, 3)))
        for (name, score, box) in found
    ]  # fmt: skip


def expected(every, confidence, options, limit=10_000):
    """Of all objects, the best first: what the docstring of ClassOptions says."""
    left, counts = [], dict.fromkeys(NAMES, 0)
    for name, score, box in every:
        of = options.get(name, ClassOptions())
        least = confidence if of.confidence is None else of.confidence
        side = min(box[2] - box[0], box[3] - box[1])
        if not of.enabled or score <= least or side < of.min_size:
            continue
        counts[name] += 1
        if not of.max_count or counts[name] <= of.max_count:
            left.append((name, score, box))
    return left[:limit]


OPTIONS = [
    {"ball": ClassOptions(confidence=0.9)},
    {"ball": ClassOptions(confidence=0.1), "robot_red": ClassOptions(confidence=0.7)},
    {"ball": ClassOptions(max_count=1), "robot_blue": ClassOptions(max_count=7)},
    {"robot_red": ClassOptions(enabled=False)},
    {"ball": ClassOptions(min_size=19), "robot_red": ClassOptions(min_size=40, max_count=2)},
    {"ball": ClassOptions(True, 0.05, 3, 6.0), "robot_red": ClassOptions(False, 0.1, 3, 1.0)},
    dict.fromkeys(NAMES, ClassOptions(enabled=False)),
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_what_the_options_say(options, seed):
    """Without suppression, for which the order of steps would count."""
    image = np.zeros((128, 192, 3), np.uint8)
    network = detector(rows(seed), confidence=0.0, max_detections=10_000)
    every = objects(network(image).detections)
    network = detector(rows(seed), confidence=0.4, max_detections=40, class_options=options)
    assert objects(network(image).detections) == expected(every, 0.4, options, 40)


def test_options_change_between_frames_and_back():
    image = np.zeros((128, 192, 3), np.uint8)
    network = detector(rows(), confidence=0.4)
    before = objects(network(image).detections)
    network.class_options = {"ball": {"enabled": False}, "robot_red": {"max_count": 1}}
    assert 0 < len(network(image)) < len(before)
    assert network.class_options["robot_red"] == ClassOptions(max_count=1)
    network.class_options = None
    assert objects(network(image).detections) == before


def test_a_class_is_not_crowded_out_by_another_ones_surplus():
    """max_detections counts what is left: a few balls behind many robots of which two count."""
    table = rows(1)
    table[:, 5:] = 0.0
    table[:150, 6], table[150:, 5] = 0.9, 0.5
    options = {"robot_red": ClassOptions(max_count=2)}
    network = detector(table, confidence=0.4, max_detections=10, class_options=options)
    names = [name for name, _, _ in network(np.zeros((128, 192, 3), np.uint8))]
    assert names == ["robot_red"] * 2 + ["ball"] * 8


def test_the_size_of_an_oriented_box_is_its_own():
    """The upright box around a thin one that is turned is large."""
    table = rows(2)
    table[:, 2:4] = 40.0, 4.0
    image = np.zeros((*SIZE, 3), np.uint8)
    thin = detector(table, oriented=True, confidence=0.4)(image)
    assert len(thin) > 10
    options = dict.fromkeys(NAMES, ClassOptions(min_size=4.5))
    network = detector(table, oriented=True, confidence=0.4, class_options=options)
    assert len(network(image)) == 0


def test_yoeo_asks_the_same_rules_before_groups_suppress_each_other():
    """A class that is off does not suppress the others of its group."""
    groups = group_numbers(NAMES, (ClassGroup("robot", NAMES[1:]),))
    place = Letterbox.fit(SIZE, SIZE)
    table = np.array([[30, 30, 20, 20, 1, 0, 0.9, 0], [31, 30, 20, 20, 1, 0, 0, 0.8]], np.float32)

    def found(options):
        rules = ClassRules.of(NAMES, 0.5, {}, options)
        seen = find_detections(
            table, NAMES, groups, place,
            confidence=rules.least, iou=0.4, limit=300, rules=rules,
        )  # fmt: skip
        return [name for name, _, _ in seen]

    assert found({}) == ["robot_red"]
    assert found({"robot_red": ClassOptions(enabled=False)}) == ["robot_blue"]
    assert found({"robot_red": ClassOptions(confidence=0.95)}) == ["robot_blue"]
    assert found({"robot_red": ClassOptions(max_count=1)}) == ["robot_red"]


def test_the_packages_thresholds_count_until_something_else_is_said():
    def confidences(network):
        return network.class_rules.confidences.tolist()

    thresholds = {"ball": 0.75, "robot_red": 0.125}
    network = detector(rows(), thresholds=thresholds)
    assert confidences(network) == [0.75, 0.125, 0.25]
    assert network.class_rules.least == 0.125
    network.class_options = {"ball": {"confidence": 0.5}}
    assert confidences(network) == [0.5, 0.125, 0.25]
    # A confidence for all is said of those as well, but not of one of which more was said.
    network.confidence = 0.375
    assert confidences(network) == [0.5, 0.375, 0.375]
    network.confidence = None
    assert (confidences(network), network.confidence) == ([0.5, 0.125, 0.25], 0.25)


@pytest.mark.parametrize(
    ("thresholds", "kind", "words"),
    [
        ({"bal": 0.5}, "yolo", "class_thresholds must be of classes among ball, robot_red"),
        ({"ball": 1.5}, "yolo", r"class_thresholds\.ball must be from 0 to 1, found 1.5"),
        ({"ball": "high"}, "yolo", r"class_thresholds\.ball must be a number"),
        ([0.5], "yolo", "must be an object of confidences by name of a class"),
        ({"ball": 0.5}, "network", "must be in networks of kind yoeo, yolo, detr or ssd"),
    ],
)
def test_thresholds_of_a_package_that_make_no_sense(thresholds, kind, words):
    document = {
        "name": "n", "kind": kind, "labels": list(NAMES), "preprocessing": None,
        "class_thresholds": thresholds,
    }  # fmt: skip
    with pytest.raises(PackageError, match=words):
        ModelInfo.from_json(document).check([])


def test_a_package_that_says_nothing_of_classes_is_as_it_was():
    with_some = ModelInfo("n", "yolo", NAMES, class_thresholds={"ball": 0.5})
    from dataclasses import asdict

    from tvm_vision.package.info import LATER, leave_out, plain

    for info, there in ((with_some, True), (replace(with_some, class_thresholds={}), False)):
        document = plain(asdict(info))
        leave_out(document, LATER["model"])
        assert ("class_thresholds" in document) == there
        assert ModelInfo.from_json(document) == info


def test_lines_of_a_command():
    lines = ["ball.max_count=1", "traffic.light.confidence=0.3", "ball.enabled=off",
             "ball.min_size=4.5", "ball.max_count=2", "traffic.light.confidence=-1"]  # fmt: skip
    assert parse_class_options(lines) == {
        "ball": ClassOptions(False, None, 2, 4.5),
        "traffic.light": ClassOptions(),
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ball", "CLASS.OPTION=VALUE is needed, as in ball.max_count=1, found 'ball'"),
        ("max_count=1", "CLASS.OPTION=VALUE is needed"),
        (".max_count=1", "CLASS.OPTION=VALUE is needed"),
        ("ball.count=1", "one of enabled, confidence, max_count, min_size, found 'count'"),
        ("ball.confidence=1.5", r"ball\.confidence must be a number from 0 to 1, found 1.5"),
        ("ball.confidence=nan", "must be a number from 0 to 1, found nan"),
        ("ball.max_count=1.5", "max_count must be a whole number from 0 to 10000, found '1.5'"),
        ("ball.enabled=maybe", "enabled must be true or false, found 'maybe'"),
        ("ball.min_size=-2", "min_size must be a number of pixels from 0 to 65536, found -2.0"),
    ],
)
def test_lines_that_are_none(line, words):
    with pytest.raises(InputError, match=words):
        parse_class_options([line])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ball": {"max": 1}}, "an option of a class is one of"),
        ({"ball": 0.5}, "options of the class 'ball' are needed by name"),
        ({"ball": {"max_count": True}}, r"ball\.max_count must be a whole number"),
        ({"balls": {}}, "found 'balls': did you mean 'ball'"),
        ({"x": {}}, "found 'x': it has ball, robot_red, robot_blue"),
    ],
)
def test_options_that_are_none(given, words):
    with pytest.raises(InputError, match=words):
        detector(rows(), class_options=given)


def test_plain_values_come_back():
    for options in (ClassOptions(), ClassOptions(False, 0.25, 4, 8.0)):
        assert from_plain(plain(options)) == options
    assert read_class_options(None) == {}
