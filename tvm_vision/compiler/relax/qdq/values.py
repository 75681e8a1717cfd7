"""What a tensor of a quantized network is in bytes, while ``rewriter`` rewrites the network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

BYTE = np.iinfo(np.int8)


@dataclass(frozen=True)
class QuantizedTensor:
    """The tensor (var - zero) * scale, of which memory holds ``var`` in int8.

    Attributes:
        var: the variable of the int8 tensor.
        zero: a whole number that is taken off; where it stands for a zero point it fits int8.
        scale: 1 for whole numbers.
        dtype: the type that the network gives the tensor: float32, int32, int8 or uint8.
    """

    var: Any
    zero_point: int
    scale: np.float32
    dtype: str

    def with_var(self, var: Any) -> QuantizedTensor:
        """Another tensor of the same zero point, scale and type."""
        return replace(self, var=var)

    def alike(self, other: QuantizedTensor) -> bool:
        """Whether equal bytes mean equal numbers in both."""
        return self.with_var(other.var) == other


@dataclass(frozen=True)
class Joined:
    """A concatenation along ``axis`` of parts that differ in scale or zero point."""

    parts: tuple[QuantizedTensor, ...]
    axis: int


@dataclass(frozen=True)
class Sums:
    """Real numbers ``var * scale``, of which ``var`` is int32: sums of products.

    scale: one, or one for each place along ``axis``.
    """

    var: Any
    scale: np.ndarray
    axis: int


@dataclass(frozen=True)
class Weights:
    """A constant of real numbers: (numbers - zero) * scale, both of one value or along ``axis``."""

    numbers: np.ndarray
    zero_point: np.ndarray
    scale: np.ndarray
    axis: int

    def real(self) -> np.ndarray:
        """The constant itself, in float32."""
        ndim = self.numbers.ndim
        centred = self.numbers.astype(np.int32) - along(
            self.zero_point.astype(np.int32), ndim, self.axis
        )
        return centred.astype(np.float32) * along(self.scale, ndim, self.axis)

    def symmetric(self, axis: int) -> bool:
        """Whether it is int8 times one scale, or one for each place along ``axis``."""
        of_axis = self.scale.size == 1 or self.axis % self.numbers.ndim == axis
        return self.numbers.dtype == np.int8 and not self.zero_point.any() and of_axis

    def fits(self, sums: Sums) -> bool:
        """Whether it is whole numbers of the scales of ``sums``, so that they can be added up."""
        ndim = sums.var.ty.ndim
        shape = (1,) * (ndim - self.numbers.ndim) + self.numbers.shape
        if self.numbers.dtype != np.int32 or self.zero_point.any() or len(shape) != ndim:
            return False
        places = [axis for axis, size in enumerate(shape) if size != 1]
        return places in ([], [sums.axis]) and np.array_equal(
            np.broadcast_to(self.scale, sums.scale.shape), sums.scale
        )

    def transposed(self, axes: list[int]) -> Weights:
        """With its axes in another order."""
        axis = axes.index(self.axis % self.numbers.ndim)
        return replace(self, numbers=self.numbers.transpose(axes), axis=axis)


def along(values: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    """One value as a scalar, several as a tensor of ``ndim`` axes that varies along ``axis``."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * ndim
    shape[axis] = -1
    return values.reshape(shape)
