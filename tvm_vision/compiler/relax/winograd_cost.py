"""Whether Winograd's convolution is estimated to be faster than the plain one, by a device's rates.

A kernel takes as long as the slower of its arithmetic and its bytes, and a launch. The plain
convolution is one kernel; Winograd's are three, with a quarter to a half of the arithmetic, but
weights of 1.8 or 4 times the size and two tensors more that go through memory. So it wins where
arithmetic is slow beside memory and launches, and channels are not so many that weights are most of
the bytes.

Vulkan tells no rates: they are those of a device's description (schedules/cost/device_model.py),
where no integrated GPU was measured. So what is not known counts against Winograd: nothing stays in
caches between kernels, and it has to win by a margin.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...schedules.cost.device_model import DeviceModel, Rates
from ...topi.winograd import operations


@dataclass(frozen=True)
class ConvShape:
    """A 3×3 convolution of stride 1: batch, channels, and the size of its output."""

    batch: int
    inputs: int
    outputs: int
    height: int
    width: int

    @property
    def pixels(self) -> int:
        """Pixels of the output, over the batch."""
        return self.batch * self.height * self.width

    def tiles(self, m: int) -> int:
        """Tiles of m×m pixels that cover the output."""
        return self.batch * -(-self.height // m) * -(-self.width // m)


LEAST_TILES = 8  # fewer make no matrix product that is cut into tiles
MARGIN = 0.8  # of the plain convolution's time, at most
LEAST_PIXELS = 16  # columns of a tile of a product: with fewer the rest is padding


def fastest(layer: ConvShape, device: DeviceModel, fp16: bool) -> int | None:
    """The m with which a layer is fastest; None where the plain convolution is."""
    rates = device.rates
    sizes = [m for m in ((2,) if fp16 else (2, 4)) if layer.tiles(m) >= LEAST_TILES]
    if rates is None or not sizes:
        return None
    times = {m: winograd_seconds(layer, m, rates, fp16) for m in sizes}
    best = min(times, key=lambda m: times[m])
    return best if times[best] <= MARGIN * plain_seconds(layer, rates, fp16) else None


def plain_seconds(layer: ConvShape, rates: Rates, fp16: bool) -> float:
    """Estimated seconds of a layer as one kernel."""
    pixels = layer.pixels
    numbers = (layer.inputs + layer.outputs) * pixels + 9 * layer.inputs * layer.outputs
    return _seconds(2 * 9 * layer.inputs * layer.outputs * _padded(pixels), numbers, rates, fp16)


def winograd_seconds(layer: ConvShape, m: int, rates: Rates, fp16: bool) -> float:
    """Estimated seconds of a layer as Winograd's three kernels."""
    pixels, tiles, depth = layer.pixels, layer.tiles(m), (m + 2) ** 2
    image, output = depth * layer.inputs * tiles, depth * layer.outputs * tiles
    weights = depth * layer.inputs * layer.outputs
    into, back = operations(m)
    # Of each kernel the arithmetic and the numbers read and written.
    kernels = (
        (into * tiles * layer.inputs, layer.inputs * pixels + image),
        (2 * weights * _padded(tiles), image + weights + output),
        (back * tiles * layer.outputs, output + layer.outputs * pixels),
    )
    return sum(_seconds(flops, numbers, rates, fp16) for flops, numbers in kernels)


def _padded(columns: int) -> int:
    return -(-columns // LEAST_PIXELS) * LEAST_PIXELS


def _seconds(flops: float, numbers: float, rates: Rates, fp16: bool) -> float:
    size = 2 if fp16 else 4
    return max(flops / rates.flops, size * numbers / rates.bandwidth) + rates.launch
