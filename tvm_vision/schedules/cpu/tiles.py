"""A window over blocks of channels, and the tile of its outputs that is kept in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...topi.nchwc import CONVOLUTION, DEPTHWISE, MAX_POOL, SlidingWindow
from . import loops as make
from .loops import NotWritten, Processor, Stage

# A local buffer that is larger would be taken from the heap instead of the stack.
MOST_LOCAL_BYTES = 1024
# What the first pixel of a tile's block waits for memory, in multiplications: measured on 1×1
# convolutions of 16 to 80 channels with 13 tiles (Zen 4), 65 to 130.
BLOCK_CYCLES = 100


@dataclass(frozen=True)
class Tile:
    """Outputs in registers: blocks of channels times pixels of a row."""

    blocks: int
    pixels: int


@dataclass(frozen=True)
class ImageWindow:
    """A window over an image: sizes in blocks and pixels, of one image.

    ``depth`` channels are summed for each output (0: each channel by itself); ``data`` and
    ``weights`` are buffers, ``plain`` is true where the data has its channels one by one. ``flat``:
    rows are joined to one long row, which windows of one pixel allow.
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


def layer_of(stages: Sequence[Stage]) -> ImageWindow:
    first = stages[0]
    notes = first.block.annotations
    kind = next((key for key in (CONVOLUTION, DEPTHWISE, MAX_POOL) if key in notes), None)
    if kind is None:
        raise NotWritten("a window in blocks is needed")
    numbers = [int(number) for number in notes[kind]]
    images, blocks, height, width, lanes = first.shape
    loads = [x for x in make.loads_in(first.value) if not x.source.same_as(first.buffer)]
    if len(loads) != (1 if kind == MAX_POOL else 2):
        raise NotWritten("a window reads its image and its weights")
    data, weights = loads[0].source, loads[-1].source if kind != MAX_POOL else None
    plain = len(data.ty.shape) == 4
    depth, groups = numbers[8:] if kind == CONVOLUTION else (0, 1)
    in_height, in_width = (int(size) for size in list(data.ty.shape)[2:4])
    return ImageWindow(
        SlidingWindow.of_list(numbers[:8]), images, blocks, height, width, in_height, in_width,
        lanes, depth, groups, data, weights, plain, False,
    )  # fmt: skip


def flattened(layer: ImageWindow, stages: Sequence[Stage]) -> ImageWindow:
    """The same with rows joined, where each output is of the pixel at its own place."""
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


def choose_tile(layer: ImageWindow, processor: Processor) -> Tile:
    """The tile that takes least: of multiplications, loads, waiting for results, and stores.

    Windows of several columns share what they load, which takes registers of its own.
    """
    share = 3 / 4 if layer.window.kernel[1] == 1 else 2 / 3
    budget = max(1, int(processor.registers * share))
    most = min(layer.width, MOST_LOCAL_BYTES // (4 * layer.lanes))
    per_group = layer.blocks // layer.groups if layer.depth else 1
    steps = math.prod(layer.window.kernel) * max(1, layer.depth)
    best: tuple[float, Tile] | None = None
    for blocks in range(1, min(8, per_group) + 1):
        for pixels in range(1, min(most, budget // blocks) + 1):
            tiles = math.ceil(per_group / blocks) * math.ceil(layer.width / pixels)
            # A result is there after some four steps, of which a processor begins two at once.
            step = max(blocks * pixels, blocks + pixels, 8) + 0.1 * (blocks + pixels)
            cost = tiles * (steps * step + BLOCK_CYCLES * blocks)
            if best is None or cost < best[0]:
                best = (cost, Tile(blocks, pixels))
    assert best is not None
    return best[1]
