"""Convolutions of few results: a product for all taps, then a sum of what it gives.

A block of channels that holds one result leaves most lanes of each vector empty, for each tap of
the window anew. So the taps become channels: one convolution of single pixels multiplies each pixel
with the weights of all taps, and each result adds up what its taps gave at their pixels. Nine taps
of one result are then one block instead of nine.

Of large windows the taps of a row are channels, or those of a column, and the product has a window
along the other axis: a sum of 7 numbers instead of 49, which are read one by one.

Transposed convolutions with strides are such sums, too: of the taps that fall on a result's place.
After Anderson et al., "Low-memory GEMM-based convolution algorithms for deep neural networks",
2017 (the kn2 family).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_vision.topi import nchwc as blocked

# In products of vectors, measured (benchmarks/cpu.md): a number of a block that is written and read
# again, a term of a sum, a number that is moved, and by how much the whole has to be less than the
# convolution.
NUMBERS, TERM, MOVE = 4, 1.5, 5
MARGIN = 0.6


@dataclass(frozen=True)
class TapProducts:
    """A convolution of few results as a product and a sum, by axes (height, width).

    Attributes:
        kernel: numbers of the weights that are channels of the product.
        spacing: pixels between two taps of a result.
        strides: results between the places of two pixels; 1 but for transposed convolutions.
        first: places before the first result.
        window: of the product, with the other numbers of the weights.
        size: of the result.
    """

    kernel: tuple[int, ...]
    spacing: tuple[int, ...]
    strides: tuple[int, ...]
    first: tuple[int, ...]
    window: blocked.SlidingWindow
    size: tuple[int, ...]

    @classmethod
    def of_windows(
        cls, window: blocked.SlidingWindow, size: Sequence[int]
    ) -> Iterator[TapProducts]:
        """Of a convolution, the axes that its window moves along by single pixels as taps, or one
        of them; size: of the result."""
        for along in ((True, True), (False, True), (True, False)):
            steps = zip(along, window.strides, window.kernel, strict=True)
            if all(not taps or (stride == 1 and k > 1) for taps, stride, k in steps):
                yield cls._along(window, along, size)

    @classmethod
    def _along(
        cls, window: blocked.SlidingWindow, along: tuple[bool, ...], size: Sequence[int]
    ) -> TapProducts:
        def either(taps: Sequence[int], others: Sequence[int]) -> Any:
            return tuple(t if a else o for a, t, o in zip(along, taps, others, strict=True))

        ones = (1, 1)
        rest = blocked.SlidingWindow(
            either(ones, window.kernel), window.strides, window.top, window.left,
            either(ones, window.dilation),
        )  # fmt: skip
        taps, spacing = either(window.kernel, ones), either(window.dilation, ones)
        return cls(taps, spacing, ones, (0, 0), rest, tuple(size))

    @classmethod
    def of_transposed(
        cls, kernel: Sequence[int], strides: Sequence[int], cut: Sequence[int], size: Sequence[int]
    ) -> TapProducts:
        """Of a transposed convolution; cut: results that are left out before the first."""
        top, left = (-(-k // stride) - 1 for k, stride in zip(kernel, strides, strict=True))
        window = blocked.SlidingWindow((1, 1), (1, 1), top, left, (1, 1))
        return cls(tuple(kernel), (1, 1), tuple(strides), tuple(cut), window, tuple(size))

    @property
    def taps(self) -> tuple[int, ...]:
        """Of one result, at most."""
        return tuple(-(-k // s) for k, s in zip(self.kernel, self.strides, strict=True))

    @property
    def pixels(self) -> tuple[int, ...]:
        """The size of the product's image, with the zeros around it."""
        axes = zip(self.first, self.size, self.strides, self.taps, self.spacing, strict=True)
        return tuple(
            (first + size - 1) // stride + (taps - 1) * spacing + 1
            for first, size, stride, taps, spacing in axes
        )

    def pays(self, inputs: int, outputs: int, block: int) -> bool:
        """Whether fewer vectors are multiplied, with blocks of ``block`` channels."""
        results, taps = math.prod(self.size), math.prod((*self.taps, *self.window.kernel))
        whole = results * taps * blocked.blocks_of(outputs, block) * inputs
        return self.cost(inputs, outputs, block) <= MARGIN * whole

    def cost(self, inputs: int, outputs: int, block: int) -> float:
        """In products of vectors."""
        results, taps = math.prod(self.size), math.prod(self.taps)
        channels = math.prod(self.kernel) * outputs
        parts = math.prod(self.pixels) * blocked.blocks_of(channels, block)
        terms = math.prod(self.window.kernel) * inputs
        return parts * (terms + NUMBERS) + results * outputs * taps * TERM

    @property
    def places(self) -> tuple[int, ...]:
        """How often a stride goes into the result and what is left out before it, rounded up."""
        axes = zip(self.first, self.size, self.strides, strict=True)
        return tuple(-(-(first + size) // stride) for first, size, stride in axes)

    def is_better_by_remainder(self, inputs: int, outputs: int, block: int) -> bool:
        """Whether less is done where the results between two pixels are channels beside each other:
        than where each of them has blocks of its own, and than by taps."""
        results, taps = math.prod(self.size), math.prod(self.taps)
        # Summed, put to its place, and taken out of blocks.
        whole = results * blocked.blocks_of(outputs, block) * (taps * inputs + 3 * NUMBERS)
        pitch = blocked.pitch_of(self.strides[1])
        if pitch > block:
            return False
        channels = outputs * self.strides[0] * pitch
        parts = math.prod(self.places) * blocked.blocks_of(channels, block)
        together = parts * (taps * inputs + NUMBERS) + results * outputs * MOVE
        return together <= min(MARGIN * whole, self.cost(inputs, outputs, block))

    def of_product(self, weights: np.ndarray) -> np.ndarray:
        """Weights (i, o, kh, kw) of a transposed convolution as those of the product."""
        inputs, outputs, *_ = weights.shape
        taps, window = self.kernel, self.window.kernel
        inner = [2 + axis for axis in range(2) if window[axis] > 1]
        parts = (inputs, outputs, taps[0], window[0], taps[1], window[1])
        apart = np.flip(weights, inner).reshape(parts)
        return apart.transpose(1, 2, 4, 0, 3, 5).reshape(-1, inputs, *window)

    def added(self, products: Any, outputs: int) -> Any:
        """The sum of taps of ``products``, a TE tensor in blocks of channels (outputs kh kw), as TE
        computes it: (n, outputs, height, width)."""
        shape = (outputs, *self.size)
        return blocked.sum_of_taps(
            products, self.kernel, self.spacing, self.strides, self.first, shape
        )


def as_transposed(weights: np.ndarray) -> np.ndarray:
    """Weights (o, i, kh, kw) of a convolution as those (i, o, kh, kw) of the transposed one that it
    is, without a copy: the last tap, which is at a result's own pixel, first."""
    return np.flip(weights, (2, 3)).swapaxes(0, 1)
