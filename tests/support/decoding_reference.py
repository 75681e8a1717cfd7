"""What outputs of networks mean, by the definitions of those who made them: one candidate at a
time, in float64, in plain loops.

Each function gives rows (score, class, box, more): the box as x1, y1, x2, y2 in pixels of the
network's input, ``more`` the values behind the scores.
"""

from __future__ import annotations

import math
from typing import Any

from support.nms_reference import reference as suppressed

Row = tuple[float, int, tuple[float, ...], list[float]]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softmax(values: list[float]) -> list[float]:
    top = max(values)
    weights = [math.exp(value - top) for value in values]
    return [weight / sum(weights) for weight in weights]


def centred(x: float, y: float, width: float, height: float) -> tuple[float, ...]:
    return (x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def best_of(scores: list[float]) -> tuple[float, int]:
    """The first of the best."""
    best = max(range(len(scores)), key=lambda i: scores[i])
    return scores[best], best


def yolov8(output: Any, classes: int) -> list[Row]:
    """[1, 4 + classes + more, n]: centre and sides, a score for each class, more."""
    rows: list[Row] = []
    for index in range(output.shape[2]):
        values = [float(v) for v in output[0, :, index]]
        score, best = best_of(values[4 : 4 + classes])
        rows.append((score, best, centred(*values[:4]), values[4 + classes :]))
    return rows


def yolov5(output: Any) -> list[Row]:
    """[1, n, 5 + classes]: centre and sides, objectness, a score for each class."""
    rows: list[Row] = []
    for index in range(output.shape[1]):
        values = [float(v) for v in output[0, index]]
        score, best = best_of(values[5:])
        rows.append((score * values[4], best, centred(*values[:4]), []))
    return rows


def yolov5_heads(heads: list[Any], strides: tuple[int, ...], anchors: Any) -> list[Row]:
    """For each stride [1, anchors, rows, columns, 5 + classes] of logits; anchors [stride][anchor]
    are width and height in pixels."""
    rows: list[Row] = []
    for head, stride, pairs in zip(heads, strides, anchors, strict=True):
        _, count, height, width, _ = head.shape
        for anchor in range(count):
            for y in range(height):
                for x in range(width):
                    s = [sigmoid(float(v)) for v in head[0, anchor, y, x]]
                    centre = ((2 * s[0] - 0.5 + x) * stride, (2 * s[1] - 0.5 + y) * stride)
                    sides = [(2 * s[2 + i]) ** 2 * pairs[anchor][i] for i in (0, 1)]
                    score, best = best_of(s[5:])
                    rows.append((score * s[4], best, centred(*centre, *sides), []))
    return rows


def yolox(output: Any, size: tuple[int, int], strides: tuple[int, ...]) -> list[Row]:
    """[1, cells, 5 + classes] of grids, row by row, one stride after the other."""
    index = 0
    rows: list[Row] = []
    for stride in strides:
        for y in range(size[0] // stride):
            for x in range(size[1] // stride):
                tx, ty, tw, th, objectness, *scores = (float(v) for v in output[0, index])
                box = centred(
                    (tx + x) * stride, (ty + y) * stride, math.exp(tw) * stride,
                    math.exp(th) * stride,
                )  # fmt: skip
                score, best = best_of(scores)
                rows.append((score * objectness, best, box, []))
                index += 1
    return rows


def end_to_end(output: Any, *, first: int = 0) -> list[Row]:
    """[1, n, 6 + more]: corners, score, class, more."""
    rows: list[Row] = []
    for values in output[0].astype(float).tolist():
        rows.append((values[4], int(values[5]) - first, tuple(values[:4]), values[6:]))
    return rows


def detr(logits: Any, boxes: Any, size: tuple[int, int]) -> list[Row]:
    """Softmax over the classes and one behind them for no object; boxes are parts of the input."""
    rows: list[Row] = []
    for values, box in zip(logits[0].tolist(), boxes[0].tolist(), strict=True):
        score, best = best_of(softmax(values)[:-1])
        rows.append((score, best, scaled(centred(*box), size), []))
    return rows


def rt_detr(logits: Any, boxes: Any, size: tuple[int, int]) -> list[Row]:
    """A sigmoid for each class of each query, and each is a candidate."""
    rows: list[Row] = []
    for values, box in zip(logits[0].tolist(), boxes[0].tolist(), strict=True):
        for class_id, value in enumerate(values):
            rows.append((sigmoid(value), class_id, scaled(centred(*box), size), []))
    return rows


def ssd(boxes: Any, scores: Any, size: tuple[int, int]) -> list[Row]:
    """Corners as parts of the input; the first class is the background; each other class counts."""
    rows: list[Row] = []
    for box, values in zip(boxes[0].tolist(), scores[0].tolist(), strict=True):
        for class_id, value in enumerate(values[1:]):
            rows.append((value, class_id, scaled(tuple(box), size), []))
    return rows


def picodet(scores: Any, distances: Any, size: tuple[int, int], strides: Any) -> list[Row]:
    """For each stride scores [1, cells, classes] and distributions [1, cells, 4 * bins]."""
    rows: list[Row] = []
    for level, stride in enumerate(strides):
        columns = math.ceil(size[1] / stride)
        for cell in range(scores[level].shape[1]):
            x, y = (cell % columns + 0.5) * stride, (cell // columns + 0.5) * stride
            values = distances[level][0, cell].astype(float).tolist()
            bins = len(values) // 4
            far = []
            for edge in range(4):
                weights = softmax(values[edge * bins : (edge + 1) * bins])
                far.append(stride * sum(i * weight for i, weight in enumerate(weights)))
            box = (x - far[0], y - far[1], x + far[2], y + far[3])
            for class_id, score in enumerate(scores[level][0, cell].tolist()):
                rows.append((score, class_id, box, []))
    return rows


def scaled(box: tuple[float, ...], size: tuple[int, int]) -> tuple[float, ...]:
    return (box[0] * size[1], box[1] * size[0], box[2] * size[1], box[3] * size[0])


def chosen(
    rows: list[Row],
    confidence: float,
    iou: float | None,
    *,
    across: bool = False,
    limit: int = 300,
) -> list[Row]:
    """The rows above a confidence, the best first; those that stay where iou suppresses."""
    found = sorted((row for row in rows if row[0] > confidence), key=lambda row: -row[0])
    if iou is None:
        return found[:limit]
    groups = [0 if across else row[1] for row in found]
    boxes, scores = [row[2] for row in found], [row[0] for row in found]
    return [found[i] for i in suppressed(boxes, scores, groups, iou, limit)]


class Place:
    """Where a frame lies in an input, by the words of each way to prepare it."""

    def __init__(self, frame: tuple[int, int], size: tuple[int, int], how: str) -> None:
        """how: "stretch", "middle" or "corner"."""
        self.frame, self.how = frame, how
        rows, columns = frame
        if how == "stretch":
            self.scale = (columns / size[1], rows / size[0])
            self.left = self.top = 0
            return
        factor = min(size[0] / rows, size[1] / columns)
        height, width = max(1, round(rows * factor)), max(1, round(columns * factor))
        self.scale = (columns / width, rows / height)
        middle = how == "middle"
        self.left = (size[1] - width) // 2 if middle else 0
        self.top = (size[0] - height) // 2 if middle else 0

    def point(self, x: float, y: float) -> tuple[float, float]:
        return (x - self.left) * self.scale[0], (y - self.top) * self.scale[1]

    def box(self, box: tuple[float, ...]) -> tuple[float, ...]:
        """In pixels of the frame, cut at its edges."""
        (x1, y1), (x2, y2) = self.point(*box[:2]), self.point(*box[2:])
        rows, columns = self.frame
        return (
            min(max(x1, 0), columns), min(max(y1, 0), rows),
            min(max(x2, 0), columns), min(max(y2, 0), rows),
        )  # fmt: skip


def bilinear(values: Any, x: float, y: float) -> float:
    """A value between those of a grid, whose middles are at whole numbers; at the edges theirs."""
    rows, columns = len(values), len(values[0])
    x, y = min(max(x, 0), columns - 1), min(max(y, 0), rows - 1)
    left, top = min(int(x), columns - 2), min(int(y), rows - 2)
    left, top = max(left, 0), max(top, 0)
    right, bottom = min(left + 1, columns - 1), min(top + 1, rows - 1)
    upper = values[top][left] * (left + 1 - x) + values[top][right] * (x - left)
    lower = values[bottom][left] * (left + 1 - x) + values[bottom][right] * (x - left)
    return float(upper * (top + 1 - y) + lower * (y - top))


def mask(
    prototypes: Any,
    coefficients: list[float],
    box: tuple[float, ...],
    place: Place,
    size: tuple[int, int],
) -> list[list[float]]:
    """For each pixel of the frame the sum of the prototypes; minus infinity beside the box."""
    planes, rows, columns = prototypes.shape
    sums = [
        [
            sum(coefficients[p] * float(prototypes[p, y, x]) for p in range(planes))
            for x in range(columns)
        ]
        for y in range(rows)
    ]
    result: list[list[float]] = []
    for y in range(place.frame[0]):
        line = []
        for x in range(place.frame[1]):
            if not (box[0] <= x < box[2] and box[1] <= y < box[3]):
                line.append(-math.inf)
                continue
            in_x = (x + 0.5) / place.scale[0] + place.left
            in_y = (y + 0.5) / place.scale[1] + place.top
            line.append(bilinear(sums, in_x * columns / size[1] - 0.5, in_y * rows / size[0] - 0.5))
        result.append(line)
    return result
