"""TFLite_Detection_PostProcess, the end of TensorFlow's SSD networks: boxes from anchors, without
those that overlap a better one.

Inputs: encodings [1, anchors, 4], scores [1, anchors, classes, and perhaps one for the background
before them], anchors [anchors, 4]; both kinds of boxes are centre y, centre x, height, width.
Results: boxes [1, most, 4] of y1, x1, y2, x2, classes and scores [1, most], by falling score, zeros
behind the last, and how many they are [1]; all float32.

Source: tensorflow/lite/kernels/detection_postprocess.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from flatbuffers import flexbuffers
from onnx import helper

from ..onnx.graph import Unsupported
from .network import EXPORT, Value
from .step import Converter, Step

_NEEDED = ("max_detections", "nms_score_threshold", "nms_iou_threshold", "num_classes")
_SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


def detection_post_process(step: Step) -> None:
    """Suppression of each class by itself where use_regular_nms says so, else of all by the best
    score of each anchor."""
    options = _options(step)
    most = int(options["max_detections"])
    count, classes = step.shape(1)[1:]
    named = int(options["num_classes"])
    if not 0 <= classes - named <= 1 or most < 1 or step.shape(1)[0] != 1:
        raise Unsupported(f"{named} classes of {list(step.shape(1))}, {most} boxes", EXPORT)
    boxes = _decoded(step, np.array([options[name] for name in _SCALES], np.float32))
    scores = step.real(1)
    if classes > named:  # the background's comes first
        ends = [np.array([value], np.int64) for value in (1, classes, 2)]
        scores = step.emit("Slice", scores, *ends)
    one_by_one = bool(options.get("use_regular_nms", False))
    if not one_by_one and int(options.get("max_classes_per_detection", 1)) != 1:
        raise Unsupported("several classes of a box", "export it with one class a detection")
    best = _Best(step, most)
    limits = [np.float32(options["nms_iou_threshold"]), _just_below(options["nms_score_threshold"])]
    if one_by_one:
        per_class = min(int(options.get("detections_per_class", 100)), count)
        best.of_each_class(boxes, scores, per_class, limits)
    else:
        best.of_all_classes(boxes, scores, limits)
    for place, value in enumerate(best.results()):
        step.give(value, place=place)


def _options(step: Step) -> dict[str, Any]:
    """The attributes, a map of FlexBuffers."""
    try:
        found = flexbuffers.Loads(step.operator.custom_options)
        missing = [name for name in (*_NEEDED, *_SCALES) if name not in found]
    except Exception as error:  # bytes of anything
        raise Unsupported(f"its attributes cannot be read ({error})", EXPORT) from None
    if missing:
        raise Unsupported(f"its attribute {missing[0]} is missing", EXPORT)
    return dict(found)


def _just_below(threshold: float) -> np.float32:
    """ONNX takes scores above its threshold, TFLite those that are equal too."""
    return np.nextafter(np.float32(threshold), np.float32(-np.inf))


def _decoded(step: Step, scales: np.ndarray) -> Value:
    """[1, anchors, 4], y1, x1, y2, x2."""
    encoded = step.emit("Div", step.real(0), scales)
    anchors = step.real(2)

    def part(value: Value, first: int) -> Value:
        axis = len(step.network.shape(value)) - 1
        ends = [np.array([number], np.int64) for number in (first, first + 2, axis)]
        return step.emit("Slice", value, *ends)

    sizes = part(anchors, 2)
    centre = step.emit("Mul", part(encoded, 0), sizes)
    centre = step.emit("Add", centre, part(anchors, 0))
    half = step.emit("Mul", step.emit("Exp", part(encoded, 2)), sizes)
    half = step.emit("Mul", half, np.float32(0.5))
    corners = [step.emit(kind, centre, half) for kind in ("Sub", "Add")]
    return step.emit("Concat", *corners, axis=2)


class _Best:
    """The nodes from suppression on, whose rows the data counts, up to results of fixed size."""

    def __init__(self, step: Step, most: int) -> None:
        self._step, self._most = step, most
        self._nodes: list[onnx.NodeProto] = []
        self._prefix = f"{step.label}/best"

    def of_all_classes(self, boxes: Value, scores: Value, limits: list[np.float32]) -> None:
        emit = self._step.emit
        best = emit("ReduceMax", scores, axes=[2], keepdims=0)
        classes = emit("ArgMax", scores, axis=2, keepdims=0)
        lane = emit("Unsqueeze", best, np.array([1], np.int64))
        found = self._add("NonMaxSuppression", boxes, lane, np.array([self._most]), *limits)
        self._box = self._add("Gather", found, np.array(2), axis=1)
        self._class = self._add("Gather", self._flat(classes), self._box)
        self._score = self._add("Gather", self._flat(best), self._box)
        self._boxes = boxes

    def of_each_class(
        self, boxes: Value, scores: Value, per_class: int, limits: list[np.float32]
    ) -> None:
        by_class = self._step.emit("Transpose", scores, perm=[0, 2, 1])
        found = self._add("NonMaxSuppression", boxes, by_class, np.array([per_class]), *limits)
        places = self._add("Slice", found, np.array([1]), np.array([3]), np.array([1]))
        # TFLite keeps no more than so many of all classes together.
        plane = self._add("Squeeze", by_class, np.array([0]))
        score = self._add("GatherND", plane, places)
        rows = self._add("Shape", score)
        kept = self._add("Min", rows, np.array([self._most]))
        self._score, order = self._add_all("TopK", score, kept, count=2, axis=0)
        for name, column in (("_class", 1), ("_box", 2)):
            values = self._add("Gather", found, np.array(column), axis=1)
            setattr(self, name, self._add("Gather", values, order))
        self._boxes = boxes

    def results(self) -> list[Value]:
        """Boxes, classes, scores and their number."""
        count = self._add("Shape", self._score)
        rest = self._add("Sub", np.array([self._most]), count)
        rows = self._add("Concat", np.array([0]), rest, axis=0)
        plane = self._add("Concat", np.array([0, 0]), rest, np.array([0]), axis=0)
        corners = self._add("Gather", self._flat(self._boxes), self._box)
        classes = self._add("Cast", self._class, to=onnx.TensorProto.FLOAT)
        padded = [
            self._add("Pad", corners, plane),
            self._add("Pad", classes, rows),
            self._add("Pad", self._score, rows),
        ]
        values = [self._add("Unsqueeze", value, np.array([0])) for value in padded]
        values.append(self._add("Cast", count, to=onnx.TensorProto.FLOAT))
        shapes = [(1, self._most, 4), (1, self._most), (1, self._most), (1,)]
        return self._step.network.block(self._nodes, dict(zip(values, shapes, strict=True)))

    def _flat(self, value: Value) -> Value:
        """Without the axis of images."""
        return self._add("Squeeze", value, np.array([0]))

    def _add(self, kind: str, *inputs: Any, **attributes: Any) -> Value:
        return self._add_all(kind, *inputs, count=1, **attributes)[0]

    def _add_all(self, kind: str, *inputs: Any, count: int, **attributes: Any) -> list[Value]:
        network = self._step.network
        names = [
            value if isinstance(value, str) else network.constant(np.asarray(value), self._prefix)
            for value in inputs
        ]
        outputs = [network.fresh(f"{self._prefix}/{kind}") for _ in range(count)]
        self._nodes.append(helper.make_node(kind, names, outputs, outputs[0], **attributes))
        return outputs


CUSTOM_DETECTION: dict[str, Converter] = {"TFLite_Detection_PostProcess": detection_post_process}
