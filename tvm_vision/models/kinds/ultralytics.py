"""Networks of Ultralytics, whose ONNX files say what they are: task, names of classes, size."""

from __future__ import annotations

from dataclasses import replace

from ...package import DetectionInfo
from . import pixels, yolo
from .facts import Facts, Reading
from .preparation import CENTRE_CROP, GREY_LETTERBOX, STRETCHED

BOXES = ("detect", "segment", "pose", "obb")
# RT-DETR has so many queries; YOLO's grids at any usual size have more cells.
QUERIES = 300
# Its own threshold for suppression.
IOU = 0.7


def find(facts: Facts) -> Reading | None:
    """What the metadata say of the outputs; None where Ultralytics did not write them."""
    task = facts.metadata.get("task", "")
    names = _names(facts)
    if not names or facts.size is None:
        return None
    facts = replace(facts, labels=facts.labels or names)
    if not task and "stride" in facts.metadata:
        # YOLOv5's own exporter, which writes these two alone.
        found = yolo.find(facts)
        return None if found is None else _as_parts(facts, found)
    if task in BOXES:
        shape = facts.keypoint_shape()
        points = None if shape is None else shape[0] * shape[1]
        extras = {"obb": 1, "pose": points}.get(task, 0)
        found = _queries(facts) or yolo.find(replace(facts, extras=extras))
        if found is None or found.detection is None:
            return None
        info = replace(found.detection, iou=IOU)
        return _as_parts(facts, replace(found, detection=info, sure=True))
    if task == "classify":
        return Reading("classifier", facts.labels, CENTRE_CROP)
    if task == "semantic":
        found = pixels.find_segmenter(facts)
    elif task == "depth":
        found = pixels.find_depth(facts)
        if found is not None and found.depth is not None:
            found = replace(found, depth=replace(found.depth, unit="metres", inverse=False))
    else:
        return None
    return None if found is None else replace(found, preprocessing=GREY_LETTERBOX, sure=True)


def _as_parts(facts: Facts, found: Reading) -> Reading:
    """Boxes of TFLite files are parts of the input's sides, so that integers are fine enough for
    scores beside them. Of those suppressed within they are pixels where the image has its channels
    first, as newer exporters write it."""
    info = found.detection
    if info is None or not facts.tflite or not (info.suppress or facts.channels_last):
        return found
    return replace(found, detection=replace(info, relative=True))


def _names(facts: Facts) -> tuple[str, ...]:
    """Of the classes, by their number; none where that is not what the file has."""
    names = facts.literal("names")
    if isinstance(names, (list, tuple)):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or set(names) != set(range(len(names))):
        return ()
    return tuple(str(names[index]) or f"class{index}" for index in range(len(names)))


def _queries(facts: Facts) -> Reading | None:
    """RT-DETR: [1, queries, 6] with the best class, or, of older versions, [1, queries, 4 +
    classes]."""
    rows = facts.of_rank(3)
    if len(rows) != 1 or rows[0].shape[1] > QUERIES or facts.metadata.get("end2end") == "True":
        return None
    values = rows[0].shape[2]
    name = (rows[0].name,)
    if facts.metadata.get("head") == "RTDETRDecoder" and values == 6:
        info = DetectionInfo(name, relative=True, row="best", suppress=False)
    elif values == 4 + len(facts.labels) and "head" not in facts.metadata:
        info = DetectionInfo(name, relative=True, suppress=False)
    else:
        return None
    return Reading("detr", facts.labels, STRETCHED, info)
