"""What decides which boxes a network's results have, of every network that finds boxes."""

from __future__ import annotations

import numpy as np

from ..errors import InputError


class Thresholds:
    """A confidence, an iou and a number of boxes, which can be changed between frames."""

    def __init__(self, confidence: float, iou: float, max_detections: int) -> None:
        """Raises InputError for values out of their range."""
        self.confidence = confidence
        self.iou = iou
        self.max_detections = max_detections

    @property
    def confidence(self) -> float:
        """Boxes have a score above this, 0 to 1."""
        return self._confidence

    @confidence.setter
    def confidence(self, value: float) -> None:
        self._confidence = _fraction("a confidence", value)

    @property
    def iou(self) -> float:
        """Of two boxes that suppress each other and whose intersection over union is above this,
        the better one stays; 0 to 1."""
        return self._iou

    @iou.setter
    def iou(self, value: float) -> None:
        self._iou = _fraction("an iou", value)

    @property
    def max_detections(self) -> int:
        """Boxes in one result at the most, at least 1."""
        return self._max_detections

    @max_detections.setter
    def max_detections(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"a whole number of detections from 1 on is needed, found {value}")
        self._max_detections = int(value)


def _fraction(what: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    # NaN is in no range.
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{what} from 0 to 1 is needed, found {value}")
    return number
