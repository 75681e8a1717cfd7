"""Rows in pieces between the places where a choice changes, for processors.

A concatenation or a padding chooses by the column: one vector may not hold both sides of such a
place. Where it is a number, what lies between two of them is a loop of its own, without a choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import prim

from . import loops as make
from .loops import Kind, NotWritten, Stage
from .nests import in_vectors
from .processor import Processor

# Rows in more pieces are hardly longer than what begins them.
MOST_PIECES = 8
# Fewer values are moved before other threads have woken up.
WORTH_THREADS = 1 << 14
VECTORS = (2, 1, 4)
# Where a·v + b compared with 0 changes, for whole v: rounded up, down and one more, or both.
UP, PAST, BOTH = (0,), (1,), (0, 1)
CHANGES: dict[type, tuple[tuple[int, ...], tuple[int, ...]]] = {
    prim.LT: (UP, PAST),
    prim.GE: (UP, PAST),
    prim.LE: (PAST, UP),
    prim.GT: (PAST, UP),
    prim.Min: (UP, UP),
    prim.Max: (UP, UP),
    prim.EQ: (BOTH, BOTH),
    prim.NE: (BOTH, BOTH),
}


@dataclass(frozen=True)
class PieceLoop:
    """How pieces of rows are gone through.

    Attributes:
        vectors: registers that a step takes.
        parallel: whether threads share the rows.
    """

    vectors: int
    parallel: bool


@dataclass(frozen=True)
class Pieces:
    """Rows, and where each piece of one begins and ends."""

    rows: int
    pieces: tuple[tuple[int, int], ...]


def pieces_of(function: Any) -> Pieces:
    """The pieces of a function that chooses by the column. Raises NotWritten for others."""
    return _parsed(function)[2]


def candidates(pieces: Pieces, _processor: Processor) -> list[PieceLoop]:
    """What may be tried, the likeliest first."""
    many = pieces.rows > 1
    likely = many and pieces.rows * pieces.pieces[-1][1] >= WORTH_THREADS
    kinds = [likely, not likely] if many else [False]
    return [PieceLoop(vectors, parallel) for parallel in kinds for vectors in VECTORS]


def write_pieces(function: Any, processor: Processor, how: PieceLoop | None = None) -> Any:
    """Loops for a function with ``pieces_of``; how: None for the likeliest.

    Raises NotWritten for other functions.
    """
    stage, columns, found = _parsed(function)
    how = how or candidates(found, processor)[0]
    lanes = how.vectors * processor.lanes

    def row(index: Any) -> Any:
        at = make.place(index, stage.shape[:-1])
        return make.sequence([_piece(stage, column, at, lanes) for column in columns])

    kind = Kind.PARALLEL if how.parallel else Kind.SERIAL
    return make.written(function, make.loop("row", found.rows, row, kind))


def _parsed(function: Any) -> tuple[Stage, list[_Column], Pieces]:
    stages = make.stages_of(function)
    stage = stages[0]
    kinds = {axis.iter_type for axis in stage.block.iter_vars}
    if len(stages) > 1 or kinds != {tirx.IterVar.DataPar} or len(stage.axes) != len(stage.shape):
        raise NotWritten("one block without a sum is needed")
    if any(str(axis.ty.dtype) != make.INDEX for axis in stage.axes):
        raise NotWritten(f"axes of {make.INDEX} are needed, as compiled networks have them")
    columns = stage.shape[-1]
    places = {place for place in _changes(stage) if 0 < place < columns}
    if not 0 < len(places) < MOST_PIECES:
        raise NotWritten("a choice that changes at some columns is needed")
    bounds = [0, *sorted(places), columns]
    pieces = tuple(itertools.pairwise(bounds))
    found = [_Column.of(stage, *piece) for piece in pieces]
    if not any(column.in_vectors for column in found):
        raise NotWritten("columns that vectors may hold are needed")
    return stage, found, Pieces(math.prod(stage.shape[:-1]), pieces)


def _changes(stage: Stage) -> set[int]:
    """The columns from which on a comparison with a number has another result."""
    column, found = stage.axes[-1], set()

    def look(node: Any) -> None:
        linear = sym.detect_linear_equation(node.a - node.b, [column])
        numbers = [each.value for each in linear if isinstance(each, tirx.IntImm)]
        if len(numbers) == 2 and numbers[0]:
            factor, offset = numbers
            root, rest = divmod(-offset, factor)
            for past in CHANGES[type(node)][factor < 0]:
                # Rounded up, what is past a whole root and what is past none are the same.
                found.add(root + max(past, rest != 0))

    tvm_ffi.structural_walk(stage.value, (tuple(CHANGES), look))
    return found


@dataclass(frozen=True)
class _Column:
    """What a piece from ``low`` to before ``high`` stores for its column number ``within``,
    simplified for those of the piece, in whichever row."""

    value: Any
    within: Any
    low: int
    high: int

    @classmethod
    def of(cls, stage: Stage, low: int, high: int) -> _Column:
        """The row is that of the stage's own axes."""
        within = tirx.Var("column", make.INDEX)
        analyzer = sym.Analyzer()
        analyzer.bind(within, ir.Range(0, high - low))
        value = make.substituted(stage.value, {stage.axes[-1]: within + low})
        return cls(analyzer.simplify(value), within, low, high)

    @property
    def in_vectors(self) -> bool:
        """Whether columns may be in one vector."""
        place = tirx.decl_buffer((1,), str(self.value.ty.dtype))
        return in_vectors(tirx.BufferStore(place, self.value, [0]), self.within)


def _piece(stage: Stage, column: _Column, at: Sequence[Any], lanes: int) -> Any:
    """The columns of a piece of the row at ``at``: vectors, of which the last begins earlier;
    numbers where vectors would be wrong."""
    count = column.high - column.low
    row = dict(zip(stage.axes[:-1], at, strict=True))

    def one(place: Any) -> Any:
        value = make.substituted(column.value, {**row, column.within: place})
        return tirx.BufferStore(stage.buffer, value, [*at, place + column.low])

    if not column.in_vectors:
        return make.loop("column", count, one)
    width = min(lanes, count)

    def vector(step: Any) -> Any:
        start = tirx.min(step * width, count - width)
        return make.loop("lane", width, lambda lane: one(start + lane), Kind.VECTORIZED)

    return make.loop("step", math.ceil(count / width), vector)
