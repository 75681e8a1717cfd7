"""Transposed convolutions that sum only over the weights that meet a pixel.

With stride s, place o of an axis of the result adds x[i] · w[k] where o + padding = s·i + d·k, d
the dilation: of K weights every s-th or so, the first by the remainder of o. As a convolution with
zeros between pixels, all K would be multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx, topi


@dataclass(frozen=True)
class TransposedAxis:
    """One axis of a transposed convolution.

    Attributes:
        size, kernel, length: pixels of the image, weights, and pixels of the result.
        stride, padding, dilation: as ONNX has them; ``padding`` is that before the image.
    """

    size: int
    kernel: int
    length: int
    stride: int
    padding: int
    dilation: int = 1

    @property
    def common(self) -> int:
        """Only every so many places of the result have terms."""
        return math.gcd(self.stride, self.dilation)

    @property
    def phases(self) -> int:
        """From a weight of a place to the next one, in weights."""
        return self.stride // self.common

    @property
    def taps(self) -> int:
        """Weights of a place."""
        return -(-self.kernel // self.phases)

    def first(self, place: Any) -> tuple[Any, Any]:
        """The first weight of a place of the result, an int or an expression, and its pixel; of the
        next weight it is ``dilation // common`` pixels before that."""
        ahead = place + self.padding
        if self.dilation == 1:  # as TVM would not simplify what is below
            return ahead % self.stride, ahead // self.stride
        inverse = pow(self.dilation // self.common, -1, self.phases)
        weight = ahead // self.common * inverse % self.phases
        return weight, (ahead - weight * self.dilation) // self.stride

    def zeros(self) -> tuple[int, int]:
        """Around the image, for what all places read."""
        back = (self.taps - 1) * (self.dilation // self.common)
        pixels = [self.first(place)[1] for place in range(self.length)]
        return max(0, back - min(pixels)), max(0, max(pixels) - self.size + 1)


def whole_phases(axes: Sequence[TransposedAxis]) -> list[int]:
    """Zeros that weights need behind each axis, so that every phase has as many."""
    return [axis.taps * axis.phases - axis.kernel for axis in axes]


def transposed_convolution(
    image: te.Tensor, weights: te.Tensor, axes: Sequence[TransposedAxis], groups: int = 1
) -> te.Tensor:
    """The transposed convolution of an image.

    Args:
        image: (batch, inputs, *sizes), floating.
        weights: (inputs, outputs / groups, *kernel), each axis with the zeros of ``whole_phases``.
        axes: the axes behind the channels.
        groups: of channels; a result is of the inputs of its own group.

    Returns:
        (batch, outputs, *lengths), of the image's dtype.
    """
    batch, inputs = (int(extent) for extent in image.shape[:2])
    outputs = int(weights.shape[1])
    each = inputs // groups
    around = [axis.zeros() for axis in axes]
    before, after = ([0, 0, *zeros] for zeros in zip(*around, strict=True))
    padded = topi.nn.pad(image, before, after, name="padded")
    channel = te.reduce_axis((0, each), name="channel")
    taps = [te.reduce_axis((0, axis.taps), name=f"tap_{i}") for i, axis in enumerate(axes)]

    def term(item: Any, output: Any, *places: Any) -> Any:
        source = output // outputs * each + channel
        kept, pixels = [], []
        for axis, place, tap, (low, _) in zip(axes, places, taps, around, strict=True):
            weight, pixel = axis.first(place)
            kept.append(weight + tap * axis.phases)
            pixels.append(pixel - tap * (axis.dilation // axis.common) + low)
        value = padded(item, source, *pixels) * weights(source, output % outputs, *kept)
        for axis, place in zip(axes, places, strict=True):
            if axis.common > 1:
                met = tirx.EQ((place + axis.padding) % axis.common, 0)
                value = tirx.Select(met, value, tirx.const(0, image.dtype))
        return te.sum(value, axis=[channel, *taps])

    shape = [batch, outputs * groups, *(axis.length for axis in axes)]
    return te.compute(shape, term, name="transposed_convolution")
