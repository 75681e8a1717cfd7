"""Results for other tools: supervision's Detections, pandas' tables, and COCO's JSON."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ..error_lines import last_line
from ..errors import InputError
from .results import Classification, Detections, SegmentationMask, VisionResult

Bools = npt.NDArray[np.bool_]


def to_supervision(found: Detections | SegmentationMask | VisionResult) -> Any:
    """``supervision.Detections`` with the same boxes, scores and masks, and ids where objects are
    tracked, -1 for one without.

    Of Detections its ``data`` has class_name for each box; keypoints, float32 [n, k, 3], and
    xyxyxyxy, the corners of oriented boxes, float32 [n, 4, 2], where there are such. Of a
    SegmentationMask it has a mask for each class in the frame but the first one, the background.
    Of a VisionResult its objects are taken, or else its pixels.

    Raises InputError where the package supervision is not installed, or a result has neither.
    """
    sv = _package("supervision", "its Detections")
    if isinstance(found, VisionResult):
        part = found.segmentation if found.detections is None else found.detections
        if part is None:
            raise InputError(
                "supervision's Detections are made of objects or of classes of pixels, and the "
                "result has neither: use to_pandas"
            )
        found = part
    if isinstance(found, SegmentationMask):
        return _classes_as_masks(sv, found)
    names = np.array([found.class_names[i] for i in found.class_ids.tolist()], np.str_)
    ids = found.track_ids
    tracked = {} if ids is None else {"tracker_id": np.where(ids == 0, -1, ids)}
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
        **tracked,
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


def to_pandas(found: Detections | SegmentationMask | Classification | VisionResult) -> Any:
    """A ``pandas.DataFrame`` with a row for each object, class, or class of pixels.

    Columns: name, class_id; of objects score, x1, y1, x2, y2 (pixels of the frame), and, where they
    are tracked, track_id (0: none); of classes score, of pixels share, in 0..1. Of a VisionResult
    the first of these that it has.

    Raises InputError where the package pandas is not installed, or a result has none of these.
    """
    pd = _package("pandas", "a DataFrame")
    if isinstance(found, VisionResult):
        parts = (found.detections, found.classification, found.segmentation)
        part = next((part for part in parts if part is not None), None)
        if part is None:
            raise InputError(
                "a table is made of objects, classes or classes of pixels, and the result has "
                "none of them: use result.depth.values"
            )
        found = part
    return pd.DataFrame(_columns(found))


def _columns(found: Detections | SegmentationMask | Classification) -> dict[str, Any]:
    if isinstance(found, Classification):
        return {"name": found.labels, "class_id": found.class_ids, "score": found.scores}
    names = found.class_names
    if isinstance(found, SegmentationMask):
        ids = np.unique(found.mask).tolist()
        shares = [float(np.mean(found.mask == i)) for i in ids]
        return {"name": [names[i] for i in ids], "class_id": ids, "share": shares}
    edges = dict(zip(("x1", "y1", "x2", "y2"), found.boxes.T, strict=True))
    ids = found.class_ids.tolist()
    tracks = {} if found.track_ids is None else {"track_id": found.track_ids}
    named = {"name": [names[i] for i in ids], "class_id": ids, "score": found.scores}
    return {**named, **edges, **tracks}


def _package(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"the package {name} is needed for {what}, and cannot be imported "
            f"({last_line(error)}): pip install {name}"
        ) from None


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
        parts = [part for part in (found.detections, found.segmentation) if part is not None]
        return [entry for part in parts for entry in to_coco(part, image_id, category_ids)]
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
