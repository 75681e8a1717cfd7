"""Winograd's two transforms of channels in blocks, for processors.

A tile's numbers are vectors of channels, added up along its columns and then along its rows. What
rows of a matrix have in common but for signs is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tvm import tirx

from ...topi.winograd import IMAGE, MATRICES, OUTPUT, TRANSFORM, Rows, Tiling, dot
from . import loops as make
from .loops import Kind, NotWritten, Stage
from .processor import Processor
from .registers import RegisterTile

# Fewer numbers are transformed before other threads have woken up.
WORTH_THREADS = 1 << 14

Value = Callable[[Any], Any]  # of a lane


@dataclass(frozen=True)
class TransformLoop:
    """How a transform goes over its tiles. parallel: whether threads share rows of tiles."""

    parallel: bool


@dataclass(frozen=True)
class Transform:
    """A transform of an image, or (``output``) back to one, of blocks of ``lanes`` channels."""

    tiling: Tiling
    output: bool
    blocks: int
    lanes: int

    @property
    def tasks(self) -> int:
        """Rows of tiles of all blocks and images."""
        return self.blocks * self.tiling.batch * self.tiling.rows

    @property
    def numbers(self) -> int:
        """Of all transformed tiles."""
        return self.tiling.tiles * self.tiling.edge**2 * self.blocks * self.lanes


def transform_of(function: Any) -> Transform:
    """What a function transforms. Raises NotWritten for functions of another kind."""
    return _parsed(function)[2]


def candidates(transform: Transform, _processor: Processor) -> list[TransformLoop]:
    """What may be tried, the likeliest first."""
    if transform.tasks == 1:
        return [TransformLoop(False)]
    likely = transform.numbers >= WORTH_THREADS
    return [TransformLoop(likely), TransformLoop(not likely)]


def write_transform(function: Any, processor: Processor, how: TransformLoop | None = None) -> Any:
    """Loops for a function with ``transform_of``; how: None for the likeliest.

    Raises NotWritten for other functions.
    """
    stages, source, transform = _parsed(function)
    how = how or candidates(transform, processor)[0]
    writer = (_Back if transform.output else _Forth)(function, stages, source, transform)
    tiling = transform.tiling

    def task(index: Any) -> Any:
        return writer.row(*make.place(index, (tiling.batch, transform.blocks, tiling.rows)))

    kind = Kind.PARALLEL if how.parallel else Kind.SERIAL
    return make.written(function, make.loop("task", transform.tasks, task, kind))


def _parsed(function: Any) -> tuple[list[Stage], Any, Transform]:
    """The stage that writes the transform and those behind it, what is read, and what it is."""
    stages = make.stages_of(function)
    count = sum(TRANSFORM in stage.block.annotations for stage in stages)
    inner, stages = stages[:count], stages[count:]
    if not inner or not stages or any(TRANSFORM not in s.block.annotations for s in inner):
        raise NotWritten("a transform of Winograd's is needed")
    notes = stages[0].block.annotations
    kind = next((key for key in (IMAGE, OUTPUT) if key in notes), None)
    loads = {load.source for load in make.loads_in(inner[0].value)}
    if kind is None or len(loads) != 1 or str(stages[0].buffer.ty.dtype) != "float32":
        raise NotWritten("one image of float32 whose channels lie in blocks is needed")
    (source,) = loads
    if str(source.ty.dtype) != "float32" or (kind == IMAGE and len(stages) > 1):
        raise NotWritten("numbers of float32 are needed, and nothing behind an image's transform")
    make.check_pointwise(stages)
    tiling = Tiling.of_list(notes[kind])
    blocks, lanes = stages[0].shape[1], stages[0].shape[4]
    output = kind == OUTPUT
    if not output:
        blocks //= tiling.edge**2
    return stages, source, Transform(tiling, output, blocks, lanes)


class _Writer:
    """What both transforms share."""

    def __init__(self, function: Any, stages: list[Stage], source: Any, what: Transform) -> None:
        self._function, self._stages, self._source, self._what = function, stages, source, what
        self._tiling = what.tiling

    def row(self, image: Any, block: Any, row: Any) -> Any:
        """All tiles of a row of them, of one image and block."""
        raise NotImplementedError

    def _vector(self, body: Value) -> Any:
        return make.loop("lane", self._what.lanes, body, Kind.VECTORIZED)

    def _store(self, buffer: Any, place: Any, value: Value) -> Any:
        return self._vector(lambda lane: tirx.BufferStore(buffer, value(lane), [place, lane]))

    def _number(self, image: Any, row: Any, column: Any) -> Any:
        """The number of a tile among all."""
        return (image * self._tiling.rows + row) * self._tiling.columns + column

    def _times(
        self, matrix: Rows, values: Sequence[Value], store: Callable[[int, Value], Any]
    ) -> Any:
        """A matrix times a vector of vectors; store: of a number of the product."""
        statements: list[Any] = []

        def kept(value: Value) -> Value:
            buffer = make.local("part", (1, self._what.lanes))
            statements.append(tirx.AllocBuffer(buffer))
            statements.append(self._store(buffer, make.integer(0), value))
            return _load(buffer, make.integer(0))

        rows, numbers = _paired(matrix, values, kept)
        for number, value in _rows_of(rows, numbers, kept):
            statements.append(store(number, value))
        return make.sequence(statements)


class _Forth(_Writer):
    """An image to tiles of it, transformed: of a row of tiles the pixels are gathered first, with
    zeros around the image."""

    def row(self, image: Any, block: Any, row: Any) -> Any:
        tiling, edge = self._tiling, self._tiling.edge
        wide = tiling.columns * tiling.m + edge - tiling.m
        # Pixels, and behind them a tile half transformed.
        pixels = make.local("pixels", ((wide + edge) * edge, self._what.lanes))
        return make.sequence([
            tirx.AllocBuffer(pixels),
            make.loop("y", edge, lambda i: self._gathered(pixels, wide, (image, block, row), i)),
            make.loop(
                "tile", tiling.columns,
                lambda column: self._tile(pixels, wide, (image, block, row, column)),
            ),
        ])  # fmt: skip

    def _gathered(self, pixels: Any, wide: int, at: tuple[Any, Any, Any], i: Any) -> Any:
        """Row i of the pixels of a row of tiles. at: image, block and row of tiles."""
        image, block, row = at
        tiling = self._tiling
        height, width = (int(size) for size in self._source.ty.shape[2:4])
        y = row * tiling.m + i - tiling.top
        left = min(tiling.left, wide)
        count = min(width, wide - left)

        def zeros(first: int, count: int) -> list[Any]:
            def zero(x: Any) -> Any:
                return self._store(pixels, i * wide + x, lambda lane: make.real(0.0))

            return [make.loop("x", count, zero, low=first)] if count else []

        def copied(x: Any) -> Any:
            place = [image, block, y, x - left]
            return self._store(
                pixels, i * wide + x, lambda lane: tirx.BufferLoad(self._source, [*place, lane])
            )

        parts = [
            *zeros(0, left),
            *([make.loop("x", count, copied, low=left)] if count else []),
            *zeros(left + count, wide - left - count),
        ]
        inside = tirx.all(y >= 0, y < height)
        return tirx.IfThenElse(inside, make.sequence(parts), make.sequence(zeros(0, wide)))

    def _tile(self, pixels: Any, wide: int, at: tuple[Any, Any, Any, Any]) -> Any:
        image, block, row, column = at
        tiling, blocks = self._tiling, self._what.blocks
        matrix, edge = MATRICES[tiling.m].image, tiling.edge
        half = edge * wide  # where a tile that is half transformed begins

        def down(j: Any) -> Any:
            x = column * tiling.m + j
            values = [_load(pixels, x + k * wide) for k in range(edge)]
            return self._times(
                matrix, values, lambda i, value: self._store(pixels, half + i * edge + j, value)
            )

        def across(i: Any) -> Any:
            def store(j: int, value: Value) -> Any:
                group = block + (i * edge + j) * blocks
                place = [make.integer(0), group, make.integer(0), self._number(image, row, column)]
                return self._vector(
                    lambda lane: tirx.BufferStore(
                        self._stages[0].buffer, value(lane), [*place, lane]
                    )
                )

            values = [_load(pixels, half + i * edge + k) for k in range(edge)]
            return self._times(matrix, values, store)

        return make.sequence([make.loop("column", edge, down), make.loop("row", edge, across)])


class _Back(_Writer):
    """Tiles to an image, with what follows on it."""

    def row(self, image: Any, block: Any, row: Any) -> Any:
        tiling = self._tiling
        half = make.local("half", (tiling.m * tiling.edge, self._what.lanes))
        whole, rest = divmod(tiling.width, tiling.m)

        def tiles(first: int, count: int, pixels: int) -> Any:
            registers = RegisterTile(self._function.params, self._stages, pixels, self._what.lanes)
            return make.loop(
                "tile", count,
                lambda column: self._tile(half, registers, (image, block, row, column)), low=first,
            )  # fmt: skip

        parts = [tiles(0, whole, tiling.m)] if whole else []
        parts += [tiles(whole, 1, rest)] if rest else []
        return make.sequence([tirx.AllocBuffer(half), *parts])

    def _tile(self, half: Any, registers: RegisterTile, at: tuple[Any, Any, Any, Any]) -> Any:
        image, block, row, column = at
        tiling, blocks = self._tiling, self._what.blocks
        matrix, edge = MATRICES[tiling.m].output, tiling.edge
        number = self._number(image, row, column)

        def factor(k: int, j: Any) -> Value:
            place = [make.integer(0), block + (k * edge + j) * blocks, make.integer(0), number]
            return lambda lane: tirx.BufferLoad(self._source, [*place, lane])

        def down(j: Any) -> Any:
            return self._times(
                matrix, [factor(k, j) for k in range(edge)],
                lambda i, value: self._store(half, i * edge + j, value),
            )  # fmt: skip

        def across(i: Any) -> Any:
            sums = registers.buffer("sums")

            def point(j: Any, lane: Any) -> tuple[Any, ...]:
                return image, block, row * tiling.m + i, column * tiling.m + j, lane

            return make.sequence([
                tirx.AllocBuffer(sums),
                self._times(
                    matrix[: registers.rows], [_load(half, i * edge + k) for k in range(edge)],
                    lambda j, value: self._store(sums, make.integer(j), value),
                ),
                *registers.results(sums, point),
            ])  # fmt: skip

        there: Any = tiling.m
        if tiling.height % tiling.m:
            there = tirx.min(there, tiling.height - row * tiling.m)
        return make.sequence([make.loop("column", edge, down), make.loop("row", there, across)])


def _load(buffer: Any, place: Any) -> Value:
    return lambda lane: tirx.BufferLoad(buffer, [place, lane])


def _sum(a: Value, b: Value) -> Value:
    return lambda lane: a(lane) + b(lane)


def _difference(a: Value, b: Value) -> Value:
    return lambda lane: a(lane) - b(lane)


def _signs(first: Sequence[Fraction], second: Sequence[Fraction]) -> tuple[list[int], list[int]]:
    """Where two lists have the same numbers, and where but for their signs; none where their
    numbers are not the same but for signs."""
    if any(abs(a) != abs(b) for a, b in zip(first, second, strict=True)):
        return [], []
    places = [place for place, number in enumerate(first) if number != 0]
    same = [place for place in places if first[place] == second[place]]
    return same, [place for place in places if first[place] != second[place]]


def _paired(
    matrix: Rows, values: Sequence[Value], kept: Callable[[Value], Value]
) -> tuple[list[list[Fraction]], list[Value]]:
    """A matrix and vector with the same product, where columns that are the same but for signs
    multiply the sum and the difference of their numbers."""
    rows, values, zero = [list(row) for row in matrix], list(values), Fraction(0)
    for k in range(len(values)):
        for other in range(k + 1, len(values)):
            a, b = values[k], values[other]
            same, opposite = _signs([row[k] for row in rows], [row[other] for row in rows])
            if not same or not opposite:
                continue
            values[k], values[other] = kept(_sum(a, b)), kept(_difference(a, b))
            for number, row in enumerate(rows):
                row[k], row[other] = (row[k], zero) if number in same else (zero, row[k])
    return rows, values


def _rows_of(
    matrix: Sequence[Sequence[Fraction]], values: Sequence[Value], kept: Callable[[Value], Value]
) -> Iterator[tuple[int, Value]]:
    """The rows of a product; what two rows have in common but for a sign is computed once."""

    def of(row: Sequence[Fraction], places: Sequence[int]) -> Value:
        chosen = [n if place in places else Fraction(0) for place, n in enumerate(row)]
        return lambda lane: dot(chosen, lambda place: values[place](lane))

    done: set[int] = set()
    for number, row in enumerate(matrix):
        if number in done:
            continue
        for other in range(number + 1, len(matrix)):
            same, opposite = _signs(row, matrix[other])
            if same and opposite and len(same) + len(opposite) > 2 and other not in done:
                done.add(other)
                a, b = kept(of(row, same)), kept(of(row, opposite))
                yield number, _sum(a, b)
                yield other, _difference(a, b)
                break
        else:
            yield number, of(row, range(len(row)))
