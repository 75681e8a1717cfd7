"""From logits to named classes with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..results import Classification

SUM_TOLERANCE = 1e-3


def softmax(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Probabilities over the last axis: exp(x - max x) / sum exp(x - max x), in float64."""
    values = np.asarray(logits, np.float64)
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def probabilities_of(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Softmax of logits; what is a distribution already stays as it is.

    Many exported networks end in a softmax. None below 0 and a sum of 1 (to 1e-3) tell; logits
    that look like that by chance differ from their softmax only in how sure they are.
    """
    exact = np.asarray(values, np.float64)
    if exact.size > 1 and exact.min() >= 0.0 and abs(exact.sum() - 1.0) <= SUM_TOLERANCE:
        return exact / exact.sum()
    return softmax(exact)


def classify(logits: npt.ArrayLike, labels: Sequence[str], *, top: int = 5) -> Classification:
    """The ``top`` likeliest classes; equal ones in the order of their index.

    logits: float [classes] or [1, classes], or their softmax; fewer than ``top`` classes give as
    many as there are.
    labels: one name for each class.

    Raises InputError for another shape, a wrong number of labels, NaN, or top below 1.
    """
    values = np.asarray(logits)
    if values.ndim == 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"expected logits [classes] or [1, classes], got {list(values.shape)}")
    if len(labels) != values.size:
        raise InputError(f"expected {values.size} labels, one a class, got {len(labels)}")
    if top < 1:
        raise InputError(f"expected a top of at least 1, got {top}")
    if not np.isfinite(values).all():
        raise InputError("expected finite logits, got NaN or infinity: the network went wrong")
    probabilities = probabilities_of(values)
    best = np.argsort(-probabilities, kind="stable")[:top]
    return Classification(
        class_ids=tuple(int(index) for index in best),
        labels=tuple(labels[index] for index in best),
        probabilities=tuple(min(1.0, float(probabilities[index])) for index in best),
    )
