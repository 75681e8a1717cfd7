"""Sums over rows and what is made of them, for processors: softmax, layer normalization, means.

All blocks of a function go through one row before the next: what they have of it stays in the first
cache, and a sum takes several vectors side by side, of which none waits for the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from . import loops as make
from .loops import Kind, NotWritten, Stage
from .nests import in_vectors
from .processor import Processor

# Of shorter rows several at a time would be in a vector.
LEAST_COLUMNS = 16
# A lane adds up so many numbers one after the other at most (see ``long_sums``), by so many vectors
# at most, of four lanes where they are shortest.
MOST_ADDED, MOST_VECTORS = 256, 8
MOST_COLUMNS = MOST_ADDED * MOST_VECTORS * 4
# Of several longer rows sums have parts. A single one threads had better share.
MOST_OF_SEVERAL = MOST_COLUMNS * MOST_ADDED
# Fewer numbers are done before other threads have woken up.
WORTH_THREADS = 1 << 13
# Among how many tasks threads share rows.
TASKS = 64


@dataclass(frozen=True)
class RowLoop:
    """How rows are computed.

    Attributes:
        vectors: of a sum, that are added up side by side.
        parallel: whether threads share the rows.
    """

    vectors: int
    parallel: bool


@dataclass(frozen=True)
class Rows:
    """Rows of ``columns`` numbers; ``outer``: the axes that count them."""

    outer: tuple[int, ...]
    columns: int
    stages: int

    @property
    def count(self) -> int:
        """Rows."""
        return math.prod(self.outer)


def rows_of(function: Any) -> Rows:
    """The rows of a function of which a block or more sums over its last axis, in float32.

    Raises NotWritten for other functions.
    """
    return _parsed(function)[1]


def _parsed(function: Any) -> tuple[list[Stage], Rows]:
    stages = make.stages_of(function)
    sums = [stage for stage in stages if _is_sum(stage)]
    if not sums:
        raise NotWritten("a sum over rows is needed")
    columns = int(sums[0].block.iter_vars[-1].dom.extent)
    # A sum keeps an axis of one for the one it is over, or does not.
    outer = sums[0].shape
    kept = outer and outer[-1] == 1 and any(s.shape == [*outer[:-1], columns] for s in stages)
    rows = Rows(tuple(outer[:-1] if kept else outer), columns, len(stages))
    most = MOST_OF_SEVERAL if rows.count > 1 else MOST_COLUMNS
    if not LEAST_COLUMNS <= columns <= most or rows.count == 0:
        raise NotWritten(f"rows of {LEAST_COLUMNS} to {most} numbers are needed")
    for stage in stages:
        _check(stage, rows, [other.buffer for other in stages])
    return stages, rows


def _is_sum(stage: Stage) -> bool:
    return len(stage.block.iter_vars) == len(stage.shape) + 1 and (
        stage.block.iter_vars[-1].iter_type == tirx.IterVar.CommReduce
    )


def _is_whole(stage: Stage, rows: Rows) -> bool:
    """Whether a block has a number for each column."""
    return stage.shape == [*rows.outer, rows.columns] and not _is_sum(stage)


def _check(stage: Stage, rows: Rows, buffers: Sequence[Any]) -> None:
    """Raises NotWritten unless a block stays within its row, and its columns are neighbours."""
    count = len(rows.outer)
    of_row = stage.shape in ([*rows.outer], [*rows.outer, 1])
    if not (_is_whole(stage, rows) or of_row):
        raise NotWritten("blocks of rows are needed")
    kinds = {axis.iter_type for axis in stage.block.iter_vars[: len(stage.shape)]}
    if kinds != {tirx.IterVar.DataPar}:
        raise NotWritten("independent rows are needed")
    if _is_sum(stage) and int(stage.block.iter_vars[-1].dom.extent) != rows.columns:
        raise NotWritten("sums over rows are needed")
    column = stage.axes[-1] if _is_whole(stage, rows) or _is_sum(stage) else None
    if str(stage.buffer.ty.dtype) != "float32":
        raise NotWritten("numbers of float32 are needed")
    if column is not None and not in_vectors(stage.block.body, column):
        raise NotWritten("columns that vectors may hold are needed")
    for load in make.loads_in(stage.value):
        if column is not None and any(make.mentions(i, column) for i in load.indices[:-1]):
            raise NotWritten("columns that lie in a row are needed")
        last = load.indices[-1] if len(load.indices) else None
        if column is not None and last is not None and make.mentions(last, column):
            if not last.same_as(column):
                raise NotWritten("columns that lie in a row are needed")
        if any(load.source.same_as(buffer) for buffer in buffers):
            places = zip(load.indices[:count], stage.axes[:count], rows.outer, strict=True)
            if not all(index.same_as(axis) or size == 1 for index, axis, size in places):
                raise NotWritten("a block reads another row")
    if _is_sum(stage):
        _term(stage)


def _term(stage: Stage) -> tuple[Any, Any]:
    """How a sum goes on, and by what: the class of its operator, and what each column adds."""
    value = stage.value
    for kind in (prim.Add, prim.Max, prim.Min):
        if isinstance(value, kind):
            for own, term in ((value.a, value.b), (value.b, value.a)):
                if isinstance(own, ir.TensorLoad) and own.source.same_as(stage.buffer):
                    if not any(x.source.same_as(stage.buffer) for x in make.loads_in(term)):
                        return kind, term
    raise NotWritten("a sum, a maximum or a minimum is needed")


def candidates(rows: Rows, processor: Processor) -> list[RowLoop]:
    """What may be tried for rows, the likeliest first."""
    whole = rows.columns // min(processor.lanes, rows.columns)
    most = MOST_ADDED if rows.columns <= MOST_COLUMNS else MOST_ADDED**2
    counts = [n for n in (4, 2, 1, MOST_VECTORS) if n <= whole <= n * most]
    many = rows.count > 1
    likely = many and rows.count * rows.columns * rows.stages >= WORTH_THREADS
    kinds = [likely, not likely] if many else [False]
    return [RowLoop(vectors, parallel) for parallel in kinds for vectors in counts]


def write_rows(function: Any, processor: Processor, how: RowLoop | None = None) -> Any:
    """Loops for a function with ``rows_of``; how: None for the likeliest.

    Raises NotWritten for other functions.
    """
    stages, rows = _parsed(function)
    how = how or candidates(rows, processor)[0]
    return make.written(function, _Writer(function, stages, rows, processor, how).body())


class _Writer:
    def __init__(
        self, function: Any, stages: list[Stage], rows: Rows, processor: Processor, how: RowLoop
    ) -> None:
        self._params = list(function.params)
        self._stages = stages
        self._rows = rows
        self._how = how
        self._lanes = min(processor.lanes, rows.columns)
        # What blocks have of a row, by their buffers.
        self._kept = {stage.buffer: self._place_for(stage) for stage in stages}

    def _place_for(self, stage: Stage) -> Any:
        whole = _is_whole(stage, self._rows)
        return make.local(f"{stage.buffer.name}_row", (self._rows.columns if whole else 1,))

    def body(self) -> Any:
        """Some rows after others, which threads share; each by all blocks."""
        together = math.ceil(self._rows.count / TASKS) if self._how.parallel else self._rows.count
        tasks = math.ceil(self._rows.count / together)

        def task(index: Any) -> Any:
            first = index * together
            whole = self._rows.count % together == 0
            count = together if whole else tirx.min(together, self._rows.count - first)
            held = [tirx.AllocBuffer(buffer) for buffer in self._kept.values()]
            row = make.loop("row", count, lambda i: self._row(first + i))
            return make.sequence([*held, row])

        kind = Kind.PARALLEL if self._how.parallel else Kind.SERIAL
        return make.loop("task", tasks, task, kind)

    def _row(self, index: Any) -> Any:
        outer = make.place(index, self._rows.outer)
        statements: list[Any] = []
        for stage in self._stages:
            if _is_sum(stage):
                statements += self._sum(stage, outer)
            elif _is_whole(stage, self._rows):
                stage, once = self._once(stage, outer)
                statements += [*once, *self._columns(partial(self._store, stage, outer))]
            else:
                statements.append(self._keep(stage, outer, self._value(stage, outer, None)))
        return make.sequence(statements)

    def _once(self, stage: Stage, outer: Sequence[Any]) -> tuple[Stage, list[Any]]:
        """A block whose calls that are the same for all columns are numbers of the row, and what
        computes these: LLVM would do so for each vector, as a store might change them."""
        statements: list[Any] = []
        column = stage.axes[-1]

        def number(call: Any) -> Any:
            if make.mentions(call, column):
                return call
            kept = make.local("once", (1,), str(call.ty.dtype))
            value = self._value(replace(stage, value=call), outer, None)
            statements.append(tirx.AllocBuffer(kept))
            statements.append(tirx.BufferStore(kept, value, [make.integer(0)]))
            return tirx.BufferLoad(kept, [make.integer(0)])

        value = tvm_ffi.structural_map(stage.value, (ir.Call, number), order="post")
        return replace(stage, value=value), statements

    def _columns(self, body: Callable[[Any], Any]) -> list[Any]:
        """``body`` of all columns by whole vectors; the last begins earlier."""
        whole, rest = divmod(self._rows.columns, self._lanes)
        parts = [make.loop("vector", whole, lambda i: self._vector(body, i * self._lanes))]
        if rest:
            parts.append(self._vector(body, self._rows.columns - self._lanes))
        return parts

    def _vector(self, body: Callable[[Any], Any], start: Any) -> Any:
        return self._lane_loop(lambda lane: body(start + lane))

    def _lane_loop(self, body: Callable[[Any], Any]) -> Any:
        return make.loop("lane", self._lanes, body, Kind.VECTORIZED)

    def _store(self, stage: Stage, outer: Sequence[Any], column: Any) -> Any:
        value = self._value(stage, outer, column)
        if self._is_result(stage):
            return tirx.BufferStore(stage.buffer, value, [*outer, column])
        return tirx.BufferStore(self._kept[stage.buffer], value, [column])

    def _is_result(self, stage: Stage) -> bool:
        return any(stage.buffer.same_as(param) for param in self._params)

    def _keep(self, stage: Stage, outer: Sequence[Any], value: Any) -> Any:
        """A number of the row, for what follows, and as a result."""
        kept = tirx.BufferStore(self._kept[stage.buffer], value, [make.integer(0)])
        if not self._is_result(stage):
            return kept
        more = [make.integer(0)] * (len(stage.shape) - len(outer))
        load = tirx.BufferLoad(self._kept[stage.buffer], [make.integer(0)])
        return make.sequence([kept, tirx.BufferStore(stage.buffer, load, [*outer, *more])])

    def _value(self, stage: Stage, outer: Sequence[Any], column: Any) -> Any:
        """What a block computes, of a column or of the row."""
        value = _term(stage)[1] if _is_sum(stage) else stage.value
        axes = dict(zip(stage.axes, [*outer, *[make.integer(0)] * len(stage.axes)], strict=False))
        if column is not None:
            axes[stage.axes[-1]] = column

        def load(node: Any) -> Any:
            source = next((s for s in self._stages if s.buffer.same_as(node.source)), None)
            if source is None or (self._is_result(source) and _is_whole(source, self._rows)):
                return node
            whole = _is_whole(source, self._rows)
            at = node.indices[-1] if whole else make.integer(0)
            return tirx.BufferLoad(self._kept[source.buffer], [at])

        return make.substituted(value, axes, load)

    def _sum(self, stage: Stage, outer: Sequence[Any]) -> list[Any]:
        """Several vectors side by side, then these, then their lanes one after the other."""
        kind, _ = _term(stage)
        nothing = make.real({prim.Add: 0.0, prim.Max: -math.inf, prim.Min: math.inf}[kind])
        lanes, columns = self._lanes, self._rows.columns
        whole, rest = divmod(columns, lanes)
        count = min(self._how.vectors, whole)
        sums, total = make.local("sums", (count, lanes)), self._kept[stage.buffer]
        zero = make.integer(0)

        def set_to(i: Any, value: Callable[[Any], Any]) -> Any:
            return self._lane_loop(lambda lane: tirx.BufferStore(sums, value(lane), [i, lane]))

        def add(i: Any, start: Any, first: int = 0) -> Any:
            """first: the lane from which on columns are new."""

            def value(lane: Any) -> Any:
                new = self._value(stage, outer, start + lane)
                if first:
                    new = prim.Select(lane >= make.integer(first), new, nothing)
                return kind(tirx.BufferLoad(sums, [i, lane]), new)

            return set_to(i, value)

        def with_first(i: int) -> Any:
            def value(lane: Any) -> Any:
                return kind(*(tirx.BufferLoad(sums, [make.integer(n), lane]) for n in (0, i)))

            return set_to(zero, value)

        def lane_by_lane(lane: Any) -> Any:
            new = tirx.BufferLoad(sums, [zero, lane])
            return tirx.BufferStore(total, kind(tirx.BufferLoad(total, [zero]), new), [zero])

        done = whole // count

        def steps(first: Any, number: Any) -> Any:
            return make.loop(
                "vectors", number,
                lambda step: make.loop(
                    "sum", count, lambda i: add(i, ((first + step) * count + i) * lanes),
                    Kind.UNROLLED,
                ),
            )  # fmt: skip

        def empty() -> Any:
            return make.loop("sum", count, lambda i: set_to(i, lambda _: nothing), Kind.UNROLLED)

        statements = [tirx.AllocBuffer(sums), empty()]
        if kind is prim.Add and done > MOST_ADDED:
            statements += self._in_parts(sums, count, done, steps, empty)
        else:
            statements.append(steps(make.integer(0), done))
        for i in range(whole - done * count):
            statements.append(add(make.integer(i), make.integer((done * count + i) * lanes)))
        if rest:
            statements.append(add(make.integer(count - 1), columns - lanes, lanes - rest))
        statements += [with_first(i) for i in range(1, count)]
        statements.append(tirx.BufferStore(total, tirx.BufferLoad(sums, [zero, zero]), [zero]))
        statements.append(make.loop("lane", lanes - 1, lane_by_lane, Kind.UNROLLED, low=1))
        if self._is_result(stage):
            statements.append(self._keep(stage, outer, tirx.BufferLoad(total, [zero])))
        return statements

    def _in_parts(
        self, sums: Any, count: int, done: int, steps: Callable[[Any, Any], Any],
        empty: Callable[[], Any],
    ) -> list[Any]:  # fmt: skip
        """Sums of parts of a row, added up: no lane adds more than MOST_ADDED one after the other.
        The last part is left in ``sums``, with all others."""
        parts = make.local("parts", (count, self._lanes))

        def each(buffer: Any, value: Callable[[Any, Any], Any]) -> Any:
            return make.loop(
                "sum", count,
                lambda i: self._lane_loop(
                    lambda lane: tirx.BufferStore(buffer, value(i, lane), [i, lane])
                ),
                Kind.UNROLLED,
            )  # fmt: skip

        def both(i: Any, lane: Any) -> Any:
            return tirx.BufferLoad(parts, [i, lane]) + tirx.BufferLoad(sums, [i, lane])

        whole, rest = divmod(done, MOST_ADDED)

        def part(index: Any) -> Any:
            return make.sequence(
                [steps(index * MOST_ADDED, MOST_ADDED), each(parts, both), empty()]
            )

        nothing = make.real(0.0)
        last = [steps(make.integer(whole * MOST_ADDED), rest)] if rest else []
        return [
            tirx.AllocBuffer(parts), each(parts, lambda i, lane: nothing),
            make.loop("part", whole, part), *last, each(sums, both),
        ]  # fmt: skip
