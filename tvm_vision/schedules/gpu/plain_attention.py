"""Attention in one kernel of multiplications and additions, where no matrices do it.

A workgroup has some queries of a head. Keys come in blocks; the scores of a block meet in shared
memory, where threads turn them into shares, and are multiplied with the block's values. Results
stay in registers and are corrected by each new largest score, as FlashAttention (Dao et al. 2022)
does, so that no score goes through the device's memory.

Some threads share four queries: of the scores each has some keys, of the results some columns. All
is float32, whatever the tensors are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product, starmap
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import tirx as T

from ...topi.attention import AttentionForm
from ...topi.barrier import barrier
from ..common import NotThisKind, TargetLimits, up
from .attention_kernel import LOWEST, form_of, kernel_of, put

VECTOR = 4
OWN = 4  # queries that threads share
MOST_COLUMNS = 8  # of a result, that a thread has
QUERIES = (64, 32)
KEYS = (64, 32)
LANES = (8, 16)
# Of more keys each workgroup works long, and a quarter of the units is to have one.
MOST_OF_FEW, FEW = 256, 4


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


def fits(form: AttentionForm, limits: TargetLimits) -> bool:
    """Whether attention is such a kernel on a device."""
    return bool(candidates(form, limits))


def candidates(form: AttentionForm, limits: TargetLimits) -> list[PlainAttentionTile]:
    """All tiles that fit, those that should take least time first."""
    units = limits.device.units.count
    if not limits.device.attends_plainly or not _in_vectors(form):
        return []
    if form.keys > MOST_OF_FEW and FEW * _groups(form, min(QUERIES)) < units:
        return []
    tiles = [
        tile
        for tile in starmap(PlainAttentionTile, product(QUERIES, KEYS, LANES))
        if form.value_width % tile.lanes == 0
        and form.value_width <= MOST_COLUMNS * tile.lanes
        and tile.threads <= limits.threads
        and _shared(form, tile) <= limits.shared_bytes
    ]
    return sorted(tiles, key=lambda tile: _cost(form, tile, units))


def _groups(form: AttentionForm, queries: int) -> int:
    """Workgroups, of so many queries each."""
    return up(form.queries, queries) * form.batches


def _cost(form: AttentionForm, tile: PlainAttentionTile, units: int) -> float:
    """In what order tiles are tried: by what they compute, padding too, by the shared memory that a
    thread takes from others, and by the units that two workgroups each would not reach. By 8 tiles
    each of 9 forms, timed on an H100, what is first takes 1.00 to 1.23 of the best's time."""
    padded = up(form.queries, tile.queries) * tile.queries * up(form.keys, tile.keys) * tile.keys
    alone = max(1.0, 2 * units / _groups(form, tile.queries))
    return padded * alone * _shared(form, tile) / tile.threads


def _in_vectors(form: AttentionForm) -> bool:
    """Whether neighbours are read at once."""
    return form.width % VECTOR == 0 and all(
        view.strides[-1] == 1 and all(n % VECTOR == 0 for n in (view.offset, *view.strides[:-1]))
        for view in (form.q, form.k, form.v)
    )


def _shared(form: AttentionForm, tile: PlainAttentionTile) -> int:
    """Bytes of shared memory: queries, keys or values, scores; tops, factors."""
    factors = max(form.width, form.value_width) * tile.keys
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


class _Kernel:
    """The statements of a thread."""

    def __init__(
        self, form: AttentionForm, tile: PlainAttentionTile, buffers: Any, block: Any, thread: Any
    ) -> None:
        self.form, self.tile, self.buffers, self.thread = form, tile, buffers, thread
        groups = up(form.queries, tile.queries)
        self.first = block % groups * tile.queries
        self.batch = form.inside(block // groups)
        self.own_keys, self.columns = tile.keys // tile.lanes, form.value_width // tile.lanes
        self.queries = _buffer(form.width * tile.queries, "shared")
        self.factors = _buffer(max(form.width, form.value_width) * tile.keys, "shared")
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

    def _fetch(self, view: Any, row: Any, number: Any) -> None:
        """Neighbours of a row of a tensor."""
        buffer = self.buffers[view.source]
        with T.vectorized(0, VECTOR) as i:
            value = buffer[view.place(*self.batch, row, number * VECTOR + i)]
            put(self.fetched, i, T.Cast("float32", value))

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
        with self._turns(count * form.width // VECTOR) as number:
            row, column = number % count, number // count
            query = tirx.min(self.first + row, T.int32(form.queries - 1))
            self._fetch(form.q, query, column)
            for i in range(VECTOR):
                value = self.fetched[i] * T.float32(form.scale)
                put(self.queries, (column * VECTOR + i) * count + row, value)

    def _fetch_keys(self, first: Any) -> None:
        """A block of keys, those of a number beside each other."""
        form, count = self.form, self.tile.keys
        with self._turns(count * form.width // VECTOR) as number:
            row, column = number % count, number // count
            self._fetch(form.k, tirx.min(first + row, T.int32(form.keys - 1)), column)
            for i in range(VECTOR):
                put(self.factors, (column * VECTOR + i) * count + row, self.fetched[i])

    def _fetch_values(self, first: Any) -> None:
        """A block of values, as they are; 0 behind the last."""
        form = self.form
        across = form.value_width // VECTOR
        with self._turns(self.tile.keys * across) as number:
            row, column = number // across, number % across
            self._fetch(form.v, tirx.min(first + row, T.int32(form.keys - 1)), column)
            with T.vectorized(0, VECTOR) as i:
                value = self._counted(first + row, self.fetched[i], 0.0)
                put(self.factors, row * form.value_width + column * VECTOR + i, value)

    def _counted(self, key: Any, value: Any, otherwise: float) -> Any:
        """A value of a key; something else behind the last."""
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
            put(self.logits, number, self._counted(first + column, value, LOWEST))
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
            share = tirx.exp(self.logits[number] - self.top[0])
            put(self.logits, number, self._counted(first + column, share, 0.0))
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
            place = key * self.form.value_width + self.lane * columns
            self._load(self.near, self.factors, place, columns)
            self._multiply(self.found, columns)

    def _give(self) -> None:
        """Results, divided by the sums of their shares."""
        form, out = self.form, self.buffers[-1]
        kind, columns, count = str(out.dtype), self.columns, self.tile.queries
        wide = _wide(columns)
        for i in range(OWN):
            put(self.sum, 0, self.tops[self.place + i])
            for part in range(1, self.tile.shares):
                put(self.sum, 0, self.sum[0] + self.tops[part * count + self.place + i])
            query = self.first + self.place + i
            with T.If(query < form.queries), T.Then():
                for at in range(0, columns, wide):
                    with T.vectorized(0, wide) as c:
                        value = self.found[(at + c) * OWN + i] / self.sum[0]
                        place = [
                            *self.batch[:-1], query, self.batch[-1], self.lane * columns + at + c,
                        ]  # fmt: skip
                        T.buffer_store(
                            out, value if kind == "float32" else T.Cast(kind, value), place
                        )
