"""YOLO from v5 on, YOLOX, and their exports with suppression inside."""

from __future__ import annotations

from dataclasses import replace

from ...package import DetectionInfo
from ...package.detection import cells_of
from .facts import Facts, Reading, Spec
from .preparation import CORNER_LETTERBOX, GREY_LETTERBOX

FORM = (
    "one output [1, 4 + classes + more, cells], [1, cells, 5 + classes] or [1, boxes, 6 + more], "
    "and for masks one more, [1, n, height, width]"
)
# Of the grids that boxes are in: three, and with one for larger or smaller objects.
STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
ANCHORS = 3
# An export that has suppressed within has a few hundred boxes.
MOST_BOXES = 1000


def find(facts: Facts) -> Reading | None:
    """What a YOLO network's outputs say; None where they are no such outputs."""
    rows, size = facts.of_rank(3), facts.size
    if len(rows) != 1 or size is None:
        return None
    planes = facts.of_rank(4)
    prototypes = planes[0] if len(planes) == 1 else None
    output = rows[0]
    for strides in STRIDES:
        cells = sum(cells_of(size, stride) for stride in strides)
        found = _of_cells(facts, output, cells, strides, prototypes)
        if found is not None:
            return found
    return _of_boxes(facts, output, prototypes)


def _of_cells(
    facts: Facts, output: Spec, cells: int, strides: tuple[int, ...], prototypes: Spec | None
) -> Reading | None:
    _, first, second = output.shape
    if second == cells and first > 4:
        info = DetectionInfo((output.name,), transposed=True)
        return _with_extras(facts, info, first - 4, prototypes)
    if second < 6 or first not in (cells, ANCHORS * cells):
        return None
    info = DetectionInfo((output.name,), row="objectness")
    labels = facts.names(second - 5)
    if first == cells and output.name in facts.raw:
        info = replace(info, box="grid", strides=strides, confidence=0.3)
        return Reading("yolo", labels, CORNER_LETTERBOX, info)
    return Reading("yolo", labels, GREY_LETTERBOX, info)


def _of_boxes(facts: Facts, output: Spec, prototypes: Spec | None) -> Reading | None:
    """[1, boxes, 6 + more], which others have as well."""
    _, boxes, values = output.shape
    if boxes > MOST_BOXES or values < 6:
        return None
    # Nothing in the shapes says how many classes there are.
    known = bool(facts.labels)
    info = DetectionInfo((output.name,), box="xyxy", row="best", suppress=False)
    labels = facts.names(80)
    reading = _with_extras(facts, info, values - 6 + len(labels), prototypes, labels)
    return replace(reading, sure=known) if reading is not None else None


def _with_extras(
    facts: Facts,
    info: DetectionInfo,
    values: int,
    prototypes: Spec | None,
    labels: tuple[str, ...] = (),
) -> Reading | None:
    """values: of a row, for classes and all that is behind them.

    What is left behind the given labels is a mask's coefficients where there are prototypes, one
    angle, or keypoints of three values. Without labels all is taken for classes.
    """
    coefficients = prototypes.shape[1] if prototypes is not None else 0
    if prototypes is not None:
        info = replace(info, prototypes=prototypes.name)
    names = labels or facts.names(values - coefficients)
    rest = values - coefficients - len(names)
    if rest == 1:
        info = replace(info, oriented=True, box="cxcywh")
    elif rest > 0:
        points, each = _keypoints(facts, rest)
        info = replace(info, keypoints=points, keypoint_values=each)
    if rest < 0 or rest != info.extra_values(0):
        return None
    return Reading("yolo", names, GREY_LETTERBOX, info)


def _keypoints(facts: Facts, rest: int) -> tuple[int, int]:
    """How many, and how many values each has: as the file says, else three."""
    shape = facts.literal("kpt_shape")
    if isinstance(shape, (list, tuple)) and len(shape) == 2:
        points, each = shape
        if points * each == rest and each in (2, 3):
            return int(points), int(each)
    return rest // 3, 3
