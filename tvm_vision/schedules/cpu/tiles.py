"""A window over blocks of channels, and the tile of its outputs that is kept in registers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...topi.nchwc import CONVOLUTION, DEPTHWISE, MAX_POOL, PRODUCT, SlidingWindow
from . import loops as make
from .loops import NotWritten, Stage
from .processor import Processor

# Of a local buffer: TVM takes one of 1024 bytes or more from its pool of memory.
MOST_LOCAL_BYTES = 1023
# What the first pixel of a tile's block waits for memory, in multiplications: measured on 1×1
# convolutions of 16 to 80 channels with 13 tiles (Zen 4), 65 to 130.
BLOCK_CYCLES = 100
# Fewer multiplications are done before other threads have woken up.
WORTH_THREADS = 1 << 16
# Where that is in no doubt.
SURELY_ONE, SURELY_MANY = 1 << 12, 1 << 20
# How many loads are worth stores in a row: measured on 1×1 convolutions of 16 to 80 channels.
STORES_IN_A_ROW = 4
# Of candidates: registers that sums leave to what is loaded, how much dearer than the cheapest
# they may seem, how many of them, and how many of these come before another way of one.
SPARE_REGISTERS = 3
MOST_COST, MOST_TILES = 1.6, 16
OTHER_WAY = 3
# Of an image that is read again by each part of the channels from a cache of 1 MiB, as servers and
# many robots have it for a core; and of what is read at a time of a larger one.
MOST_IMAGE_BYTES, ROWS_BYTES = 1 << 20, 1 << 18
# Columns of a window that are written out. With 257, as transforms into frequencies have, LLVM
# takes minutes for a network of twenty such layers.
MOST_COLUMNS = 32
# Wider windows are written out often enough.
MOST_COLUMNS_UNROLLED = 5


@dataclass(frozen=True)
class WindowTile:
    """How a window is computed.

    Attributes:
        blocks, pixels: outputs kept in registers: blocks of channels times pixels of a row.
        rows: how many rows (tiles, where rows are joined) a part of the channels goes through
            before the next part does: with all of them weights are read once, with one the image.
        unroll: channels of the image that a step of the innermost loop adds.
        parallel: whether threads share the work.
    """

    blocks: int
    pixels: int
    rows: int
    unroll: int
    parallel: bool


@dataclass(frozen=True)
class ImageWindow:
    """A window over an image: sizes in blocks and pixels, of one image.

    ``depth`` channels are summed for each output (0: each channel by itself); ``data`` and
    ``weights`` are buffers, ``plain`` is true where the data has its channels one by one. ``flat``:
    rows are joined to one long row, which windows of one pixel allow. ``outer``: axes that the
    pixels of that row are of, where the blocks of each lie beside each other; else none.
    """

    window: SlidingWindow
    images: int
    blocks: int
    height: int
    width: int
    in_height: int
    in_width: int
    lanes: int
    depth: int
    groups: int
    data: Any
    weights: Any
    plain: bool
    flat: bool
    outer: tuple[int, ...] = ()


def layer_of(stages: Sequence[Stage]) -> ImageWindow:
    first = stages[0]
    notes = first.block.annotations
    kinds = (CONVOLUTION, DEPTHWISE, MAX_POOL, PRODUCT)
    kind = next((key for key in kinds if key in notes), None)
    if kind is None:
        raise NotWritten("a window in blocks is needed")
    numbers = [int(number) for number in notes[kind]]
    loads = [x for x in make.loads_in(first.value) if not x.source.same_as(first.buffer)]
    if len(loads) != (1 if kind == MAX_POOL else 2):
        raise NotWritten("a window reads its image and its weights")
    data, weights = loads[0].source, loads[-1].source if kind != MAX_POOL else None
    if kind == PRODUCT:
        assert weights is not None
        (depth,), lanes, (*outer, together) = numbers, int(weights.ty.shape[-1]), first.shape
        rows, window = math.prod(outer), SlidingWindow((1, 1), (1, 1), 0, 0, (1, 1))
        return ImageWindow(
            window, 1, together // lanes, 1, rows, 1, rows, lanes, depth, 1, data, weights, False,
            True, tuple(outer),
        )  # fmt: skip
    images, blocks, height, width, lanes = first.shape
    plain = len(data.ty.shape) == 4
    depth, groups = numbers[8:] if kind == CONVOLUTION else (0, 1)
    in_height, in_width = (int(size) for size in list(data.ty.shape)[2:4])
    return ImageWindow(
        SlidingWindow.of_list(numbers[:8]), images, blocks, height, width, in_height, in_width,
        lanes, depth, groups, data, weights, plain, False,
    )  # fmt: skip


def flattened(layer: ImageWindow, stages: Sequence[Stage]) -> ImageWindow:
    """The same with rows joined, where each output is of the pixel at its own place."""
    if layer.flat:
        return layer
    window = layer.window
    one = (window.kernel, window.strides, window.top, window.left) == ((1, 1), (1, 1), 0, 0)
    if not one or (layer.height, layer.width) != (layer.in_height, layer.in_width):
        return layer
    for stage in stages[1:]:
        for load in make.loads_in(stage.value):
            # A row more of what varies along rows alone would not be what follows in memory.
            by_row, by_column = (
                any(make.mentions(index, axis) for index in load.indices)
                for axis in stage.axes[2:4]
            )
            if by_row != by_column and layer.height > 1:
                return layer
    width = layer.height * layer.width
    return replace(layer, height=1, width=width, in_height=1, in_width=width, flat=True)


def parts(layer: ImageWindow, blocks: int) -> int:
    """Into how many parts tiles of so many blocks divide the channels of all groups."""
    groups = layer.groups if layer.depth else 1
    return groups * math.ceil(layer.blocks // groups / blocks)


def tile_rows(layer: ImageWindow, pixels: int) -> int:
    """Rows of an image; of joined rows, tiles."""
    return math.ceil(layer.width / pixels) if layer.flat else layer.height


def work(layer: ImageWindow) -> int:
    """Multiplications (or comparisons) of all images."""
    outputs = math.prod((layer.images, layer.blocks, layer.height, layer.width, layer.lanes))
    return outputs * math.prod(layer.window.kernel) * max(1, layer.depth)


def choose_tile(layer: ImageWindow, processor: Processor) -> WindowTile:
    """The tile that takes least: of multiplications, loads, waiting for results, and stores.

    Of tiles whose sums, and what is loaded for them, have a register each.
    """
    share = 3 / 4 if layer.window.kernel[1] == 1 else 2 / 3
    budget = max(1, int(processor.registers * share))
    outputs = _outputs(layer, budget)
    fitting = [tile for tile in outputs if _registers(layer, *tile) <= processor.registers]
    blocks, pixels = min(fitting or outputs[:1], key=lambda tile: _cost(layer, *tile))
    return _whole_tile(layer, blocks, pixels)


def candidates(layer: ImageWindow, processor: Processor) -> list[WindowTile]:
    """What may be tried for a window, the likeliest first, which is ``choose_tile``'s."""
    default = choose_tile(layer, processor)
    budget = max(1, processor.registers - SPARE_REGISTERS)
    ranked = sorted(_outputs(layer, budget), key=lambda tile: _cost(layer, *tile))
    least = _cost(layer, *ranked[0])
    likely = [tile for tile in ranked if _cost(layer, *tile) <= MOST_COST * least][:MOST_TILES]
    found: dict[WindowTile, int] = {default: -1}
    for rank, (blocks, pixels) in enumerate(likely):
        first = _whole_tile(layer, blocks, pixels)
        for i, rows in enumerate(_row_counts(layer, first)):
            for j, unroll in enumerate(_unrolls(layer)):
                for k, parallel in enumerate(_kinds_of_loop(layer, first)):
                    tile = replace(first, rows=rows, unroll=unroll, parallel=parallel)
                    found.setdefault(tile, rank + OTHER_WAY * (i + j + k))
    return sorted(found, key=lambda tile: found[tile])


def _outputs(layer: ImageWindow, budget: int) -> list[tuple[int, int]]:
    """Blocks and pixels of all tiles of ``budget`` vectors at the most."""
    most = min(layer.width, MOST_LOCAL_BYTES // (4 * layer.lanes))
    per_group = layer.blocks // layer.groups if layer.depth else 1
    return [
        (blocks, pixels)
        for blocks in range(1, min(8, per_group) + 1)
        for pixels in range(1, min(most, budget // blocks) + 1)
    ]


def _registers(layer: ImageWindow, blocks: int, pixels: int) -> int:
    """How many registers a tile takes: sums, weights, and what is loaded of the image.

    A column of the image that another column of the window reads again stays in a register from
    its first use to its last, for which LLVM would rather put sums into memory, in every step.
    """
    window, columns = layer.window, layer.window.kernel[1]
    if columns > MOST_COLUMNS:
        columns = 1
    uses: dict[int, list[int]] = {}
    for moment, (kw, pixel) in enumerate(itertools.product(range(columns), range(pixels))):
        uses.setdefault(pixel * window.strides[1] + kw * window.dilation[1], []).append(moment)
    begun = [0] * (columns * pixels + 1)
    for moments in uses.values():
        begun[moments[0]] += 1
        begun[moments[-1] + 1] -= 1
    # Of several columns one more is on its way.
    loaded = max(itertools.accumulate(begun)) + (columns > 1)
    # What all blocks share is one channel of the image; by itself each has its own.
    return blocks * (pixels + 1) + (loaded if layer.depth else blocks * loaded)


def _cost(layer: ImageWindow, blocks: int, pixels: int) -> float:
    """What a tile of so many outputs takes for a row of the image, in multiplications."""
    per_group = layer.blocks // layer.groups if layer.depth else 1
    steps = math.prod(layer.window.kernel) * max(1, layer.depth)
    tiles = math.ceil(per_group / blocks) * math.ceil(layer.width / pixels)
    # A result is there after some four steps, of which a processor begins two at once.
    step = max(blocks * pixels, blocks + pixels, 8) + 0.1 * (blocks + pixels)
    return tiles * (steps * step + BLOCK_CYCLES * blocks)


def _whole_tile(layer: ImageWindow, blocks: int, pixels: int) -> WindowTile:
    """A tile of these outputs, the rest as it is likely to be best."""
    outer, rows = parts(layer, blocks), tile_rows(layer, pixels)
    tasks = layer.images * outer * rows
    parallel = work(layer) >= WORTH_THREADS and tasks > 1
    together = 1
    if _channels_outside(layer, outer, rows):
        together = _rows_in_cache(layer, rows) if outer > 1 else rows
    return WindowTile(blocks, pixels, together, 1, parallel)


def _rows_in_cache(layer: ImageWindow, rows: int) -> int:
    """How many joined rows all parts of the channels go through before the next ones: all of a
    small image, and of a large one what stays in the cache until the last part has read it. Larger
    windows read each number often enough."""
    if layer.weights is None or not layer.depth or not layer.flat or layer.groups > 1:
        return rows
    image = 4 * math.prod(int(size) for size in layer.data.ty.shape) // layer.images
    if image <= MOST_IMAGE_BYTES:
        return rows
    return min(rows, max(1, rows * ROWS_BYTES // image))


def _channels_outside(layer: ImageWindow, outer: int, rows: int) -> bool:
    """Whether to go through the image for each part of the channels, or the other way.

    What is outside is read once, what is inside as often as the outside has steps. Results of
    one part after another are stores in a row, which outweighs some loads.
    """
    if layer.weights is None or not layer.depth:
        return True
    weights = math.prod(int(size) for size in layer.weights.ty.shape)
    # A part reads the image's channels of its own group.
    numbers = math.prod(int(size) for size in layer.data.ty.shape) // layer.images // layer.groups
    return outer * numbers <= STORES_IN_A_ROW * rows * weights


def _row_counts(layer: ImageWindow, tile: WindowTile) -> list[int]:
    """``WindowTile.rows``, the likeliest first."""
    rows = tile_rows(layer, tile.pixels)
    if parts(layer, tile.blocks) == 1:
        return [tile.rows]
    between = [4, 16] if layer.depth else []
    others = [rows, 1, *(count for count in between if count < rows)]
    return list(dict.fromkeys([tile.rows, *others]))


def _unrolls(layer: ImageWindow) -> list[int]:
    """``WindowTile.unroll``, the likeliest first."""
    if not layer.depth or layer.window.kernel[1] > MOST_COLUMNS_UNROLLED:
        return [1]
    count = min(layer.depth, int(layer.weights.ty.shape[4]))
    return [1, *(unroll for unroll in (2, 4) if count % unroll == 0)]


def _kinds_of_loop(layer: ImageWindow, tile: WindowTile) -> list[bool]:
    """``WindowTile.parallel``, the likeliest first."""
    clear = not SURELY_ONE <= work(layer) <= SURELY_MANY
    tasks = layer.images * parts(layer, tile.blocks) * tile_rows(layer, tile.pixels)
    return [tile.parallel] if clear or tasks == 1 else [tile.parallel, not tile.parallel]
