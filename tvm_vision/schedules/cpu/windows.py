"""Convolutions and pools over channels in blocks, for processors.

The outputs of a tile, a few blocks of channels times a few neighbouring pixels, stay in registers
while the window moves and the channels are summed. Elementwise blocks that follow are applied to
the registers before they are stored. Rows outside the image are left out of the loop over the
window's rows, columns outside it are known where the code is written: only tiles at the edges
differ. ``topi/nchwc.py`` describes the tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx

from . import loops as make
from .loops import Kind, Stage
from .processor import Processor
from .registers import RegisterTile
from .tiles import (
    MOST_COLUMNS,
    ImageWindow,
    WindowTile,
    choose_tile,
    flattened,
    layer_of,
    parts,
    tile_rows,
)


def window_of(function: Any) -> ImageWindow:
    """The window of a function whose first block is a convolution or a pool in blocks.

    Raises NotWritten for other functions.
    """
    return _parsed(function)[1]


def _parsed(function: Any) -> tuple[list[Stage], ImageWindow]:
    stages = make.stages_of(function)
    layer = layer_of(stages)
    make.check_pointwise(stages)
    return stages, flattened(layer, stages)


def write_window(function: Any, processor: Processor, tile: WindowTile | None = None) -> Any:
    """Loops for a function with a ``window_of``; tile: how, None for the likeliest.

    Raises NotWritten for other functions.
    """
    stages, layer = _parsed(function)
    tile = tile or choose_tile(layer, processor)
    return make.written(function, _Writer(function, stages, layer, tile).body())


@dataclass(frozen=True)
class _Spot:
    """Where a tile is: its image, first block of channels, group, row and first column.

    ``known`` is the column as a number, where that is at an edge of the image.
    """

    image: Any
    first: Any
    group: Any
    row: Any
    start: Any
    known: int | None


class _Writer:
    def __init__(
        self, function: Any, stages: list[Stage], layer: ImageWindow, tile: WindowTile
    ) -> None:
        self._layer = layer
        self._tile = tile
        self._registers = RegisterTile(function.params, stages, tile.pixels, layer.lanes)

    def body(self) -> Any:
        """All images, all channels, all rows: the tasks that threads share."""
        layer, tile = self._layer, self._tile
        groups = layer.groups if layer.depth else 1
        per_group = layer.blocks // groups
        outer, rows = parts(layer, tile.blocks), tile_rows(layer, tile.pixels)
        of_group = outer // groups

        def task(index: Any) -> Any:
            image, index = index // (outer * rows), index % (outer * rows)
            part, row = self._place(index, outer, rows)
            # The last part of a group begins earlier, so that it is whole.
            within = tirx.min((part % of_group) * tile.blocks, per_group - tile.blocks)
            first = part // of_group * per_group + within
            return self._row(image, first, part // of_group, row)

        kind = Kind.PARALLEL if tile.parallel else Kind.SERIAL
        return make.loop("task", layer.images * outer * rows, task, kind)

    def _place(self, index: Any, outer: int, rows: int) -> tuple[Any, Any]:
        """Part of the channels and row of an image's task: neighbours go through ``tile.rows``
        rows with one part, then with the next."""
        together = self._tile.rows
        if together >= rows:
            return index // rows, index % rows
        if together == 1:
            return index % outer, index // outer
        first = index // (outer * together) * together
        within = index % (outer * together)
        count = together if rows % together == 0 else tirx.min(together, rows - first)
        return within // count, first + within % count

    def _columns(self) -> int:
        return math.ceil(self._layer.width / self._tile.pixels)

    def _row(self, image: Any, first: Any, group: Any, row: Any) -> Any:
        """One row of outputs; of joined rows, one tile."""
        layer, pixels = self._layer, self._tile.pixels
        last = layer.width - pixels
        if layer.flat:
            start = tirx.min(row * pixels, last)
            return self._pixels(_Spot(image, first, group, make.integer(0), start, None))
        starts = [min(i * pixels, last) for i in range(self._columns())]
        inner = [start for start in starts if self._is_inside(start)]
        edges = [start for start in starts if start not in inner]
        parts = [
            self._pixels(_Spot(image, first, group, row, make.integer(start), start))
            for start in edges
        ]
        if inner:

            def between(i: Any) -> Any:
                start = tirx.min(inner[0] + i * pixels, last)
                return self._pixels(_Spot(image, first, group, row, start, None))

            parts.append(make.loop("tile", len(inner), between))
        return make.sequence(parts)

    def _is_inside(self, start: int) -> bool:
        """True where the windows of a tile are all within the image's columns."""
        window, layer = self._layer.window, self._layer
        low = start * window.strides[1] - window.left
        high = (start + self._tile.pixels - 1) * window.strides[1] - window.left
        return low >= 0 and high + (window.kernel[1] - 1) * window.dilation[1] < layer.in_width

    def _pixels(self, spot: _Spot) -> Any:
        """One tile: its sums, and what follows on each of its blocks."""
        layer, tile = self._layer, self._tile
        sums = [self._registers.buffer(f"sum{i}") for i in range(tile.blocks)]
        initial = make.real(0.0 if layer.weights is not None else float("-inf"))
        statements = [tirx.AllocBuffer(buffer) for buffer in sums]
        statements += [self._registers.store(buffer, lambda j, lane: initial) for buffer in sums]
        statements.append(self._window(sums, spot))
        for i, buffer in enumerate(sums):
            statements += self._registers.results(buffer, partial(self._point, spot, i))
        return make.sequence(statements)

    def _point(self, spot: _Spot, i: int, j: Any, lane: Any) -> tuple[Any, ...]:
        """Where a lane of a tile's pixel and block lies in the results."""
        if outer := self._layer.outer:
            within = (spot.first + i) * self._layer.lanes + lane
            return *make.place(spot.start + j, outer), within
        return spot.image, spot.first + i, spot.row, spot.start + j, lane

    def _window(self, sums: list[Any], spot: _Spot) -> Any:
        """The sums of a tile: loops over channels and rows, columns written out, of a wide window
        those in a row that the same pixels have."""
        layer, known = self._layer, spot.known
        wide = layer.window.kernel[1] > MOST_COLUMNS

        def columns(kh: Any, block: Any, channel: Any) -> Any:
            def column(kw: Any, inside: range) -> Any:
                return self._column(sums, spot, kh, kw, inside, block, channel)

            parts = []
            for inside, group in itertools.groupby(
                range(layer.window.kernel[1]), lambda kw: self._inside(kw, known)
            ):
                if len(inside):
                    places = list(group)
                    parts += (
                        [
                            make.loop(
                                "kw", len(places), partial(column, inside=inside), low=places[0]
                            )
                        ]
                        if wide
                        else [column(kw, inside) for kw in places]
                    )
            return make.sequence(parts)

        if not layer.depth:
            return self._rows(spot.row, lambda kh: columns(kh, None, None))

        def channels(first: int, blocks: int, count: int) -> Any:
            def rows(block: Any) -> Any:
                return self._rows(
                    spot.row,
                    lambda kh: make.in_steps(
                        "channel", count, self._tile.unroll, partial(columns, kh, block)
                    ),
                )

            return make.loop("block", blocks, rows, low=first)

        inner = int(layer.weights.ty.shape[4])
        whole, rest = divmod(layer.depth, inner)
        parts = [channels(0, whole, inner)] if whole else []
        return make.sequence([*parts, channels(whole, 1, rest)] if rest else parts)

    def _rows(self, row: Any, body: Callable[[Any], Any]) -> Any:
        """A loop over the rows of the window that are in the image."""
        window, height = self._layer.window, self._layer.in_height
        last = (self._layer.height - 1) * window.strides[0] - window.top
        inside = last + (window.kernel[0] - 1) * window.dilation[0] < height
        if window.top == 0 and inside:
            return make.loop("kh", window.kernel[0], body)
        begin = row * window.strides[0] - window.top
        low = tirx.max((window.dilation[0] - 1 - begin) // window.dilation[0], 0)
        past = (height - begin + window.dilation[0] - 1) // window.dilation[0]
        high = tirx.min(past, window.kernel[0])
        return make.loop("kh", tirx.max(high - low, 0), body, low=low)

    def _inside(self, kw: int, known: int | None) -> range:
        """The pixels of a tile whose column ``kw`` of the window is in the image."""
        window, pixels = self._layer.window, self._tile.pixels
        if known is None:
            return range(pixels)
        offset = known * window.strides[1] + kw * window.dilation[1] - window.left
        inside = [
            j for j in range(pixels) if 0 <= offset + j * window.strides[1] < self._layer.in_width
        ]
        return range(inside[0], inside[-1] + 1) if inside else range(0)

    def _column(
        self, sums: list[Any], spot: _Spot, kh: Any, kw: Any, inside: range, block: Any,
        channel: Any,
    ) -> Any:  # fmt: skip
        """A product for each output of a tile: of one place in the window, and one channel.
        inside: the pixels that have it in the image."""
        window = self._layer.window
        y = spot.row * window.strides[0] + kh * window.dilation[0] - window.top

        def pixel(j: Any) -> Any:
            x = (spot.start + j) * window.strides[1] + kw * window.dilation[1] - window.left
            return make.sequence([product(i, j, x) for i in range(len(sums))])

        def product(i: int, j: Any, x: Any) -> Any:
            def value(lane: Any) -> Any:
                old = tirx.BufferLoad(sums[i], [j, lane])
                if self._layer.depth:
                    new = self._dense(spot, i, (y, x), (kh, kw), (block, channel), lane)
                else:
                    new = self._single(spot, i, (y, x), (kh, kw), lane)
                return tirx.max(old, new) if self._layer.weights is None else old + new

            return self._registers.vector(
                lambda lane: tirx.BufferStore(sums[i], value(lane), [j, lane])
            )

        return make.loop("pixel", len(inside), pixel, Kind.UNROLLED, inside.start)

    def _single(self, spot: _Spot, i: int, place: Any, tap: Any, lane: Any) -> Any:
        """What a channel by itself adds: its value, times the weight if there is one."""
        at = [spot.image, spot.first + i, *place, lane]
        value = make.single(tirx.BufferLoad(self._layer.data, at))
        if self._layer.weights is None:
            return value
        weight = tirx.BufferLoad(self._layer.weights, [spot.first + i, *tap, lane])
        return value * make.single(weight)

    def _dense(
        self, spot: _Spot, i: int, place: Any, tap: Any, source: tuple[Any, Any], lane: Any
    ) -> Any:
        """What a channel of the image adds to a vector of channels of the result."""
        layer, (block, channel) = self._layer, source
        weight = tirx.BufferLoad(layer.weights, [spot.first + i, block, *tap, channel, lane])
        if layer.plain:
            at = [spot.image, block * int(layer.weights.ty.shape[4]) + channel, *place]
        else:
            if layer.groups > 1:
                block = spot.group * (layer.depth // layer.lanes) + block
            at = [spot.image, block, *place, channel]
        return make.single(tirx.BufferLoad(layer.data, at)) * make.single(weight)
