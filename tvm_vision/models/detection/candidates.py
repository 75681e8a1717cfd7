"""Which of a network's candidates may count: their scores and classes, as its package says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...package import DetectionInfo
from ..values import ROUNDING, logit, refuse_nan, sigmoid

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Outputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Candidates:
    """Boxes that may count, in no order.

    places: int64 [n], each a position among all candidates. scores: float32 [n], in 0..1.
    class_ids: int64 [n], below the number of classes.
    """

    places: Ints
    scores: Floats
    class_ids: Ints

    def __getitem__(self, some: npt.NDArray[np.bool_]) -> Candidates:
        """Those that are chosen, by bool [n]."""
        return Candidates(self.places[some], self.scores[some], self.class_ids[some])


def box_table(outputs: Outputs, info: DetectionInfo) -> Floats:
    """Values of all candidates' rows, float [values, candidates]."""
    return table(outputs, info.boxes, info.transposed, info.anchors_of_stride)


def table(outputs: Outputs, names: Sequence[str], transposed: bool, anchors: int = 0) -> Floats:
    """Values of all candidates, float [values, candidates], of outputs one behind the other.

    anchors: in each cell, of outputs with the axes of their grids.
    """
    parts = [_plain(outputs[name], anchors) for name in names]
    parts = parts if transposed else [part.T for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def find_candidates(
    outputs: Outputs, info: DetectionInfo, classes: int, confidence: float
) -> Candidates:
    """The candidates whose score is above ``confidence``; of each the best class, or all of them.

    Raises InputError for scores that are none: NaN, above 1, or of a class that is not there.
    """
    limit = None if not info.count else int(outputs[info.count].reshape(-1)[0])
    if info.row == "best" or info.classes:
        found = _of_the_best(outputs, info, confidence, limit)
    else:
        found = _of_each_class(outputs, info, confidence, limit)
    scores = found.scores
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1 + ROUNDING):
        raise InputError(
            f"scores of 0 to 1 are needed from the network, found {scores.min():g} to "
            f"{scores.max():g}: compile it with another --kind, or, where these are logits, with "
            "--kind-option activation=sigmoid or softmax"
        )
    ids = found.class_ids
    if ids.size and not 0 <= ids.min() <= ids.max() < classes:
        raise InputError(
            f"classes of 0 to {classes - 1} are needed from the network, found {ids.min()} to "
            f"{ids.max()}: compile it with --labels that name them all, or with --kind-option "
            "first_class=NUMBER"
        )
    return Candidates(found.places, np.minimum(scores, np.float32(1)), ids)


def _of_the_best(
    outputs: Outputs, info: DetectionInfo, confidence: float, limit: int | None
) -> Candidates:
    """Of a network that names one class for each box."""
    if info.scores:
        scores = np.concatenate([outputs[name].reshape(-1) for name in info.scores])
    else:
        scores = box_table(outputs, info)[4]
    scores = scores[:limit]
    refuse_nan(scores)
    places = np.flatnonzero(_activated(scores, info) > confidence)
    if info.classes:
        numbers = outputs[info.classes].reshape(-1)[places]
    else:
        numbers = box_table(outputs, info)[5, places]
    class_ids = np.round(numbers).astype(np.int64) - info.first_class
    chosen = _activated(scores[places], info).astype(np.float32)
    return Candidates(places, chosen, class_ids)


def _of_each_class(
    outputs: Outputs, info: DetectionInfo, confidence: float, limit: int | None
) -> Candidates:
    """Of a network that gives each box a score for each class."""
    if info.scores:
        values = table(outputs, info.scores, False)
    else:
        rows = box_table(outputs, info)
        extra = extra_values(outputs, info)
        values = rows[info.box_values : len(rows) - extra]
    values = values[:, :limit]
    if info.row == "objectness":
        objectness = _activated(values[0], info)
        refuse_nan(objectness)
        likely = np.flatnonzero(objectness > confidence)
        scores = _activated(values[1:, likely], info) * objectness[likely]
    else:
        if info.activation == "softmax":
            values = _softmax(values)
        values = values[_first_label(info) : len(values) - (info.background == "last")]
        best = values.max(axis=0)
        refuse_nan(best)
        # sigmoid rises, so that the threshold can be put on what goes into it.
        least = logit(confidence) if info.activation == "sigmoid" else confidence
        likely = np.flatnonzero(best > least)
        scores = _activated(values[:, likely], info)
    scores = scores.astype(np.float32, copy=False)
    if info.multi_label:
        class_ids, chosen = np.nonzero(scores > confidence)
        return Candidates(likely[chosen], scores[class_ids, chosen], class_ids)
    if not len(likely):
        return Candidates(likely, np.empty(0, np.float32), likely)
    class_ids = scores.argmax(axis=0)
    best = scores[class_ids, np.arange(len(likely))]
    counts = best > confidence
    return Candidates(likely[counts], best[counts], class_ids[counts])


def _first_label(info: DetectionInfo) -> int:
    return int(info.background == "first")


def extra_values(outputs: Outputs, info: DetectionInfo) -> int:
    """Values behind the scores in a row."""
    if not info.prototypes:
        return info.extra_values(0)
    return info.extra_values(info.coefficients(outputs[info.prototypes].shape))


def _plain(output: npt.NDArray[Any], anchors: int) -> npt.NDArray[Any]:
    """An output [candidates, values] without its batch of one, its anchors one after the other."""
    if output.ndim == 4:
        parts = output.reshape(anchors, output.shape[1] // anchors, -1)
        output = parts.transpose(0, 2, 1)
    return output.reshape(-1, output.shape[-1]) if output.ndim > 2 else output


def _activated(values: npt.NDArray[Any], info: DetectionInfo) -> npt.NDArray[Any]:
    """Scores of single values; a softmax, over all classes, has been taken before."""
    return sigmoid(values) if info.activation == "sigmoid" else values


def _softmax(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Over the classes, the first axis."""
    exponentials = np.exp(values - values.max(axis=0))
    result: npt.NDArray[Any] = exponentials / exponentials.sum(axis=0)
    return result
