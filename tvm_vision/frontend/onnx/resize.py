"""Resizing along one axis as a matrix or as indices, by the formulas of ONNX's Resize-19.

For the forms of Resize that TVM gets wrong: they become a Gather or a MatMul for each axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CROPS = "tf_crop_and_resize"


@dataclass(frozen=True)
class AxisResize:
    """How one axis is resized: ``before`` to ``after`` elements by the factor ``scale``.

    region: which part of the axis is taken where coordinates crop, from 0 to 1, or beyond them.
    """

    before: int
    after: int
    scale: float
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def unchanged(self) -> bool:
        """True where the result is what went in."""
        if self.coordinates == CROPS:
            return self.before == self.after and self.region == (0, 1)
        return self.before == self.after and self.scale == 1

    def sources(self, dtype: type = np.float64) -> np.ndarray:
        """Position in the input of each element of the output, computed in ``dtype``.

        Raises ValueError for coordinates that are unknown.
        """
        x: np.ndarray = np.arange(self.after, dtype=dtype)
        before, after, scale = self.before, self.after, dtype(self.scale)
        if self.coordinates == "half_pixel":
            return (x + 0.5) / scale - 0.5
        if self.coordinates == "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        if self.coordinates == "half_pixel_symmetric":
            # Of these the middle alone is of single precision in onnxruntime.
            middle = dtype(before) / 2 * (1 - dtype(after) / (scale * dtype(before)))
            wide = float(middle) + (x.astype(np.float64) + 0.5) / float(scale) - 0.5
            return wide.astype(dtype)
        if self.coordinates == "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if after > 1 else x * 0
        if self.coordinates == "align_corners":
            # Of the sizes that there are, as ONNX's words, onnxruntime and PyTorch have it; ONNX's
            # node tests take the size before it is rounded down, which leaves the corners.
            return x * (before - 1) / (after - 1) if after != 1 else x * 0
        if self.coordinates == "asymmetric":
            return x / scale
        if self.coordinates == CROPS:
            start, end = map(dtype, self.region)
            if after > 1:
                return start * (before - 1) + x * (end - start) * (before - 1) / dtype(after - 1)
            return x + dtype(0.5) * (start + end) * (before - 1)
        raise ValueError(f"coordinate_transformation_mode {self.coordinates} on these axes")


def outside(axis: AxisResize) -> np.ndarray:
    """Which elements of the output lie outside of the input, where coordinates crop."""
    # By single precision, as in onnxruntime.
    sources = axis.sources(np.float32)
    return (axis.coordinates == CROPS) & ((sources < 0) | (sources > axis.before - 1))


def nearest_indices(axis: AxisResize) -> np.ndarray:
    """Index in the input of each element of the output, int64."""
    # Which pixel is nearest is decided by single precision, as in onnxruntime: 3 / 0.6 is 5 there,
    # and below it in double precision of the same 0.6.
    sources = axis.sources(np.float32).astype(
        np.float64
    )  # a half below it is none rounded up to it
    rounded = {
        "round_prefer_floor": np.ceil(sources - 0.5),
        "round_prefer_ceil": np.floor(sources + 0.5),
        "floor": np.floor(sources),
        "ceil": np.ceil(sources),
    }[axis.nearest]
    return np.clip(rounded, 0, axis.before - 1).astype(np.int64)


def weights(axis: AxisResize, mode: str) -> np.ndarray:
    """The matrix (after, before), float64, of mode "linear" or "cubic"; its rows sum to 1."""
    support = 1 if mode == "linear" else 2
    kernel = _triangle if mode == "linear" else lambda t: _cubic(t, axis.cubic_a)
    # Anti-aliasing widens the kernel to what one output element covers.
    shrink = min(axis.scale, 1.0) if axis.antialias else 1.0
    reach = int(np.ceil(support / shrink))
    matrix = np.zeros((axis.after, axis.before))
    for row, source in enumerate(axis.sources()):
        taps = np.arange(np.floor(source) - reach, np.floor(source) + reach + 2).astype(np.int64)
        values = kernel(np.abs(taps - source) * shrink)
        if axis.exclude_outside:
            values = np.where((taps >= 0) & (taps < axis.before), values, 0)
        total = values.sum()
        # Beyond an edge lies the edge again.
        np.add.at(matrix[row], np.clip(taps, 0, axis.before - 1), values / total)
    return matrix


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.clip(1 - distance, 0, None)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel (1981), with its free parameter ``a``."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))
