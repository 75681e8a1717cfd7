"""How right results are beside what is on the images, in the field's measures."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from .detection import Found, MaskScore, Truth


def class_scores(
    guesses: Sequence[Sequence[int]], labels: Sequence[int], names: Sequence[str]
) -> dict[str, Any]:
    """Shares of images whose class is the likeliest ("top1"), and among the first five ("top5").

    guesses: classes of each image, the likeliest first. labels: what it is. names: of the classes
    of the set; a guess of another class is counted as len(names).

    "confusion": [classes][classes + 1] counts, the last column being other classes; "classes": top1
    of each by its name, None where it has no image.
    """
    count = len(names)
    confusion = np.zeros((count, count + 1), int)
    for guess, label in zip(guesses, labels, strict=True):
        confusion[label, min(guess[0], count) if guess[0] >= 0 else count] += 1
    totals = confusion.sum(axis=1)
    right = confusion.diagonal()
    images = max(1, len(labels))
    top5 = sum(label in guess[:5] for guess, label in zip(guesses, labels, strict=True))
    return {
        "top1": float(right.sum() / images),
        "top5": top5 / images,
        "confusion": confusion.tolist(),
        "classes": {
            name: float(right[i] / totals[i]) if totals[i] else None for i, name in enumerate(names)
        },
    }


def box_scores(
    found: Sequence[Found], truths: Sequence[Truth], names: Sequence[str]
) -> dict[str, Any]:
    """COCO's average precision, by pycocotools: "ap50_95" and "ap50", of all classes and of each.

    class_ids of both are those of ``names``. Raises InputError where pycocotools is missing.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        raise InputError(
            "pycocotools judges boxes, and is not installed: pip install pycocotools"
        ) from None
    results = _results(found)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does
        truth = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": i} for i in range(len(truths))],
            "categories": [{"id": i, "name": name} for i, name in enumerate(names)],
            "annotations": _annotations(truths, len(names)),
        }
        truth.createIndex()
        if not results:
            return _nothing(truths, names)
        judged = COCOeval(truth, truth.loadRes(results), "bbox")
        judged.evaluate()
        judged.accumulate()
    # Thresholds, recalls, classes, sizes, most boxes of an image: all sizes, 100 boxes.
    precision = judged.eval["precision"][:, :, :, 0, -1]
    place = {name: i for i, name in enumerate(judged.params.catIds)}
    by_class = {
        name: {
            "ap50_95": _mean(precision[:, :, place[i]]),
            "ap50": _mean(precision[0, :, place[i]]),
        }
        for i, name in enumerate(names)
    }
    return {
        "ap50_95": _mean(precision), "ap50": _mean(precision[0]), "classes": by_class
    }  # fmt: skip


def mask_scores(score: MaskScore, names: Sequence[str]) -> dict[str, Any]:
    """Intersection over union: "miou", the mean over the classes that occur, and of each in
    "classes", None for one that neither an image nor a result has; "pixels": the share that is
    right."""
    counts = score.confusion
    by_class = {
        name: None if np.isnan(iou) else float(iou)
        for name, iou in zip(names, score.iou(), strict=True)
    }
    mean = score.mean_iou()
    return {
        "miou": None if np.isnan(mean) else mean,
        "pixels": float(np.trace(counts) / max(1, counts.sum())),
        "classes": by_class,
    }


def _nothing(truths: Sequence[Truth], names: Sequence[str]) -> dict[str, Any]:
    """Of a network that found nothing: 0 where there was something to find."""
    there = {int(i) for truth in truths for i in truth.class_ids}
    zero = {i: 0.0 if i in there else None for i in range(len(names))}
    classes = {name: {"ap50_95": zero[i], "ap50": zero[i]} for i, name in enumerate(names)}
    return {"ap50_95": 0.0, "ap50": 0.0, "classes": classes}


def _mean(precision: np.ndarray) -> float | None:
    """-1 stands where there was nothing to find."""
    kept = precision[precision > -1]
    return float(kept.mean()) if kept.size else None


def _annotations(truths: Sequence[Truth], classes: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for image, truth in enumerate(truths):
        kept = [(box, int(i), 0) for box, i in zip(truth.boxes, truth.class_ids, strict=True)]
        kept += [(box, i, 1) for i in range(classes) for box in truth.doubtful_of(i)]
        for (x1, y1, x2, y2), class_id, crowd in kept:
            rows.append(
                {
                    "id": len(rows) + 1, "image_id": image, "category_id": class_id,
                    "bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1),
                    "iscrowd": crowd,
                }
            )  # fmt: skip
    return rows


def _results(found: Sequence[Found]) -> list[dict[str, Any]]:
    return [
        {
            "image_id": image, "category_id": int(class_id), "score": float(score),
            "bbox": [float(x1), float(y1), float(x2 - x1), float(y2 - y1)],
        }
        for image, each in enumerate(found)
        for (x1, y1, x2, y2), score, class_id in zip(
            each.boxes, each.scores, each.class_ids, strict=True
        )
    ]  # fmt: skip
