"""A network that finds objects, at work: frames in, boxes and what belongs to them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...runtime.graph_executor import GraphExecutor
from ..class_options import Given
from ..frame_model import Arrays, FrameModel
from ..frames import Letterbox
from ..nms import oriented_exceed, suppress
from ..results import Detections, box_corners
from ..thresholds import Thresholds, UsualThresholds
from ..values import Floats, sides_of
from .boxes import Grid, read_boxes
from .candidates import box_table, extra_values, find_candidates
from .masks import read_masks


class ObjectDetector(Thresholds, FrameModel):
    """A network of kind yolo, detr or ssd: how its outputs are read stands in its package.

    ``ObjectDetector.load(path)`` or ``load_model(path)`` make one.
    """

    part = "detection"

    def __init__(
        self,
        executor: GraphExecutor,
        *,
        confidence: float | None = None,
        iou: float | None = None,
        max_detections: int | None = None,
        class_options: Given | None = None,
    ) -> None:
        """confidence, iou, max_detections, class_options: see the properties, by which they can be
        changed; None: what the package says.

        Raises InputError where the package does not say how boxes are read, or for other values.
        """
        FrameModel.__init__(self, executor)
        info = self._model.detection
        assert info is not None  # FrameModel has looked for it
        thresholds = self._model.class_thresholds
        Thresholds.__init__(
            self,
            self.class_names,
            UsualThresholds(info.confidence, info.iou, info.max_detections, thresholds),
            confidence=confidence,
            iou=iou,
            max_detections=max_detections,
            class_options=class_options,
        )
        self._info = info
        self._grid = Grid(self.size, info.strides, info.anchors) if info.strides else None

    @property
    def class_groups(self) -> npt.NDArray[np.int32]:
        """For each class a number that it shares with the classes whose boxes it suppresses."""
        count = len(self.class_names)
        if self._info.across_classes:
            return np.zeros(count, np.int32)
        return np.arange(count, dtype=np.int32)

    def interpret(self, outputs: Arrays, letterbox: Letterbox) -> dict[str, Any]:
        return {"detections": self.find(outputs, letterbox)}

    def find(self, outputs: Arrays, letterbox: Letterbox) -> Detections:
        """The objects that the network's outputs say are in the frame that lies there."""
        info, names, rules = self._info, self._model.labels, self.class_rules
        found = find_candidates(outputs, info, len(names), rules.least)
        if not rules.alike:
            found = found[rules.admitted(found.scores, found.class_ids)]
        boxes = read_boxes(outputs, info, found.places, self.size, self._grid)
        extras = self._extras(outputs, found.places)
        if info.oriented:
            boxes = np.concatenate((boxes, extras[:, -1:]), axis=1)
        if not rules.any_size:
            large = rules.large_enough(self._sides(boxes, letterbox), found.class_ids)
            found, boxes, extras = found[large], boxes[large], extras[large]
        kept = self._kept(boxes, found.scores, found.class_ids)
        oriented = _turned(boxes[kept], letterbox) if info.oriented else None
        placed = _around(oriented, letterbox) if oriented is not None else (
            letterbox.to_image(boxes[kept])
        )  # fmt: skip
        # What lay in the padding alone has no area in the frame.
        seen = (placed[:, 2] > placed[:, 0]) & (placed[:, 3] > placed[:, 1])
        kept, placed, extras = kept[seen], placed[seen], extras[kept[seen]]
        masks = None
        if info.prototypes:
            prototypes = outputs[info.prototypes][0]
            if info.prototypes_last:
                prototypes = np.moveaxis(prototypes, -1, 0)
            coefficients = extras[:, : len(prototypes)]
            masks = read_masks(prototypes, coefficients, placed, letterbox, self.size)
        return Detections(
            placed,
            found.scores[kept],
            found.class_ids[kept].astype(np.int32),
            names,
            masks=masks,
            keypoints=self._keypoints(extras, letterbox) if info.keypoints else None,
            oriented_boxes=None if oriented is None else oriented[seen],
        )

    def _kept(
        self, boxes: Floats, scores: Floats, class_ids: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Positions of the boxes that stay, the best first."""
        info, rules = self._info, self.class_rules
        if not info.suppress or self.iou >= 1:  # no two boxes overlap by more
            kept = np.argsort(-scores, kind="stable")
        else:
            kept = suppress(
                boxes,
                scores,
                self.class_groups[class_ids],
                iou=self.iou,
                limit=rules.limit(self.max_detections, len(scores)),
                exceeds=oriented_exceed if info.oriented else None,
            )
        return kept[rules.first(class_ids[kept])][: self.max_detections]

    def _sides(self, boxes: Floats, letterbox: Letterbox) -> Floats:
        """Of boxes of the input the sides in pixels of the frame, float32 [n, 2]."""
        if self._info.oriented:
            return _turned(boxes, letterbox)[:, 2:4]
        return sides_of(letterbox.to_image(boxes))

    def _extras(self, outputs: Arrays, places: npt.NDArray[np.int64]) -> Floats:
        """What stands behind the scores in the rows of candidates, float32 [n, values]."""
        info = self._info
        count = extra_values(outputs, info)
        if not count:
            return np.empty((len(places), 0), np.float32)
        values = box_table(outputs, info)
        return values[len(values) - count :, places].T.astype(np.float32, copy=False)

    def _keypoints(self, extras: Floats, letterbox: Letterbox) -> Floats:
        """Keypoints float32 [n, k, 3] of the frame; where a network does not say how sure it is of
        one, it is."""
        info = self._info
        points = extras[:, extras.shape[1] - info.keypoints * info.keypoint_values :]
        points = points.reshape(-1, info.keypoints, info.keypoint_values)
        result = np.ones((len(points), info.keypoints, 3), np.float32)
        places = points[..., :2]
        if info.relative:
            places = places * np.array(self.size[::-1], np.float32)
        result[..., :2] = letterbox.points_to_image(places)
        if info.keypoint_values == 3:
            result[..., 2] = points[..., 2]
        return result


def _turned(boxes: Floats, letterbox: Letterbox) -> Floats:
    """Oriented boxes [n, 5] of the input -> of the frame; each side is scaled in its direction."""
    scale = letterbox.scale
    centre, sides, angle = boxes[:, :2], boxes[:, 2:4], boxes[:, 4]
    along = np.stack((np.cos(angle), np.sin(angle)), axis=1) * scale
    across = np.stack((-np.sin(angle), np.cos(angle)), axis=1) * scale
    lengths = np.stack([np.linalg.norm(axis, axis=1) for axis in (along, across)], axis=1)
    turned = np.arctan2(along[:, 1], along[:, 0])[:, None]
    placed = letterbox.points_to_image(centre)
    return np.concatenate((placed, sides * lengths, turned), axis=1).astype(np.float32)


def _around(oriented: Floats, letterbox: Letterbox) -> Floats:
    """The upright boxes around oriented ones of the frame, cut at its edges."""
    corners = box_corners(oriented)
    boxes = np.concatenate((corners.min(axis=1), corners.max(axis=1)), axis=1)
    rows, columns = letterbox.image
    return np.clip(boxes, 0, np.array([columns, rows] * 2, np.float32))
