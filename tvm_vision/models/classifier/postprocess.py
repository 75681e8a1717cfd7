"""From logits to named classes with probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..results import Classification


def softmax(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Probabilities over the last axis: exp(x - max x) / sum exp(x - max x), in float64."""
    values = np.asarray(logits, np.float64)
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def classify(logits: npt.ArrayLike, labels: Sequence[str], *, top: int = 5) -> Classification:
    """The ``top`` likeliest classes; equal ones in the order of their index.

    logits: float [classes] or [1, classes]; fewer than ``top`` classes give as many as there are.
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
    probabilities = softmax(values)
    best = np.argsort(-probabilities, kind="stable")[:top]
    return Classification(
        class_ids=tuple(int(index) for index in best),
        labels=tuple(labels[index] for index in best),
        probabilities=tuple(min(1.0, float(probabilities[index])) for index in best),
    )
