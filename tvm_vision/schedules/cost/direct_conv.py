"""How a convolution out of a halo in shared memory is cut into tiles, and the likeliest cut."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..common import TargetLimits, product, up
from ..factors import FP16, TYPES
from . import coopmat_gemm as coopmat_gemm_cost
from .coopmat_gemm import SKEW_BYTES, VECTOR_BYTES
from .device_model import DeviceModel
from .gemm_tile import Product
from .matrix_pipelines import (
    ThreadData,
    WaveWork,
    factor_registers,
    fits_registers,
    matrix_cycles,
    matrix_waves,
)
from .split_k import parts_of, split_k_cycles
from .tile_costs import MatrixPipelineCosts


@dataclass(frozen=True)
class Windows:
    """A convolution with windows, channels last, of fp16 added up in float32 or bytes in int32.

    Attributes:
        height, width: of the output.
        kernel, stride, dilation: along height and width.
        factors: FP16 or INT8.
    """

    batch: int
    height: int
    width: int
    channels: int
    filters: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    factors: str = FP16

    @property
    def bytes_each(self) -> int:
        """Bytes of an element of a factor."""
        return coopmat_gemm_cost.bytes_each(self.factors)

    @property
    def product(self) -> Product:
        """The matrix product that it is to the other templates."""
        terms = product(self.kernel) * self.channels
        pixels = self.batch * self.height * self.width
        return Product(1, pixels, self.filters, terms, self.factors, "m")


@dataclass(frozen=True)
class DirectConvTile:
    """How the work is cut: all that a tuner may vary.

    Attributes:
        rows: of the output that a subgroup computes, each as wide as a matrix has rows.
        filters: of a subgroup.
        k: channels of the image that are fetched at once.
        subgroups_y, subgroups_x, subgroups_n: subgroups along height, width and filters.
        columns: of the window, whose weights lie in shared memory at once: all, 1, or 0 where the
            subgroups take them from device memory.
        ahead: the next channels are fetched while the present ones are multiplied.
        matrix: (m, n, k) of one cooperative product.
        split_k: workgroups that share the channels; their sums are added up by a second kernel.
    """

    rows: int
    filters: int
    k: int
    subgroups_y: int = 1
    subgroups_x: int = 1
    subgroups_n: int = 1
    columns: int = 1
    ahead: bool = False
    matrix: tuple[int, int, int] = (16, 16, 16)
    split_k: int = 1

    @property
    def subgroups(self) -> int:
        """Subgroups of a workgroup."""
        return self.subgroups_y * self.subgroups_x * self.subgroups_n

    @property
    def outputs(self) -> tuple[int, int, int]:
        """Height, width and filters of a workgroup's part of the output."""
        return (
            self.rows * self.subgroups_y,
            self.matrix[0] * self.subgroups_x,
            self.filters * self.subgroups_n,
        )

    def groups(self, of: Windows) -> int:
        """Workgroups that the output is cut into, each part of the channels apart."""
        height, width, filters = self.outputs
        return of.batch * up(of.height, height) * up(of.width, width) * up(of.filters, filters)

    def halo(self, of: Windows) -> tuple[int, int]:
        """Height and width of the image that the workgroup's outputs need."""
        height, width, _ = self.outputs
        return (
            (height - 1) * of.stride[0] + (of.kernel[0] - 1) * of.dilation[0] + 1,
            (width - 1) * of.stride[1] + (of.kernel[1] - 1) * of.dilation[1] + 1,
        )

    def matrices(self, of: Windows) -> tuple[int, int, int]:
        """Matrices that a subgroup holds: of the image, of weights, and sums."""
        (high, _), filters = of.kernel, self.filters // self.matrix[1]
        rows = (self.rows - 1) * of.stride[0] + (high - 1) * of.dilation[0] + 1
        return rows, high * filters, self.rows * filters

    def shared_bytes(self, of: Windows) -> int:
        """Shared memory of a workgroup: halo and weights, or a row of results in 32 bits, in their
        place (vulkan/codegen/glsl/shared_places.py)."""
        rows, columns = self.k, self.outputs[2]
        if TYPES[of.factors].transposed:
            rows, columns = columns, rows
        height, width = self.halo(of)
        halo = height * width * _skewed(self.k, of)
        weights = of.kernel[0] * self.columns * rows * _skewed(columns, of)
        results = 4 * self.subgroups * self.matrix[0] * self.filters
        return max(of.bytes_each * (halo + weights), results)

    def fetched(self, of: Windows) -> tuple[int, int]:
        """Vectors of the halo and of weights that are fetched for ``k`` channels."""
        (height, width), (high, wide) = self.halo(of), of.kernel
        weights = high * wide * self.k * self.outputs[2] if self.columns else 0
        vector = VECTOR_BYTES // of.bytes_each
        return height * width * self.k // vector, weights // vector

    def registers(self, of: Windows, lanes: int) -> int:
        """Registers of a thread that matrices and what is fetched take."""
        m, n, k = self.matrix
        image, weights, sums = self.matrices(of)
        factors = up((image * m * k + weights * k * n) * of.bytes_each // 4, lanes)
        halo, taken = self.fetched(of)
        vectors = halo + (taken if self.columns == of.kernel[1] else 0)
        fetched = 4 * up(vectors, lanes * self.subgroups)
        held = factors + fetched if self.ahead else max(factors, fetched)
        return up(sums * m * n, lanes) + held


def _skewed(elements: int, of: Windows) -> int:
    """Elements from a row to the next in shared memory, so that they start at different banks."""
    skew = SKEW_BYTES // of.bytes_each
    return elements + (skew - elements) % (2 * skew)


# What must be gained where the fit says least: by leaving the matrix product, and with weights from
# device memory (three of the 45).
MARGIN = 1.06
OTHER_REGISTERS = 40  # of a thread, beside matrices and vectors

LEAST = 8  # channels and filters; with fewer the matrices would be mostly padding
MOST_REGISTERS = 200
MOST_THREADS = 512
MOST_SUBGROUPS = 8
SUBGROUPS = (1, 2, 4)  # along each side
ROWS = (2, 4, 8)
STEPS = (16, 32, 64)
OF_EACH = 2  # candidates of each kind
MOST = 24  # candidates


def candidates(shape: Windows, limits: TargetLimits) -> list[DirectConvTile]:
    """The likeliest tiles of each kind that the limits allow; empty where none fits."""
    return list(_candidates(shape, limits)) if limits.halo else []


def takes(shape: Windows, limits: TargetLimits) -> bool:
    """Whether there are ``candidates``, without a look at all of them."""
    return limits.halo and next(_fitting(shape, limits), None) is not None


def _fitting(shape: Windows, limits: TargetLimits) -> Iterator[DirectConvTile]:
    """Tiles that fit, each whole and, where a device has too few, with its channels cut."""
    if min(shape.channels, shape.filters) < LEAST:
        return
    terms = shape.channels * product(shape.kernel)
    for matrix in sorted(limits.matrices_of(shape.factors), key=math.prod)[-1:]:
        for tile in _whole(_as_far_as_tiles(shape, matrix), matrix, limits):
            for parts in parts_of(terms, tile.groups(shape), limits.device):
                if shape.channels % parts == 0 and _divides(tile, shape, parts):
                    yield tile if parts == 1 else replace(tile, split_k=parts)


def _as_far_as_tiles(shape: Windows, matrix: tuple[int, int, int]) -> Windows:
    """A shape with the same tiles: what is larger than all of them has all."""
    (m, n, _), most = matrix, SUBGROUPS[-1]
    return replace(
        shape,
        batch=1,
        height=min(shape.height, most * ROWS[-1] // 2 + 1),
        width=min(shape.width, most * m // 2 + 1),
        channels=min(shape.channels, 2 * STEPS[-1]),
        filters=min(shape.filters, most * max(_filters(n)) // 2 + 1),
    )


@lru_cache(maxsize=256)
def _whole(
    shape: Windows, matrix: tuple[int, int, int], limits: TargetLimits
) -> tuple[DirectConvTile, ...]:
    """Tiles that a workgroup can hold, with all channels. The convolutions of a network have few
    shapes of these."""
    return tuple(tile for tile in _tiles(shape, matrix) if _holds(tile, shape, limits))


@lru_cache(maxsize=1024)
def _candidates(shape: Windows, limits: TargetLimits) -> tuple[DirectConvTile, ...]:
    tiles = _fitting(shape, limits)
    taken: Counter[tuple[Any, ...]] = Counter()
    alike: set[DirectConvTile] = set()
    found = []
    for tile in sorted(tiles, key=lambda tile: likeliness(tile, shape, limits)):
        kinds = [
            ("way", tile.columns, tile.ahead),
            ("part", tile.rows, tile.filters),
            ("step", tile.subgroups, tile.k),
            ("split_k", tile.split_k, tile.k),
        ]
        if all(taken[kind] >= OF_EACH for kind in kinds):
            continue
        # The same subgroups side by side or above each other make little difference.
        above = replace(tile, subgroups_y=tile.subgroups_y * tile.subgroups_x, subgroups_x=1)
        if above not in alike:
            alike.add(above)
            taken.update(kinds)
            found.append(tile)
            if len(found) == MOST:
                break
    return tuple(found)


def likeliness(
    tile: DirectConvTile, shape: Windows, limits: TargetLimits
) -> tuple[bool, float, int]:
    """The order of tiles: what only a tuner may choose last, then by estimated cycles."""
    return (
        tile.split_k > 1 and not limits.split_k,
        cycles(tile, shape, limits.device),
        tile.subgroups,
    )


def pays(shape: Windows, limits: TargetLimits) -> bool:
    """Whether the likeliest tile is estimated to be faster than that of a matrix product.

    One without subtiles: the margin was measured against those.
    """
    best = next(iter(candidates(shape, limits)), None)
    other = coopmat_gemm_cost.default(shape.product, replace(limits, coopmat_subtiles=False))
    if best is None or other is None:
        return best is not None
    product_cycles = coopmat_gemm_cost.cycles(other, shape.product, limits.device)
    return MARGIN * cycles(best, shape, limits.device) < product_cycles


def fits(tile: DirectConvTile, shape: Windows, limits: TargetLimits) -> bool:
    """Whether a workgroup of the target can hold a tile, and channels and filters divide into it
    where they have to."""
    return _holds(tile, shape, limits) and _divides(tile, shape, tile.split_k)


def _holds(tile: DirectConvTile, shape: Windows, limits: TargetLimits) -> bool:
    """Of a shape the windows and the type matter, and no size."""
    threads = tile.subgroups * limits.subgroup
    if threads > min(MOST_THREADS, limits.threads):
        return False
    if tile.matrix not in limits.matrices_of(shape.factors):
        return False
    if tile.columns == 0 and TYPES[shape.factors].transposed:
        return False  # a matrix's rows, filters, are no neighbours in memory
    if tile.shared_bytes(shape) > limits.shared_bytes:
        return False
    costs, units = limits.device.direct_conv, limits.device.units
    if isinstance(costs, MatrixPipelineCosts):
        # Addresses of weights in device memory make scalar registers spill in a third of the tiles,
        # and the best tile is another one all but always.
        data = _data(tile, shape, limits.subgroup, costs)
        return tile.columns > 0 and fits_registers(data, threads, costs, units)
    return tile.registers(shape, limits.subgroup) <= MOST_REGISTERS


def _divides(tile: DirectConvTile, shape: Windows, parts: int) -> bool:
    """Whether a tile suits channels, cut into parts, and filters."""
    channels = shape.channels // parts
    if parts > 1 and channels % tile.k:
        return False  # a part would be mostly padding, or unlike the others
    if tile.columns == 0 and (channels % tile.k or shape.filters % tile.outputs[2]):
        return False  # matrices would reach beyond the weights
    return not tile.ahead or channels > tile.k


def _filters(n: int) -> tuple[int, ...]:
    """Of a subgroup, with matrices of so many columns."""
    return n, 2 * n, 4 * n


def _tiles(shape: Windows, matrix: tuple[int, int, int]) -> Iterator[DirectConvTile]:
    """Tiles that are not mostly padding."""
    m, n, k = matrix
    lengths = [2 * step // shape.bytes_each for step in STEPS]
    steps = [step for step in lengths if step % k == 0 and step <= up(shape.channels, k) * k]
    ways = itertools.product(sorted({shape.kernel[1], 1, 0}), (False, True))
    workers = [
        (y, x, f)
        for y, x, f in itertools.product(SUBGROUPS, SUBGROUPS, SUBGROUPS)
        if 2 <= y * x * f <= MOST_SUBGROUPS and m * x < 2 * max(shape.width, m)
    ]
    for rows, filters, step, counts, (columns, ahead) in itertools.product(
        ROWS, _filters(n), steps, workers, list(ways)
    ):
        if rows * counts[0] >= 2 * max(shape.height, ROWS[0]):
            continue
        if filters * counts[2] >= 2 * max(shape.filters, n):
            continue
        yield DirectConvTile(rows, filters, step, *counts, columns, ahead, matrix)


def cycles(tile: DirectConvTile, shape: Windows, device: DeviceModel) -> float:
    """Estimated cycles: waves of workgroups, each with latency and shared work.

    A model like that of coopmat_gemm.py, whose cost of a product is taken apart here.
    """
    costs, units = device.direct_conv, device.units_of(device.direct_conv)
    groups = tile.groups(shape) * tile.split_k
    outputs = shape.batch * shape.height * shape.width * shape.filters
    if isinstance(costs, MatrixPipelineCosts):
        done = _work(tile, shape, units.lanes)
        data = _data(tile, shape, units.lanes, costs)
        shared_bytes = tile.shared_bytes(shape)
        whole = matrix_cycles(done, data, groups, tile.subgroups, shared_bytes, costs, units)
        return split_k_cycles(whole, outputs, tile.split_k, device.split_k)
    threads = tile.subgroups * units.lanes
    registers = tile.registers(shape, units.lanes) + OTHER_REGISTERS
    resident = units.resident(groups, threads, tile.shared_bytes(shape), registers)
    waves = up(groups, units.count * resident)
    halo, weights = tile.fetched(shape)
    fetch = up(halo, threads) * costs.fetch + up(weights, threads) * costs.weight
    image, taken, sums = tile.matrices(shape)
    loads = image * costs.load + taken * (costs.load if tile.columns else costs.memory)
    each = loads + shape.kernel[0] * sums * costs.multiply
    places = shape.kernel[1] * tile.k // tile.matrix[2]
    work = places * each
    shared = tile.subgroups / units.schedulers * (fetch * costs.together + work)
    together = resident * (shared + (halo + weights) * VECTOR_BYTES * costs.byte)
    stops = shape.kernel[1] if tile.columns == 1 else 1
    waits = (stops - 1 if tile.ahead else stops) + (0 if tile.columns else places)
    step = stops * costs.step + waits * costs.wait + fetch + work + together
    end = costs.start + product(tile.outputs) / threads * costs.output
    alone = waves * (up(shape.channels // tile.split_k, tile.k) * step + end)
    return split_k_cycles(alone, outputs, tile.split_k, device.split_k) * (
        1 if tile.columns else MARGIN
    )


def waves(tile: DirectConvTile, shape: Windows, device: DeviceModel) -> float | None:
    """Waves of a scheduler that a tile is estimated to have; None where costs know none."""
    costs, units = device.direct_conv, device.units
    if not isinstance(costs, MatrixPipelineCosts):
        return None
    data = _data(tile, shape, units.lanes, costs)
    return matrix_waves(data, tile.subgroups, tile.shared_bytes(shape), costs, units)


def _work(tile: DirectConvTile, shape: Windows, lanes: int) -> WaveWork:
    image, weights, sums = tile.matrices(shape)
    threads, steps = tile.subgroups * lanes, up(shape.channels // tile.split_k, tile.k)
    places = steps * shape.kernel[1] * tile.k // tile.matrix[2]
    halo, taken = tile.fetched(shape)
    times = _times(tile, shape)
    return WaveWork(
        products=places * shape.kernel[0] * sums,
        loads=places * (image + weights),
        fetched=steps * times * up(taken // times, threads),
        windowed=steps * up(halo, threads),
        steps=steps,
        stops=steps * times,
        outputs=product(tile.outputs) / threads,
        row_bytes=tile.matrix[2] * shape.bytes_each,
    )


def _times(tile: DirectConvTile, shape: Windows) -> int:
    """How often weights are fetched for the same channels."""
    return shape.kernel[1] if tile.columns == 1 else 1


def _data(
    tile: DirectConvTile, shape: Windows, lanes: int, costs: MatrixPipelineCosts
) -> ThreadData:
    (m, n, k), (image, weights, sums) = tile.matrix, tile.matrices(shape)
    threads, times = tile.subgroups * lanes, _times(tile, shape)
    halo, taken = tile.fetched(shape)
    first, weight = up(halo, threads), up(taken // times, threads)
    # Weights that are fetched for each column come when the halo has been shared.
    vectors = first + weight if times == 1 else max(first, weight)
    return ThreadData(
        sums=sums * m * n / lanes,
        factors=factor_registers(image * m + weights * n, k * shape.bytes_each, costs),
        fetched=VECTOR_BYTES / 4 * vectors,
        ahead=tile.ahead,
    )
