"""What a YOEO network found, from its output: scores, then suppression of boxes of one object."""

from __future__ import annotations

import numpy as np

from tvm_vision.evaluate.detection import Found


def suppress(boxes: np.ndarray, scores: np.ndarray, iou: float) -> np.ndarray:
    """Indices [k] that greedy non-maximum suppression keeps, best first; boxes [n,4] as corners."""
    order, kept = np.argsort(-scores, kind="stable"), []
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    while len(order):
        first, rest = order[0], order[1:]
        kept.append(int(first))
        low, high = (
            np.maximum(boxes[first, :2], boxes[rest, :2]),
            np.minimum(boxes[first, 2:], boxes[rest, 2:]),
        )
        inter = (high - low).clip(min=0).prod(1)
        order = rest[inter / (area[first] + area[rest] - inter + 1e-9) <= iou]
    return np.array(kept, np.int64)


def found_of(detections: np.ndarray, confidence: float = 0.005, iou: float = 0.5) -> Found:
    """Boxes [n, 5 + classes] as YOEO's output has them, through score and suppression."""
    scores = detections[:, 4:5] * detections[:, 5:]
    row, kind = np.nonzero(scores > confidence)
    boxes, score = detections[row, :4], scores[row, kind]
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    kept = []
    for class_id in range(scores.shape[1]):
        mine = np.nonzero(kind == class_id)[0]
        mine = mine[np.argsort(-score[mine])][:300]
        kept += list(mine[suppress(corners[mine], score[mine], iou)])
    return Found(corners[kept], score[kept], kind[kept])
