"""What a package says about a network that finds objects: how boxes are read from its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .fields import Fields, boolean, integer, number, text, wrong
from .tensors import TensorInfo

BOX_FORMS = ("cxcywh", "xyxy", "yxyx", "grid", "anchors", "distances")
ROWS = ("scores", "objectness", "best")
ACTIVATIONS = ("none", "sigmoid", "softmax")
BACKGROUNDS = ("none", "first", "last")
MAX_DETECTIONS = 100_000


@dataclass(frozen=True)
class DetectionInfo:
    """How the boxes of a network are to be read; the names of classes are the model's labels.

    An output has a row of values for each candidate: its box, then what ``row`` says, then mask
    coefficients, keypoints or an angle, where there are such.

    boxes: names of the outputs with boxes, float [1, candidates, values] or [candidates, values];
        several where each stride has its own, from the finest on.
    transposed: they are [1, values, candidates].
    box: what the four values of a box are. "cxcywh": centre and sides; "xyxy", "yxyx": two corners;
        "grid": centre and logarithm of the sides in cells of a grid, x = (t + cell) * stride,
        width = exp(t) * stride; "anchors": in cells of a grid for each anchor, of a sigmoid s(t),
        x = (2 s + cell - 1/2) * stride, width = (2 s)^2 * anchor; "distances": for each edge a
        distribution of its distance from the cell's middle, in cells, a softmax over 0, 1, ....
    relative: boxes and keypoints are parts of the input's sides, instead of pixels of the input.
    strides: pixels of the input in a cell of each grid, of boxes that are in grids.
    anchors: width and height in pixels of the input of each anchor of each stride, one after the
        other, as many for each stride; the outputs are [1, anchors, rows, columns, values] or
        [1, anchors * values, rows, columns] then.
    row: what comes behind the box. "scores": the score of each class; "objectness": that it is an
        object at all, by which the scores are multiplied, and the score of each class; "best": the
        score and the number of the best class.
    scores: names of the outputs with the score of each class, or of the box, where these are not
        in the rows; one for each of ``boxes``.
    classes: name of the output with the class of each box, where apart; "" else.
    first_class: the number of the first class, in ``classes`` or in a row that is "best".
    count: name of the output with the number of boxes that count; "" where all do.
    activation: what makes scores of the values. background: which of the classes is none, and
        has no label.
    multi_label: each class above the confidence gives a box, instead of the best one alone.
    suppress: boxes that overlap a better one go, instead of having gone within the network.
    across_classes: of other classes, too.
    prototypes: name of the output [1, n, height, width] whose sum, weighted by n coefficients in
        each row, is an object's mask; "" where there are no masks. prototypes_last: it is
        [1, height, width, n].
    keypoints: how many are in a row, of keypoint_values each: x, y, and how sure (3).
    oriented: the last value of a row is the angle of its box in radians, and the box cxcywh.
    confidence, iou, max_detections: what counts where nothing else is asked for.
    """

    boxes: tuple[str, ...]
    transposed: bool = False
    box: str = "cxcywh"
    relative: bool = False
    strides: tuple[int, ...] = ()
    anchors: tuple[float, ...] = ()
    row: str = "scores"
    scores: tuple[str, ...] = ()
    classes: str = ""
    first_class: int = 0
    count: str = ""
    activation: str = "none"
    background: str = "none"
    multi_label: bool = False
    suppress: bool = True
    across_classes: bool = False
    prototypes: str = ""
    prototypes_last: bool = False
    keypoints: int = 0
    keypoint_values: int = 3
    oriented: bool = False
    confidence: float = 0.25
    iou: float = 0.45
    max_detections: int = 300

    @classmethod
    def from_json(cls, value: Any, where: str) -> DetectionInfo:
        fields = Fields(value, where)
        info = cls(
            boxes=fields.items("boxes", text),
            transposed=fields.boolean("transposed"),
            box=fields.text("box", among=BOX_FORMS),
            relative=fields.boolean("relative"),
            strides=fields.items("strides", _stride),
            anchors=fields.optional("anchors", _anchors) or (),
            row=fields.text("row", among=ROWS),
            scores=fields.items("scores", text),
            classes=fields.text("classes", empty=True),
            first_class=fields.integer("first_class"),
            count=fields.text("count", empty=True),
            activation=fields.text("activation", among=ACTIVATIONS),
            background=fields.text("background", among=BACKGROUNDS),
            multi_label=fields.boolean("multi_label"),
            suppress=fields.boolean("suppress"),
            across_classes=fields.boolean("across_classes"),
            prototypes=fields.text("prototypes", empty=True),
            prototypes_last=fields.optional("prototypes_last", boolean) or False,
            keypoints=fields.integer("keypoints", 0, 1000),
            keypoint_values=fields.integer("keypoint_values", 2, 3),
            oriented=fields.boolean("oriented"),
            confidence=_fraction(fields, "confidence"),
            iou=_fraction(fields, "iou"),
            max_detections=fields.integer("max_detections", 1, MAX_DETECTIONS),
        )
        fields.done()
        return info

    @property
    def anchors_of_stride(self) -> int:
        """How many anchors each stride has; 0 where there are none."""
        return len(self.anchors) // (2 * len(self.strides)) if self.strides else 0

    @property
    def box_values(self) -> int:
        """Values of a row's box; 0 for distances, of which the network decides."""
        return 0 if self.box == "distances" else 4

    def extra_values(self, coefficients: int) -> int:
        """Values behind the scores: of masks, keypoints and the angle."""
        return coefficients + self.keypoints * self.keypoint_values + self.oriented

    def coefficients(self, prototypes: Sequence[int]) -> int:
        """How many a row has, by the shape of the output ``prototypes``."""
        return prototypes[3 if self.prototypes_last else 1]

    def score_values(self, labels: int) -> int:
        """Values of a row, or of an output of scores, that say what it is."""
        classes = labels + (self.background != "none")
        return {"scores": classes, "objectness": classes + 1, "best": 2}[self.row]

    def check(
        self, labels: Sequence[str], size: tuple[int, int], outputs: Sequence[TensorInfo]
    ) -> None:
        """Raise PackageError unless all of it fits together and fits the network.

        size: height and width of the input. outputs: of the network.
        """
        where, shapes = "model.detection", {t.name: t.shape for t in outputs}
        named = (*self.boxes, *self.scores, self.classes, self.count, self.prototypes)
        for name in filter(None, named):
            if name not in shapes:
                wrong(where, f"about outputs among {', '.join(shapes)}", name)
        if not self.boxes:
            wrong(f"{where}.boxes", "one output or more", [])
        if not labels:
            wrong("model.labels", "there for networks that find objects", [])
        if self.scores and len(self.scores) != len(self.boxes):
            wrong(f"{where}.scores", f"as many as boxes, {len(self.boxes)}", list(self.scores))
        if self.oriented and self.box != "cxcywh":
            wrong(f"{where}.box", "cxcywh, where boxes are oriented", self.box)
        if self.box == "distances" and not self.scores:
            wrong(f"{where}.scores", "there, where boxes are distances", [])
        in_grids = self.box in ("grid", "anchors", "distances")
        if in_grids != bool(self.strides):
            wrong(f"{where}.strides", "there for boxes in grids alone", list(self.strides))
        if (self.box == "anchors") != bool(self.anchors) or (
            self.anchors and len(self.anchors) % (2 * len(self.strides))
        ):
            found = list(self.anchors)
            wrong(f"{where}.anchors", "pairs, as many for each stride, for boxes of anchors", found)
        rows = {name: self._rows_of(shapes[name]) for name in self.boxes}
        self._check_rows(labels, shapes, rows)
        if in_grids:
            self._check_grids(size, [rows[name][0] for name in self.boxes])

    def _rows_of(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Candidates, and values of each, of an output's shape; (-1, -1) for what has none."""
        anchors = self.anchors_of_stride
        if not anchors:
            return _rows(shape, self.transposed)
        if len(shape) == 4 and shape[0] == 1 and shape[1] % anchors == 0:
            shape = (1, anchors, *shape[2:], shape[1] // anchors)
        if len(shape) != 5 or shape[:2] != (1, anchors):
            return (-1, -1)
        return _size(shape[:4]), shape[4]

    def _check_rows(
        self,
        labels: Sequence[str],
        outputs: dict[str, tuple[int, ...]],
        rows: dict[str, tuple[int, int]],
    ) -> None:
        coefficients = 0
        if self.prototypes:
            shape = outputs[self.prototypes]
            if len(shape) != 4 or shape[0] != 1:
                form = "[1, height, width, n]" if self.prototypes_last else "[1, n, height, width]"
                wrong("model.detection.prototypes", form, list(shape))
            coefficients = self.coefficients(shape)
        for index, name in enumerate(self.boxes):
            count, values = rows[name]
            if self.scores:
                self._check_scores(labels, name, count, outputs[self.scores[index]])
            if self.classes and _size(outputs[self.classes]) != count:
                found = [count, _size(outputs[self.classes])]
                wrong(f"output '{name}'", "of as many boxes as classes", found)
            if self.box == "distances":
                if values % 4 or values < 8:
                    wrong(f"output '{name}'", "distributions of four distances", values)
                continue
            own = self.score_values(len(labels))
            if self.scores or self.classes:
                # A box with its score, where the class alone is apart, is a row of five.
                own = 0 if self.scores else 1
            needed = self.box_values + own + self.extra_values(coefficients)
            if values != needed:
                wrong(
                    f"output '{name}'",
                    f"of {needed} values for each box (box 4, classes {own}, more "
                    f"{needed - own - 4})",
                    values,
                )

    def _check_scores(
        self, labels: Sequence[str], boxes: str, count: int, shape: tuple[int, ...]
    ) -> None:
        where = f"output '{boxes}'"
        if self.classes:
            if _size(shape) != count:
                wrong(where, "of as many boxes as scores", [count, _size(shape)])
            return
        needed = (count, self.score_values(len(labels)))
        if _rows(shape, False) != needed:
            wrong("model.labels", f"as many as the scores {list(shape)} are for", len(labels))

    def _check_grids(self, size: tuple[int, int], counts: Sequence[int]) -> None:
        each = self.anchors_of_stride or 1
        cells = [each * cells_of(size, stride) for stride in self.strides]
        if len(counts) == 1:
            cells = [sum(cells)]
        if cells != list(counts):
            wrong(
                "model.detection.strides",
                f"of grids with {list(counts)} cells at an input of {size[0]}x{size[1]}",
                list(self.strides),
            )


def cells_of(size: tuple[int, int], stride: int) -> int:
    """Cells of a grid over an input of height and width ``size``; part of a cell is one."""
    return -(-size[0] // stride) * -(-size[1] // stride)


def _rows(shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    """Candidates, and values of each, of an output's shape; (-1, -1) for what has none."""
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2:
        return (-1, -1)
    return (shape[1], shape[0]) if transposed else (shape[0], shape[1])


def _size(shape: tuple[int, ...]) -> int:
    result = 1
    for side in shape:
        result *= side
    return result


def _stride(value: Any, where: str) -> int:
    return integer(value, where, 1, 65536)


def _anchors(value: Any, where: str) -> tuple[float, ...]:
    if not isinstance(value, list):
        wrong(where, "a list", value)
    sides = [number(side, f"{where}[{index}]") for index, side in enumerate(value)]
    for side in sides:
        if side <= 0:
            wrong(where, "of sides above 0", side)
    return tuple(sides)


def _fraction(fields: Fields, name: str) -> float:
    value = fields.number(name)
    return value if 0.0 <= value <= 1.0 else wrong(fields.path(name), "from 0 to 1", value)
