"""Attention in one kernel, on cooperative matrices of fp16 added up in float32.

A workgroup has some queries of a head, in blocks of 16. Its subgroups share the keys: each
multiplies all of the workgroup's queries with some keys, and the scores meet in shared memory,
whole rows of them. There threads turn them into shares, which are narrowed, and every subgroup
multiplies them with its columns of the values. Queries, keys and values come from memory straight
into matrices, as each is used by a subgroup once. Scores, shares and their sums are float32.

Rows that do not fit shared memory come in parts. Results stay in registers from part to part, and
are corrected by each new largest score, as FlashAttention (Dao et al. 2022) does. Which thread has
a row of a cooperative matrix is the driver's, so that the corrections come as a matrix, too, each
of them in a whole row.

The last 16 keys, and queries, stand before the end: some of them occur in the tile before, too, and
count there. So nothing is read beside a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product, starmap
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import tirx as T

from ...topi.attention import AttentionForm, View
from ...topi.by_hand import barrier
from ..common import NotThisKind, TargetLimits, largest_divisor, up
from ..factors import FP16
from .attention_kernel import LOWEST, form_of
from .kernel_marks import SCALE_MATRIX
from .statements import dtype_of, kernel_of, put

EDGE = 16  # of the matrices
SHAPE = (EDGE, EDGE, EDGE)
PADDING = 8  # halves behind a row in shared memory, so that rows begin in other banks
BANKS = 32  # words of shared memory that are read at once
MOST_WIDTH = 128  # numbers of a query: more do not stay in registers
MOST_UNROLLED = 64  # matrices that are loaded without a loop
MOST_TOGETHER = 16  # scores of a row that a thread has under way at once
MOST_HELD = 64  # scores of a part that a thread keeps
VECTOR = 8  # halves: rows of matrices begin at multiples of 16 bytes
STORED = 4  # neighbours that a thread writes
MOST_ASKED = 16  # matrices of queries that a subgroup keeps while keys come in parts
TILES = (6, 5, 4)  # of 16 keys, in a part


@dataclass(frozen=True)
class AttentionTile:
    """blocks: of 16 queries, of a workgroup; subgroups: that share their keys; parts_of_keys: of a
    row of scores, which are made one after the other."""

    blocks: int
    subgroups: int
    parts_of_keys: int = 1

    def held(self, keys: int) -> int:
        """Keys, in sixteens, of which scores are held at once."""
        return up(up(keys, EDGE), self.parts_of_keys)

    def parts(self, lanes: int) -> int:
        """Threads that share a row of scores, with so many of a subgroup."""
        return self.subgroups * lanes // (self.blocks * EDGE)


def fits(form: AttentionForm, limits: TargetLimits) -> bool:
    """Whether attention is one kernel on a device."""
    return bool(candidates(form, limits))


def candidates(form: AttentionForm, limits: TargetLimits) -> list[AttentionTile]:
    """All tiles that fit, those that should take least time first."""
    lanes = limits.subgroup
    if SHAPE not in limits.matrices_of(FP16) or lanes % EDGE or not limits.device.measured:
        return []
    if max(form.width, form.value_width) > MOST_WIDTH or not _in_matrices(form):
        return []
    tiles = [
        tile
        for tile in starmap(AttentionTile, product((1, 2, 4, 8), range(1, 9)))
        if _divides(form, tile, lanes)
        and tile.blocks <= up(form.queries, EDGE)
        and tile.subgroups * lanes <= limits.threads
    ]
    whole = [tile for tile in tiles if _shared(form, tile, lanes) <= limits.shared_bytes]
    whole.sort(key=lambda tile: _cost(form, tile, limits))
    parts = [part for tile in tiles for part in _in_parts(form, tile, limits)]
    parts.sort(key=lambda tile: _cost_in_parts(form, tile, limits))
    # Keys are fetched for each workgroup anew: of sixteen queries alone they cost most.
    if not any(tile.blocks > 1 for tile in whole) and form.queries > EDGE:
        return parts
    # Whole rows are made once, but leave few workgroups room beside each other: by 13 tiles each of
    # 12 and of 48 heads with 197 keys, timed on an H200, they pay as long as all run at once.
    units = limits.device.units.count
    if whole and _groups(form, whole[0]) > units * _at_once(form, whole[0], limits):
        return parts + whole
    return whole + parts


def _at_once(form: AttentionForm, tile: AttentionTile, limits: TargetLimits) -> int:
    """Workgroups that a unit holds at once."""
    memory = limits.device.units.shared_bytes // _shared(form, tile, limits.subgroup)
    return max(1, min(32 // tile.subgroups, memory))


def _in_parts(
    form: AttentionForm, tile: AttentionTile, limits: TargetLimits
) -> list[AttentionTile]:
    """A tile with parts of keys, if they fit and pay: the longest of those that leave most
    workgroups room beside each other, as far as there are so many."""
    if tile.subgroups != 2 * tile.blocks or tile.blocks * form.width > MOST_ASKED * EDGE:
        return []
    if 2 * _groups(form, tile) < limits.device.units.count:
        return []
    needed = up(_groups(form, tile), limits.device.units.count)
    cut = [replace(tile, parts_of_keys=up(up(form.keys, EDGE), length)) for length in TILES]
    fit = [
        part
        for part in cut
        if part.parts_of_keys > 1 and _shared(form, part, limits.subgroup) <= limits.shared_bytes
    ]
    if not fit:
        return []
    return [max(fit, key=lambda part: min(needed, _at_once(form, part, limits)))]


def _groups(form: AttentionForm, tile: AttentionTile) -> int:
    """Workgroups."""
    return up(form.queries, EDGE * tile.blocks) * form.batches


def _owned(form: AttentionForm, tile: AttentionTile) -> tuple[int, int]:
    """How many columns of the result, and blocks of its rows, are a subgroup's."""
    columns = form.value_width // EDGE
    return max(1, columns // tile.subgroups), tile.blocks // max(1, tile.subgroups // columns)


def _in_matrices(form: AttentionForm) -> bool:
    """Whether factors can be read by whole matrices."""
    if min(form.queries, form.keys) < EDGE or form.width % EDGE or form.value_width % EDGE:
        return False
    if form.turned and form.queries % STORED:
        return False
    return all(
        _step(view) and all(n % VECTOR == 0 for n in (view.offset, _step(view), *view.strides[:-2]))
        for view in (form.q, form.k, form.v)
    )


def _step(view: View) -> int:
    """Elements from one row of a matrix to the next, or from one column to the next where a column
    lies together; 0 where neither does."""
    row, column = view.strides[-2:]
    return row if column == 1 else column if row == 1 else 0


def _divides(form: AttentionForm, tile: AttentionTile, lanes: int) -> bool:
    """Whether the shares' product, blocks by columns, divides evenly among subgroups, and whole
    threads have a part of each row."""
    columns, parts = form.value_width // EDGE, tile.parts(lanes)
    if tile.subgroups % columns == 0:
        even = tile.blocks % (tile.subgroups // columns) == 0
    else:
        even = columns % tile.subgroups == 0
    whole = parts * tile.blocks * EDGE == tile.subgroups * lanes
    return even and whole and parts in (1, 2, 4, 8, 16)


def _cost(form: AttentionForm, tile: AttentionTile, limits: TargetLimits) -> float:
    """What a tile takes, in steps of a subgroup. Chosen by 8 tiles each of 12 and of 192 heads with
    197 keys, timed on an H200: what is ranked first takes up to 1.05 of the best's time there."""
    tiles, lanes = up(form.keys, EDGE), limits.subgroup
    width, values = form.width // EDGE, form.value_width // EDGE
    scores = up(tiles, tile.subgroups) * width * (4 + tile.blocks)
    shares = tiles * EDGE / tile.parts(lanes) * 3
    products = tiles * values * (4 + 2 * tile.blocks) / tile.subgroups
    groups = _groups(form, tile) / limits.device.units.count
    # Of a unit's workgroups so many run at once, each subgroup the slower the more there are.
    memory = 4 * limits.shared_bytes // _shared(form, tile, lanes)
    at_once = max(1, min(32 // tile.subgroups, memory))
    busy = min(groups, at_once) * tile.subgroups / 12
    return (scores + shares + products + 60) * max(1.0, groups / at_once) * max(1.0, busy)


def _cost_in_parts(form: AttentionForm, tile: AttentionTile, limits: TargetLimits) -> float:
    """What a tile takes where keys come in parts: work of a unit, whose workgroups share what it
    multiplies. Chosen by some 300 tiles of 11 forms, timed on an H200: what is first takes up to
    1.08 of the best's time there; and by parts of 64 and of 80 keys of 48 heads, three and two
    workgroups at once."""
    groups = up(_groups(form, tile), limits.device.units.count)
    several = tile.blocks > 1 and min(groups, _at_once(form, tile, limits)) > 2
    return groups * (tile.blocks + 0.4) * (0.86 if several else 1.0)


def shape_of(schedule: Schedule) -> AttentionForm:
    """The form of a function of attention, of fp16."""
    form, params = form_of(schedule), schedule.mod["main"].params
    if any(dtype_of(params[v.source]) != "float16" for v in (form.q, form.k, form.v)):
        raise NotThisKind("its factors are not fp16")
    return form


def schedule_attention(
    schedule: Schedule, limits: TargetLimits, tile: AttentionTile | None
) -> Schedule:
    """The kernel."""
    form = shape_of(schedule)
    chosen = tile or next(iter(candidates(form, limits)), None)
    if chosen is None:
        raise NotThisKind("no tile fits")
    launch = {
        "blockIdx.x": _groups(form, chosen), "threadIdx.y": chosen.subgroups,
        "threadIdx.x": limits.subgroup,
    }  # fmt: skip

    def write(buffers: Any, block: Any, y: Any, x: Any) -> None:
        _Kernel(form, chosen, limits.subgroup, buffers, block, y, x).write()

    return kernel_of(schedule, launch, write)


def _score_row(form: AttentionForm, tile: AttentionTile, parts: int) -> int:
    """Numbers from one row of scores to the next: threads of a row read so many neighbours at once,
    those of the next row begin in other banks. The results take their place."""
    least = max(tile.held(form.keys) * EDGE, form.value_width)
    near = max(parts, 4)
    rows = range(least, least + BANKS + 1, 4)
    return next(row for row in rows if row // near % 2 and row % near == 0)


def _shared(form: AttentionForm, tile: AttentionTile, lanes: int) -> int:
    """Bytes of shared memory."""
    rows, parts = EDGE * tile.blocks, tile.parts(lanes)
    shares = tile.held(form.keys) * EDGE + PADDING
    corrections = EDGE * 4 if tile.parts_of_keys > 1 else 0
    return rows * (_score_row(form, tile, parts) * 4 + shares * 2 + 2 * parts * 4 + corrections)


def _buffer(size: int, dtype: str, scope: str) -> Any:
    return T.sblock_alloc_buffer((size,), dtype, scope=scope)


class _Kernel:
    """The statements of a thread."""

    def __init__(
        self, form: AttentionForm, tile: AttentionTile, lanes: int, buffers: Any,
        block: Any, y: Any, x: Any,
    ) -> None:  # fmt: skip
        self.form, self.tile = form, tile
        self.buffers, self.y = buffers, y
        self.rows = EDGE * tile.blocks
        self.width, self.columns = form.width // EDGE, form.value_width // EDGE
        self.tiles = up(form.keys, EDGE)
        self.threads = tile.subgroups * lanes
        self.parts = tile.parts(lanes)
        groups = up(form.queries, self.rows)
        self.first = block % groups * self.rows
        self.batch = form.inside(block // groups)
        self.held = tile.held(form.keys)
        self.score_row = _score_row(form, tile, self.parts)
        self.share_row = self.held * EDGE + PADDING
        self.scores = _buffer(self.rows * self.score_row, "float32", "shared")
        self.shares = _buffer(self.rows * self.share_row, "float16", "shared")
        self.tops = _buffer(self.threads, "float32", "shared")
        self.sums = _buffer(self.threads, "float32", "shared")
        self.own_columns, self.own_blocks = _owned(form, tile)
        count = EDGE * EDGE
        self.q = _buffer(tile.blocks * self.width * count, "float16", "wmma.matrix_a")
        self.k = _buffer(self.width * count, "float16", "wmma.matrix_b")
        self.product = _buffer(tile.blocks * count, "float32", "wmma.accumulator")
        self.share = _buffer(self.own_blocks * count, "float16", "wmma.matrix_a")
        # TVM keeps one order of the elements in memory for each array of matrices.
        self.v = _buffer(self.own_columns * count, "float16", "wmma.matrix_b")
        found = self.own_blocks * self.own_columns
        self.found = _buffer(found * count, "float32", "wmma.accumulator")
        self.several = tile.parts_of_keys > 1
        if self.several:
            self.corrections = _buffer(self.rows * EDGE, "float32", "shared")
            self.correction = _buffer(count, "float32", "wmma.accumulator")
            self.factor = _buffer(1, "float32", "local")
        self.own = _buffer(STORED if form.turned else 1, "float32", "local")
        self.sum = _buffer(1, "float32", "local")
        self.top = _buffer(1, "float32", "local")
        self.turns = self.held * EDGE // self.parts
        kept = self.several and self.turns <= MOST_HELD
        self.together = self.turns if kept else largest_divisor(self.turns, MOST_TOGETHER)
        self.logits = _buffer(self.together, "float32", "local")
        # A part of a row is a thread's.
        self.thread = y * lanes + x
        self.row = self.thread // self.parts
        self.part = self.thread % self.parts

    def write(self) -> None:
        self._ask()
        self._begin()
        with self._parts() as first:
            self._score(first)
            barrier()
            self._raise_top(first)
            self._weigh(first)
            barrier()
            self._add_up(first)
        put(self.sums, self.thread, self.sum[0])
        self._end()
        barrier()
        self._give()

    @contextmanager
    def _parts(self) -> Iterator[Any]:
        """The first key, in sixteens, of each part of them."""
        if not self.several:
            yield T.int32(0)
            return
        with T.serial(0, self.tile.parts_of_keys) as part:
            yield part * self.held

    def _query(self, block: Any) -> Any:
        """The first query of a block of 16."""
        return tirx.min(self.first + block * EDGE, T.int32(self.form.queries - EDGE))

    def _key(self, tile: Any) -> Any:
        """The first key of a tile of 16."""
        return tirx.min(tile * EDGE, T.int32(self.form.keys - EDGE))

    def _ask(self) -> None:
        """Queries, in matrices."""
        form = self.form
        for block in range(self.tile.blocks):
            for c in range(self.width):
                self._load_from(form.q, self._query(block), c, self.q, block * self.width + c)

    def _score(self, first: Any) -> None:
        """The scores of a part of keys, in shared memory."""
        form, tile = self.form, self.tile
        turns = up(self.held, tile.subgroups)
        with _loop(turns, self.width) as turn:
            number = turn * tile.subgroups + self.y
            with T.If(self._is_key(first, number)), T.Then():
                for c in range(self.width):
                    self._load_from(form.k, self._key(first + number), c, self.k, c, turned=True)
                for block in range(tile.blocks):
                    self._clear(self.product, block)
                    for c in range(self.width):
                        self._multiply(self.product, block, self.q, block * self.width + c,
                                       self.k, c)  # fmt: skip
                    self._store(self.product, block, block * EDGE, number)

    def _is_key(self, first: Any, number: Any) -> Any:
        """Whether sixteen keys of a part are any of it, and of the keys."""
        inside = number < self.held
        if self._even():
            return inside
        return tirx.all(inside, first + number < self.tiles)

    def _even(self) -> bool:
        """Whether all parts have as many keys."""
        return self.held * self.tile.parts_of_keys == self.tiles

    def _raise_top(self, first: Any) -> None:
        """The largest score of a thread's row so far, and what its results are corrected by."""
        put(self.own, 0, T.float32(LOWEST))
        with T.serial(0, self.turns // self.together) as turn:
            self._fetch(first, turn)
            for number in range(self.together):
                put(self.own, 0, tirx.max(self.own[0], self.logits[number]))
        put(self.tops, self.thread, self.own[0])
        barrier()
        put(self.own, 0, self.top[0])
        for part in range(self.parts):
            put(self.own, 0, tirx.max(self.own[0], self.tops[self.row * self.parts + part]))
        if self.several:
            self._correct()
        put(self.top, 0, self.own[0])

    def _correct(self) -> None:
        """What a row's results so far, and their sum, count beside those of a larger score."""
        put(self.factor, 0, tirx.exp(self.top[0] - self.own[0]))
        put(self.sum, 0, self.sum[0] * self.factor[0])
        self._put_corrections(self.factor[0])

    def _put_corrections(self, factor: Any) -> None:
        """The factor of a thread's row, for a thread's part of the columns."""
        count = EDGE // self.parts
        for number in range(count):
            place = self.row * EDGE + self.part * count + number
            put(self.corrections, place, factor)

    def _weigh(self, first: Any) -> None:
        """Shares of a row's scores, not yet divided by their sum."""
        # Scores are not replaced by what is made of them: TVM would put barriers into the loops.
        with T.serial(0, self.turns // self.together) as turn:
            if self.together < self.turns:
                self._fetch(first, turn)
            for number in range(self.together):
                column = self._column(turn, number)
                share = tirx.exp(self.logits[number] - self.top[0])
                counted = tirx.if_then_else(self._counts(first, column), share, T.float32(0))
                put(self.logits, number, counted)
                place = self.row * self.share_row + column
                put(self.shares, place, T.Cast("float16", self.logits[number]))
                put(self.sum, 0, self.sum[0] + self.logits[number])

    def _column(self, turn: Any, number: int) -> Any:
        return (turn * self.together + number) * self.parts + self.part

    def _fetch(self, first: Any, turn: Any) -> None:
        """The scores of a turn, none of which waits for what is made of another: what is added
        comes from memory."""
        for number in range(self.together):
            put(self.logits, number, self._logit(first, self._column(turn, number)))

    def _counts(self, first: Any, column: Any) -> Any:
        """Whether the key of a column does not stand in the tile before, too, and is one."""
        tile = first + column // EDGE
        if self.form.keys % EDGE == 0:
            return T.bool(True) if self._even() else tile < self.tiles
        new = self._key(tile) + column % EDGE >= tile * EDGE
        return new if self._even() else tirx.all(new, tile < self.tiles)

    def _logit(self, first: Any, column: Any) -> Any:
        """A score of the thread's row with what is added; of no key the lowest number."""
        form = self.form
        value = self.scores[self.row * self.score_row + column] * T.float32(form.scale)
        query = self._query(self.row // EDGE) + self.row % EDGE
        key = self._key(first + column // EDGE) + column % EDGE
        for view in form.added:
            more = self.buffers[view.source][view.place(*self.batch, query, key)]
            value = value + T.Cast("float32", more)
        return tirx.if_then_else(self._counts(first, column), value, T.float32(LOWEST))

    def _places(self) -> tuple[list[Any], list[Any]]:
        """The columns of the result, and blocks of its rows, that are a subgroup's."""
        ways = max(1, self.tile.subgroups // self.columns)
        columns = [self.y // ways + i * self.tile.subgroups for i in range(self.own_columns)]
        return columns, [self.y % ways + i * ways for i in range(self.own_blocks)]

    def _begin(self) -> None:
        """Results of nothing."""
        put(self.top, 0, T.float32(LOWEST))
        put(self.sum, 0, T.float32(0))
        if self.several:  # written here, they share no memory with what a part needs first
            self._put_corrections(T.float32(1))
        for number in range(self.own_columns * self.own_blocks):
            self._clear(self.found, number)

    def _add_up(self, first: Any) -> None:
        """A part's shares times its values."""
        form = self.form
        columns, blocks = self._places()
        if self.several:
            for number, block in enumerate(blocks):
                self._load(self.correction, 0, self.corrections, block * EDGE * EDGE, EDGE)
                for at in range(len(columns)):
                    self._scale(self.found, number * len(columns) + at, self.correction, 0)
        with _loop(self.held, len(columns) + len(blocks)) as tile:
            for at, column in enumerate(columns):
                self._load_from(form.v, self._key(first + tile), column, self.v, at)
            for number, block in enumerate(blocks):
                self._load(self.share, number, self.shares,
                           block * EDGE * self.share_row + tile * EDGE, self.share_row)  # fmt: skip
                for at in range(len(columns)):
                    self._multiply(self.found, number * len(columns) + at, self.share, number,
                                   self.v, at)  # fmt: skip

    def _end(self) -> None:
        """The results, where the scores were."""
        columns, blocks = self._places()
        for number, block in enumerate(blocks):
            for at, column in enumerate(columns):
                self._store(self.found, number * len(columns) + at, block * EDGE, column)

    def _give(self) -> None:
        """The sums, divided by those of their shares."""
        form, out = self.form, self.buffers[-1]
        width, kind = form.value_width, dtype_of(self.buffers[-1])
        total = self.rows * width // STORED
        with T.serial(0, up(total, self.threads)) as turn:
            number = turn * self.threads + self.thread
            if form.turned:  # neighbours are of one column
                runs = self.rows // STORED
                row, column, by_row = number % runs * STORED, number // runs, STORED
            else:
                runs = width // STORED
                row, column, by_row = number // runs, number % runs * STORED, 1
            query = self._query(row // EDGE) + row % EDGE
            new = query >= self.first + row // EDGE * EDGE  # else the block before has it, too
            inside = new if total % self.threads == 0 else tirx.all(number < total, new)
            with T.If(inside), T.Then():
                for own in range(by_row):
                    shares = self.sums[(row + own) * self.parts]
                    for part in range(1, self.parts):
                        shares = shares + self.sums[(row + own) * self.parts + part]
                    put(self.own, own, shares)
                with T.vectorized(0, STORED) as own:
                    down, across = (own, 0) if form.turned else (0, own)
                    value = self.scores[(row + down) * self.score_row + column + across]
                    value = value / self.own[down]
                    place = list(form.place(self.batch, query + down, column + across))
                    T.buffer_store(out, value if kind == "float32" else T.Cast(kind, value), place)

    def _load_from(
        self, view: View, row: Any, column: Any, to: Any, number: Any, turned: bool = False
    ) -> None:
        """A matrix of a tensor: from a row, and a column that is counted in matrices.

        turned: whether its rows become columns.
        """
        place = view.place(*self.batch, row, column * EDGE)
        order = "row_major" if (view.strides[-1] == 1) != turned else "col_major"
        self._load(to, number, self.buffers[view.source], place, _step(view), order)

    def _load(
        self, to: Any, number: Any, source: Any, place: Any, stride: int, order: str = "row_major"
    ) -> None:
        at = source.access_ptr("r", ptr_type=str(source.dtype), offset=place)
        T.evaluate(T.tvm_load_matrix_sync(to.data, *SHAPE, number, at, stride, order, dtype="void"))

    def _clear(self, matrices: Any, number: int) -> None:
        zero = T.float32(0)
        T.evaluate(T.tvm_fill_fragment(matrices.data, *SHAPE, number, zero, dtype="void"))

    def _store(self, source: Any, number: int, row: Any, column: Any) -> None:
        """A matrix, whose column is counted in matrices, among the scores."""
        place = row * self.score_row + column * EDGE
        at = self.scores.access_ptr("w", ptr_type="float32", offset=place)
        T.evaluate(
            T.tvm_store_matrix_sync(
                source.data, *SHAPE, number, at, self.score_row, "row_major", dtype="void"
            )
        )

    def _scale(self, matrices: Any, number: int, by: Any, other: int) -> None:
        T.evaluate(T.call_extern("void", SCALE_MATRIX, matrices.data, number, by.data, other))

    def _multiply(self, to: Any, number: int, a: Any, place: int, b: Any, other: int) -> None:
        T.evaluate(
            T.tvm_mma_sync(
                to.data, number, a.data, place, b.data, other, to.data, number, dtype="void"
            )
        )


def _loop(count: int, matrices: int) -> Any:
    """A loop, written out where that is short, so that loads of several rounds are under way."""
    return T.unroll(0, count) if count * matrices <= MOST_UNROLLED else T.serial(0, count)
