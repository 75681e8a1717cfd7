"""Results for other tools: supervision's Detections, and results as COCO's JSON has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .results import Detections, SegmentationMask, VisionResult

Bools = npt.NDArray[np.bool_]


def to_supervision(found: Detections | SegmentationMask) -> Any:
    """``supervision.Detections`` with the same boxes, scores and masks.

    Of Detections its ``data`` has class_name for each box; keypoints, float32 [n, k, 3], and
    xyxyxyxy, the corners of oriented boxes, float32 [n, 4, 2], where there are such. Of a
    SegmentationMask it has a mask for each class in the frame but the first one, the background.

    Raises InputError where the package supervision is not installed.
    """
    sv = _supervision()
    if isinstance(found, SegmentationMask):
        return _classes_as_masks(sv, found)
    names = np.array([found.class_names[i] for i in found.class_ids.tolist()], np.str_)
    data: dict[str, Any] = {"class_name": names}
    if found.keypoints is not None:
        data["keypoints"] = found.keypoints
    corners = found.corners()
    if corners is not None:
        data["xyxyxyxy"] = corners
    return sv.Detections(
        xyxy=found.boxes,
        mask=None if found.masks is None else np.asarray(found.masks),
        confidence=found.scores,
        class_id=found.class_ids.astype(np.int64),
        data=data,
    )


def _classes_as_masks(sv: Any, found: SegmentationMask) -> Any:
    ids = [i for i in np.unique(found.mask).tolist() if i]
    masks = np.array([found.mask == i for i in ids], np.bool_).reshape(-1, *found.mask.shape)
    names = np.array([found.class_names[i] for i in ids], np.str_)
    return sv.Detections(
        xyxy=np.array([_bounds(mask) for mask in masks], np.float32).reshape(-1, 4),
        mask=masks,
        class_id=np.array(ids, np.int64),
        data={"class_name": names},
    )


def _supervision() -> Any:
    try:
        import supervision
    except ImportError:
        raise InputError(
            "the package supervision is needed for its Detections, and is not installed: pip "
            "install supervision"
        ) from None
    return supervision


def _bounds(mask: Bools) -> tuple[float, float, float, float]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return float(columns[0]), float(rows[0]), float(columns[-1]) + 1, float(rows[-1]) + 1


def to_coco(
    found: Detections | SegmentationMask | VisionResult,
    image_id: int | str,
    category_ids: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """The entries of COCO's format of results, plain values for json.dumps: one for each object,
    and one for each class that a segmentation shows.

    category_ids: the data set's number of each class; None counts them from 1, as COCO does.
    bbox is x, y, width, height; segmentation a run-length encoding without compression, which
    pycocotools takes; keypoints x, y, confidence in turn.

    Raises InputError where there is not one category_id for each class.
    """
    if isinstance(found, VisionResult):
        parts = (found.detections, found.segmentation)
        return [e for part in parts if part for e in to_coco(part, image_id, category_ids)]
    categories = _categories(category_ids, len(found.class_names))
    if isinstance(found, SegmentationMask):
        return [
            {
                "image_id": image_id,
                "category_id": categories[class_id],
                "segmentation": run_lengths(found.mask == class_id),
            }
            for class_id in np.unique(found.mask).tolist()
        ]
    return [_object(found, i, image_id, categories) for i in range(len(found))]


def _object(
    found: Detections, index: int, image_id: int | str, categories: Sequence[int]
) -> dict[str, Any]:
    x1, y1, x2, y2 = found.boxes[index].tolist()
    entry: dict[str, Any] = {
        "image_id": image_id,
        "category_id": categories[int(found.class_ids[index])],
        "bbox": [x1, y1, x2 - x1, y2 - y1],
        "score": float(found.scores[index]),
    }
    if found.masks is not None:
        entry["segmentation"] = run_lengths(found.masks[index])
    if found.keypoints is not None:
        entry["keypoints"] = found.keypoints[index].reshape(-1).tolist()
    return entry


def _categories(category_ids: Sequence[int] | None, classes: int) -> Sequence[int]:
    if category_ids is None:
        return range(1, classes + 1)
    if len(category_ids) != classes:
        raise InputError(
            f"{classes} category_ids are needed, one for each class, found {len(category_ids)}"
        )
    return category_ids


def run_lengths(mask: Bools) -> dict[str, Any]:
    """A mask, bool [height, width], as COCO's run-length encoding: the lengths of runs of zeros and
    ones in turn, zeros first, column by column."""
    pixels = mask.ravel(order="F")
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    edges = np.concatenate(([0], changes, [pixels.size]))
    counts = np.diff(edges).tolist()
    if pixels.size and pixels[0]:
        counts = [0, *counts]
    return {"size": list(mask.shape), "counts": counts}
