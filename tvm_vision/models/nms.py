"""Non-maximum suppression: of boxes that overlap, the best stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Exceeds = Callable[[Floats, Floats, float], Bools]
# Of a division by what may be no area.
EPSILON = 1e-12
# Boxes that are decided on at a time: large enough for numpy, and few pairs for a usual frame.
CHUNK = 128


def suppress(
    boxes: Floats,
    scores: Floats,
    groups: Ints,
    *,
    iou: float,
    limit: int,
    exceeds: Exceeds | None = None,
) -> npt.NDArray[np.int64]:
    """Indices of the boxes that stay, the best first, at most ``limit``.

    boxes: [n, 4], x1, y1, x2, y2. scores: [n]; of equal ones the earlier box goes first. groups:
    [n]; only boxes of one group suppress each other. iou: a box goes when its intersection over
    union with a better one that stays is above this. exceeds: of other boxes than upright ones,
    bool [n, m], which of n and of m others overlap by more than an iou.

    The best are decided on first, some at a time, until ``limit`` stay: the time depends on how
    many stay rather than on n, and memory does not grow with its square.
    """
    exceeds = exceeds or upright_exceed

    def rivals(some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> Bools:
        alike: Bools = groups[some][:, None] == groups[others]
        return alike & exceeds(boxes[some], boxes[others], iou)

    order = np.argsort(-scores, kind="stable")
    kept = order[:0]
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        if len(kept):
            chunk = chunk[~rivals(kept, chunk).any(axis=0)]
        stays = _decide(rivals(chunk, chunk))
        kept = np.concatenate((kept, chunk[stays]))
        if len(kept) >= limit:
            break
    return kept[:limit]


def upright_exceed(boxes: Floats, others: Floats, iou: float) -> Bools:
    """[n, m]: whether a box and another one, x1, y1, x2, y2, overlap by more than ``iou``."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    sides = np.maximum(high - low, 0)
    common = sides[..., 0] * sides[..., 1]
    # intersection / union > iou without the division, which two boxes of no area would break.
    exceeds: Bools = common > iou * (_areas(boxes)[:, None] + _areas(others) - common)
    return exceeds


def oriented_exceed(boxes: Floats, others: Floats, iou: float) -> Bools:
    """[n, m]: whether the ProbIoU of oriented boxes [n, 5] and [m, 5] is above ``iou``.

    Each box, centre x, y, width, height, angle, stands for a Gaussian of the same covariance; 1
    less the Hellinger distance of two is their overlap (Llerena et al., "Gaussian Bounding Boxes
    and Probabilistic Intersection-over-Union for Object Detection", 2021).
    """
    xx, yy, xy = (first[:, None] + second for first, second in zip(
        _covariances(boxes), _covariances(others), strict=True
    ))  # fmt: skip
    dx, dy = (boxes[:, None, i].astype(np.float64) - others[None, :, i] for i in (0, 1))
    spread = np.maximum(xx * yy - xy * xy, EPSILON)
    apart = (xx * dy * dy + yy * dx * dx - 2 * xy * dx * dy) / (4 * spread)
    own = np.sqrt(_determinants(boxes)[:, None] * _determinants(others))
    alike = 0.5 * np.log(np.maximum(spread / np.maximum(4 * own, EPSILON), 1))
    exceeds: Bools = 1 - np.sqrt(1 - np.exp(-(apart + alike))) > iou
    return exceeds


def _covariances(boxes: Floats) -> tuple[npt.NDArray[np.float64], ...]:
    """xx, yy and xy of the Gaussians of oriented boxes: a side's variance is its square / 12."""
    along, across = (boxes[:, 2:4].astype(np.float64) ** 2 / 12).T
    cosine, sine = np.cos(boxes[:, 4]), np.sin(boxes[:, 4])
    return (
        along * cosine**2 + across * sine**2,
        along * sine**2 + across * cosine**2,
        (along - across) * cosine * sine,
    )


def _determinants(boxes: Floats) -> npt.NDArray[np.float64]:
    return np.prod(boxes[:, 2:4].astype(np.float64) ** 2 / 12, axis=1)


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
