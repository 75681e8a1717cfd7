"""SSD and others with boxes and scores apart, decoded; and PicoDet's grids of distances."""

from __future__ import annotations

from collections.abc import Sequence

from ...package import DetectionInfo
from ...package.detection import cells_of
from .facts import Facts, Reading, Spec
from .preparation import (
    STRETCHED,
    STRETCHED_IMAGENET,
    STRETCHED_PIXELS,
    STRETCHED_SIGNED,
)

FORM = (
    "boxes [1, boxes, 4] and scores [1, boxes, classes]; or boxes, scores and classes of each; or "
    "for each stride scores and distributions of distances"
)
STRIDES = ((8, 16, 32, 64), (8, 16, 32))
TFLITE = "TFLite_Detection_PostProcess"
NO_CLASS = "???"
# Parts of the names that exporters give to boxes, scores and classes.
WORDS = (("box", "loc", "dets"), ("score", "conf"), ("label", "class"))


def find(facts: Facts) -> Reading | None:
    """What outputs with boxes and scores apart say; None where they are no such outputs."""
    if facts.size is None:
        return None
    return (
        _distances(facts, facts.size) or _of_tflite(facts) or _by_names(facts) or _by_shapes(facts)
    )


def _distances(facts: Facts, size: tuple[int, int]) -> Reading | None:
    """For each stride an output of scores, and one of distributions for four edges."""
    rows = facts.of_rank(3)
    for strides in STRIDES:
        cells = [cells_of(size, stride) for stride in strides]
        levels = [[s for s in rows if s.shape[1] == count] for count in cells]
        if len(rows) != 2 * len(cells) or any(len(pair) != 2 for pair in levels):
            continue
        # As exported, all scores come first; of each stride the shapes tell which is which.
        classes = {pair[0].shape[2] for pair in levels}
        values = {pair[1].shape[2] for pair in levels}
        if len(classes) != 1 or len(values) != 1 or (bins := values.pop()) % 4 or bins < 8:
            continue
        info = DetectionInfo(
            tuple(pair[1].name for pair in levels),
            scores=tuple(pair[0].name for pair in levels),
            box="distances", strides=strides, multi_label=True, confidence=0.4, iou=0.5,
        )  # fmt: skip
        return Reading("ssd", facts.names(classes.pop()), STRETCHED_IMAGENET, info)
    return None


def _of_tflite(facts: Facts) -> Reading | None:
    """The four outputs of TFLite's own operator, in its order: boxes, classes, scores, number."""
    found = [s for s in facts.outputs if s.name.startswith(TFLITE)]
    if [len(s.shape) for s in found] != [3, 2, 2, 1]:
        return None
    boxes, classes, scores, count = found
    info = DetectionInfo(
        (boxes.name,), scores=(scores.name,), classes=classes.name, count=count.name,
        box="yxyx", relative=True, suppress=False, confidence=0.5,
    )  # fmt: skip
    # Nothing in the shapes says how many classes there are.
    written = facts.written
    if written[:1] == (NO_CLASS,):  # lists of the first such networks count from 1
        written = written[1:]
    labels = facts.labels or written or facts.names(91)
    return Reading("ssd", labels, STRETCHED_SIGNED, info)


def _by_names(facts: Facts) -> Reading | None:
    """Outputs that are called boxes, scores, classes, and perhaps the number of boxes."""
    count = _named(facts.outputs, ("num",))
    others = [s for s in facts.outputs if s is not count]
    boxes, scores, classes = (_named(others, words) for words in WORDS)
    if boxes is None or classes is None:
        return None
    values, each = _rows(boxes)
    if values != _count(classes) or each != (4 if scores else 5):
        return None
    if scores is not None and _count(scores) != values:
        return None
    # TensorFlow's: corners as parts of the image, y first, classes from 1 on.
    tensorflow = "detection_boxes" in boxes.name
    info = DetectionInfo(
        (boxes.name,), scores=(scores.name,) if scores else (), classes=classes.name,
        count=facts.counts.get(boxes.name, "")
        if count is None or _count(count) != 1
        else count.name,
        box="yxyx" if tensorflow else "xyxy", relative=tensorflow,
        first_class=int(tensorflow), suppress=False, confidence=0.5,
    )  # fmt: skip
    # Nothing in the shapes says how many classes there are.
    preparation = STRETCHED_PIXELS if tensorflow else STRETCHED
    return Reading("ssd", facts.names(91), preparation, info)


def _by_shapes(facts: Facts) -> Reading | None:
    """Boxes and a score for each class, the background first."""
    rows = [s for s in facts.of_rank(3) if s.shape[2] > 1]
    if len(rows) != 2 or rows[0].shape[1] != rows[1].shape[1]:
        return None
    boxes = [s for s in rows if s.shape[2] == 4 and "score" not in s.name]
    if len(boxes) == 2:
        boxes = [s for s in boxes if "box" in s.name or "loc" in s.name]
    if len(boxes) != 1:
        return None
    scores = rows[1] if rows[0] is boxes[0] else rows[0]
    info = DetectionInfo(
        (boxes[0].name,), scores=(scores.name,), box="xyxy", relative=True, background="first",
        multi_label=True, confidence=0.5,
    )  # fmt: skip
    named = "score" in scores.name or "conf" in scores.name
    return Reading("ssd", facts.names(scores.shape[2] - 1), STRETCHED_SIGNED, info, sure=named)


def _named(outputs: Sequence[Spec], words: Sequence[str]) -> Spec | None:
    """The one output whose name has one of some words."""
    found = [s for s in outputs if any(word in s.name.lower() for word in words)]
    return found[0] if len(found) == 1 else None


def _rows(spec: Spec) -> tuple[int, int]:
    shape = tuple(spec.shape)
    shape = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
    return (shape[0], shape[1]) if len(shape) == 2 else (-1, -1)


def _count(spec: Spec) -> int:
    count = 1
    for side in spec.shape:
        count *= side
    return count
