"""Maxima and sums of windows in the network's own order, for processors.

What the windows of a row of results have of each column is gathered first, by vectors of columns,
into one row with its edges; windows along the row then read that row, every second column by
shuffles. ``windows.py`` has those of channels in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, sym, tirx
from tvm.ir import prim

from . import loops as make
from .loops import Kind, NotWritten, Stage
from .nests import chooses
from .processor import Processor
from .registers import RegisterTile

# Results of a row that are worth vectors.
LEAST_COLUMNS = 4
# Wider steps from window to window are read number by number.
MOST_STRIDE = 4
# A window's terms along a row are written out.
MOST_TERMS = 32
# Sums of more have parts (see ``long_sums``).
MOST_ADDED = 256
# Fewer comparisons are done before other threads have woken up.
WORTH_THREADS = 1 << 15
# Among how many tasks threads share rows.
TASKS = 64
VECTORS = (4, 2, 1)


@dataclass(frozen=True)
class PoolLoop:
    """How rows of results are computed.

    Attributes:
        vectors: of columns that are gathered side by side.
        parallel: whether threads share the rows.
    """

    vectors: int
    parallel: bool


@dataclass(frozen=True)
class Along:
    """Windows along one axis: as many terms as ``size``; ``before``: places of padding."""

    results: int
    inputs: int
    size: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def within(self) -> bool:
        """Whether all windows lie within the inputs."""
        return self.before == 0 and self.reach <= self.inputs

    @property
    def reach(self) -> int:
        """Places of all windows."""
        return (self.results - 1) * self.stride + (self.size - 1) * self.dilation + 1


@dataclass(frozen=True)
class Pool:
    """Windows along each axis of a tensor."""

    axes: tuple[Along, ...]

    @property
    def rows(self) -> int:
        """Of results."""
        return math.prod(axis.results for axis in self.axes[:-1])

    @property
    def work(self) -> int:
        """Comparisons or sums."""
        return math.prod(axis.results * axis.size for axis in self.axes)


def pool_of(function: Any) -> Pool:
    """The windows of a function that has their maxima or sums. Raises NotWritten for others."""
    return _parsed(function)[2]


def candidates(pool: Pool, processor: Processor) -> list[PoolLoop]:
    """What may be tried, the likeliest first."""
    columns = pool.axes[-1].inputs
    counts = [n for n in VECTORS if n == 1 or n * processor.lanes <= columns]
    many = pool.rows > 1
    likely = many and pool.work >= WORTH_THREADS
    kinds = [likely, not likely] if many else [False]
    return [PoolLoop(vectors, parallel) for parallel in kinds for vectors in counts]


def write_pool(function: Any, processor: Processor, how: PoolLoop | None = None) -> Any:
    """Loops for a function with ``pool_of``; how: None for the likeliest.

    Raises NotWritten for other functions.
    """
    stages, source, pool = _parsed(function)
    how = how or candidates(pool, processor)[0]
    writer = _Writer(function, stages, source, pool, processor, how)
    return make.written(function, writer.body())


def _parsed(function: Any) -> tuple[list[Stage], Any, Pool]:
    """The stages from that of windows on, what these are of, and the windows."""
    stages = make.stages_of(function)
    padding = stages.pop(0) if len(stages) > 1 and not _reduced(stages[0]) else None
    first = stages[0]
    if not _reduced(first) or len(first.axes) - len(_reduced(first)) != len(first.shape):
        raise NotWritten("windows are needed")
    load = _term(first)
    pads = _padding(padding, load.source, _initial(first)) if padding else None
    source = pads[0] if pads else load.source
    sizes = [int(size) for size in source.ty.shape]
    if str(source.ty.dtype) != "float32" or str(first.buffer.ty.dtype) != "float32":
        raise NotWritten("numbers of float32 are needed")
    if any(str(axis.ty.dtype) != make.INDEX for axis in first.axes):
        raise NotWritten(f"axes of {make.INDEX} are needed, as compiled networks have them")
    if len(sizes) != len(first.shape):
        raise NotWritten("windows of each axis are needed")
    before = pads[1] if pads else [0] * len(sizes)
    axes = tuple(_along(first, i, load.indices[i], sizes[i], before[i]) for i in range(len(sizes)))
    pool = Pool(axes)
    _check(pool, first)
    make.check_pointwise(stages)
    return stages, source, pool


def _reduced(stage: Stage) -> list[Any]:
    return [a for a in stage.block.iter_vars if a.iter_type == tirx.IterVar.CommReduce]


def _term(stage: Stage) -> Any:
    """What is compared or added: one load."""
    value = stage.value
    if isinstance(value, (prim.Max, prim.Add)):
        for own, term in ((value.a, value.b), (value.b, value.a)):
            if isinstance(own, ir.TensorLoad) and own.source.same_as(stage.buffer):
                if isinstance(term, ir.TensorLoad) and not term.source.same_as(stage.buffer):
                    return term
    raise NotWritten("maxima or sums of what is read are needed")


def _initial(stage: Stage) -> float:
    value = stage.block.init.value if stage.block.init is not None else None
    if not isinstance(value, prim.FloatImm):
        raise NotWritten("a number to begin with is needed")
    return float(value.value)


def _padding(stage: Stage, buffer: Any, initial: float) -> tuple[Any, list[int]]:
    """What is padded, and by how much before each axis.

    Raises NotWritten unless padding changes no maximum and no sum.
    """
    value = stage.value
    if not stage.buffer.same_as(buffer) or not chooses(value):
        raise NotWritten("padding before windows is needed")
    condition, inside, outside = value.args
    if not isinstance(inside, ir.TensorLoad) or not isinstance(outside, prim.FloatImm):
        raise NotWritten("padding by a number is needed")
    if float(outside.value) not in (initial, -math.inf if initial else 0.0):
        raise NotWritten("padding that changes nothing is needed")
    before = []
    for axis, index, size in zip(stage.axes, inside.indices, stage.shape, strict=True):
        found = _linear(index, [axis])
        if found[0] != 1 or not -size < found[1] <= 0:
            raise NotWritten("the image as it is, with edges, is needed")
        before.append(-found[1])
    sizes = [int(size) for size in inside.source.ty.shape]
    bounds = {
        (place, low) for part in _conjunction(condition) for place, low in [_bound(stage, part)]
    }
    wanted = set()
    for i, (size, low) in enumerate(zip(sizes, before, strict=True)):
        if low:
            wanted.add((i, low))
        if low + size < stage.shape[i]:
            wanted.add((i, low + size))
    # A comparison that is always true may be there or not.
    always = {(i, low + n) for i, low in enumerate(before) for n in (0, sizes[i])}
    if not wanted <= bounds <= always:
        raise NotWritten("edges that end where the image begins are needed")
    return inside.source, before


def _conjunction(condition: Any) -> list[Any]:
    if isinstance(condition, prim.And):
        return [*_conjunction(condition.a), *_conjunction(condition.b)]
    return [condition]


def _bound(stage: Stage, part: Any) -> tuple[int, int]:
    """Of ``number <= axis`` and ``axis < number``: which axis, and the number."""
    for kind, number, axis in (
        (prim.LE, part.a, part.b), (prim.GE, part.b, part.a),
        (prim.LT, part.b, part.a), (prim.GT, part.a, part.b),
    ):  # fmt: skip
        if isinstance(part, kind) and isinstance(number, tirx.IntImm):
            for i, each in enumerate(stage.axes):
                if axis.same_as(each):
                    return i, int(number.value)
    raise NotWritten("comparisons of an axis with a number are needed")


def _linear(index: Any, variables: Sequence[Any]) -> list[int]:
    """The factors of variables in an index, and what is added."""
    numbers = [
        int(each.value)
        for each in sym.detect_linear_equation(index, list(variables))
        if isinstance(each, tirx.IntImm)
    ]
    if len(numbers) != len(variables) + 1:
        raise NotWritten("indices that are linear are needed")
    return numbers


def _along(stage: Stage, place: int, index: Any, inputs: int, before: int) -> Along:
    """The windows along one axis."""
    axis, results = stage.axes[place], stage.shape[place]
    terms = [each for each in _reduced(stage) if make.mentions(index, each.var)]
    if len(terms) > 1:
        raise NotWritten("one axis of terms is needed along each of results")
    factors = _linear(index, [axis, *(each.var for each in terms)])
    stride, offset = factors[0] if results > 1 else 1, factors[-1]
    size = int(terms[0].dom.extent) if terms else 1
    dilation = factors[1] if terms and size > 1 else 1
    if offset or stride < 1 or dilation < 1:
        raise NotWritten("windows that go forward are needed")
    return Along(results, inputs, size, stride, dilation, before)


def _check(pool: Pool, stage: Stage) -> None:
    terms = math.prod(int(axis.dom.extent) for axis in _reduced(stage))
    if terms != math.prod(axis.size for axis in pool.axes):
        raise NotWritten("terms along the axes of what is read are needed")
    last = pool.axes[-1]
    if last.results < LEAST_COLUMNS or last.size > MOST_TERMS or min(stage.shape) == 0:
        raise NotWritten(f"rows of {LEAST_COLUMNS} results and more are needed")
    if any(axis.inputs == 0 for axis in pool.axes):
        raise NotWritten("an image is needed")
    if isinstance(stage.value, prim.Add) and terms > MOST_ADDED:
        raise NotWritten(f"sums of {MOST_ADDED} at most are needed")


class _Writer:
    def __init__(
        self, function: Any, stages: list[Stage], source: Any, pool: Pool, processor: Processor,
        how: PoolLoop,
    ) -> None:  # fmt: skip
        self._source = source
        self._pool = pool
        self._how = how
        last = pool.axes[-1]
        self._lanes = min(processor.lanes, last.results)
        self._columns = min(how.vectors * processor.lanes, last.inputs)
        self._registers = RegisterTile(function.params, stages, 1, self._lanes)
        self._initial = make.real(_initial(stages[0]))
        self._kind = type(stages[0].value)
        # Whole vectors are read where every second column of them is wanted.
        begin = (last.results - self._lanes) * last.stride + (last.size - 1) * last.dilation
        width = max(begin + last.stride * self._lanes, last.before + last.inputs)
        self._row = make.local("row", (width,))

    def body(self) -> Any:
        """Some rows after others, which threads share."""
        rows = self._pool.rows
        together = math.ceil(rows / TASKS) if self._how.parallel else rows
        tasks = math.ceil(rows / together)

        def task(index: Any) -> Any:
            first = index * together
            count = together if rows % together == 0 else tirx.min(together, rows - first)
            width = int(self._row.ty.shape[0])
            return make.sequence(
                [
                    tirx.AllocBuffer(self._row),
                    make.loop("edge", width, lambda i: self._keep(self._initial, i)),
                    make.loop("result_row", count, lambda i: self._one_row(first + i)),
                ]
            )

        kind = Kind.PARALLEL if self._how.parallel else Kind.SERIAL
        return make.loop("task", tasks, task, kind)

    def _keep(self, value: Any, place: Any) -> Any:
        return tirx.BufferStore(self._row, value, [place])

    def _one_row(self, index: Any) -> Any:
        *outer, last = self._pool.axes
        at = make.place(index, [axis.results for axis in outer])
        steps = math.ceil(last.inputs / self._columns)

        def gathered(step: Any) -> Any:
            return self._gather(at, tirx.min(step * self._columns, last.inputs - self._columns))

        def windows(step: Any) -> Any:
            start = tirx.min(step * self._lanes, last.results - self._lanes)
            return self._windows(at, start)

        return make.sequence(
            [
                make.loop("columns", steps, gathered),
                make.loop("vector", math.ceil(last.results / self._lanes), windows),
            ]
        )

    def _gather(self, at: Sequence[Any], start: Any) -> Any:
        """Some columns of the row: of all terms of the windows that are in the image."""
        columns = make.local("columns", (self._columns,))

        def each(body: Callable[[Any], Any]) -> Any:
            return make.loop("lane", self._columns, body, Kind.VECTORIZED)

        def term(places: list[Any]) -> Any:
            if len(places) < len(at):
                return self._terms(at, len(places), lambda place: term([*places, place]))

            def value(lane: Any) -> Any:
                new = tirx.BufferLoad(self._source, [*places, start + lane])
                return self._kind(tirx.BufferLoad(columns, [lane]), new)

            return each(lambda lane: tirx.BufferStore(columns, value(lane), [lane]))

        before = self._pool.axes[-1].before
        return make.sequence(
            [
                tirx.AllocBuffer(columns),
                each(lambda lane: tirx.BufferStore(columns, self._initial, [lane])),
                term([]),
                each(
                    lambda lane: self._keep(tirx.BufferLoad(columns, [lane]), start + before + lane)
                ),
            ]
        )

    def _terms(self, at: Sequence[Any], i: int, body: Callable[[Any], Any]) -> Any:
        """A loop over the places of a window along axis ``i`` that are in the image."""
        axis = self._pool.axes[i]
        begin = at[i] * axis.stride - axis.before
        low, count = make.integer(0), axis.size
        if not axis.within:
            low = tirx.max((axis.dilation - 1 - begin) // axis.dilation, 0)
            past = (axis.inputs - begin + axis.dilation - 1) // axis.dilation
            count = tirx.max(tirx.min(past, axis.size) - low, 0)
        return make.loop("term", count, lambda k: body(begin + k * axis.dilation), low=low)

    def _windows(self, at: Sequence[Any], start: Any) -> Any:
        """A vector of results, and what follows on them."""
        last, results = self._pool.axes[-1], self._registers.buffer("window")
        zero = make.integer(0)
        statements = [tirx.AllocBuffer(results)]
        for k in range(last.size):
            new = self._shuffled(start * last.stride + k * last.dilation)
            if k:
                new = self._kind(tirx.BufferLoad(results, [zero, self._whole]), new)
            statements.append(tirx.BufferStore(results, new, [zero, self._whole]))

        def point(_: Any, lane: Any) -> list[Any]:
            return [*at, start + lane]

        return make.sequence([*statements, *self._registers.results(results, point)])

    @property
    def _whole(self) -> Any:
        return prim.Ramp(make.integer(0), make.integer(1), self._lanes)

    def _shuffled(self, begin: Any) -> Any:
        """A vector of every so many columns of the row."""
        stride, lanes = self._pool.axes[-1].stride, self._lanes
        if stride == 1 or stride > MOST_STRIDE:
            at = prim.Ramp(begin, make.integer(stride), lanes)
            return tirx.BufferLoad(self._row, [at])
        parts = [
            tirx.BufferLoad(self._row, [prim.Ramp(begin + i * lanes, make.integer(1), lanes)])
            for i in range(stride)
        ]
        return make.shuffled(parts, range(0, lanes * stride, stride))
