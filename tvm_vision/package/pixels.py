"""What a package says about networks with a value for each pixel: classes, or depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .fields import Fields, wrong
from .tensors import TensorInfo

SEGMENTATION_FORMS = ("scores", "indices", "logit")
# A mask is bytes.
MOST_CLASSES = 256


@dataclass(frozen=True)
class SegmentationInfo:
    """How the class of each pixel is to be read; the names of classes are the model's labels.

    output: its name, of any height and width.
    form: "scores": of each class, float [1, classes, height, width], of which the largest counts;
        "indices": the class itself, [1, height, width] or with an axis of one; "logit": one value
        for each pixel, of the second class where it is above ``threshold``, else of the first; 0.5
        where a sigmoid made it.
    channels_last: scores are [1, height, width, classes].
    """

    output: str
    form: str = "scores"
    channels_last: bool = False
    threshold: float = 0.0

    @classmethod
    def from_json(cls, value: Any, where: str) -> SegmentationInfo:
        fields = Fields(value, where)
        info = cls(
            output=fields.text("output"),
            form=fields.text("form", among=SEGMENTATION_FORMS),
            channels_last=fields.boolean("channels_last"),
            threshold=fields.number("threshold"),
        )
        fields.done()
        return info

    def check(self, labels: Sequence[str], outputs: Sequence[TensorInfo]) -> None:
        """Raise PackageError unless it fits the network. outputs: of the network."""
        where = "model.segmentation"
        shape = _shape(where, self.output, outputs)
        if not 2 <= len(labels) <= MOST_CLASSES:
            wrong("model.labels", f"2 to {MOST_CLASSES} for a segmentation", list(labels))
        if self.form == "scores":
            classes = shape[3 if self.channels_last else 1] if len(shape) == 4 else -1
            if classes != len(labels) or shape[0] != 1:
                needed = f"of {len(labels)} classes, one for each label, in an image at a time"
                wrong(f"output '{self.output}'", needed, list(shape))
            return
        _check_plane(self.output, shape)
        if self.form == "logit" and len(labels) != 2:
            wrong("model.labels", "two, where the network has one value for each pixel", labels)


@dataclass(frozen=True)
class DepthInfo:
    """How the depth of each pixel is to be read.

    output: its name, float [1, height, width] or with an axis of one, of any height and width.
    unit: "metres", or "" where values say only what is nearer. inverse: larger values are nearer.
    """

    output: str
    unit: str = ""
    inverse: bool = False

    @classmethod
    def from_json(cls, value: Any, where: str) -> DepthInfo:
        fields = Fields(value, where)
        info = cls(
            output=fields.text("output"),
            unit=fields.text("unit", among=("", "metres")),
            inverse=fields.boolean("inverse"),
        )
        fields.done()
        return info

    def check(self, outputs: Sequence[TensorInfo]) -> None:
        """Raise PackageError unless it fits the network. outputs: of the network."""
        _check_plane(self.output, _shape("model.depth", self.output, outputs))


def plane_of(shape: Sequence[int]) -> tuple[int, int] | None:
    """Height and width of an output with one value for each pixel, whatever axes of one it has
    beside them; None for another output."""
    sides = tuple(shape)
    if len(sides) == 4 and 1 in (sides[1], sides[3]):
        sides = (sides[0], sides[2], sides[3]) if sides[1] == 1 else sides[:3]
    if len(sides) == 3 and sides[0] == 1:
        sides = sides[1:]
    return (sides[0], sides[1]) if len(sides) == 2 and min(sides) > 1 else None


def _shape(where: str, name: str, outputs: Sequence[TensorInfo]) -> tuple[int, ...]:
    shapes = {tensor.name: tensor.shape for tensor in outputs}
    if name not in shapes:
        wrong(f"{where}.output", f"one of {', '.join(shapes)}", name)
    return shapes[name]


def _check_plane(name: str, shape: tuple[int, ...]) -> None:
    if plane_of(shape) is None:
        wrong(f"output '{name}'", "[1, height, width]", list(shape))
