"""Whether Winograd's convolution is estimated to be faster than the plain one, by a device's rates.

Of GPUs:

A kernel takes as long as the slower of its arithmetic and its bytes, and a launch. The plain
convolution is one kernel; Winograd's are three, with a quarter to a half of the arithmetic, but
weights of 1.8 or 4 times the size and two tensors more that go through memory. So it wins where
arithmetic is slow beside memory and launches, and channels are not so many that weights are most of
the bytes.

Vulkan tells no rates: they are those of a device's description (schedules/cost/device_model.py),
where no integrated GPU was measured. So what is not known counts against Winograd: nothing stays in
caches between kernels, and it has to win by a margin.

Products take as long as their tiles are estimated to, where these estimates were made for such
devices (schedules/cost/gemm_pipelines.py): a product of fp16 is faster there than one of float32,
and one of few columns slower than its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...schedules.common import TargetLimits
from ...schedules.cost import gemm, winograd_conv
from ...schedules.cost.device_model import Rates
from ...schedules.cost.gemm_tile import Product
from ...schedules.cost.tile_costs import PipelineCosts
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

    def whole(self, fp16: bool) -> winograd_conv.Layer:
        """The same, of halves or of float32, as one kernel."""
        return winograd_conv.Layer(
            self.batch, self.inputs, self.outputs, self.height, self.width, fp16
        )

    def tiles(self, m: int) -> int:
        """Tiles of m×m pixels that cover the output."""
        return self.batch * -(-self.height // m) * -(-self.width // m)


# The m of a layer, None for the convolution as it is.
Choice = Callable[[ConvShape], "int | None"]
LEAST_TILES = 8  # fewer make no matrix product that is cut into tiles
MARGIN = 0.8  # of the plain convolution's time, at most
# Of a processor's core, measured (benchmarks/cpu.md): products of vectors in a cycle, cycles for a
# vector of a transformed tile, and bytes in a cycle of these where they are more than stay near a
# core; bytes of weights in a cycle, which all cores read through one memory.
PRODUCTS_A_CYCLE, VECTOR_CYCLES = 2, 6
NEAR, FAR_BYTES_A_CYCLE = 1 << 20, 4.5
BYTES_A_CYCLE = 4
LEAST_PIXELS = 16  # columns of a tile of a product: with fewer the rest is padding


def fastest(layer: ConvShape, limits: TargetLimits, fp16: bool) -> int | None:
    """The m with which a layer is fastest; None where the plain convolution is."""
    rates = limits.device.rates
    sizes = [m for m in ((2,) if fp16 else (2, 4)) if layer.tiles(m) >= LEAST_TILES]
    if rates is None or not sizes:
        return None
    estimate = _Estimate(limits, rates, fp16)
    times = {m: estimate.winograd_seconds(layer, m) for m in sizes}
    best = min(times, key=lambda m: times[m])
    return best if times[best] <= MARGIN * estimate.plain_seconds(layer) else None


def one_kernel_pays(layer: ConvShape, limits: TargetLimits, fp16: bool) -> bool:
    """Whether a layer is faster as one kernel of Winograd's, with m = 2, than otherwise."""
    rates = limits.device.rates
    if rates is None or not one_kernel_fits(layer, limits, fp16):
        return False
    if limits.device.winograd is None or (fp16 and not limits.device.packed_fp16):
        return False
    estimate = _Estimate(limits, rates, fp16)
    sizes = [m for m in ((2,) if fp16 else (2, 4)) if layer.tiles(m) >= LEAST_TILES]
    others = [estimate.plain_seconds(layer), *(estimate.winograd_seconds(layer, m) for m in sizes)]
    return estimate.one_kernel_seconds(layer) <= MARGIN * min(others)


def one_kernel_fits(layer: ConvShape, limits: TargetLimits, fp16: bool) -> bool:
    """Whether the limits leave room for a layer as one kernel."""
    return bool(winograd_conv.candidates(layer.whole(fp16), limits))


def fastest_on_processor(layer: ConvShape, lanes: int) -> int | None:
    """The m with which a layer is fastest on a processor with vectors of ``lanes`` numbers; None
    where the plain convolution is."""
    sizes = [m for m in (2, 4) if layer.tiles(m) >= LEAST_TILES]
    if not sizes:
        return None
    times = {m: _cycles_of_winograd(layer, m, lanes) for m in sizes}
    best = min(times, key=lambda m: times[m])
    plain = _cycles_of_products(9, layer.pixels, layer, lanes)
    return best if times[best] <= MARGIN * plain else None


def _cycles_of_winograd(layer: ConvShape, m: int, lanes: int) -> float:
    depth, tiles = (m + 2) ** 2, layer.tiles(m)
    numbers = depth * tiles * (layer.inputs + layer.outputs)
    far = 4 * lanes / FAR_BYTES_A_CYCLE if 4 * numbers > NEAR else 0
    transforms = numbers / lanes * max(VECTOR_CYCLES, far)
    return transforms + _cycles_of_products(depth, tiles, layer, lanes)


def _cycles_of_products(depth: int, columns: int, layer: ConvShape, lanes: int) -> float:
    """Of ``depth`` matrices of weights, each of which multiplies so many columns."""
    weights = depth * layer.inputs * layer.outputs
    return weights * (columns / (lanes * PRODUCTS_A_CYCLE) + 4 / BYTES_A_CYCLE)


@dataclass(frozen=True)
class _Estimate:
    """Seconds on a device; ``fp16``: of tensors and products of fp16."""

    limits: TargetLimits
    rates: Rates
    fp16: bool

    def plain_seconds(self, layer: ConvShape) -> float:
        """Of a layer as one kernel."""
        terms = 9 * layer.inputs
        numbers = (layer.inputs + layer.outputs) * layer.pixels + terms * layer.outputs
        product = Product(1, layer.outputs, layer.pixels, terms, windows="n", fp16=self.fp16)
        return self._seconds(self._of_product(product), numbers)

    def winograd_seconds(self, layer: ConvShape, m: int) -> float:
        """Of a layer as Winograd's three kernels."""
        tiles, depth = layer.tiles(m), (m + 2) ** 2
        image, output = depth * layer.inputs * tiles, depth * layer.outputs * tiles
        weights = depth * layer.inputs * layer.outputs
        into, back = operations(m)
        product = Product(depth, layer.outputs, tiles, layer.inputs, fp16=self.fp16)
        # Of each kernel the arithmetic and the numbers read and written.
        kernels = (
            (into * tiles * layer.inputs / self.rates.flops, layer.inputs * layer.pixels + image),
            (self._of_product(product), image + weights + output),
            (
                back * tiles * layer.outputs / self.rates.flops,
                output + layer.outputs * layer.pixels,
            ),
        )
        return sum(self._seconds(arithmetic, numbers) for arithmetic, numbers in kernels)

    def one_kernel_seconds(self, layer: ConvShape) -> float:
        """Of a layer as Winograd's convolution in one kernel."""
        shape, device = layer.whole(self.fp16), self.limits.device
        tile = winograd_conv.candidates(shape, self.limits)[0]
        cycles = winograd_conv.cycles(shape, tile, device)
        channels = layer.inputs + layer.outputs
        numbers = channels * layer.pixels + winograd_conv.NUMBERS * layer.inputs * layer.outputs
        return self._seconds(cycles / self.rates.clock, numbers)

    def _of_product(self, product: Product) -> float:
        device = self.limits.device
        if isinstance(device.gemm_costs(self.fp16), PipelineCosts):
            tile = gemm.default(product, self.limits)
            return gemm.cycles(tile, product, device) / self.rates.clock
        return 2 * product.b * product.m * product.k * _padded(product.n) / self.rates.flops

    def _seconds(self, arithmetic: float, numbers: float) -> float:
        size = 2 if self.fp16 else 4
        return max(arithmetic, size * numbers / self.rates.bandwidth) + self.rates.launch


def _padded(columns: int) -> int:
    return -(-columns // LEAST_PIXELS) * LEAST_PIXELS
