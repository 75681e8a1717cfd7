"""How a matrix product is cut into tiles for cooperative matrices, and the likeliest cut.

A cooperative matrix is a small matrix that the threads of a subgroup hold and multiply together
(GL_KHR_cooperative_matrix): the form in which Vulkan offers what vendors call tensor or matrix
cores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ..common import TargetLimits, up
from ..factors import FP16, INT8, TYPES
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

VECTOR = 4  # elements that a thread fetches at once, at least
VECTOR_BYTES = 16  # and where the tile allows
SKEW_BYTES = 16  # between rows in shared memory, so that they start at different banks


def bytes_each(factors: str) -> int:
    """Bytes of an element of a factor."""
    return 1 if factors == INT8 else 2


@dataclass(frozen=True)
class CoopmatTile:
    """How the work is cut: all that a tuner may vary.

    Attributes:
        m, n, k: the tile of C of a workgroup, and the length along k that is fetched at once.
        subgroups_m, subgroups_n: subgroups along m and n, each with an equal part of the tile.
        slice_k: groups of subgroups that share k.
        matrix: (m, n, k) of one cooperative product.
        split_k: workgroups that share k; their sums are added up by a second kernel.
        factors: FP16 or INT8.
        subtiles: whether the sums go through shared memory a row of matrices of each subgroup after
            another, and not all at once: large tiles fit then. Without slice_k.
    """

    m: int
    n: int
    k: int
    subgroups_m: int
    subgroups_n: int
    slice_k: int = 1
    matrix: tuple[int, int, int] = (16, 16, 16)
    split_k: int = 1
    factors: str = FP16
    subtiles: bool = False

    @property
    def bytes_each(self) -> int:
        """Bytes of an element of a factor."""
        return bytes_each(self.factors)

    @property
    def wide(self) -> int:
        """Elements that a thread fetches at once, where the tile allows."""
        return VECTOR_BYTES // self.bytes_each

    @property
    def skew(self) -> int:
        """Elements between rows in shared memory."""
        return SKEW_BYTES // self.bytes_each

    @property
    def subgroups(self) -> int:
        """Subgroups of a workgroup."""
        return self.subgroups_m * self.subgroups_n * self.slice_k

    def shared_bytes(self, lanes: int) -> int:
        """Shared memory of a workgroup: the factors, or the sums in 32 bits, which take their place
        (vulkan/codegen/glsl/shared_places.py) where threads fetch four halves or sixteen bytes.

        Args:
            lanes: threads of a subgroup.
        """
        each, skew = self.bytes_each, self.skew
        rows, columns = TYPES[self.factors].b(self.n, self.k)
        factors = each * (self.m * (self.k + skew) + rows * (columns + skew))
        sums = 4 * self.n * (self.subtile_m if self.subtiles else self.m * self.slice_k)
        least = (VECTOR if each == 2 else VECTOR_BYTES) * self.subgroups * lanes
        apart = self.m * self.k % least or self.n * self.k % least
        return factors + sums if apart else max(factors, sums)

    @property
    def subtile_m(self) -> int:
        """Rows of C that are in shared memory together, where those are ``subtiles``."""
        return self.subgroups_m * self.matrix[0]


MOST_SUBGROUPS = 8
MOST_MATRICES = 16  # sums that a subgroup keeps, in matrices
MOST_THREADS = 512
SIZES_M = (16, 32, 64, 128)
SIZES_N = (16, 32, 64, 128)
STEPS = (16, 32, 64)  # length along k of a group of subgroups in one tile
SPLITS = (1, 2, 4)
LEAST_SUBTILED = 64 * 128  # elements of C, from which on its sums take much of shared memory
LARGE = 128 * 128  # elements of C of tiles that take longer than by all other costs


def default(shape: Product, limits: TargetLimits) -> CoopmatTile | None:
    """The tile that the model holds for the fastest; None where no cooperative matrix fits."""
    return next(iter(candidates(shape, limits)), None)


def candidates(shape: Product, limits: TargetLimits) -> list[CoopmatTile]:
    """All tiles that the limits allow, the likeliest first; empty where no matrix fits."""
    return list(_candidates(shape, limits))


def takes(shape: Product, limits: TargetLimits) -> bool:
    """Whether there are ``candidates``, without a look at all of them."""
    return next(_fitting(shape, limits), None) is not None


@lru_cache(maxsize=1024)
def _candidates(shape: Product, limits: TargetLimits) -> tuple[CoopmatTile, ...]:
    tiles = _fitting(shape, limits)
    return tuple(sorted(tiles, key=lambda tile: likeliness(tile, shape, limits)))


def _fitting(shape: Product, limits: TargetLimits) -> Iterator[CoopmatTile]:
    """Tiles that fit, each whole and, where a device has too few, with its sum cut."""
    if shape.n_first and not limits.coopmat_nchw:
        return
    for matrix in sorted(limits.matrices_of(shape.factors), key=math.prod)[-1:]:
        for found in _whole(_as_far_as_tiles(shape), matrix, limits):
            whole = found[0]
            tiles = shape.b * up(shape.m, whole.m) * up(shape.n, whole.n)
            for parts in parts_of(shape.k, tiles, limits.device):
                if parts == 1:
                    yield from found
                elif shape.k // parts >= whole.k:
                    yield from (replace(tile, split_k=parts) for tile in found)


def _as_far_as_tiles(shape: Product) -> Product:
    """A shape with the same tiles: what is larger than all of them has all."""
    steps = _steps(shape.factors)
    m, n, k = (min(size, most // 2 + 1) for size, most in (
        (shape.m, SIZES_M[-1]), (shape.n, SIZES_N[-1]), (shape.k, steps[-1]),
    ))  # fmt: skip
    return Product(1, m, n, k, shape.factors)


@lru_cache(maxsize=256)
def _whole(
    shape: Product, matrix: tuple[int, int, int], limits: TargetLimits
) -> tuple[tuple[CoopmatTile, ...], ...]:
    """Tiles that fit, with a sum in one piece: those that are alike but for ``subtiles`` together.
    The products of a network have few shapes of these."""
    found = []
    for tile in _tiles(shape, matrix):
        alike = _with_subtiles(tile, limits.device) if limits.coopmat_subtiles else [tile]
        found.append(tuple(each for each in alike if fits(each, limits)))
    return tuple(alike for alike in found if alike)


def likeliness(tile: CoopmatTile, shape: Product, limits: TargetLimits) -> tuple[bool, float, int]:
    """The order of tiles: what only a tuner may choose last, then by estimated cycles."""
    return (
        tile.split_k > 1 and not limits.split_k,
        cycles(tile, shape, limits.device),
        tile.subgroups,
    )


def fits(tile: CoopmatTile, limits: TargetLimits) -> bool:
    """Whether a workgroup of the target can hold a tile, with the same work for every thread."""
    threads = tile.subgroups * limits.subgroup
    if (
        not threads <= min(MOST_THREADS, limits.threads)
        or tile.shared_bytes(limits.subgroup) > limits.shared_bytes
    ):
        return False
    costs, units = limits.device.coopmat, limits.device.units
    if isinstance(costs, MatrixPipelineCosts):
        if not fits_registers(_data(tile, limits.subgroup, costs), threads, costs, units):
            return False
    if tile.slice_k > 1 and tile.n > limits.subgroup * VECTOR:
        return False  # TVM finds no constant size for a thread's sums of several groups
    fetched = (tile.m * tile.k, tile.k * tile.n, tile.m * tile.n)
    known = tile.matrix in limits.matrices_of(tile.factors)
    return known and not any(n % (threads * VECTOR) for n in fetched)


def _steps(factors: str) -> tuple[int, ...]:
    return tuple(2 * step for step in STEPS) if factors == INT8 else STEPS


def _tiles(shape: Product, matrix: tuple[int, int, int]) -> Iterator[CoopmatTile]:
    """Tiles that are not mostly padding and divide into matrices."""
    m, n, k = matrix
    steps = _steps(shape.factors)
    sizes = itertools.product(
        [size for size in SIZES_M if size < 2 * max(shape.m, SIZES_M[0]) and size % m == 0],
        [size for size in SIZES_N if size < 2 * max(shape.n, SIZES_N[0]) and size % n == 0],
        [step for step in steps if step < 2 * max(shape.k, steps[0]) and step % k == 0],
        SPLITS,
    )
    for size_m, size_n, step, split in sizes:
        for along_m, along_n in itertools.product((1, 2, 4), (1, 2, 4)):
            even = size_m % (along_m * m) == 0 and size_n % (along_n * n) == 0
            matrices = size_m * size_n // (along_m * along_n * m * n)
            if even and matrices <= MOST_MATRICES and along_m * along_n * split <= MOST_SUBGROUPS:
                yield CoopmatTile(
                    size_m, size_n, step * split, along_m, along_n, split, matrix,
                    factors=shape.factors,
                )  # fmt: skip


def _with_subtiles(tile: CoopmatTile, device: DeviceModel) -> list[CoopmatTile]:
    """A tile, and the one like it with subtiles, where those take less of shared memory, and what
    they cost is known."""
    if isinstance(device.coopmat, MatrixPipelineCosts):
        return [tile]
    several = tile.slice_k == 1 and tile.subtile_m < tile.m
    large = tile.m * tile.n >= LEAST_SUBTILED
    return [tile, replace(tile, subtiles=True)] if several and large else [tile]


def cycles(tile: CoopmatTile, shape: Product, device: DeviceModel) -> float:
    """Estimated cycles of a product: waves of workgroups, each with latency and shared work."""
    costs, units = device.coopmat, device.units_of(device.coopmat)
    groups = shape.b * up(shape.m, tile.m) * up(shape.n, tile.n) * tile.split_k
    results = shape.b * shape.m * shape.n
    if isinstance(costs, MatrixPipelineCosts):
        done, data = _work(tile, shape, units.lanes), _data(tile, units.lanes, costs)
        shared_bytes = tile.shared_bytes(units.lanes)
        whole = matrix_cycles(done, data, groups, tile.subgroups, shared_bytes, costs, units)
        return split_k_cycles(whole, results, tile.split_k, device.split_k)
    threads = tile.subgroups * units.lanes
    resident = units.resident(groups, threads, tile.shared_bytes(units.lanes))
    waves = up(groups, units.count * resident)
    fetched = (tile.m + tile.n) * tile.k * tile.bytes_each
    fetch = up(fetched // VECTOR_BYTES, threads) * costs.fetch
    products = tile.m * tile.n * tile.k * tile.bytes_each / 8192 / tile.subgroups
    work = products * costs.product
    together = resident * tile.subgroups / units.schedulers * (fetch * costs.together + work)
    step = costs.step + fetch + work + max(together, resident * fetched * costs.byte)
    end = costs.start + tile.m * tile.n * tile.slice_k / threads * costs.output
    alone = waves * (up(shape.k // tile.split_k, tile.k) * step + end)
    if tile.subtiles:
        alone *= costs.subtiles_split_k if tile.split_k > 1 else costs.subtiles
    if tile.m * tile.n >= LARGE:
        alone *= costs.large
    return split_k_cycles(alone, results, tile.split_k, device.split_k)


def waves(tile: CoopmatTile, device: DeviceModel) -> float | None:
    """Waves of a scheduler that a tile is estimated to have; None where costs know none."""
    costs, units = device.coopmat, device.units
    if not isinstance(costs, MatrixPipelineCosts):
        return None
    data = _data(tile, units.lanes, costs)
    return matrix_waves(data, tile.subgroups, tile.shared_bytes(units.lanes), costs, units)


def _own(tile: CoopmatTile) -> tuple[int, int, int]:
    """Matrices of a subgroup along m and n, and along k in a step."""
    m, n, k = tile.matrix
    along_m, along_n = tile.m // tile.subgroups_m // m, tile.n // tile.subgroups_n // n
    return along_m, along_n, tile.k // tile.slice_k // k


def _work(tile: CoopmatTile, shape: Product, lanes: int) -> WaveWork:
    threads, steps = tile.subgroups * lanes, up(shape.k // tile.split_k, tile.k)
    along_m, along_n, along_k = _own(tile)
    fetched = {side: steps * getattr(tile, side) * tile.k / tile.wide / threads for side in "mn"}
    windowed = fetched.pop(shape.windows, 0.0)
    return WaveWork(
        products=steps * along_k * along_m * along_n,
        loads=steps * along_k * (along_m + along_n),
        fetched=sum(fetched.values()),
        windowed=windowed,
        steps=steps,
        stops=steps,
        outputs=tile.m * tile.n * tile.slice_k / threads,
        row_bytes=tile.matrix[2] * tile.bytes_each,
    )


def _data(tile: CoopmatTile, lanes: int, costs: MatrixPipelineCosts) -> ThreadData:
    (m, n, k), (along_m, along_n, _) = tile.matrix, _own(tile)
    row, threads = k * tile.bytes_each, tile.subgroups * lanes
    vectors = sum(up(side * tile.k // tile.wide, threads) for side in (tile.m, tile.n))
    return ThreadData(
        sums=along_m * along_n * m * n / lanes,
        factors=factor_registers(along_m * m + along_n * n, row, costs),
        fetched=VECTOR_BYTES / 4 * vectors,
    )
