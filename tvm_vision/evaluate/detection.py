"""How well boxes and masks agree with the truth: average precision, and intersection over union.

numpy only, so that every runtime's results can be judged: what a detector returned for each image
goes in, beside what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError

Array = np.ndarray


@dataclass(frozen=True)
class Truth:
    """What an image shows. boxes [n,4]: x1, y1, x2, y2 in pixels; class_ids [n]; doubtful [m,4]:
    regions where a detection counts neither as found nor as false (too small to tell, hidden);
    doubtful_ids [m]: the class of which that is said, None where it is said of all."""

    boxes: Array
    class_ids: Array
    doubtful: Array
    doubtful_ids: Array | None = None

    def doubtful_of(self, class_id: int) -> Array:
        """The doubtful regions for detections of a class, [k,4]."""
        if self.doubtful_ids is None:
            return self.doubtful
        return self.doubtful[self.doubtful_ids == class_id]


@dataclass(frozen=True)
class Found:
    """What a detector made of an image: boxes [n,4] as in Truth, scores [n], class_ids [n]."""

    boxes: Array
    scores: Array
    class_ids: Array


def box_iou(first: Array, second: Array) -> Array:
    """Intersection over union of boxes [n,4] and [m,4] (x1, y1, x2, y2): float64 [n,m]. A box
    without area has an IoU of 0 with everything."""
    overlap = _overlap(first, second)
    union = _area(first)[:, None] + _area(second)[None] - overlap
    return np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)


def average_precision(hits: Array, scores: Array, positives: int) -> float:
    """Area under the curve of precision over recall, precision made to fall monotonically (the
    all-point interpolation of PASCAL VOC 2010).

    hits: bool [n], whether a detection found something; positives: how much there was to find.
    NaN where there was nothing.
    """
    if positives == 0:
        return float("nan")
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    good = np.asarray(hits, bool)[order].cumsum()
    recall = good / positives
    precision = good / np.arange(1, len(good) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * falling))


def average_precisions(
    found: Sequence[Found], truths: Sequence[Truth], classes: int, iou: float = 0.5
) -> Array:
    """Average precision of each class at an IoU threshold: float64 [classes], NaN where no image
    shows the class. found and truths: one of each an image.

    A detection finds the box of its class with which it has the largest IoU, if that reaches the
    threshold and no better detection has found it; else it is false, or does not count where at
    least half of it lies in one doubtful region.

    Raises InputError where the numbers of images differ.
    """
    result = np.full(classes, np.nan)
    for class_id in range(classes):
        result[class_id] = average_precision(*judged(found, truths, class_id, iou))
    return result


def judged(
    found: Sequence[Found], truths: Sequence[Truth], class_id: int, iou: float = 0.5
) -> tuple[Array, Array, int]:
    """Of one class, over all images: whether each detection that counts hit, bool [n], its score
    [n], and how many objects there were to find; as average_precisions tells.

    Raises InputError where the numbers of images differ.
    """
    if len(found) != len(truths):
        raise InputError(
            f"results for every image are needed, found {len(found)} for {len(truths)} images"
        )
    each = [_judge(guess, truth, class_id, iou) for guess, truth in zip(found, truths, strict=True)]
    hits = np.concatenate([item[0] for item in each]) if each else np.zeros(0, bool)
    scores = np.concatenate([item[1] for item in each]) if each else np.zeros(0)
    return hits, scores, sum(int(np.sum(truth.class_ids == class_id)) for truth in truths)


def _judge(guess: Found, truth: Truth, class_id: int, threshold: float) -> tuple[Array, Array]:
    """Of one image and class: whether each detection that counts hit, and its score."""
    mine = guess.class_ids == class_id
    boxes, scores = guess.boxes[mine], guess.scores[mine]
    order = np.argsort(-scores, kind="stable")
    boxes, scores = boxes[order], scores[order]
    wanted = truth.boxes[truth.class_ids == class_id]
    overlaps = box_iou(boxes, wanted)
    hits, counts = np.zeros(len(boxes), bool), np.ones(len(boxes), bool)
    taken = np.zeros(len(wanted), bool)
    inside = _overlap(boxes, truth.doubtful_of(class_id))
    area = _area(boxes)
    for row in range(len(boxes)):
        free = np.where(taken, -1.0, overlaps[row])
        best = int(free.argmax()) if len(free) else -1
        if best >= 0 and free[best] >= threshold:
            hits[row] = taken[best] = True
        elif inside.shape[1] and inside[row].max() >= 0.5 * area[row]:
            counts[row] = False
    return hits[counts], scores[counts]


def _area(boxes: Array) -> Array:
    sides = np.asarray(boxes[:, 2:], np.float64) - boxes[:, :2]
    return sides.clip(min=0).prod(axis=1)


def _overlap(first: Array, second: Array) -> Array:
    """Area that boxes [n,4] and [m,4] share: float64 [n,m]."""
    low = np.maximum(np.asarray(first[:, None, :2], np.float64), second[None, :, :2])
    high = np.minimum(np.asarray(first[:, None, 2:], np.float64), second[None, :, 2:])
    return (high - low).clip(min=0).prod(axis=2)


class MaskScore:
    """Intersection over union of each class of masks, over all images that were added."""

    def __init__(self, classes: int, ignored: int | None = None) -> None:
        """classes: number of them. ignored: value in the truth of pixels that do not count."""
        self.classes, self.ignored = classes, ignored
        # Pixels by (true class, found class).
        self.confusion = np.zeros((classes, classes), np.int64)

    def add(self, found: Array, truth: Array) -> None:
        """Count two masks of class ids, of one shape. Raises InputError for other shapes or ids."""
        if found.shape != truth.shape:
            raise InputError(
                f"masks of one height and width are needed, found {found.shape} of the network "
                f"and {truth.shape} in the truth"
            )
        counted = np.ones(truth.shape, bool) if self.ignored is None else truth != self.ignored
        wanted, guess = truth[counted].astype(np.int64), found[counted].astype(np.int64)
        for name, ids in (("truth", wanted), ("result", guess)):
            if len(ids) and not 0 <= ids.min() <= ids.max() < self.classes:
                raise InputError(
                    f"class ids from 0 to {self.classes - 1} are needed in the {name}, "
                    f"found {ids.min()} to {ids.max()}"
                )
        pairs = np.bincount(wanted * self.classes + guess, minlength=self.classes**2)
        self.confusion += pairs.reshape(self.classes, self.classes)

    def iou(self) -> Array:
        """Intersection over union of each class: float64 [classes]; NaN for one that neither the
        truth nor a result has."""
        both = np.diag(self.confusion).astype(np.float64)
        either = self.confusion.sum(0) + self.confusion.sum(1) - both
        return np.divide(both, either, out=np.full(self.classes, np.nan), where=either > 0)

    def mean_iou(self) -> float:
        """The mean over the classes that occur; NaN where none does."""
        values = self.iou()
        seen = values[~np.isnan(values)]
        return float(seen.mean()) if len(seen) else float("nan")
