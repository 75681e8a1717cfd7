"""From a YOEO network's outputs to boxes and a mask in pixels of the frame.

A row is one box as the decoded output has it: centre x, centre y, width, height in pixels of the
network's input, objectness, and a score for each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...package import ClassGroup, YoeoHead
from ..class_options import ClassRules
from ..frames import Letterbox
from ..nms import suppress
from ..results import Detections, SegmentationMask
from ..values import (
    LARGEST_EXPONENT,
    ROUNDING,
    corners_of,
    logit,
    refuse_nan,
    refuse_nan_boxes,
    sides_of,
    sigmoid,
)

Floats = npt.NDArray[np.float32]


def find_detections(
    rows: Floats,
    labels: tuple[str, ...],
    groups: npt.NDArray[np.int32],
    letterbox: Letterbox,
    *,
    confidence: float,
    iou: float,
    limit: int,
    rules: ClassRules | None = None,
) -> Detections:
    """The boxes that are left of rows, in pixels of the frame.

    groups: for each class the number of its group (``group_numbers``). confidence: objectness and
    objectness * class score must be above it; each class that is gives a box. iou: see
    ``suppress``. limit: most boxes that are given. rules: what else must hold of boxes of a class.

    Raises InputError for scores that are none: the network went wrong.
    """
    rows = rows[rows[:, 4] > confidence]
    scores = rows[:, 4:5] * rows[:, 5:]
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1 + ROUNDING):
        raise InputError(
            f"scores of 0 to 1 are needed from the network, found {scores.min():g} to "
            f"{scores.max():g}: was it exported as YOEO's, and compiled from that file?"
        )
    row, class_id = np.nonzero(scores > confidence)
    boxes, scores = corners_of(rows[row, :4]), np.minimum(scores[row, class_id], 1)
    refuse_nan_boxes(boxes)
    most = limit
    if rules is not None:
        counts = rules.admitted(scores, class_id)
        if not rules.any_size:
            counts &= rules.large_enough(sides_of(letterbox.to_image(boxes)), class_id)
        boxes, scores, class_id = boxes[counts], scores[counts], class_id[counts]
        most = rules.limit(limit, len(scores))
    kept = suppress(boxes, scores, groups[class_id], iou=iou, limit=most)
    if rules is not None:
        kept = kept[rules.first(class_id[kept])][:limit]
    placed = letterbox.to_image(boxes[kept])
    # What lay in the padding alone has no area in the frame.
    seen = (placed[:, 2] > placed[:, 0]) & (placed[:, 3] > placed[:, 1])
    kept = kept[seen]
    return Detections(placed[seen], scores[kept], class_id[kept].astype(np.int32), labels)


def decoded_rows(output: npt.NDArray[Any], confidence: float) -> Floats:
    """Rows [n, 5 + classes] of a decoded output [1, boxes, 5 + classes] that may count.

    Raises InputError where an objectness is NaN.
    """
    rows = output[0]
    refuse_nan(rows[:, 4])
    return rows[rows[:, 4] > confidence].astype(np.float32, copy=False)


def head_rows(
    outputs: Mapping[str, npt.NDArray[Any]], heads: Sequence[YoeoHead], confidence: float
) -> Floats:
    """Rows [n, 5 + classes] of raw heads, decoded where the objectness is above ``confidence``.

    x = (sigmoid(t) + place in the grid) * stride, width = exp(t) * anchor, the rest sigmoid(t), as
    in YOLOv3. Raises InputError where an objectness is NaN.
    """
    rows = [_decode(outputs[head.output], head, confidence) for head in heads]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _decode(output: npt.NDArray[Any], head: YoeoHead, confidence: float) -> Floats:
    """Rows of one head [1, anchors * (5 + classes), rows, columns], in the order (anchor, y, x)."""
    columns = output.shape[3]
    values = output.reshape(len(head.anchors), -1, output.shape[2] * columns)
    objectness = values[:, 4]
    refuse_nan(objectness)
    # sigmoid rises, so that the threshold can be put on what goes into it.
    anchor, cell = np.nonzero(objectness > logit(confidence))
    chosen = values[anchor, :, cell].astype(np.float32, copy=False)
    result = sigmoid(chosen)
    result[:, 0] = (result[:, 0] + cell % columns) * head.stride
    result[:, 1] = (result[:, 1] + cell // columns) * head.stride
    sizes = np.exp(np.minimum(chosen[:, 2:4], LARGEST_EXPONENT))
    result[:, 2:4] = sizes * np.array(head.anchors, np.float32)[anchor]
    return result


def group_numbers(labels: Sequence[str], groups: Sequence[ClassGroup]) -> npt.NDArray[np.int32]:
    """For each class a number that it shares with the classes of its group, and with no other."""
    number = {label: index for index, label in enumerate(labels)}
    for group in groups:
        for name in group.classes:
            number[name] = labels.index(group.classes[0])
    return np.array([number[label] for label in labels], np.int32)


def find_mask(
    output: npt.NDArray[Any], labels: tuple[str, ...], letterbox: Letterbox
) -> SegmentationMask:
    """The class of each pixel of the frame, from integers [1, height, width] of the input."""
    mask = output[0].astype(np.uint8, copy=False)
    return SegmentationMask(letterbox.mask_to_image(mask), labels)
