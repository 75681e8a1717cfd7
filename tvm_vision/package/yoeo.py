"""What a package says about a YOEO network: which output is what, its names, its grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .fields import Fields, number, text, wrong

# Above it a stride or the side of an image is a mistake.
MAX_PIXELS = 65536


@dataclass(frozen=True)
class YoeoHead:
    """An output that boxes are made of at run time.

    output: its name; float [1, anchors * (5 + classes), rows, columns], as the network's last
        layer gives it. stride: pixels of the network's input in one step of the grid. anchors:
        width and height of each, in pixels of the network's input.
    """

    output: str
    stride: int
    anchors: tuple[tuple[float, float], ...]

    @classmethod
    def from_json(cls, value: Any, where: str) -> YoeoHead:
        fields = Fields(value, where)
        head = cls(
            output=fields.text("output"),
            stride=fields.integer("stride", 1, MAX_PIXELS),
            anchors=fields.items("anchors", _anchor),
        )
        if not head.anchors:
            wrong(fields.path("anchors"), "one anchor or more", [])
        fields.done()
        return head


@dataclass(frozen=True)
class ClassGroup:
    """Classes whose boxes suppress each other, as if all were ``surrogate``, a name for people."""

    surrogate: str
    classes: tuple[str, ...]

    @classmethod
    def from_json(cls, value: Any, where: str) -> ClassGroup:
        fields = Fields(value, where)
        group = cls(
            surrogate=fields.text("surrogate"),
            classes=fields.items("classes", text),
        )
        fields.done()
        return group


@dataclass(frozen=True)
class YoeoInfo:
    """How a YOEO network's outputs are to be read; the names of boxes are the model's labels.

    detections: name of the output with decoded boxes, [1, boxes, 5 + classes]: centre x, centre y,
        width and height in pixels of the input, objectness, classes; "" where ``heads`` stand for
        it, or where the network finds no boxes.
    heads: the outputs that the runtime decodes instead.
    segmentation: name of the output with the class of each pixel, integers [1, height, width]; ""
        where the network has none.
    segmentation_labels: name of each of these classes.
    groups: of classes whose boxes suppress each other; no class is in two.
    """

    detections: str = ""
    heads: tuple[YoeoHead, ...] = ()
    segmentation: str = ""
    segmentation_labels: tuple[str, ...] = ()
    groups: tuple[ClassGroup, ...] = ()

    @classmethod
    def from_json(cls, value: Any, where: str) -> YoeoInfo:
        fields = Fields(value, where)
        info = cls(
            detections=fields.text("detections", empty=True),
            heads=fields.items("heads", YoeoHead.from_json),
            segmentation=fields.text("segmentation", empty=True),
            segmentation_labels=fields.items("segmentation_labels", text),
            groups=fields.items("groups", ClassGroup.from_json),
        )
        fields.done()
        return info

    def check(
        self,
        labels: Sequence[str],
        size: tuple[int, int],
        shape_of: Callable[[str], tuple[int, ...] | None],
    ) -> None:
        """Raise PackageError unless all of it fits together and fits the network.

        size: height and width of the input. shape_of: shape of an output, None where there is none
        of that name.
        """
        if not (self.detections or self.heads or self.segmentation):
            wrong("model.yoeo", "about detections, heads or a segmentation", {})
        if self.detections and self.heads:
            wrong("model.yoeo.heads", "empty beside decoded detections", list(self.heads))
        classes = len(labels)
        if bool(labels) != bool(self.detections or self.heads):
            wrong("model.labels", "there for networks with boxes and for no others", list(labels))
        if len(set(labels)) < classes:
            wrong("model.labels", "names that differ", list(labels))
        if self.detections:
            shape = _shape("model.yoeo.detections", self.detections, shape_of)
            if len(shape) != 3 or shape[0] != 1 or shape[2] != 5 + classes:
                wrong(
                    "model.labels",
                    f"as many as the classes of '{self.detections}' ({list(shape)}: 5 + classes)",
                    list(labels),
                )
        for index, head in enumerate(self.heads):
            where = f"model.yoeo.heads[{index}]"
            shape = _shape(f"{where}.output", head.output, shape_of)
            grid = (size[0] // head.stride, size[1] // head.stride)
            needed = (1, len(head.anchors) * (5 + classes), *grid)
            if shape != needed:
                wrong(f"{where}.output", f"of shape {list(needed)}", list(shape))
        self._check_segmentation(size, shape_of)
        self._check_groups(labels)

    def _check_segmentation(
        self, size: tuple[int, int], shape_of: Callable[[str], tuple[int, ...] | None]
    ) -> None:
        if bool(self.segmentation) != bool(self.segmentation_labels):
            wrong(
                "model.yoeo.segmentation_labels",
                "there for networks with a segmentation and for no others",
                list(self.segmentation_labels),
            )
        if self.segmentation:
            shape = _shape("model.yoeo.segmentation", self.segmentation, shape_of)
            if shape != (1, *size):
                wrong("model.yoeo.segmentation", f"of shape {[1, *size]}", list(shape))

    def _check_groups(self, labels: Sequence[str]) -> None:
        grouped = [name for group in self.groups for name in group.classes]
        for name in grouped:
            if name not in labels:
                wrong("model.yoeo.groups", f"of classes among {', '.join(labels)}", name)
        if len(set(grouped)) < len(grouped):
            wrong("model.yoeo.groups", "of classes that are in one group each", grouped)


def _shape(
    where: str, name: str, shape_of: Callable[[str], tuple[int, ...] | None]
) -> tuple[int, ...]:
    shape = shape_of(name)
    return wrong(where, "the name of an output", name) if shape is None else shape


def _anchor(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        wrong(where, "a width and a height", value)
    width, height = (number(item, where) for item in value)
    if min(width, height) <= 0:
        wrong(where, "above 0", value)
    return (width, height)
