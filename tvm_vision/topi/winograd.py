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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
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
# Annotations of the blocks that write a transform whose channels lie in blocks: its tiling.
IMAGE = "tvm_vision.winograd_image"
OUTPUT = "tvm_vision.winograd_output"
# Annotation of the first and the last block of a convolution that is one kernel.
WHOLE = "tvm_vision.winograd_whole"
# Weights of such one are filled up with zeros to multiples of this: of channels read, of results.
FULL_INPUTS, FULL_OUTPUTS = 16, 32


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

    def to_list(self) -> list[int]:
        """For an annotation."""
        return [self.m, self.batch, self.height, self.width, self.top, self.left]

    @classmethod
    def of_list(cls, numbers: Sequence[int]) -> Tiling:
        """From ``to_list``."""
        m, batch, height, width, top, left = (int(number) for number in numbers)
        return cls(m, batch, height, width, top, left)

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
    edge, last = tiling.edge, tiling.channels_last
    channels = int(x.shape[3 if last else 1])

    def place(n: Any, c: Any, y: Any, z: Any) -> Any:
        return x(n, y, z, c) if last else x(n, c, y, z)

    height, width = (int(size) for size in (x.shape[1:3] if last else x.shape[2:4]))
    whole = _of_image(place, (channels, height, width), tiling, str(x.dtype))
    deep = edge * edge
    if last:
        order = (deep, tiling.tiles, channels)
        return te.compute(order, lambda a, p, c: whole(a, c, p), "winograd_image")
    return te.compute((deep, channels, tiling.tiles), whole, "winograd_image")


def transform_image_in_blocks(x: Any, tiling: Tiling) -> Any:
    """An image (n, c / b, h, w, b), whose channels are whole blocks, as (1, (m+2)² c / b, 1, p, b):
    that of a convolution of single pixels in (m+2)² groups."""
    _, blocks, height, width, block = (int(size) for size in x.shape)
    whole = _of_image(
        lambda n, c, y, z: x(n, c // block, y, z, c % block), (blocks * block, height, width),
        tiling, str(x.dtype),
    )  # fmt: skip
    return te.compute(
        (1, tiling.edge**2 * blocks, 1, tiling.tiles, block),
        lambda _n, g, _y, p, lane: whole(g // blocks, g % blocks * block + lane, p),
        "winograd_image",
        attrs={IMAGE: tiling.to_list()},
    )


def _of_image(
    place: Callable[..., Any],
    sizes: tuple[int, int, int],
    tiling: Tiling,
    dtype: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Any, Any, Any], Any]:
    """Number a of the transform of channel c of tile p, by stages of their own. place: of an
    image, channel, row and column; sizes: channels, height, width; more: to note at the first."""
    edge, matrix = tiling.edge, MATRICES[tiling.m].image
    channels, height, width = sizes

    def pixel(c: Any, p: Any, i: Any, j: Any) -> Any:
        y = p // tiling.columns % tiling.rows * tiling.m + i - tiling.top
        z = p % tiling.columns * tiling.m + j - tiling.left
        n = p // (tiling.rows * tiling.columns)
        inside = tirx.all(y >= 0, y < height, z >= 0, z < width)
        return tirx.if_then_else(inside, place(n, c, y, z), tirx.const(0, dtype))

    shape = (channels, tiling.tiles, edge, edge)
    window = te.compute(shape, pixel, "window", attrs={TRANSFORM: 0, **more})
    half = te.compute(
        shape,
        lambda c, p, i, j: _row(matrix, i, lambda k: window(c, p, k, j)),
        "half_transformed",
        attrs={TRANSFORM: 1},
    )
    return lambda a, c, p: _row(matrix, a % edge, lambda k: half(c, p, a // edge, k))


def fill_up_weights(transformed: Array) -> Array:
    """Transformed weights (a, o, c) as ``convolution`` takes them: (a, c, o), filled up with
    zeros."""
    _, outputs, inputs = transformed.shape
    more = ((0, 0), (0, -inputs % FULL_INPUTS), (0, -outputs % FULL_OUTPUTS))
    return np.pad(transformed.transpose(0, 2, 1), more)


def convolution(x: Any, weights: Any, tiling: Tiling, outputs: int) -> Any:
    """The convolution of an image (n, c, h, w), with m = 2, as (n, outputs, h, w): one computation
    for one kernel.

    weights: as of ``fill_up_weights``.
    """
    channels, height, width = (int(size) for size in x.shape[1:])
    transformed = _of_image(x, (channels, height, width), tiling, str(x.dtype), {WHOLE: 0})
    shape = (tiling.edge**2, channels, tiling.tiles)
    image = te.compute(shape, transformed, "winograd_image")
    c = te.reduce_axis((0, channels), "c")
    product = te.compute(
        (tiling.edge**2, outputs, tiling.tiles),
        lambda a, o, p: te.sum(image(a, c, p) * weights(a, c, o), c),
        "winograd_product",
    )
    return te.compute(
        (tiling.batch, outputs, tiling.height, tiling.width),
        _of_output(product, outputs, tiling, 2),
        "winograd_convolution",
        attrs={WHOLE: 1},
    )


def transform_output(product: Any, tiling: Tiling) -> Any:
    """((m+2)², o, p), with channels last ((m+2)², p, o), as an image."""
    last = tiling.channels_last
    channels = int(product.shape[2 if last else 1])
    place = _of_output(
        lambda a, o, p: product(a, *((p, o) if last else (o, p))),
        channels,
        tiling,
        1 if last else 2,
    )
    sizes = (tiling.height, tiling.width)
    if last:
        shape = (tiling.batch, *sizes, channels)
        return te.compute(shape, lambda n, y, z, o: place(n, o, y, z), "winograd_output")
    return te.compute((tiling.batch, channels, *sizes), place, "winograd_output")


def transform_output_in_blocks(product: Any, tiling: Tiling) -> Any:
    """(1, (m+2)² o / b, 1, p, b) as an image (n, o / b, h, w, b)."""
    _, all_blocks, _, _, block = (int(size) for size in product.shape)
    blocks = all_blocks // tiling.edge**2
    place = _of_output(
        lambda a, o, p: product(0, a * blocks + o // block, 0, p, o % block), blocks * block,
        tiling, 2,
    )  # fmt: skip
    return te.compute(
        (tiling.batch, blocks, tiling.height, tiling.width, block),
        lambda n, o, y, z, lane: place(n, o * block + lane, y, z),
        "winograd_output",
        attrs={OUTPUT: tiling.to_list()},
    )


def _of_output(
    product: Callable[[Any, Any, Any], Any], channels: int, tiling: Tiling, axis: int
) -> Callable[[Any, Any, Any, Any], Any]:
    """A pixel of a result, by stages of their own, of its image, channel, row and column. product:
    of a number of the transform, a channel and a tile; axis: of rows in the result."""
    edge, m, matrix = tiling.edge, tiling.m, MATRICES[tiling.m].output
    factors = te.compute(
        (channels, tiling.tiles, edge, edge),
        lambda o, p, i, j: product(i * edge + j, o, p),
        "factors",
        attrs={TRANSFORM: 0},
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
        attrs={TRANSFORM: 2, TILES: [axis, m]},
    )

    def place(n: Any, o: Any, y: Any, z: Any) -> Any:
        p = (n * tiling.rows + y // m) * tiling.columns + z // m
        return tile(o, p, y % m, z % m)

    return place


def _row(matrix: Rows, index: Any, load: Callable[[int], Any]) -> Any:
    """Row ``index`` of a matrix times the vector that ``load`` gives.

    All rows, told apart by conditions that go away once the loop over ``index`` is written out.
    """
    *others, last = (dot(row, load) for row in matrix)
    for number, value in reversed(list(enumerate(others))):
        last = tirx.if_then_else(index == number, value, last)
    return last


def dot(row: Sequence[Fraction], load: Callable[[int], Any]) -> Any:
    """Numbers times what ``load`` gives for their places, added up; None of zeros alone."""
    total: Any = None
    # A positive number comes first where there is one, as nothing is there to subtract from before.
    for place in sorted(range(len(row)), key=lambda place: row[place] <= 0):
        factor = row[place]
        if factor == 0:
            continue
        value = load(place)
        if total is None:
            total = value if factor == 1 else value * tirx.const(float(factor), value.ty.dtype)
            continue
        if abs(factor) != 1:
            value = value * tirx.const(float(abs(factor)), value.ty.dtype)
        total = total + value if factor > 0 else total - value
    return total
