"""How a matrix product is cut into tiles for cooperative matrices, and the likeliest cut.

A cooperative matrix is a small matrix that the threads of a subgroup hold and multiply together
(GL_KHR_cooperative_matrix): the form in which Vulkan offers what vendors call tensor or matrix
cores.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache

from .common import BYTES, HALVES, Limits, up
from .gemm_tile import Product
from .matrix_intrinsics import TYPES
from .split_sums import cut_cycles, parts_of

VECTOR = 4  # elements that a thread fetches at once, at least
VECTOR_BYTES = 16  # and where the tile allows
SKEW_BYTES = 16  # between rows in shared memory, so that they start at different banks


def bytes_each(factors: str) -> int:
    """Bytes of an element of a factor."""
    return 1 if factors == BYTES else 2


@dataclass(frozen=True)
class MatrixTile:
    """How the work is cut: all that a tuner may vary.

    Attributes:
        m, n, k: the tile of C of a workgroup, and the length along k that is fetched at once.
        subgroups_m, subgroups_n: subgroups along m and n, each with an equal part of the tile.
        split_k: groups of subgroups that share k.
        matrix: (m, n, k) of one cooperative product.
        split: workgroups that share k; their sums are added up by a second kernel.
        factors: HALVES or BYTES.
    """

    m: int
    n: int
    k: int
    subgroups_m: int
    subgroups_n: int
    split_k: int = 1
    matrix: tuple[int, int, int] = (16, 16, 16)
    split: int = 1
    factors: str = HALVES

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
        return self.subgroups_m * self.subgroups_n * self.split_k

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a workgroup: the factors, and the sums in 32 bits."""
        rows, columns = TYPES[self.factors].b(self.n, self.k)
        factors = self.m * (self.k + self.skew) + rows * (columns + self.skew)
        return self.bytes_each * factors + 4 * self.m * self.n * self.split_k


# A model of a GPU of many units, as in gemm_tile.py, its numbers fitted to 672 kernels measured on
# one large GPU (benchmarks/schedules.md). Cycles of one unit. They hold for halves; that bytes are
# multiplied twice as fast was not fitted.
UNITS = 98
SCHEDULERS = 4
LANES = 32
UNIT_THREADS = 2048
UNIT_SHARED_BYTES = 220_000
STEP_CYCLES = 250.0  # from a barrier to the next but for the work below
FETCH_CYCLES = 45.0  # a thread's eight halves: to find, load and share them
TOGETHER = 1.2  # how much of that others of the unit wait for
BYTE_CYCLES = 0.04  # to bring a byte to the unit
PRODUCT_CYCLES = 20.0  # a subgroup's product of 16x16x16, its operands loaded
START_CYCLES = 4300.0
OUTPUT_CYCLES = 27.0  # to write one output of a thread

MOST_SUBGROUPS = 8
MOST_MATRICES = 16  # sums that a subgroup keeps, in matrices
MOST_THREADS = 512
SIZES_M = (16, 32, 64, 128)
SIZES_N = (16, 32, 64, 128)
STEPS = (16, 32, 64)  # length along k of a group of subgroups in one tile
SPLITS = (1, 2, 4)


def default(shape: Product, limits: Limits) -> MatrixTile | None:
    """The tile that the model holds for the fastest; None where no cooperative matrix fits."""
    return next(iter(candidates(shape, limits)), None)


def candidates(shape: Product, limits: Limits) -> list[MatrixTile]:
    """All tiles that the limits allow, the likeliest first; empty where no matrix fits."""
    return list(_candidates(shape, limits))


@lru_cache(maxsize=1024)
def _candidates(shape: Product, limits: Limits) -> tuple[MatrixTile, ...]:
    largest = sorted(limits.matrices_of(shape.factors), key=math.prod)[-1:]
    tiles = [tile for m in largest for tile in _tiles(shape, m) if fits(tile, limits)]
    return tuple(sorted(tiles, key=lambda tile: likeliness(tile, shape, limits)))


def likeliness(tile: MatrixTile, shape: Product, limits: Limits) -> tuple[bool, float, int]:
    """The order of tiles: what only a tuner may choose last, then by estimated cycles."""
    return (tile.split > 1 and not limits.split_sums, cycles(tile, shape), tile.subgroups)


def fits(tile: MatrixTile, limits: Limits) -> bool:
    """Whether a workgroup of the target can hold a tile, with the same work for every thread."""
    threads = tile.subgroups * limits.subgroup
    if not threads <= min(MOST_THREADS, limits.threads) or tile.shared_bytes > limits.shared_bytes:
        return False
    if tile.split_k > 1 and tile.n > limits.subgroup * VECTOR:
        return False  # TVM finds no constant size for a thread's sums of several groups
    fetched = (tile.m * tile.k, tile.k * tile.n, tile.m * tile.n)
    known = tile.matrix in limits.matrices_of(tile.factors)
    return known and not any(n % (threads * VECTOR) for n in fetched)


def _tiles(shape: Product, matrix: tuple[int, int, int]) -> list[MatrixTile]:
    """Tiles that are not mostly padding and divide into matrices."""
    m, n, k = matrix
    steps = [2 * step for step in STEPS] if shape.factors == BYTES else STEPS
    sizes = itertools.product(
        [size for size in SIZES_M if size < 2 * max(shape.m, SIZES_M[0]) and size % m == 0],
        [size for size in SIZES_N if size < 2 * max(shape.n, SIZES_N[0]) and size % n == 0],
        [step for step in steps if step < 2 * max(shape.k, steps[0]) and step % k == 0],
        SPLITS,
    )
    found = []
    for size_m, size_n, step, split in sizes:
        for along_m, along_n in itertools.product((1, 2, 4), (1, 2, 4)):
            even = size_m % (along_m * m) == 0 and size_n % (along_n * n) == 0
            matrices = size_m * size_n // (along_m * along_n * m * n)
            if even and matrices <= MOST_MATRICES and along_m * along_n * split <= MOST_SUBGROUPS:
                length = step * split
                tiles = shape.b * up(shape.m, size_m) * up(shape.n, size_n)
                whole = MatrixTile(size_m, size_n, length, along_m, along_n, split, matrix)
                found += [
                    replace(whole, split=parts, factors=shape.factors)
                    for parts in parts_of(shape.k, tiles)
                    if parts == 1 or shape.k // parts >= length
                ]
    return found


def cycles(tile: MatrixTile, shape: Product) -> float:
    """Estimated cycles of a product: waves of workgroups, each with latency and shared work."""
    groups = shape.b * up(shape.m, tile.m) * up(shape.n, tile.n) * tile.split
    threads = tile.subgroups * LANES
    room = min(UNIT_THREADS // threads, UNIT_SHARED_BYTES // tile.shared_bytes)
    resident = max(1, min(up(groups, UNITS), room))
    waves = up(groups, UNITS * resident)
    fetched = (tile.m + tile.n) * tile.k * tile.bytes_each
    fetch = up(fetched // VECTOR_BYTES, threads) * FETCH_CYCLES
    products = tile.m * tile.n * tile.k * tile.bytes_each / 8192 / tile.subgroups
    work = products * PRODUCT_CYCLES
    together = resident * tile.subgroups / SCHEDULERS * (fetch * TOGETHER + work)
    step = STEP_CYCLES + fetch + work + max(together, resident * fetched * BYTE_CYCLES)
    end = START_CYCLES + tile.m * tile.n * tile.split_k / threads * OUTPUT_CYCLES
    alone = waves * (up(shape.k // tile.split, tile.k) * step + end)
    return cut_cycles(alone, shape.b * shape.m * shape.n, tile.split)
