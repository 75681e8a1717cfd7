"""YOLO from v5 on, YOLOX, and their exports with suppression inside."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from ...errors import InputError
from ...package import DetectionInfo
from ...package.detection import cells_of
from .facts import Facts, Reading, Spec
from .preparation import CORNER_LETTERBOX, GREY_LETTERBOX

FORM = (
    "one output [1, 4 + classes + more, cells], [1, cells, 5 + classes] or [1, boxes, 6 + more], "
    "and for masks one more, [1, n, height, width]; or for each stride an output "
    "[1, 3, rows, columns, 5 + classes]"
)
# Of the grids that boxes are in: three, and with one for larger or smaller objects.
STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
ANCHORS = 3
# Of YOLOv5 as its authors trained it on COCO, by the number of strides, in pixels.
HEADS = {
    3: (10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326),
    4: (19, 27, 44, 40, 38, 94, 96, 68, 86, 152, 180, 137, 140, 301, 303, 264, 238, 542, 436, 615,
        739, 380, 925, 792),
}  # fmt: skip
# An export that has suppressed within has a few hundred boxes.
MOST_BOXES = 1000
# A box that leaves the image is more of it than all; of pixels the smallest image has dozens.
LARGEST_PART = 2.0
# The middle of the last cell is at more of the image; scores of nothing are a half.
LEAST_PART = 0.6
# Of COCO, where nothing says how many there are.
USUAL_CLASSES = 80


def find(facts: Facts) -> Reading | None:
    """What a YOLO network's outputs say; None where they are no such outputs."""
    rows, size = facts.of_rank(3), facts.size
    if not rows and size is not None:
        return _of_heads(facts, size)
    if len(rows) != 1 or size is None:
        return None
    planes = facts.of_rank(4)
    prototypes = planes[0] if len(planes) == 1 else None
    output = rows[0]
    for strides in STRIDES:
        cells = sum(cells_of(size, stride) for stride in strides)
        if output.shape[2] == cells or output.shape[1] in (cells, ANCHORS * cells):
            return _of_cells(facts, output, cells, strides, prototypes)
    return _of_boxes(facts, output, prototypes)


def _of_cells(
    facts: Facts, output: Spec, cells: int, strides: tuple[int, ...], prototypes: Spec | None
) -> Reading | None:
    """A row for each cell, or for each of its anchors.

    Raises InputError for labels that are too many, or too few where nothing else can be behind.
    """
    _, first, second = output.shape
    if second == cells:
        behind = (facts.extras or 0) + _coefficients(facts, prototypes)
        classes = first - 4 - behind
        if classes < 1:
            return None
        names = facts.names(classes)
        rest = classes - len(names)
        if rest < 0 or (rest and facts.extras is not None):
            _wrong_labels(classes, output, names)
        info = DetectionInfo((output.name,), transposed=True, relative=_are_parts(facts, output))
        return _with_extras(facts, info, (facts.extras or 0) + rest, names, prototypes)
    classes = second - 5 - _coefficients(facts, prototypes)
    if classes < 1:
        return None
    names = facts.names(classes)
    if len(names) != classes:
        _wrong_labels(classes, output, names)
    info = DetectionInfo((output.name,), row="objectness", relative=_are_parts(facts, output))
    if first == cells and output.name in facts.raw:
        info = replace(info, box="grid", strides=strides, confidence=0.3)
        return Reading("yolo", names, CORNER_LETTERBOX, info)
    return _with_extras(facts, info, 0, names, prototypes)


def _of_heads(facts: Facts, size: tuple[int, int]) -> Reading | None:
    """An output of raw values for each stride, with axes for anchors, rows and columns, as YOLOv5
    and v7 have them where decoding was left out. No file says which anchors they were trained
    with."""
    heads = sorted(
        (s for s in facts.of_rank(5) if s.name in facts.raw),
        key=lambda head: -head.shape[2] * head.shape[3],
    )
    strides = next((those for those in STRIDES[:2] if len(those) == len(heads)), None)
    if strides is None:
        return None
    for head, stride in zip(heads, strides, strict=True):
        grid = tuple(-(-side // stride) for side in size)
        if head.shape[1:4] != (ANCHORS, *grid) or head.shape[4] != heads[0].shape[4]:
            return None
    classes = heads[0].shape[4] - 5
    if classes < 1:
        return None
    names = facts.names(classes)
    if len(names) != classes:
        _wrong_labels(classes, heads[0], names)
    info = DetectionInfo(
        tuple(head.name for head in heads),
        box="anchors", strides=strides, anchors=tuple(map(float, HEADS[len(heads)])),
        row="objectness", activation="sigmoid",
    )  # fmt: skip
    return Reading("yolo", names, GREY_LETTERBOX, info, sure=False)


def _of_boxes(facts: Facts, output: Spec, prototypes: Spec | None) -> Reading | None:
    """[1, boxes, 6 + more], which others have as well, and which does not say how many classes
    there are."""
    _, boxes, values = output.shape
    rest = values - 6 - _coefficients(facts, prototypes)
    if boxes > MOST_BOXES or rest < 0 or facts.extras not in (None, rest):
        return None
    count = facts.counts.get(output.name, "")
    info = DetectionInfo(
        (output.name,), box="xyxy", row="best", suppress=False, count=count,
        relative=_are_parts(facts, output),
    )  # fmt: skip
    reading = _with_extras(facts, info, rest, facts.names(USUAL_CLASSES), prototypes)
    return None if reading is None else replace(reading, sure=bool(facts.labels))


def _with_extras(
    facts: Facts,
    info: DetectionInfo,
    rest: int,
    names: tuple[str, ...],
    prototypes: Spec | None,
) -> Reading | None:
    """rest: values behind scores and coefficients: none, an angle, or keypoints."""
    if prototypes is not None:
        info = replace(
            info, prototypes=prototypes.name, prototypes_last=_channels_last(facts, prototypes)
        )
    if rest == 1:
        info = replace(info, oriented=True, box="cxcywh")
    elif rest > 0:
        points, each = _keypoints(facts, rest)
        info = replace(info, keypoints=points, keypoint_values=each)
    if rest != info.extra_values(0):
        return None
    return Reading("yolo", names, GREY_LETTERBOX, info)


def _coefficients(facts: Facts, prototypes: Spec | None) -> int:
    if prototypes is None:
        return 0
    return prototypes.shape[3 if _channels_last(facts, prototypes) else 1]


def _channels_last(facts: Facts, maps: Spec) -> bool:
    """Whether an output of four axes has the image's sides in the middle; where the shape does not
    say it, as the image has them."""
    assert facts.size is not None
    height, width = facts.size
    last, first = (maps.shape[at] * width == maps.shape[at + 1] * height for at in (1, 2))
    return last if last != first else facts.channels_last


def _are_parts(facts: Facts, output: Spec) -> bool:
    """Whether boxes are parts of the input's sides: integers, of one scale with scores of up to 1,
    cannot be fine enough for both otherwise, and say what the largest of them is; of others the box
    of the last cell does, where nothing is found."""
    quantization = getattr(output, "quantization", None)
    if quantization is not None:
        return quantization.largest <= LARGEST_PART
    extent = facts.extent(output.name)
    return extent is not None and LEAST_PART < extent <= LARGEST_PART


def _wrong_labels(classes: int, output: Spec, names: tuple[str, ...]) -> NoReturn:
    raise InputError(
        f"{classes} labels are needed, one for each class of '{output.name}', found {len(names)}: "
        "use the file that the network was trained with"
    )


def _keypoints(facts: Facts, rest: int) -> tuple[int, int]:
    """How many, and how many values each has: as the file says, else three."""
    shape = facts.keypoint_shape()
    if shape is not None and shape[0] * shape[1] == rest and shape[1] in (2, 3):
        return shape
    return rest // 3, 3
