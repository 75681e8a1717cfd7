"""The difference between two results of a network, in numbers that can be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError

# Largest error, relative to the largest value of an output, that a precision may show: float32
# sums in another order; fp16 carries 11 bits, over some dozens of layers; of quantized networks
# onnxruntime's own results with and without its optimisations are up to 2e-2 apart.
TOLERANCES = {"fp32": 1e-3, "fp16": 3e-2, "int8": 5e-2}


@dataclass(frozen=True)
class OutputError:
    """How far an output is from its reference.

    max_abs: largest difference. max_rel: largest difference, relative to the largest reference
    value. mean_abs: mean difference. equal: share of the elements that are exactly equal.
    argmax_agreement: share of the places along the last axis but itself whose arg max is the same;
    None where that axis has one element, and for integers, which are no scores.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    max_rel: float
    mean_abs: float
    equal: float
    argmax_agreement: float | None

    def within(self, tolerance: float) -> bool:
        """Whether it is close enough."""
        return self.error <= tolerance

    @property
    def error(self) -> float:
        """What a tolerance holds for: of integers the share that differs, of others max_rel."""
        return 1.0 - self.equal if self.is_integer else self.max_rel

    @property
    def is_integer(self) -> bool:
        return np.dtype(self.dtype).kind in "iub" if self.dtype != "bfloat16" else False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def tolerance_for(precision: str) -> float:
    """The tolerance of "fp32", "fp16", and "int8" for networks that are quantized."""
    return TOLERANCES[precision]


def compare_outputs(
    ours: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> list[OutputError]:
    """The error of each output, in the order of ``reference``.

    Of an output whose rows the data counts the real ones are compared, and their number, which
    ours alone have: see ``frontend.onnx.bounded``.

    Raises InputError where names or shapes are not the same.
    """
    ours, reference = of_real_rows(ours, reference)
    if set(ours) != set(reference):
        raise InputError(
            f"the same outputs are needed of both, found {', '.join(ours)} and "
            f"{', '.join(reference)}: is this the model that the package was made from?"
        )
    return [compare(name, ours[name], wanted) for name, wanted in reference.items()]


def of_real_rows(
    ours: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Both without the rows that are not real, and with the number of real ones as an output."""
    kept, wanted = dict(ours), {}
    for name, value in reference.items():
        wanted[name] = value
        counts = [f"{name}_count", *(f"{name}_count_{axis}" for axis in range(value.ndim))]
        for count in counts:
            if count in reference or count not in ours or kept[name].ndim != value.ndim:
                continue
            found = int(ours[count])
            axis = _counted_axis(count, kept[name].shape, value.shape, found)
            rows = min(found, value.shape[axis])
            wanted[count] = np.array(value.shape[axis], ours[count].dtype)
            kept[name], wanted[name] = (
                part.take(range(rows), axis) for part in (kept[name], wanted[name])
            )
    return kept, wanted


def _counted_axis(count: str, padded: tuple[int, ...], shape: tuple[int, ...], found: int) -> int:
    """The axis of the rows that an output counts."""
    last = count.rpartition("_")[2]
    if last.isdigit():
        return int(last)
    # Where all rows that there can be are real, the sizes are the same.
    axes = [
        axis for axis, sizes in enumerate(zip(padded, shape, strict=True)) if len(set(sizes)) > 1
    ]
    return axes[0] if axes else shape.index(found) if found in shape else 0


def compare(name: str, ours: np.ndarray, reference: np.ndarray) -> OutputError:
    """The error of one tensor. Raises InputError where the shapes differ."""
    if ours.shape != reference.shape:
        raise InputError(
            f"'{name}' must be {list(reference.shape)} as onnxruntime has it, found "
            f"{list(ours.shape)}: is this the model that the package was made from?"
        )
    first, second = (_normal(value).astype(np.float64) for value in (ours, reference))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(first - second))
    # NaN on one side only, or infinities of other signs, are as wrong as can be.
    difference = np.where(np.isnan(difference), np.inf, difference)
    finite = np.abs(second[np.isfinite(second)])
    scale = finite.max() if finite.size and finite.max() > 0 else 1.0
    worst = float(difference.max(initial=0.0))
    return OutputError(
        name=name,
        shape=tuple(ours.shape),
        dtype=str(ours.dtype),
        max_abs=worst,
        max_rel=worst / float(scale),
        mean_abs=float(difference.mean()) if difference.size else 0.0,
        equal=float(same.mean()) if same.size else 1.0,
        argmax_agreement=_argmax_agreement(ours, reference),
    )


def _normal(value: np.ndarray) -> np.ndarray:
    """``value`` with zeros for float32 numbers too small to have all their bits, which a Vulkan
    device may take for zeros (specification, "Precision and Operation of SPIR-V Instructions")."""
    if value.dtype != np.float32:
        return value
    return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.float32(0), value)


def _argmax_agreement(ours: np.ndarray, reference: np.ndarray) -> float | None:
    if ours.ndim == 0 or ours.shape[-1] < 2 or ours.size == 0 or ours.dtype.kind in "iub":
        return None
    return float((ours.argmax(axis=-1) == reference.argmax(axis=-1)).mean())
