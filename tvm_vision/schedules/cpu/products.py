"""Products of two tensors of matrices, for processors: of attention, of what a network computes.

A few rows of the result times a few vectors of its columns stay in registers while the terms are
added; elementwise blocks that follow are applied there. The last rows and the last columns begin
earlier and are computed again in part, so that a matrix of 197 columns is done in whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import tirx
from tvm.ir import prim

from . import loops as make
from .loops import Kind, NotWritten, Stage
from .processor import Processor
from .registers import RegisterTile
from .tiles import (
    MOST_COST,
    MOST_LOCAL_BYTES,
    MOST_TILES,
    OTHER_WAY,
    SURELY_MANY,
    SURELY_ONE,
    WORTH_THREADS,
)

# Of fewer columns there is no vector to speak of.
LEAST_COLUMNS = 4
# Tiles of rows from which a copy of their columns pays.
WORTH_COPYING = 2
# Where parts of the columns are fewer tasks, rows are divided, too.
ENOUGH_TASKS = 16
# A load, in multiplications: tiles of one vector times 7 to 13 rows reached 0.6 of what two times 6
# did (AVX2).
LOAD = 1.5
# What the first term of a tile waits for memory, in multiplications.
FIRST_CYCLES = 100


@dataclass(frozen=True)
class ProductTile:
    """How a product is computed.

    Attributes:
        rows, vectors: results kept in registers: rows times vectors of columns.
        packed: whether the columns of a tile are copied together first: a row of a large matrix is
            too far from the next one for caches.
        together: how many tiles of rows go through the same columns in a row: with one, threads
            share them all.
        unroll: terms that a step of the innermost loop adds.
        parallel: whether threads share the work.
    """

    rows: int
    vectors: int
    packed: bool
    together: int
    unroll: int
    parallel: bool


@dataclass(frozen=True)
class ProductShape:
    """Matrices times matrices: ``outer`` axes before them, (rows, terms) × (terms, columns)."""

    outer: tuple[int, ...]
    rows: int
    terms: int
    columns: int

    @property
    def operations(self) -> int:
        """Multiplications."""
        return math.prod(self.outer) * self.rows * self.terms * self.columns


def product_of(function: Any) -> ProductShape:
    """The shape of a function whose first block is a product in float32, with what follows on the
    same points.

    Raises NotWritten for other functions.
    """
    return _parsed(function)[1]


# A function's blocks, the shape, and what is multiplied.
Parsed = tuple[list[Stage], ProductShape, Any, Any]


def _parsed(function: Any) -> Parsed:
    stages = make.stages_of(function)
    first = stages[0]
    *spatial, k = first.axes
    if len(spatial) != len(first.shape) or len(spatial) < 2:
        raise NotWritten("a sum over one axis is needed")
    row, column = spatial[-2:]
    left, right = _factors(first)
    if (
        make.mentions(left, column)
        or make.mentions(right, row)
        or not right.indices[-1].same_as(column)
        or any(make.mentions(index, column) for index in right.indices[:-1])
        or not all(make.mentions(part, k) for part in (left, right))
        or not make.mentions(left, row)
    ):
        raise NotWritten("rows times columns are needed, with the columns' places in a row")
    dtypes = {str(part.ty.dtype) for part in (left, right, first.buffer)}
    if dtypes != {"float32"}:
        raise NotWritten("numbers of float32 are needed")
    make.check_pointwise(stages)
    *outer, rows, columns = first.shape
    terms = int(first.block.iter_vars[-1].dom.extent)
    if columns < LEAST_COLUMNS or 0 in (*outer, rows, terms):
        raise NotWritten(f"rows of at least {LEAST_COLUMNS} results are needed")
    return stages, ProductShape(tuple(outer), rows, terms, columns), left, right


def _factors(stage: Stage) -> tuple[Any, Any]:
    """What is multiplied, of ``sum + left * right``."""
    added = stage.value
    if isinstance(added, prim.Add) and isinstance(added.b, prim.Mul):
        pair = added.b.a, added.b.b
        if all(type(part).__name__ == "TensorLoad" for part in (added.a, *pair)):
            if added.a.source.same_as(stage.buffer):
                return pair
    raise NotWritten("a sum of products of two tensors is needed")


def candidates(shape: ProductShape, processor: Processor) -> list[ProductTile]:
    """What may be tried for a product, the likeliest first."""
    chosen = choose_tile(shape, processor)
    ranked = sorted(_outputs(shape, processor), key=lambda tile: _cost(shape, processor, *tile))
    least = _cost(shape, processor, *ranked[0])
    likely = [t for t in ranked if _cost(shape, processor, *t) <= MOST_COST * least][:MOST_TILES]
    found: dict[ProductTile, int] = {chosen: -1}
    clear = not SURELY_ONE <= shape.operations <= SURELY_MANY
    for rank, outputs in enumerate(likely):
        usual = _whole_tile(shape, processor, *outputs)
        other = _whole_tile(shape, processor, *outputs, packed=not usual.packed)
        for i, first in enumerate((usual, other)):
            for j, unroll in enumerate(n for n in (1, 2, 4) if shape.terms % n == 0):
                for k, parallel in enumerate((first.parallel, not first.parallel)[: 2 - clear]):
                    tile = replace(first, unroll=unroll, parallel=parallel)
                    found.setdefault(tile, rank + OTHER_WAY * (i + j + k))
    return sorted(found, key=lambda tile: found[tile])


def choose_tile(shape: ProductShape, processor: Processor) -> ProductTile:
    """The tile that takes least: of multiplications, loads, and waiting for results."""
    rows, vectors = min(_outputs(shape, processor), key=lambda tile: _cost(shape, processor, *tile))
    return _whole_tile(shape, processor, rows, vectors)


def _lanes(shape: ProductShape, processor: Processor) -> int:
    """Columns in a vector."""
    return min(processor.lanes, shape.columns)


def _outputs(shape: ProductShape, processor: Processor) -> list[tuple[int, int]]:
    """Rows and vectors of all tiles that fit the registers, with the vectors of columns and one
    number of a row beside them."""
    lanes = _lanes(shape, processor)
    most = min(shape.rows, MOST_LOCAL_BYTES // (4 * lanes))
    return [
        (rows, vectors)
        for vectors in range(1, min(8, shape.columns // lanes) + 1)
        for rows in range(1, min(most, (processor.registers - 2) // vectors - 1) + 1)
    ]


def _vectors(shape: ProductShape, lanes: int, vectors: int) -> list[int]:
    """How many vectors the parts have that tiles divide columns into: the last may have fewer."""
    whole, rest = divmod(shape.columns, vectors * lanes)
    return [vectors] * whole + ([math.ceil(rest / lanes)] if rest else [])


def _cost(shape: ProductShape, processor: Processor, rows: int, vectors: int) -> float:
    """What tiles of so many results take for a matrix, in multiplications."""
    parts = _vectors(shape, _lanes(shape, processor), vectors)
    # A result is there after some four steps, of which a processor begins two at once.
    steps = (max(rows * n, LOAD * (rows + n), 8) + 0.1 * (rows + n) for n in parts)
    return math.ceil(shape.rows / rows) * sum(shape.terms * step + FIRST_CYCLES for step in steps)


def _whole_tile(
    shape: ProductShape, processor: Processor, rows: int, vectors: int, packed: bool | None = None
) -> ProductTile:
    """A tile of these results, the rest as it is likely to be best; packed: None for the likely."""
    down = math.ceil(shape.rows / rows)
    packed = down >= WORTH_COPYING if packed is None else packed
    panels = math.prod(shape.outer) * len(_vectors(shape, _lanes(shape, processor), vectors))
    together = math.ceil(down / math.ceil(ENOUGH_TASKS / panels)) if packed else 1
    tasks = panels * math.ceil(down / together)
    parallel = shape.operations >= WORTH_THREADS and tasks > 1
    return ProductTile(rows, vectors, packed, together, 1, parallel)


def write_product(function: Any, processor: Processor, tile: ProductTile | None = None) -> Any:
    """Loops for a function with a ``product_of``; tile: how, None for the likeliest.

    Raises NotWritten for other functions.
    """
    parsed = _parsed(function)
    tile = tile or choose_tile(parsed[1], processor)
    return make.written(function, _Writer(function, parsed, processor, tile).body())


class _Writer:
    def __init__(self, function: Any, parsed: Parsed, processor: Processor, tile: ProductTile):
        stages, self._shape, self._left, self._right = parsed
        self._axes = stages[0].axes
        self._lanes = _lanes(self._shape, processor)
        self._tile = tile
        self._registers = RegisterTile(function.params, stages, tile.rows, self._lanes)
        self._parts = _vectors(self._shape, self._lanes, tile.vectors)
        self._down = math.ceil(self._shape.rows / tile.rows)

    def body(self) -> Any:
        """All matrices, all parts of their columns, all rows: the tasks that threads share."""
        shape, tile, across = self._shape, self._tile, len(self._parts)
        chunks = math.ceil(self._down / min(tile.together, self._down))
        last = self._parts[-1]

        def task(index: Any) -> Any:
            matrix, index = index // (across * chunks), index % (across * chunks)
            outer, part, chunk = make.place(matrix, shape.outer), index // chunks, index % chunks
            # The last part begins earlier, so that its vectors are whole.
            start = tirx.min(part * tile.vectors * self._lanes, shape.columns - last * self._lanes)
            if last == tile.vectors:
                return self._columns(outer, start, last, chunk)
            return tirx.IfThenElse(
                part < across - 1,
                self._columns(outer, start, tile.vectors, chunk),
                self._columns(outer, start, last, chunk),
            )

        kind = Kind.PARALLEL if tile.parallel else Kind.SERIAL
        return make.loop("task", math.prod(shape.outer) * across * chunks, task, kind)

    def _columns(self, outer: Sequence[Any], start: Any, vectors: int, chunk: Any) -> Any:
        """Some columns of the rows of a chunk."""
        tile, together = self._tile, min(self._tile.together, self._down)
        low = chunk * together
        whole = self._down % together == 0
        count = together if whole else tirx.min(together, self._down - low)
        panel, copied = self._panel(outer, start, vectors) if tile.packed else (None, [])

        def rows(i: Any) -> Any:
            first = tirx.min((low + i) * tile.rows, self._shape.rows - tile.rows)
            return self._results(outer, first, start, vectors, panel)

        return make.sequence([*copied, make.loop("rows", count, rows)])

    def _panel(self, outer: Sequence[Any], start: Any, vectors: int) -> tuple[Any, list[Any]]:
        """The columns of a part, one term after the other, and what copies them."""
        lanes = self._lanes
        panel = make.local("panel", (self._shape.terms, vectors, lanes))

        def term(k: Any) -> Any:
            def vector(i: Any) -> Any:
                def lane(j: Any) -> Any:
                    value = self._factor(self._right, outer, 0, start + i * lanes + j, k)
                    return tirx.BufferStore(panel, value, [k, i, j])

                return self._registers.vector(lane)

            return make.loop("vector", vectors, vector, Kind.UNROLLED)

        return panel, [tirx.AllocBuffer(panel), make.loop("term", self._shape.terms, term)]

    def _factor(self, part: Any, outer: Sequence[Any], row: Any, column: Any, k: Any) -> Any:
        place = dict(zip(self._axes, (*outer, row, column, k), strict=True))
        return make.substituted(part, place)

    def _results(
        self, outer: Sequence[Any], first: Any, start: Any, vectors: int, panel: Any
    ) -> Any:
        """One tile: its sums, and what follows on them."""
        registers, tile, lanes = self._registers, self._tile, self._lanes
        sums = [registers.buffer(f"sum{i}") for i in range(vectors)]

        def term(k: Any) -> Any:
            def row(j: Any) -> Any:
                def product(i: int, lane: Any) -> Any:
                    a = self._factor(self._left, outer, first + j, 0, k)
                    b = (
                        self._factor(self._right, outer, 0, start + i * lanes + lane, k)
                        if panel is None
                        else tirx.BufferLoad(panel, [k, make.integer(i), lane])
                    )
                    old = tirx.BufferLoad(sums[i], [j, lane])
                    return tirx.BufferStore(sums[i], old + a * b, [j, lane])

                return make.sequence(
                    [registers.vector(partial(product, i)) for i in range(vectors)]
                )

            return make.loop("row", tile.rows, row, Kind.UNROLLED)

        def point(i: int, j: Any, lane: Any) -> tuple[Any, ...]:
            return *outer, first + j, start + i * lanes + lane

        statements = [tirx.AllocBuffer(buffer) for buffer in sums]
        statements += [registers.store(buffer, lambda j, lane: make.real(0.0)) for buffer in sums]
        statements.append(make.in_steps("term", self._shape.terms, tile.unroll, term))
        for i, buffer in enumerate(sums):
            statements += registers.results(buffer, partial(point, i))
        return make.sequence(statements)
