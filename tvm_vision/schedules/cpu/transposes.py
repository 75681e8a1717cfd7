"""Permuted axes, for processors: what is read along one axis and written along another.

Neighbours of what is read are vectors of 16 bytes, which shuffles turn into vectors of neighbours
of the result: one value at a time a cache line would be fetched as often as it has values. Axes
that stay beside each other are gone through as one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from . import loops as make
from .loops import Kind, NotWritten, Stage
from .nests import in_vectors, inlined
from .processor import Processor

# Of a vector that shuffles turn: they do not cross these on x86.
CHUNK_BITS = 128
# Fewer values are moved before other threads have woken up.
WORTH_THREADS = 1 << 14
# Bytes of a result's row in a block, and of what is read along one of its columns: enough of both
# for streams, few enough for the first cache.
BLOCKS = ((512, 256), (512, 128), (256, 256), (512, 64))
# Bytes of a block where columns are neighbours of what is read, too.
COPIED = 1 << 13
# Rows so many bytes apart share few lines of the first cache: fewer of them are in a block.
CROWDED, FEWER = 1024, (512, 128)


@dataclass(frozen=True)
class TransposeLoop:
    """How a result is gone through.

    Attributes:
        columns, rows: of the result in a block that is done before the next.
        parallel: whether threads share the blocks.
    """

    columns: int
    rows: int
    parallel: bool


@dataclass(frozen=True)
class Permuted:
    """A result of ``outer`` × rows × columns, in whatever order it has them.

    Attributes:
        outer: what neither is.
        rows: neighbours of what is read, where that is turned.
        columns: neighbours of the result.
        turned: whether rows are neighbours of what is read; else columns are, or nothing is.
        bits: of a number that is read.
        stride: bytes from a row of the result to the next.
    """

    outer: tuple[int, ...]
    rows: int
    columns: int
    turned: bool
    bits: int
    stride: int

    @property
    def chunk(self) -> int:
        """Numbers of a vector that is turned; 1 where there are too few to turn."""
        count = CHUNK_BITS // self.bits
        return count if self.turned and min(self.rows, self.columns) >= count else 1


def transpose_of(function: Any) -> Permuted:
    """The axes of a function that permutes them. Raises NotWritten for others."""
    return _parsed(function)[1].permuted


def candidates(permuted: Permuted, _processor: Processor) -> list[TransposeLoop]:
    """What may be tried, the likeliest first."""
    size, first = permuted.bits // 8, [FEWER] if permuted.stride % CROWDED == 0 else []
    blocks = [
        (min(permuted.columns, columns // size), min(permuted.rows, rows // size))
        for columns, rows in (*first, *BLOCKS)
    ]
    if not permuted.turned:
        widths = (min(permuted.columns, most // size) for most in (COPIED, COPIED // 8))
        blocks = [(n, max(1, min(permuted.rows, COPIED // size // n))) for n in widths]
    everything = math.prod((*permuted.outer, permuted.rows, permuted.columns))
    likely = everything >= WORTH_THREADS
    return [
        TransposeLoop(*block, parallel)
        for parallel in (likely, not likely)
        for block in dict.fromkeys(blocks)
    ]


def write_transpose(function: Any, processor: Processor, how: TransposeLoop | None = None) -> Any:
    """Loops for a function with ``transpose_of``; how: None for the likeliest.

    Raises NotWritten for other functions.
    """
    function, axes = _parsed(function)
    how = how or candidates(axes.permuted, processor)[0]
    return make.written(function, _Writer(axes, processor, how).body())


@dataclass(frozen=True)
class _Axes:
    """A block, and its axes in groups of which each is one: those that lie together in all that it
    reads, given by their places; ``outer`` without those of ``rows`` and ``columns``.

    ``turned`` are the loads whose neighbours are rows.
    """

    stage: Stage
    outer: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    turned: tuple[Any, ...]

    def count(self, group: Sequence[int]) -> int:
        """The places of a group."""
        return math.prod(self.stage.shape[axis] for axis in group)

    @property
    def permuted(self) -> Permuted:
        """What the loops depend on."""
        read, result = (
            tvm_ffi.dtype(str(value.ty.dtype)).bits
            for value in (self.turned[0] if self.turned else self.stage.value, self.stage.value)
        )
        return Permuted(
            tuple(map(self.count, self.outer)), self.count(self.rows), self.count(self.columns),
            bool(self.turned), read, math.prod(self.stage.shape[self.rows[-1] + 1 :]) * result // 8,
        )  # fmt: skip

    def at(self, outer: Sequence[Any], row: Any, column: Any) -> list[Any]:
        """The point of the stage's axes: of a group the last one counts all its places."""
        found = [make.integer(0)] * len(self.stage.axes)
        groups = [*self.outer, self.rows, self.columns]
        for group, place in zip(groups, [*outer, row, column], strict=True):
            found[group[-1]] = place
        return found


def _parsed(function: Any) -> tuple[Any, _Axes]:
    stages = make.stages_of(function)
    if any(a.iter_type != tirx.IterVar.DataPar for s in stages for a in s.block.iter_vars):
        raise NotWritten("blocks without a sum are needed")
    if len(stages) > 1:
        function = inlined(function).mod["main"].with_attrs(function.attrs)
        stages = make.stages_of(function)
    stage = stages[0]
    if len(stages) > 1 or len(stage.axes) != len(stage.shape):
        raise NotWritten("one block is needed")
    if any(str(axis.ty.dtype) != make.INDEX for axis in stage.axes):
        raise NotWritten(f"axes of {make.INDEX} are needed, as compiled networks have them")
    groups = _groups(stage)
    if len(groups) < 2:
        raise NotWritten("axes in another order are needed")
    return function, _sorted(stage, groups)


def _terms(load: Any) -> list[tuple[Any, int]]:
    """The indices of a load and the sizes along them, without axes of one."""
    sizes = [int(size) for size in load.source.ty.shape]
    return [pair for pair in zip(load.indices, sizes, strict=True) if pair[1] != 1]


def _groups(stage: Stage) -> list[tuple[int, ...]]:
    """The axes of more than one, those together that everything that is read has together."""
    loads = make.loads_in(stage.value)
    several = [place for place, size in enumerate(stage.shape) if size != 1]
    without = tvm_ffi.structural_map(
        stage.value, (ir.TensorLoad, lambda load: tirx.const(0, str(load.ty.dtype))), order="post"
    )
    groups: list[tuple[int, ...]] = []
    for place in several:
        pair = (groups[-1][-1], place) if groups else ()
        by_itself = any(make.mentions(without, stage.axes[axis]) for axis in pair)
        if pair and not by_itself and all(_together(stage, load, *pair) for load in loads):
            groups[-1] = (*groups[-1], place)
        else:
            groups.append((place,))
    return groups


def _together(stage: Stage, load: Any, first: int, second: int) -> bool:
    """Whether a load goes on from one row along ``second`` with the next along ``first``, or knows
    neither."""
    one, other = stage.axes[first], stage.axes[second]
    terms = _terms(load)
    found = [i for i, (x, _) in enumerate(terms) if any(make.mentions(x, a) for a in (one, other))]
    if len(found) != 2 or found[1] != found[0] + 1:
        return not found
    (index, _), (inner, size) = (terms[i] for i in found)
    return index.same_as(one) and inner.same_as(other) and size == stage.shape[second]


def _sorted(stage: Stage, groups: list[tuple[int, ...]]) -> _Axes:
    """Which group is what. Raises NotWritten where neighbours are no vectors."""
    columns = groups[-1]
    if not in_vectors(stage.block.body, stage.axes[columns[-1]]):
        raise NotWritten("columns that vectors may hold are needed")
    turned: list[Any] = []
    rows: tuple[int, ...] = ()
    moved = False
    for load in make.loads_in(stage.value):
        order = _order(stage, groups, load)
        moved = moved or order != sorted(order)
        if len(groups) - 1 not in order or order[-1] == len(groups) - 1:
            continue
        if rows not in ((), groups[order[-1]]):
            raise NotWritten("neighbours along one axis are needed")
        rows = groups[order[-1]]
        turned.append(load)
    if not moved:
        raise NotWritten("axes in another order are needed")
    if len({str(load.ty.dtype) for load in turned}) > 1:
        raise NotWritten("numbers of one type are needed")
    rows = rows or groups[-2]
    outer = tuple(group for group in groups if group not in (rows, columns))
    return _Axes(stage, outer, rows, columns, tuple(turned))


def _order(stage: Stage, groups: Sequence[tuple[int, ...]], load: Any) -> list[int]:
    """The groups along which a load goes, from the outermost to the innermost.

    Raises NotWritten where it does not go by single places along columns, or along its own last
    axis while columns are others.
    """
    place_of = {axis: i for i, group in enumerate(groups) for axis in group}
    order: list[int] = []
    plain = True
    for index, _ in _terms(load):
        mentioned = [i for i, axis in enumerate(stage.axes) if make.mentions(index, axis)]
        plain = len(mentioned) == 1 and index.same_as(stage.axes[mentioned[0]])
        known = [place_of[axis] for axis in mentioned if axis in place_of]
        if not plain and len(groups) - 1 in known:
            raise NotWritten("columns that are read one by one are needed")
        order += [place for place in known if place not in order[-1:]]
    if len(groups) - 1 in order and not plain:
        raise NotWritten("neighbours that are read one by one are needed")
    if len(set(order)) != len(order):
        raise NotWritten("axes that are read once are needed")
    return order


class _Writer:
    def __init__(self, axes: _Axes, processor: Processor, how: TransposeLoop) -> None:
        self._axes = axes
        self._how = how
        self._permuted = permuted = axes.permuted
        self._chunk = permuted.chunk
        # Numbers of a result's vector.
        most = processor.lanes * 32 // permuted.bits
        self._lanes = min(most, permuted.columns // self._chunk * self._chunk)
        self._row = tirx.Var("row", make.INDEX)
        self._lane = tirx.Var("lane", make.INDEX)
        self._kept: list[Any] = []

    def body(self) -> Any:
        """Blocks, which threads share, each by tiles of whole vectors."""
        permuted, how = self._permuted, self._how
        rows = _Parts(permuted.rows, self._chunk, how.rows)
        columns = _Parts(permuted.columns, self._lanes, how.columns)
        sizes = [*permuted.outer, rows.blocks, columns.blocks]

        def block(index: Any) -> Any:
            *outer, down, along = make.place(index, sizes)
            return columns.loop("along", along, lambda column: rows.loop(
                "down", down, lambda row: self._tile(outer, row, column)
            ))  # fmt: skip

        kind = Kind.PARALLEL if how.parallel else Kind.SERIAL
        return make.loop("block", math.prod(sizes), block, kind)

    def _tile(self, outer: Sequence[Any], row: Any, column: Any) -> Any:
        if self._chunk == 1:
            return self._store(self._axes.stage.value, outer, row, column)
        statements: list[Any] = []
        turned: list[tuple[Any, Any]] = []
        for load in self._axes.turned:
            if not any(tvm_ffi.structural_equal(load, other) for other, _ in turned):
                buffer, made = self._turn(load, outer, row, column)
                statements += made
                turned.append((load, buffer))

        def found(load: Any) -> Any:
            for other, buffer in turned:
                if tvm_ffi.structural_equal(load, other):
                    return tirx.BufferLoad(buffer, [self._row, self._lane])
            return load

        value = tvm_ffi.structural_map(self._axes.stage.value, (ir.TensorLoad, found), order="post")
        statements.append(
            make.loop(
                "row", self._chunk,
                lambda i: self._store(value, outer, row + i, column, i), Kind.UNROLLED,
            )
        )  # fmt: skip
        return make.sequence(statements)

    def _store(self, value: Any, outer: Sequence[Any], row: Any, column: Any, i: Any = 0) -> Any:
        """A vector of results; i: its place in a tile of turned numbers."""
        stage = self._axes.stage

        def one(lane: Any) -> Any:
            at = self._axes.at(outer, row, column + lane)
            axes = {**dict(zip(stage.axes, at, strict=True)), self._row: i, self._lane: lane}
            return tirx.BufferStore(stage.buffer, make.substituted(value, axes), at)

        return make.loop("lane", self._lanes, one, Kind.VECTORIZED)

    def _turn(
        self, load: Any, outer: Sequence[Any], row: Any, column: Any
    ) -> tuple[Any, list[Any]]:
        """A tile of what a load reads, and the statements that turn it: at [i, j] is what row i of
        the result has in column j.

        Halves of all vectors are interleaved with those of the other half of them, as often as a
        chunk has halves; each of these steps is one shuffle of two vectors within their chunks.
        """
        chunk, lanes = self._chunk, self._lanes
        dtype = str(load.ty.dtype)
        steps = chunk.bit_length() - 1
        buffers = [make.local("turned", (chunk, lanes), dtype) for _ in range(steps + 1)]
        whole = prim.Ramp(make.integer(0), make.integer(1), lanes)

        def vector(step: int, i: int) -> Any:
            return tirx.BufferLoad(buffers[step], [make.integer(i), whole])

        def kept(step: int, i: int, value: Any) -> Any:
            return tirx.BufferStore(buffers[step], value, [make.integer(i), whole])

        statements = [tirx.AllocBuffer(buffer) for buffer in buffers]
        for i in range(chunk):
            parts = [
                self._neighbours(load, outer, row, column + (j + i)) for j in range(0, lanes, chunk)
            ]
            statements.append(kept(0, i, make.shuffled(parts, range(lanes))))
        low, high = _interleaved(chunk, lanes)
        for step, i in itertools.product(range(steps), range(chunk // 2)):
            pair = [vector(step, i), vector(step, i + chunk // 2)]
            statements.append(kept(step + 1, 2 * i, make.shuffled(pair, low)))
            statements.append(kept(step + 1, 2 * i + 1, make.shuffled(pair, high)))
        return buffers[-1], statements

    def _neighbours(self, load: Any, outer: Sequence[Any], row: Any, column: Any) -> Any:
        """A chunk of what a load reads."""
        at = dict(zip(self._axes.stage.axes, self._axes.at(outer, row, column), strict=True))
        *indices, last = [make.substituted(index, at) for index in load.indices]
        return tirx.BufferLoad(
            load.source, [*indices, prim.Ramp(last, make.integer(1), self._chunk)]
        )


@dataclass(frozen=True)
class _Parts:
    """Places in tiles of ``tile``, of which ``together`` places are a block; the last tile begins
    earlier."""

    count: int
    tile: int
    together: int

    @property
    def tiles(self) -> int:
        """Of all places."""
        return math.ceil(self.count / self.tile)

    @property
    def of_block(self) -> int:
        """Tiles of a block."""
        return max(1, min(self.tiles, self.together // self.tile))

    @property
    def blocks(self) -> int:
        """Of all places."""
        return math.ceil(self.tiles / self.of_block)

    def loop(self, name: str, block: Any, body: Callable[[Any], Any]) -> Any:
        """``body`` of where each tile of a block begins."""
        each, whole = self.of_block, self.tiles % self.of_block == 0
        count = each if whole else tirx.min(each, self.tiles - block * each)
        last = self.count - self.tile
        return make.loop(
            name, count, lambda i: body(tirx.min((block * each + i) * self.tile, last))
        )


def _interleaved(chunk: int, lanes: int) -> tuple[list[int], list[int]]:
    """The lanes of two vectors end to end, by turns: of the first and second half of each chunk."""
    places = itertools.product(range(0, lanes, chunk), range(chunk))
    low = [start + i // 2 + (i % 2) * lanes for start, i in places]
    return low, [place + chunk // 2 for place in low]
