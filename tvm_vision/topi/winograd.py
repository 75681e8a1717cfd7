"""Winograd's convolution of 3×3, stride 1: its matrices, and its two transforms as computations.

After Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (arXiv:1509.09308). An
output tile of m×m pixels is ``A' [(G g G') * (B' d B)] A``, where g is the window of weights, d the
(m+2)×(m+2) pixels that the tile is made of, ' a transposition, and * a product number by number.
Summed over channels, these are (m+2)² matrix products instead of nine for every pixel: of the
multiplications 4 of 9 are left with m = 2, and 1 of 4 with m = 4.

A tile's index p counts batches, then rows of tiles, then tiles in a row. Tiles past the right and
lower edges are whole; what they have too much is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from tvm import te, tirx

Array = np.ndarray
Rows = tuple[tuple[Fraction, ...], ...]

KERNEL = 3
# Annotation of the blocks of a transform that stay blocks: the place of each in its transform.
TRANSFORM = "tvm_vision.winograd"
# Annotation of the last block of an output transform: the axis of rows in the output, and m.
TILES = "tvm_vision.winograd_tiles"


@dataclass(frozen=True)
class Matrices:
    """The matrices of one F(m×m, 3×3), from the left: of an image, of weights, of an output."""

    image: Rows
    weights: Rows
    output: Rows


def _rows(*rows: str) -> Rows:
    return tuple(tuple(Fraction(number) for number in row.split()) for row in rows)


MATRICES = {
    2: Matrices(
        image=_rows("1 0 -1 0", "0 1 1 0", "0 -1 1 0", "0 1 0 -1"),
        weights=_rows("1 0 0", "1/2 1/2 1/2", "1/2 -1/2 1/2", "0 0 1"),
        output=_rows("1 1 1 0", "0 1 -1 -1"),
    ),
    4: Matrices(
        image=_rows(
            "4 0 -5 0 1 0",
            "0 -4 -4 1 1 0",
            "0 4 -4 -1 1 0",
            "0 -2 -1 2 1 0",
            "0 2 -1 -2 1 0",
            "0 4 0 -5 0 1",
        ),
        weights=_rows(
            "1/4 0 0",
            "-1/6 -1/6 -1/6",
            "-1/6 1/6 -1/6",
            "1/24 1/12 1/6",
            "1/24 -1/12 1/6",
            "0 0 1",
        ),
        output=_rows("1 1 1 1 1 0", "0 1 -1 2 -2 0", "0 1 1 4 4 0", "0 1 -1 8 -8 1"),
    ),
}


@dataclass(frozen=True)
class Tiling:
    """How an output image is cut into tiles.

    Attributes:
        m: height and width of a tile.
        batch, height, width: of the output.
        top, left: rows and columns of zeros before the image that is read.
        channels_last: images are (n, h, w, c), not (n, c, h, w).
    """

    m: int
    batch: int
    height: int
    width: int
    top: int
    left: int
    channels_last: bool = False

    def of(self, m: int) -> Tiling:
        """The same image in tiles of another size."""
        return replace(self, m=m)

    @property
    def edge(self) -> int:
        """Height and width of the pixels that a tile is made of."""
        return self.m + KERNEL - 1

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return -(-self.height // self.m)

    @property
    def columns(self) -> int:
        """Tiles in a row."""
        return -(-self.width // self.m)

    @property
    def tiles(self) -> int:
        """All tiles."""
        return self.batch * self.rows * self.columns


def operations(m: int) -> tuple[int, int]:
    """Additions and multiplications for a tile of a channel: of the image's, of the output's."""

    def of(rows: Rows) -> int:
        return sum(sum((n != 0) + (abs(n) not in (0, 1)) for n in row) - 1 for row in rows)

    edge, matrices = m + KERNEL - 1, MATRICES[m]
    return of(matrices.image) * 2 * edge, of(matrices.output) * (edge + m)


def transform_weights(weights: Array, m: int) -> Array:
    """Weights (o, c, 3, 3) as ((m+2)², o, c), computed in float64."""
    g = np.array(MATRICES[m].weights, "float64")
    outputs, inputs = weights.shape[:2]
    turned = np.einsum("ik,ockl,jl->ijoc", g, weights.astype("float64"), g, optimize=True)
    return turned.reshape(-1, outputs, inputs).astype(weights.dtype)


def transform_image(x: Any, tiling: Tiling) -> Any:
    """An image as ((m+2)², c, p); with channels last as ((m+2)², p, c)."""
    edge, matrix = tiling.edge, MATRICES[tiling.m].image
    axes = (1, 2, 3) if tiling.channels_last else (2, 3, 1)
    height, width, channels = (int(x.shape[axis]) for axis in axes)

    def pixel(c: Any, p: Any, i: Any, j: Any) -> Any:
        y = p // tiling.columns % tiling.rows * tiling.m + i - tiling.top
        z = p % tiling.columns * tiling.m + j - tiling.left
        n = p // (tiling.rows * tiling.columns)
        at = (n, y, z, c) if tiling.channels_last else (n, c, y, z)
        inside = tirx.all(y >= 0, y < height, z >= 0, z < width)
        return tirx.if_then_else(inside, x(*at), tirx.const(0, x.dtype))

    shape = (channels, tiling.tiles, edge, edge)
    window = te.compute(shape, pixel, "window", attrs={TRANSFORM: 0})
    half = te.compute(
        shape,
        lambda c, p, i, j: _row(matrix, i, lambda k: window(c, p, k, j)),
        "half_transformed",
        attrs={TRANSFORM: 1},
    )

    def whole(a: Any, c: Any, p: Any) -> Any:
        return _row(matrix, a % edge, lambda k: half(c, p, a // edge, k))

    deep = edge * edge
    if tiling.channels_last:
        order = (deep, tiling.tiles, channels)
        return te.compute(order, lambda a, p, c: whole(a, c, p), "winograd_image")
    return te.compute((deep, channels, tiling.tiles), whole, "winograd_image")


def transform_output(product: Any, tiling: Tiling) -> Any:
    """((m+2)², o, p), with channels last ((m+2)², p, o), as an image."""
    edge, m, matrix = tiling.edge, tiling.m, MATRICES[tiling.m].output
    channels = int(product.shape[2 if tiling.channels_last else 1])

    def factor(o: Any, p: Any, i: Any, j: Any) -> Any:
        at = (p, o) if tiling.channels_last else (o, p)
        return product(i * edge + j, *at)

    factors = te.compute(
        (channels, tiling.tiles, edge, edge), factor, "factors", attrs={TRANSFORM: 0}
    )
    half = te.compute(
        (channels, tiling.tiles, m, edge),
        lambda o, p, i, j: _row(matrix, i, lambda k: factors(o, p, k, j)),
        "half_transformed",
        attrs={TRANSFORM: 1},
    )
    tile = te.compute(
        (channels, tiling.tiles, m, m),
        lambda o, p, i, j: _row(matrix, j, lambda k: half(o, p, i, k)),
        "tile",
        attrs={TRANSFORM: 2, TILES: [1 if tiling.channels_last else 2, m]},
    )

    def place(n: Any, o: Any, y: Any, z: Any) -> Any:
        p = (n * tiling.rows + y // m) * tiling.columns + z // m
        return tile(o, p, y % m, z % m)

    sizes = (tiling.height, tiling.width)
    if tiling.channels_last:
        shape = (tiling.batch, *sizes, channels)
        return te.compute(shape, lambda n, y, z, o: place(n, o, y, z), "winograd_output")
    return te.compute((tiling.batch, channels, *sizes), place, "winograd_output")


def _row(matrix: Rows, index: Any, load: Callable[[int], Any]) -> Any:
    """Row ``index`` of a matrix times the vector that ``load`` gives.

    All rows, told apart by conditions that go away once the loop over ``index`` is written out.
    """
    *others, last = (_dot(row, load) for row in matrix)
    for number, value in reversed(list(enumerate(others))):
        last = tirx.if_then_else(index == number, value, last)
    return last


def _dot(row: Sequence[Fraction], load: Callable[[int], Any]) -> Any:
    total: Any = None
    # Each row has a positive number; it comes first, as nothing is there to subtract from before.
    for place in sorted(range(len(row)), key=lambda place: row[place] <= 0):
        factor, value = row[place], load(place)
        if factor == 0:
            continue
        if abs(factor) != 1:
            value = value * tirx.const(float(abs(factor)), value.ty.dtype)
        if total is None:
            total = value
        else:
            total = total + value if factor > 0 else total - value
    return total
