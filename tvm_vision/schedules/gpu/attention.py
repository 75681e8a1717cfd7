"""Attention in one kernel, on cooperative matrices of fp16 added up in float32.

A workgroup has some queries of a head, 16 for each subgroup. Keys come tile by tile through shared
memory, twice: first each query's largest score is found, then the scores are computed anew, their
shares multiplied with the values, and added up. So the sums need not be scaled from tile to tile,
which cooperative matrices, whose elements lie where the driver wants, cannot do row by row. Scores,
shares and their sums are float32, and shares are narrowed to be multiplied. With one tile of keys
the scores are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ...topi.attention import FORM, AttentionForm, View
from ..common import NotThisKind, TargetLimits, up
from ..factors import FP16

EDGE = 16  # of the matrices
SHAPE = (EDGE, EDGE, EDGE)
PADDING = 8  # halves behind a row in shared memory, so that rows begin in other banks
MOST_WIDTH = 128  # numbers of a query: more do not stay in registers
LOWEST = -3.4028234663852886e38
VECTOR = 8


@dataclass(frozen=True)
class AttentionTile:
    """subgroups: of a workgroup, with 16 queries each; keys: of a tile."""

    subgroups: int
    keys: int


def fits(form: AttentionForm, limits: TargetLimits) -> bool:
    """Whether attention is one kernel on a device."""
    return bool(candidates(form, limits))


def candidates(form: AttentionForm, limits: TargetLimits) -> list[AttentionTile]:
    """All tiles that fit, those with the least that is computed for nothing first."""
    lanes = limits.subgroup
    if SHAPE not in limits.matrices_of(FP16) or lanes % EDGE or not limits.device.measured:
        return []
    if max(form.width, form.value_width) > MOST_WIDTH:
        return []
    found = [
        AttentionTile(subgroups, keys)
        for subgroups in range(1, 9)
        for keys in range(EDGE, 129, EDGE)
        if subgroups * lanes <= limits.threads
        and _shared(form, AttentionTile(subgroups, keys)) <= limits.shared_bytes
        and keys < form.keys + EDGE
    ]

    def cost(tile: AttentionTile) -> float:
        rows, tiles = up(form.queries, EDGE * tile.subgroups), up(form.keys, tile.keys)
        queries = rows * tile.subgroups * EDGE
        # Keys and values are fetched by each workgroup; barriers cost the same for any tile.
        once = 1 if tiles == 1 else 1.4
        work = queries * tiles * (tile.keys * once + 16)
        fetched = rows * tiles * tile.keys * (form.width + form.value_width) / 8
        groups = rows * form.batches
        waves = up(groups, limits.device.units.count) / (groups / limits.device.units.count)
        return (work + fetched) * waves**0.5

    return sorted(found, key=cost)


def shape_of(schedule: Schedule) -> AttentionForm:
    """The form of a function of attention, of fp16."""
    function = schedule.mod["main"]
    text = (function.attrs or {}).get(FORM)
    if text is None:
        raise NotThisKind("is no attention")
    form = AttentionForm.from_json(str(text))
    if any(_dtype(function.params[v.source]) != "float16" for v in (form.q, form.k, form.v)):
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
    function = schedule.mod["main"]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        buffers = [
            T.arg(str(p.name), T.buffer(tuple(map(int, p.ty.shape)), _dtype(p)))
            for p in function.params
        ]
        with T.sblock("root"):
            block, y, x = (
                tvm.te.thread_axis(tag) for tag in ("blockIdx.x", "threadIdx.y", "threadIdx.x")
            )
            rows = up(form.queries, EDGE * chosen.subgroups)
            launch = [
                (block, rows * form.batches), (y, chosen.subgroups), (x, limits.subgroup)
            ]  # fmt: skip
            frames = [T.attr(axis, "thread_extent", size) for axis, size in launch]
            # Memory of a block around the threads would be the host's.
            with T.frame_scope(frames), T.sblock("attention"):
                T.reads(*(_whole(b) for b in buffers[:-1]))
                T.writes(_whole(buffers[-1]))
                _Kernel(form, chosen, limits.subgroup, buffers, block.var, y.var, x.var).write()
    made = builder.get().with_attrs({**dict(function.attrs)})
    return Schedule(tvm.IRModule({"main": made}))


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, int(n)) for n in buffer.shape)]


def _dtype(parameter: Any) -> str:
    return str(parameter.ty.dtype)


def _rounded(number: int) -> int:
    return up(number, EDGE) * EDGE


def _shared(form: AttentionForm, tile: AttentionTile) -> int:
    """Bytes of shared memory."""
    rows, width, values = EDGE * tile.subgroups, _rounded(form.width), _rounded(form.value_width)
    scores = rows * (max(tile.keys, values) + PADDING) * 4
    shares = rows * (max(tile.keys, width) + PADDING) * 2
    return scores + shares + tile.keys * (max(width, values) + PADDING) * 2 + rows * 4 * 16


def _buffer(size: int, dtype: str, scope: str) -> Any:
    return T.sblock_alloc_buffer((size,), dtype, scope=scope)


def _put(buffer: Any, place: Any, value: Any) -> None:
    T.buffer_store(buffer, value, [place])


class _Kernel:
    """The statements of a thread."""

    def __init__(
        self, form: AttentionForm, tile: AttentionTile, lanes: int, buffers: Any,
        block: Any, y: Any, x: Any,
    ) -> None:  # fmt: skip
        self.form, self.tile, self.lanes = form, tile, lanes
        self.buffers, self.y, self.x = buffers, y, x
        self.rows = EDGE * tile.subgroups
        self.width, self.values = _rounded(form.width), _rounded(form.value_width)
        groups = up(form.queries, self.rows)
        self.first = block % groups * self.rows
        self.batch = form.inside(block // groups)
        self.tiles = up(form.keys, tile.keys)
        self.score_row = max(tile.keys, self.values) + PADDING
        self.share_row = max(tile.keys, self.width) + PADDING
        self.key_row = max(self.width, self.values) + PADDING
        self.parts = lanes // EDGE
        self.scores = _buffer(self.rows * self.score_row, "float32", "shared")
        self.shares = _buffer(self.rows * self.share_row, "float16", "shared")
        self.keys = _buffer(tile.keys * self.key_row, "float16", "shared")
        self.shared = _buffer(self.rows * self.parts, "float32", "shared")
        self.sums = _buffer(self.rows * self.parts, "float32", "shared")
        count = EDGE * EDGE
        self.q = _buffer(self.width // EDGE * count, "float16", "wmma.matrix_a")
        self.a = _buffer(count, "float16", "wmma.matrix_a")
        self.b = _buffer(count, "float16", "wmma.matrix_b")
        # TVM keeps one order of the elements in memory for each array of matrices.
        self.turned = _buffer(count, "float16", "wmma.matrix_b")
        self.product = _buffer(count, "float32", "wmma.accumulator")
        self.found = _buffer(self.values // EDGE * count, "float32", "wmma.accumulator")
        self.own = _buffer(1, "float32", "local")
        self.top = _buffer(1, "float32", "local")
        # A row of the subgroup's, and a part of it, are a thread's.
        self.row = y * EDGE + x % EDGE
        self.part = x // EDGE

    def write(self) -> None:
        form, tile = self.form, self.tile
        self._fetch(form.q, self.shares, self.share_row, self.rows, self.width, form.width,
                    form.queries, self.first)  # fmt: skip
        self._barrier()
        for c in range(self.width // EDGE):
            self._load(self.q, c, self.shares, self.y * EDGE * self.share_row + c * EDGE,
                       self.share_row)  # fmt: skip
        _put(self.own, 0, T.float32(LOWEST))
        with T.serial(0, self.tiles) as step:
            self._score(step)
            with T.serial(0, tile.keys // self.parts) as turn:
                value = self._logit(step, turn)
                _put(self.own, 0, tirx.max(self.own[0], value))
        _put(self.shared, self.row * self.parts + self.part, self.own[0])
        for c in range(self.values // EDGE):
            T.evaluate(T.tvm_fill_fragment(self.found.data, *SHAPE, c, T.float32(0), dtype="void"))
        self._barrier()
        _put(self.top, 0, T.float32(LOWEST))
        for part in range(self.parts):
            _put(self.top, 0, tirx.max(self.top[0], self.shared[self.row * self.parts + part]))
        _put(self.own, 0, T.float32(0))
        with T.serial(0, self.tiles) as step:
            if self.tiles > 1:
                self._score(step)
            self._fetch(form.v, self.keys, self.key_row, tile.keys, self.values, form.value_width,
                        form.keys, step * tile.keys)  # fmt: skip
            with T.serial(0, tile.keys // self.parts) as turn:
                column = turn * self.parts + self.part
                share = tirx.exp(self._logit(step, turn) - self.top[0])
                inside = step * tile.keys + column < form.keys
                value = tirx.if_then_else(inside, share, T.float32(0))
                _put(self.shares, self.row * self.share_row + column, T.Cast("float16", value))
                _put(self.own, 0, self.own[0] + value)
            self._barrier()
            with T.serial(0, tile.keys // EDGE) as k:
                self._load(self.a, 0, self.shares,
                           self.y * EDGE * self.share_row + k * EDGE, self.share_row)  # fmt: skip
                for c in range(self.values // EDGE):
                    self._load(self.b, 0, self.keys, k * EDGE * self.key_row + c * EDGE,
                               self.key_row)  # fmt: skip
                    self._multiply(self.found, c, self.a, 0, self.b)
            self._barrier()
        _put(self.sums, self.row * self.parts + self.part, self.own[0])
        for c in range(self.values // EDGE):
            self._store(self.found, c, self.y * EDGE * self.score_row + c * EDGE)
        self._barrier()
        self._give()

    def _score(self, step: Any) -> None:
        """Scores of the subgroup's queries and a tile of keys, in shared memory."""
        form, tile = self.form, self.tile
        self._barrier()
        self._fetch(form.k, self.keys, self.key_row, tile.keys, self.width, form.width,
                    form.keys, step * tile.keys)  # fmt: skip
        self._barrier()
        with T.serial(0, tile.keys // EDGE) as n:
            T.evaluate(
                T.tvm_fill_fragment(self.product.data, *SHAPE, 0, T.float32(0), dtype="void")
            )
            for c in range(self.width // EDGE):
                self._load(self.turned, 0, self.keys, n * EDGE * self.key_row + c * EDGE,
                           self.key_row, "col_major")  # fmt: skip
                self._multiply(self.product, 0, self.q, c, self.turned)
            self._store(self.product, 0, self.y * EDGE * self.score_row + n * EDGE)
        self._barrier()

    def _logit(self, step: Any, turn: Any) -> Any:
        """A score with what is added; of no key the lowest number."""
        form = self.form
        column = turn * self.parts + self.part
        value = self.scores[self.row * self.score_row + column] * T.float32(form.scale)
        query, key = self.first + self.row, step * self.tile.keys + column
        query = tirx.min(query, T.int32(form.queries - 1))
        at = tirx.min(key, T.int32(form.keys - 1))
        for view in form.added:
            more = self.buffers[view.source][view.place(*self.batch, query, at)]
            value = value + T.Cast("float32", more)
        return tirx.if_then_else(key < form.keys, value, T.float32(LOWEST))

    def _fetch(
        self, view: View, to: Any, stride: int, rows: int, columns: int, width: int, count: int,
        first: Any,
    ) -> None:  # fmt: skip
        """Rows of a tensor into shared memory, with zeros beside and below it."""
        even = view.strides[-1] == 1 and all(
            n % VECTOR == 0 for n in (width, view.offset, *view.strides[:-1])
        )
        wide = VECTOR if even else 1
        threads = self.tile.subgroups * self.lanes
        total = rows * columns // wide
        with T.serial(0, up(total, threads)) as turn:
            number = turn * threads + self.y * self.lanes + self.x
            with T.If(number < total), T.Then():
                row, column = number // (columns // wide), number % (columns // wide) * wide
                with T.vectorized(0, wide) as own:
                    inside = tirx.all(first + row < count, column < width)
                    index = view.place(*self.batch, first + row, column + own)
                    value = self.buffers[view.source][index]
                    value = tirx.if_then_else(inside, value, tirx.const(0, "float16"))
                    _put(to, row * stride + column + own, value)

    def _give(self) -> None:
        """The sums, divided by those of their shares."""
        form, out = self.form, self.buffers[-1]
        threads = self.tile.subgroups * self.lanes
        width = form.value_width
        with T.serial(0, up(self.rows * width, threads)) as turn:
            number = turn * threads + self.y * self.lanes + self.x
            row, column = number // width, number % width
            inside = tirx.all(number < self.rows * width, self.first + row < form.queries)
            with T.If(inside), T.Then():
                total = self.sums[row * self.parts]
                for part in range(1, self.parts):
                    total = total + self.sums[row * self.parts + part]
                value = self.scores[row * self.score_row + column] / total
                place = [*self.batch[:-1], self.first + row, self.batch[-1], column]
                kind = _dtype(out)
                T.buffer_store(out, value if kind == "float32" else T.Cast(kind, value), place)

    def _load(
        self, to: Any, number: Any, source: Any, place: Any, stride: int, order: str = "row_major"
    ) -> None:
        at = source.access_ptr("r", ptr_type="float16", offset=place)
        T.evaluate(T.tvm_load_matrix_sync(to.data, *SHAPE, number, at, stride, order, dtype="void"))

    def _store(self, source: Any, number: int, place: Any) -> None:
        at = self.scores.access_ptr("w", ptr_type="float32", offset=place)
        T.evaluate(
            T.tvm_store_matrix_sync(
                source.data, *SHAPE, number, at, self.score_row, "row_major", dtype="void"
            )
        )

    def _multiply(self, to: Any, number: int, a: Any, place: int, b: Any) -> None:
        T.evaluate(
            T.tvm_mma_sync(to.data, number, a.data, place, b.data, 0, to.data, number, dtype="void")
        )

    def _barrier(self) -> None:
        shared = [tvm.ir.StringImm("shared")]
        T.evaluate(tvm.ir.Call("tirx.tvm_storage_sync", shared, ret_ty="void"))
