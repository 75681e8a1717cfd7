"""What a confidence costs: recall and precision above it, and the one where both are best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

# Confidences that best_f1 chooses from: hundredths, as finer ones are chance.
CHOICES = np.arange(1, 100) / 100


@dataclass(frozen=True)
class OperatingPoint:
    """One class at one confidence. recall: the share of its objects that is found, NaN where there
    is none; precision: the share of its detections that is right, NaN where there is none."""

    confidence: float
    recall: float
    precision: float

    @property
    def f1(self) -> float:
        """The harmonic mean of both: 2 TP / (2 TP + FP + FN); 0 where either is 0 or NaN."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both > 0 else 0.0


def operating_point(
    hits: Array, scores: Array, positives: int, confidence: float
) -> OperatingPoint:
    """What is left of detections of a class whose scores [n] are above a confidence. hits: bool
    [n], whether each found an object; positives: how many objects there are."""
    kept = np.asarray(scores, np.float64) > confidence
    good, count = int(np.asarray(hits, bool)[kept].sum()), int(kept.sum())
    return OperatingPoint(
        float(confidence),
        good / positives if positives else float("nan"),
        good / count if count else float("nan"),
    )


def best_f1(hits: Array, scores: Array, positives: int, slack: float = 0.0) -> OperatingPoint:
    """The operating point of the largest F1 among CHOICES; of equal ones the middle one, which
    stands farthest from where it gets worse. slack: how much F1 may be below it; then the highest
    confidence of those, which finds least that is false."""
    points = [operating_point(hits, scores, positives, float(choice)) for choice in CHOICES]
    values = np.array([point.f1 for point in points])
    if slack:
        return points[int(np.flatnonzero(values >= values.max() - slack)[-1])]
    best = np.flatnonzero(values == values.max())
    return points[int(best[len(best) // 2])]
