"""Non-maximum suppression: of boxes that overlap, the best stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
# Boxes that are decided on at a time: large enough for numpy, and few pairs for a usual frame.
CHUNK = 128


def suppress(
    boxes: Floats, scores: Floats, groups: Ints, *, iou: float, limit: int
) -> npt.NDArray[np.int64]:
    """Indices of the boxes that stay, the best first, at most ``limit``.

    boxes: [n, 4], x1, y1, x2, y2. scores: [n]; of equal ones the earlier box goes first. groups:
    [n]; only boxes of one group suppress each other. iou: a box goes when its intersection over
    union with a better one that stays is above this.

    The best are decided on first, some at a time, until ``limit`` stay: the time depends on how
    many stay rather than on n, and memory does not grow with its square.
    """
    order = np.argsort(-scores, kind="stable")
    kept = order[:0]
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        if len(kept):
            rivals = _overlaps(boxes[kept], groups[kept], boxes[chunk], groups[chunk], iou)
            chunk = chunk[~rivals.any(axis=0)]
        stays = _decide(_overlaps(boxes[chunk], groups[chunk], boxes[chunk], groups[chunk], iou))
        kept = np.concatenate((kept, chunk[stays]))
        if len(kept) >= limit:
            break
    return kept[:limit]


def _overlaps(boxes: Floats, groups: Ints, others: Floats, other_groups: Ints, iou: float) -> Bools:
    """[n, m]: whether a box and another one are of one group and overlap by more than ``iou``."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    sides = np.maximum(high - low, 0)
    common = sides[..., 0] * sides[..., 1]
    # intersection / union > iou without the division, which two boxes of no area would break.
    overlap = common > iou * (_areas(boxes)[:, None] + _areas(others) - common)
    return overlap & (groups[:, None] == other_groups)


def _areas(boxes: Floats) -> Floats:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _decide(overlaps: Bools) -> Bools:
    """Which of some boxes, the best first, stay: those without overlap with a better one that does.

    Guessed for all at once and corrected until nothing changes: each round settles at least one
    box more, and a usual frame takes two or three.
    """
    better = np.triu(overlaps, 1)
    stays: Bools = np.ones(len(better), np.bool_)
    while True:
        corrected: Bools = ~np.logical_or.reduce(better & stays[:, None], axis=0)
        if (corrected == stays).all():
            return stays
        stays = corrected
