"""Numbers that networks give, as scores and boxes; and what is no number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..package import TensorInfo

Floats = npt.NDArray[np.float32]
# Pixels: larger than any box that means something, and its area is still a finite float32.
LARGEST_SIDE = 1e6
# exp of more would not be finite in float32, and the side is cut to LARGEST_SIDE anyway.
LARGEST_EXPONENT = 80.0
# By how much a device may round a score above 1.
ROUNDING = 1e-3
WHERE = "'tvm-vision check' and 'profile --per-layer-error' show where it goes wrong"


def real_outputs(
    outputs: Mapping[str, npt.NDArray[Any]], specs: Sequence[TensorInfo]
) -> dict[str, npt.NDArray[Any]]:
    """The same outputs, float32 where the network gives integers that stand for real numbers."""
    found = dict(outputs)
    for spec in specs:
        steps, array = spec.steps, outputs.get(spec.name)
        if steps is not None and array is not None and array.dtype == steps.dtype:
            centred = array.astype(np.float32) - np.float32(steps.zero_point)
            found[spec.name] = centred * np.float32(steps.scale)
    return found


def sigmoid(values: npt.NDArray[Any]) -> Floats:
    """1 / (1 + exp(-x)), without an overflow for any x: (1 + tanh(x / 2)) / 2 is the same."""
    result: Floats = np.float32(0.5) * (np.float32(1) + np.tanh(np.float32(0.5) * values))
    return result


def logit(probability: float) -> float:
    """The x of which sigmoid is ``probability``, in 0..1."""
    if probability <= 0:
        return -math.inf
    return math.inf if probability >= 1 else math.log(probability / (1 - probability))


def corners_of(boxes: Floats) -> Floats:
    """Centre x, y, width, height -> x1, y1, x2, y2; boxes [n, 4]."""
    half = np.clip(boxes[:, 2:], 0, LARGEST_SIDE) / 2
    centre = np.clip(boxes[:, :2], -LARGEST_SIDE, LARGEST_SIDE)
    return np.concatenate((centre - half, centre + half), axis=1)


def sides_of(boxes: Floats) -> Floats:
    """Width and height, [n, 2], of boxes [n, 4], x1, y1, x2, y2."""
    return boxes[:, 2:4] - boxes[:, :2]


def refuse_nan(scores: npt.NDArray[Any]) -> None:
    """Raise InputError where a score is NaN."""
    count = np.count_nonzero(np.isnan(scores))
    if count:
        raise InputError(
            f"scores are needed from the network, found NaN in {count} of {scores.size} places: "
            f"{WHERE}"
        )


def refuse_nan_boxes(boxes: npt.NDArray[Any]) -> None:
    """Raise InputError where a box has a side that is NaN."""
    if np.isnan(boxes).any():
        raise InputError(f"boxes in pixels are needed from the network, found NaN: {WHERE}")
