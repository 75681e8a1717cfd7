"""Winograd's convolution F(2×2, 3×3) as one kernel, by multiplications and additions.

A workgroup has some tiles of the image and some results. For a few channels at a time its threads
transform these tiles, one of a channel each, and fetch the weights, which were transformed when the
network was compiled; both meet in shared memory. Then each thread multiplies for one of a tile's 16
numbers: some results by four tiles. At the end products go through shared memory once more, to
threads that transform them back and write them with whatever follows.

Of fp16 the products of a step along the channels are added up in fp16, as everywhere where GPUs do
two of these at once (packed_fp16.py), and the steps in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import tirx as T

from ...topi.by_hand import barrier
from ...topi.winograd import MATRICES, WHOLE, dot
from ..common import (
    NotThisKind,
    TargetLimits,
    blocks_of,
    extents_of,
    inline_consumers,
    inline_producers,
    only_reduction,
    up,
)
from ..cost.winograd_conv import EDGE, NUMBERS, VECTOR, Layer, M, WinogradTile, candidates
from .kernel_marks import KEEP_LOOPS, SELECT_LOADS, SUBGROUP
from .statements import dtype_of, kernel_of, put

UNROLLED = 2  # channels that are multiplied in a round


def shape_of(schedule: Schedule) -> Layer:
    """The convolution that a kernel is.

    Raises:
        NotThisKind: the kernel is none.
    """
    return _Parts(schedule).layer


def schedule_convolution(
    schedule: Schedule, limits: TargetLimits, tile: WinogradTile | None
) -> Schedule:
    """The kernel.

    Args:
        tile: how to cut it; None chooses.

    Raises:
        NotThisKind: another kernel, or one that cannot be cut so.
    """
    parts = _Parts(schedule)
    layer = parts.layer
    tile = tile or next(iter(candidates(layer, limits)), None)
    if tile is None:
        raise NotThisKind("no tile fits")
    launch = {
        "blockIdx.y": up(layer.outputs, tile.results),
        "blockIdx.x": up(layer.tiles, tile.tiles),
        "threadIdx.x": tile.threads,
    }

    def write(buffers: Any, row: Any, column: Any, thread: Any) -> None:
        _Kernel(parts, tile, packed, buffers, row, column, thread).write()

    packed = layer.fp16 and limits.device.packed_fp16
    marks = {KEEP_LOOPS: 1}
    # Intel's compiler waits for the pixels of float32 that it selects.
    if limits.selects_loads and (layer.fp16 or not limits.device.packed_lanes):
        marks[SELECT_LOADS] = 1
    if packed and limits.device.packed_lanes:
        marks[SUBGROUP] = limits.device.packed_lanes
    return kernel_of(schedule, launch, write, marks)


class _Parts:
    """What a function is made of: which pixel a transform reads, and what becomes of a result, both
    with all that is computed around the convolution. Spoils the schedule."""

    def __init__(self, schedule: Schedule) -> None:
        noted = {}
        for block in blocks_of(schedule):
            place = schedule.get(block).annotations.get(WHOLE)
            if place is not None:
                noted[int(place)] = block
        if sorted(noted) != [0, 1]:
            raise NotThisKind("is no convolution of Winograd's")
        first, last = noted[0], noted[1]
        self.params = list(schedule.mod["main"].params)
        read = [each.source for each in schedule.get(only_reduction(schedule)).reads]
        self.weights = next((p for p in self.params if any(p.same_as(r) for r in read)), None)
        if self.weights is None:
            raise NotThisKind("computes its weights")
        image = schedule.get(first).writes[0].source
        fp16 = {dtype_of(self.weights), str(image.ty.dtype.dtype)} == {"float16"}
        batch, outputs, height, width = extents_of(schedule, last)
        inputs = extents_of(schedule, first)[0]
        self.layer = Layer(batch, inputs, outputs, height, width, fp16)
        self._tile = schedule.get(last).reads[0].source
        inline_producers(schedule, first)
        inline_consumers(schedule, last)
        self._pixel, self._result = schedule.get(first), schedule.get(last)
        if not self._result.body.buffer.same_as(self.params[-1]):
            raise NotThisKind("something else is made of its results")

    def pixel(self, c: Any, p: Any, i: int, j: int, buffers: Mapping[Any, Any]) -> Any:
        """A pixel of a channel and a tile. buffers: what stands for the function's."""
        axes = [axis.var for axis in self._pixel.iter_vars]
        tile = tirx.Var("p", str(axes[1].ty.dtype))
        analyzer = sym.Analyzer()
        analyzer.bind(tile, ir.Range(0, self.layer.tiles))
        value = _with(self._pixel.body.value, dict(zip(axes, (axes[0], tile, i, j), strict=True)))
        value = analyzer.simplify(value)
        return _with(value, {axes[0]: c, tile: p}, buffers)

    def store(self, at: list[Any], tile: Any, buffers: Mapping[Any, Any]) -> None:
        """Writes what becomes of a result. at: its batch, channel, row and column; tile: the
        result; buffers: what stands for the function's."""
        store = self._result.body
        axes = dict(zip((axis.var for axis in self._result.iter_vars), at, strict=True))
        value = _with(store.value, axes, buffers, {self._tile: tile})
        indices = [_with(index, axes) for index in store.indices]
        T.buffer_store(buffers[store.buffer], value, indices)


def _with(
    value: Any,
    variables: Mapping[Any, Any],
    buffers: Mapping[Any, Any] | None = None,
    values: Mapping[Any, Any] | None = None,
) -> Any:
    """A value with others in place of variables, of buffers, and of what is read of some."""

    def load(node: Any) -> Any:
        if values is not None and node.source in values:
            return values[node.source]
        if buffers is None or node.source not in buffers:
            return node
        return buffers[node.source][tuple(node.indices)]

    def variable(node: Any) -> Any:
        if node not in variables:
            return node
        new, dtype = variables[node], str(node.ty.dtype)
        return tirx.const(new, dtype) if isinstance(new, int) else _as(dtype, new)

    found: Any = tvm_ffi.structural_map(
        value, [(ir.TensorLoad, load), (ir.Var, variable)], order="post"
    )
    return found


def _as(dtype: str, value: Any) -> Any:
    return value if str(value.ty.dtype) == dtype else T.Cast(dtype, value)


@contextmanager
def _where(conditions: list[Any]) -> Iterator[None]:
    """Statements under all of some conditions."""
    if not conditions:
        yield
        return
    with T.If(tirx.all(*conditions)), T.Then():
        yield


def _every(buffer: Any, step: int, first: Any) -> Callable[[int], Any]:
    """Elements of a buffer by their numbers, of which each is so far from the one before."""
    return lambda number: buffer[number * step + first]


def _buffer(size: int, dtype: str, scope: str) -> Any:
    return T.sblock_alloc_buffer((size,), dtype, scope=scope)


class _Kernel:
    """The statements of a thread."""

    def __init__(
        self, parts: _Parts, tile: WinogradTile, packed: bool, buffers: Any,
        row: Any, column: Any, thread: Any,
    ) -> None:  # fmt: skip
        self.parts, self.tile, self.layer = parts, tile, parts.layer
        self.thread, self.packed = thread, packed
        self.buffers = dict(zip(parts.params, buffers, strict=True))
        self.weights = self.buffers[parts.weights]
        self.first_result, self.first_tile = row * tile.results, column * tile.tiles
        self.dtype = "float16" if self.layer.fp16 else "float32"
        local, shared = partial(_buffer, scope="local"), partial(_buffer, scope="shared")
        factors = NUMBERS * tile.results * max(tile.channels, tile.tiles)
        self.factors = shared(factors, self.dtype)
        self.image = shared(NUMBERS * tile.channels * tile.tiles, self.dtype)
        self.pixels = local(NUMBERS, self.dtype)
        self.half = local(NUMBERS, self.dtype)
        self.turns = NUMBERS * tile.channels * tile.results // VECTOR // tile.threads
        self.fetched = local(self.turns * VECTOR, self.dtype)
        self.near = local(VECTOR, self.dtype)
        self.own = local(tile.own, self.dtype)
        count = tile.own * VECTOR
        self.sums = local(count, "float32")
        self.part = local(count, self.dtype) if packed else self.sums
        # For products: the threads of a number, four tiles and some results each.
        each = tile.threads // NUMBERS
        self.number = thread // each
        self.near_tile = thread % each % (tile.tiles // VECTOR) * VECTOR
        self.near_result = thread % each // (tile.tiles // VECTOR) * tile.own

    def write(self) -> None:
        tile, count = self.tile, self.tile.own
        self._clear(self.sums, "float32")
        with T.serial(0, up(self.layer.inputs, tile.channels)) as step:
            self._transform(step)
            self._store_weights()
            barrier()
            if self.packed:
                self._clear(self.part, self.dtype)
            with T.serial(0, tile.channels // UNROLLED) as turn:
                for channel in range(UNROLLED):
                    self._multiply(turn * UNROLLED + channel)
            if self.packed:
                for i in range(count):
                    with T.vectorized(0, VECTOR) as v:
                        at = i * VECTOR + v
                        put(self.sums, at, self.sums[at] + self._wide(self.part[at]))
        barrier()
        for i in range(count):
            row = (self.number * tile.results + self.near_result + i) * tile.tiles + self.near_tile
            with T.vectorized(0, VECTOR) as v:
                value = self.sums[i * VECTOR + v]
                put(self.factors, row + v, self._narrow(value))
        barrier()
        self._give()

    def _narrow(self, value: Any) -> Any:
        return _as(self.dtype, value)

    def _wide(self, value: Any) -> Any:
        return _as("float32", value)

    def _clear(self, buffer: Any, dtype: str) -> None:
        for i in range(self.tile.own):
            with T.vectorized(0, VECTOR) as v:
                put(buffer, i * VECTOR + v, tirx.const(0, dtype))

    def _transform(self, step: Any) -> None:
        """Puts the transforms of a step's channels into shared memory."""
        tile, layer = self.tile, self.layer
        matrix = MATRICES[M].image
        turns = up(tile.channels * tile.tiles, tile.threads)
        assert tile.channels * tile.tiles % tile.threads == 0
        for turn in range(turns):
            own = self.thread + turn * tile.threads
            p, c = own % tile.tiles, own // tile.tiles
            place = self.first_tile + p
            if layer.tiles % tile.tiles:
                place = tirx.min(place, T.int32(layer.tiles - 1))
            channel = step * tile.channels + c
            for i in range(EDGE):
                for j in range(EDGE):
                    value = self._narrow(self.parts.pixel(channel, place, i, j, self.buffers))
                    if layer.inputs % tile.channels:
                        value = tirx.if_then_else(
                            channel < layer.inputs, value, tirx.const(0, self.dtype)
                        )
                    put(self.pixels, i * EDGE + j, value)
            for i in range(EDGE):
                for j in range(EDGE):
                    value = dot(matrix[i], _every(self.pixels, EDGE, j))
                    put(self.half, i * EDGE + j, value)
            if turn == 0:
                self._load_weights(step)
                barrier()
            for i in range(EDGE):
                for j in range(EDGE):
                    value = dot(matrix[j], _every(self.half, 1, i * EDGE))
                    at = ((i * EDGE + j) * tile.channels + c) * tile.tiles + p
                    put(self.image, at, value)

    def _load_weights(self, step: Any) -> None:
        """Loads a thread's part of the weights of a step's channels: before a barrier, so that
        they are under way together with the pixels."""
        tile = self.tile
        row = tile.results // VECTOR
        for turn in range(self.turns):
            own = self.thread + turn * tile.threads
            number, c, o = own // (tile.channels * row), own // row % tile.channels, own % row
            with T.vectorized(0, VECTOR) as v:
                place = (
                    number, step * tile.channels + c, self.first_result + o * VECTOR + v
                )  # fmt: skip
                put(self.fetched, turn * VECTOR + v, self._narrow(self.weights[place]))

    def _store_weights(self) -> None:
        """Puts these into shared memory."""
        for turn in range(self.turns):
            with T.vectorized(0, VECTOR) as v:
                at = (self.thread + turn * self.tile.threads) * VECTOR + v
                put(self.factors, at, self.fetched[turn * VECTOR + v])

    def _multiply(self, channel: Any) -> None:
        """Adds up the products of a channel."""
        tile = self.tile
        row = self.number * tile.channels + channel
        with T.vectorized(0, VECTOR) as v:
            put(self.near, v, self.image[row * tile.tiles + self.near_tile + v])
        for at in range(0, tile.own, VECTOR):
            with T.vectorized(0, VECTOR) as v:
                put(self.own, at + v, self.factors[row * tile.results + self.near_result + at + v])
        for i in range(tile.own):
            with T.vectorized(0, VECTOR) as v:
                at = i * VECTOR + v
                factors = self.near[v], self.own[i]
                if not self.packed:
                    factors = self._wide(factors[0]), self._wide(factors[1])
                put(self.part, at, self.part[at] + factors[0] * factors[1])

    def _give(self) -> None:
        """Transforms the products of a result and some tiles back, and writes what becomes of
        them."""
        tile, layer = self.tile, self.layer
        matrix = MATRICES[M].output
        near = max(1, tile.results * tile.tiles // tile.threads)
        row = tile.tiles // near
        p, o = self.thread % row * near, self.thread // row
        product = _buffer(NUMBERS * near, "float32", "local")
        half = _buffer(M * EDGE * near, "float32", "local")
        result = _buffer(M * M * near, "float32", "local")
        for number in range(NUMBERS):
            with T.vectorized(0, near) as v:
                value = self.factors[(number * tile.results + o) * tile.tiles + p + v]
                put(product, number * near + v, self._wide(value))
        for i in range(M):
            for j in range(EDGE):
                with T.vectorized(0, near) as v:
                    value = dot(matrix[i], _every(product, EDGE * near, j * near + v))
                    put(half, (i * EDGE + j) * near + v, value)
        for e in range(near):
            for i in range(M):
                for j in range(M):
                    value = dot(matrix[j], _every(half, near, i * EDGE * near + e))
                    put(result, (e * M + i) * M + j, value)
        channel = self.first_result + o
        for e in range(near):
            place = self.first_tile + p + e
            conditions = []
            if layer.outputs % tile.results:
                conditions.append(channel < layer.outputs)
            if layer.tiles % tile.tiles:
                conditions.append(place < layer.tiles)
            for i in range(M):
                self._give_row(place, channel, i, result, (e * M + i) * M, conditions)

    def _give_row(
        self, place: Any, channel: Any, i: int, result: Any, first: int, conditions: list[Any]
    ) -> None:
        layer = self.layer
        n = place // (layer.rows * layer.columns) if layer.batch > 1 else T.int32(0)
        y = place // layer.columns % layer.rows * M + i
        z = place % layer.columns * M
        if i and layer.height % M:
            conditions = [*conditions, y < layer.height]
        if layer.width % M == 0:
            with _where(conditions), T.vectorized(0, M) as v:
                self.parts.store([n, channel, y, z + v], result[first + v], self.buffers)
            return
        for j in range(M):
            inside = [z + j < layer.width] if j else []
            with _where([*conditions, *inside]):
                self.parts.store([n, channel, y, z + j], result[first + j], self.buffers)
