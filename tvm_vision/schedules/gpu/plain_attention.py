"""Attention in one kernel of multiplications and additions, where no matrices do it.

A workgroup has some queries of a head. Keys come in blocks; the scores of a block meet in shared
memory, where threads turn them into shares, and are multiplied with the block's values. Results
stay in registers and are corrected by each new largest score, as FlashAttention (Dao et al. 2022)
does, so that no score goes through the device's memory.

Some threads share four queries: of the scores each has some keys, of the results some columns. All
is float32, whatever the tensors are.

A tensor is read along what lies beside each other in it: the numbers of a row, or, behind a
convolution whose channels come first, those of a column. Four at once where they begin at multiples
of four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product, starmap
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import tirx as T

from ...topi.attention import AttentionForm, View
from ...topi.by_hand import barrier
from ..common import NotThisKind, TargetLimits, up
from ..cost.device_model import DeviceModel
from .attention_kernel import LOWEST, form_of
from .statements import kernel_of, put

VECTOR = 4
OWN = 4  # queries that threads share
MOST_COLUMNS = 8  # of a result, that a thread has
SPARE = 1.5  # times as many columns of a result as there are may be computed
QUERIES = (64, 32, 16)
KEYS = (64, 32)
LANES = (8, 16, 32)
# Costs in products of a thread: of a number from shared memory, of one that is fetched there, of a
# key in a softmax, and of what a block begins and ends with.
NUMBER, FETCH, SOFTMAX, BLOCK = 4, 40, 20, 100
# Threads that a unit is busy with: of GPUs that were timed, NVIDIA's, and of waves.
OCCUPIED, OCCUPIED_BY_WAVES = 192, 384
# A fifth of the units is to have a workgroup of so many queries, and more where more keys than so
# many let each work long.
FEW, FEW_QUERIES, FEW_KEYS = 5, 16, 256
ONE_BLOCK = KEYS[0]


@dataclass(frozen=True)
class PlainAttentionTile:
    """queries of a workgroup; keys of a block; lanes: threads that share four queries."""

    queries: int
    keys: int
    lanes: int

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return self.queries // OWN * self.lanes

    @property
    def shares(self) -> int:
        """Threads of a row of scores, where it becomes shares."""
        return self.lanes // OWN


@dataclass(frozen=True)
class Reading:
    """by_columns: whether neighbours in memory are of one column, else of one row; wide: how many
    of them are read at once."""

    by_columns: bool
    wide: int


def _reading(view: View, rows: int, columns: int) -> Reading | None:
    """How a matrix is read; None where nothing lies beside each other in it."""
    *others, row, column = view.strides
    if 1 not in (row, column):
        return None
    by_columns = column != 1
    steps = (view.offset, *others, column if by_columns else row, rows if by_columns else columns)
    return Reading(by_columns, VECTOR if all(step % VECTOR == 0 for step in steps) else 1)


def _readings(form: AttentionForm) -> list[Reading | None]:
    """Of queries, keys and values."""
    return [
        _reading(form.q, form.queries, form.width),
        _reading(form.k, form.keys, form.width),
        _reading(form.v, form.keys, form.value_width),
    ]


def fits(form: AttentionForm, limits: TargetLimits) -> bool:
    """Whether attention is such a kernel on a device."""
    return bool(candidates(form, limits))


def candidates(form: AttentionForm, limits: TargetLimits) -> list[PlainAttentionTile]:
    """All tiles that fit, those that should take least time first."""
    units = limits.device.units
    if not limits.device.attends_plainly or None in _readings(form):
        return []
    few = FEW * FEW_KEYS * _groups(form, FEW_QUERIES) < units.count * max(form.keys, FEW_KEYS)
    # One launch is better than several for few keys, for more of them where launches are slow, as
    # on small GPUs.
    most = ONE_BLOCK if limits.device.measured else FEW_KEYS
    if few and form.keys > most:
        return []
    # Columns that are computed: no more than there are where some threads divide them.
    widest = form.value_width * (1.0 if form.value_width % LANES[0] == 0 else SPARE)
    tiles = [
        tile
        for tile in starmap(PlainAttentionTile, product(QUERIES, KEYS, LANES))
        if tile.lanes * _columns(form, tile) <= widest
        and _columns(form, tile) <= MOST_COLUMNS
        and tile.threads <= limits.threads
        and _shared(form, tile) <= limits.shared_bytes
    ]
    return sorted(tiles, key=lambda tile: _cost(form, tile, limits.device))


def _groups(form: AttentionForm, queries: int) -> int:
    """Workgroups, of so many queries each."""
    return up(form.queries, queries) * form.batches


def _cost(form: AttentionForm, tile: PlainAttentionTile, device: DeviceModel) -> float:
    """In what order tiles are tried: by what a thread does for a block of keys. Workgroups that a
    unit has at once make each other slower once it is busy; others wait for them. Chosen by 9 forms
    that were timed on an H200 and 9 of the models of two of AMD's GPUs, with 4 to 15 tiles each:
    what is first takes up to 1.11 of the best's time."""
    own, columns = tile.keys // tile.lanes, _columns(form, tile)
    scores = form.width * (OWN * own + NUMBER * (OWN + own))
    results = tile.keys * (OWN * columns + NUMBER * (OWN + columns))
    fetched = FETCH * tile.keys * (form.width + form.value_width) / tile.threads
    steps = scores + results + fetched + SOFTMAX * tile.keys / tile.shares + BLOCK
    units = device.units
    groups = _groups(form, tile.queries)
    of_unit, threads = up(groups, units.count), up(tile.threads, units.lanes) * units.lanes
    at_once = units.resident(groups, threads, _shared(form, tile))
    occupied = OCCUPIED if device.measured else OCCUPIED_BY_WAVES
    busy = max(1.0, at_once * threads / occupied) * of_unit / at_once
    return up(form.keys, tile.keys) * steps * busy


def _columns(form: AttentionForm, tile: PlainAttentionTile) -> int:
    """Of a result, those that a thread has: the last threads' may lie behind the last."""
    return up(form.value_width, tile.lanes)


def _value_row(form: AttentionForm, tile: PlainAttentionTile) -> int:
    """Numbers from one row of values to the next in shared memory: threads that write a column
    there write to several banks."""
    by_columns = form.v.strides[-1] != 1
    return _columns(form, tile) * tile.lanes + VECTOR * by_columns


def _shared(form: AttentionForm, tile: PlainAttentionTile) -> int:
    """Bytes of shared memory: queries, keys or values, scores; tops, factors."""
    factors = max(form.width, _value_row(form, tile)) * tile.keys
    return 4 * (tile.queries * (form.width + tile.keys + tile.shares + 1) + factors)


def schedule_attention(
    schedule: Schedule, limits: TargetLimits, tile: PlainAttentionTile | None
) -> Schedule:
    """The kernel."""
    form = form_of(schedule)
    chosen = tile or next(iter(candidates(form, limits)), None)
    if chosen is None:
        raise NotThisKind("no tile fits")
    launch = {"blockIdx.x": _groups(form, chosen.queries), "threadIdx.x": chosen.threads}

    def write(buffers: Any, block: Any, thread: Any) -> None:
        _Kernel(form, chosen, buffers, block, thread).write()

    return kernel_of(schedule, launch, write)


def _buffer(size: int, scope: str) -> Any:
    return T.sblock_alloc_buffer((size,), "float32", scope=scope)


def _wide(count: int) -> int:
    """Of so many neighbours those that are read or written at once."""
    return next(wide for wide in (4, 2, 1) if count % wide == 0)


@dataclass(frozen=True)
class _Shared:
    """A matrix in shared memory.

    Attributes:
        buffer: that has it.
        rows_near: whether neighbours there are of different rows, else of one.
        step: numbers from one run of neighbours to the next.
        change: what is stored, of a row and a value.
    """

    buffer: Any
    rows_near: bool
    step: int
    change: Callable[[Any, Any], Any]

    def place(self, row: Any, column: Any) -> Any:
        """Where a number is."""
        return column * self.step + row if self.rows_near else row * self.step + column


class _Kernel:
    """The statements of a thread."""

    def __init__(
        self, form: AttentionForm, tile: PlainAttentionTile, buffers: Any, block: Any, thread: Any
    ) -> None:
        self.form, self.tile, self.buffers, self.thread = form, tile, buffers, thread
        groups = up(form.queries, tile.queries)
        self.first = block % groups * tile.queries
        self.batch = form.inside(block // groups)
        self.own_keys, self.columns = tile.keys // tile.lanes, _columns(form, tile)
        self.value_row = _value_row(form, tile)
        self.queries = _buffer(form.width * tile.queries, "shared")
        self.factors = _buffer(max(form.width, self.value_row) * tile.keys, "shared")
        self.scores = _buffer(tile.keys * tile.queries, "shared")
        self.tops = _buffer(tile.shares * tile.queries, "shared")
        self.corrections = _buffer(tile.queries, "shared")
        self.fetched = _buffer(VECTOR, "local")
        self.asked = _buffer(OWN, "local")
        self.near = _buffer(max(self.own_keys, self.columns), "local")
        self.products = _buffer(self.own_keys * OWN, "local")
        self.found = _buffer(self.columns * OWN, "local")
        self.logits = _buffer(tile.keys // tile.shares, "local")
        self.top, self.sum = _buffer(1, "local"), _buffer(1, "local")
        self.own, self.factor = _buffer(1, "local"), _buffer(1, "local")
        # For products: some threads have the same queries.
        self.lane, self.place = thread % tile.lanes, thread // tile.lanes * OWN
        # For shares: a part of a row.
        self.row, self.part = thread % tile.queries, thread // tile.queries

    def write(self) -> None:
        tile, form = self.tile, self.form
        self._ask()
        put(self.top, 0, T.float32(LOWEST))
        put(self.sum, 0, T.float32(0))
        for number in range(self.columns * OWN):
            put(self.found, number, T.float32(0))
        with T.serial(0, up(form.keys, tile.keys)) as turn:
            first = turn * tile.keys
            self._fetch_keys(first)
            barrier()
            self._multiply_keys()
            barrier()
            self._fetch_values(first)
            self._raise_top(first)
            self._weigh(first)
            barrier()
            self._multiply_values()
            barrier()
        put(self.tops, self.part * tile.queries + self.row, self.sum[0])
        barrier()
        self._give()

    def _fetch(
        self, view: View, size: tuple[int, int], first: Any, count: int, into: _Shared
    ) -> None:
        """Rows of a matrix to shared memory, from a first one on.

        Args:
            size: rows and columns of the matrix; in place of rows behind its last come others.
            count: of rows.
        """
        rows, columns = size
        reading = _reading(view, rows, columns)
        assert reading is not None
        wide, by_columns = reading.wide, reading.by_columns
        source, across = self.buffers[view.source], columns // wide
        with self._turns(count * columns // wide) as number:
            if by_columns:
                runs = count // wide
                row, column, last = number % runs * wide, number // runs, rows - wide
            elif into.rows_near:
                row, column, last = number % count, number // count * wide, rows - 1
            else:
                row, column, last = number // across, number % across * wide, rows - 1
            read = tirx.min(first + row, T.int32(last))
            with T.vectorized(0, wide) as i:
                place = (read + i, column) if by_columns else (read, column + i)
                value = source[view.place(*self.batch, *place)]
                put(self.fetched, i, T.Cast("float32", value))

            def store(i: Any) -> None:
                to = (row + i, column) if by_columns else (row, column + i)
                put(into.buffer, into.place(*to), into.change(to[0], self.fetched[i]))

            if by_columns == into.rows_near:
                with T.vectorized(0, wide) as i:
                    store(i)
            else:
                for i in range(wide):
                    store(i)

    @contextmanager
    def _turns(self, total: int) -> Iterator[Any]:
        """All of so many pieces of work, divided among the threads."""
        threads = self.tile.threads
        with T.serial(0, up(total, threads)) as turn:
            number = turn * threads + self.thread
            if total % threads:
                with T.If(number < total), T.Then():
                    yield number
            else:
                yield number

    def _ask(self) -> None:
        """The queries, scaled, those of a number beside each other."""
        form, count = self.form, self.tile.queries
        scale = T.float32(form.scale)
        into = _Shared(self.queries, True, count, lambda _, value: value * scale)
        self._fetch(form.q, (form.queries, form.width), self.first, count, into)

    def _fetch_keys(self, first: Any) -> None:
        """A block of keys, those of a number beside each other."""
        form, count = self.form, self.tile.keys
        into = _Shared(self.factors, True, count, lambda _, value: value)
        self._fetch(form.k, (form.keys, form.width), first, count, into)

    def _fetch_values(self, first: Any) -> None:
        """A block of values, as they are; 0 behind the last."""
        form = self.form

        def change(row: Any, value: Any) -> Any:
            return self._counted(first + row, value, 0.0)

        into = _Shared(self.factors, False, self.value_row, change)
        self._fetch(form.v, (form.keys, form.value_width), first, self.tile.keys, into)

    def _counted(self, key: Any, value: Any, otherwise: float) -> Any:
        """A value of a key; something else behind the last. It is a number that is there already:
        made in a branch of its own, each key's would be waited for before the next."""
        if self.form.keys % self.tile.keys == 0:
            return value
        return tirx.if_then_else(key < self.form.keys, value, T.float32(otherwise))

    def _load(self, to: Any, source: Any, place: Any, count: int) -> None:
        """Neighbours in shared memory."""
        wide = _wide(count)
        for at in range(0, count, wide):
            with T.vectorized(0, wide) as i:
                put(to, at + i, source[place + at + i])

    def _multiply_keys(self) -> None:
        """The scores of a thread's queries and keys."""
        own, tile = self.own_keys, self.tile
        for number in range(own * OWN):
            put(self.products, number, T.float32(0))
        with T.serial(0, self.form.width) as c:
            self._load(self.asked, self.queries, c * tile.queries + self.place, OWN)
            self._load(self.near, self.factors, c * tile.keys + self.lane * own, own)
            self._multiply(self.products, own)
        for key in range(own):
            with T.vectorized(0, OWN) as i:
                place = (self.lane * own + key) * tile.queries + self.place + i
                put(self.scores, place, self.products[key * OWN + i])

    def _multiply(self, to: Any, count: int) -> None:
        for number in range(count):
            for i in range(OWN):
                place = number * OWN + i
                put(to, place, to[place] + self.asked[i] * self.near[number])

    def _column(self, number: int) -> Any:
        """A key of a thread's part of a row, in its block."""
        return self.part * (self.tile.keys // self.tile.shares) + number

    def _raise_top(self, first: Any) -> None:
        """The largest score of a thread's row so far, and what results before count beside it."""
        form, tile = self.form, self.tile
        query = tirx.min(self.first + self.row, T.int32(form.queries - 1))
        put(self.own, 0, T.float32(LOWEST))
        for number in range(tile.keys // tile.shares):
            column = self._column(number)
            key = tirx.min(first + column, T.int32(form.keys - 1))
            value = self.scores[column * tile.queries + self.row]
            for view in form.added:
                more = self.buffers[view.source][view.place(*self.batch, query, key)]
                value = value + T.Cast("float32", more)
            put(self.logits, number, value)
            put(self.logits, number, self._counted(first + column, self.logits[number], LOWEST))
            put(self.own, 0, tirx.max(self.own[0], self.logits[number]))
        put(self.tops, self.part * tile.queries + self.row, self.own[0])
        barrier()
        put(self.own, 0, self.top[0])
        for part in range(tile.shares):
            put(self.own, 0, tirx.max(self.own[0], self.tops[part * tile.queries + self.row]))
        put(self.factor, 0, tirx.exp(self.top[0] - self.own[0]))
        put(self.top, 0, self.own[0])
        with T.If(self.part == 0), T.Then():
            put(self.corrections, self.row, self.factor[0])

    def _weigh(self, first: Any) -> None:
        """Shares in place of scores, not yet divided by their sum."""
        tile = self.tile
        put(self.sum, 0, self.sum[0] * self.factor[0])
        for number in range(tile.keys // tile.shares):
            column = self._column(number)
            put(self.logits, number, tirx.exp(self.logits[number] - self.top[0]))
            put(self.logits, number, self._counted(first + column, self.logits[number], 0.0))
            put(self.scores, column * tile.queries + self.row, self.logits[number])
            put(self.sum, 0, self.sum[0] + self.logits[number])

    def _multiply_values(self) -> None:
        """The results so far, corrected, and shares times values."""
        columns, tile = self.columns, self.tile
        self._load(self.asked, self.corrections, self.place, OWN)
        for number in range(columns):
            for i in range(OWN):
                place = number * OWN + i
                put(self.found, place, self.found[place] * self.asked[i])
        with T.serial(0, tile.keys) as key:
            self._load(self.asked, self.scores, key * tile.queries + self.place, OWN)
            place = key * self.value_row + self.lane * columns
            self._load(self.near, self.factors, place, columns)
            self._multiply(self.found, columns)

    def _give(self) -> None:
        """Results, divided by the sums of their shares."""
        form, columns, count = self.form, self.columns, self.tile.queries
        for i in range(OWN):
            total = self.tops[self.place + i]
            for part in range(1, self.tile.shares):
                total = total + self.tops[part * count + self.place + i]
            put(self.asked, i, total)
        first, column = self.first + self.place, self.lane * columns
        if form.turned and form.queries % OWN == 0:
            with T.If(first < form.queries), T.Then():
                for c in range(columns):
                    with self._in_result(column + c), T.vectorized(0, OWN) as i:
                        self._give_one(c, i, first + i, column + c)
            return
        # A run of neighbours is of the result, all of it, or none.
        wide = 1 if form.turned else _wide(math.gcd(columns, form.value_width))
        for i in range(OWN):
            with T.If(first + i < form.queries), T.Then():
                for at in range(0, columns, wide):
                    with self._in_result(column + at), T.vectorized(0, wide) as c:
                        self._give_one(at + c, i, first + i, column + at + c)

    @contextmanager
    def _in_result(self, column: Any) -> Iterator[None]:
        """Statements for a column, if there is one: threads may have some behind the last."""
        if self.columns * self.tile.lanes == self.form.value_width:
            yield
        else:
            with T.If(column < self.form.value_width), T.Then():
                yield

    def _give_one(self, number: Any, own: Any, query: Any, column: Any) -> None:
        """One of a thread's results, of its columns and of its queries."""
        out = self.buffers[-1]
        value = self.found[number * OWN + own] / self.asked[own]
        kind = str(out.dtype)
        place = self.form.place(self.batch, query, column)
        T.buffer_store(out, value if kind == "float32" else T.Cast(kind, value), list(place))
