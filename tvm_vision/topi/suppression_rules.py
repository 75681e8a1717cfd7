"""What all forms of suppression agree on: which boxes are candidates, and which two overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T


@dataclass
class Box:
    """Corners of a box and its area, each a float32 expression."""

    left: Any
    top: Any
    right: Any
    bottom: Any
    area: Any


@dataclass
class Rules:
    """The boxes of one class of one image. inputs: boxes, scores, limits and thresholds, as
    ``suppression`` has them. results: boxes kept, how many, and scratch. row: counts the classes
    of all images."""

    inputs: list[Any]
    results: list[Any]
    classes: int
    row: Any

    def __post_init__(self) -> None:
        self.boxes, self.scores, self.limits, self.thresholds = self.inputs
        self.kept, self.counts, self.lists = self.results[:3]
        self.most = int(self.kept.shape[1])
        self.boxes_of_image = int(self.scores.shape[2])

    @property
    def image(self) -> Any:
        return self.row // self.classes

    def score(self, box: Any) -> Any:
        return self.scores[self.image, self.row % self.classes, box]

    def corners(self, box: Any) -> tuple[Any, Any, Any, Any]:
        """Left, top, right and bottom; a box is given by any two opposite corners."""
        return corners_of(self.boxes, self.image, box)

    def exceeds(self, kept: Box, other: Box) -> Any:
        """Whether a box overlaps one that is kept by more than the threshold."""
        return exceeds(kept, other, self.thresholds[0])


def exceeds(kept: Box, other: Box, threshold: Any) -> Any:
    """Whether a box overlaps one that is kept by more than a threshold."""
    return tirx.all(*overlapping(kept, other, threshold))


def overlapping(kept: Box, other: Box, threshold: Any) -> tuple[Any, Any]:
    """What has to be true of both: that they have areas in common, and that these are enough.

    By a product, which is rounded in one way on all devices, and a quotient is not.
    """
    zero = T.float32(0.0)
    width = tirx.max(tirx.min(kept.right, other.right) - tirx.max(kept.left, other.left), zero)
    height = tirx.max(tirx.min(kept.bottom, other.bottom) - tirx.max(kept.top, other.top), zero)
    common = width * height
    union = kept.area + other.area - common
    least = tirx.min(tirx.min(kept.area, other.area), tirx.min(common, union))
    return least > zero, common > threshold * union


def corners_of(boxes: Any, image: Any, box: Any) -> tuple[Any, Any, Any, Any]:
    """Left, top, right and bottom of boxes[image, box], two opposite corners of it."""
    a, b, c, d = (boxes[image, box, place] for place in range(4))
    return tirx.min(a, c), tirx.min(b, d), tirx.max(a, c), tirx.max(b, d)


def with_area(left: Any, top: Any, right: Any, bottom: Any) -> Box:
    """The box of these corners."""
    return Box(left, top, right, bottom, (right - left) * (bottom - top))
