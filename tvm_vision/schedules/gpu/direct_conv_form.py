"""Convolutions with windows, channels last, written so that an image's tile stays in shared memory.

A window's steps reach each pixel of the image once for every place of the window. Written as

    halo[p, n, py, px, c] = the image's channels of part p, filled up with zeros to whole tiles
    shifted[p, n, yh, row, kx, x, c] = halo[p, n, yh·own·s + row, x·s + kx·d, c]
    sums[p, n, yh, yl, x, f] += shifted[p, n, yh, yl·s + ky·d, kx, x, c] · weights[p, ky, kx, c, f]

a tile of the halo is fetched once, and what a step along ky needs is mostly what the others have.
Of several parts the sums are added up at the end, see split_k.py. The weights of bytes come, and
are kept, with the channels last: weights[p, ky, kx, f, c].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, sym, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir import Schedule

from ..common import NotThisKind, extents_of, only_reduction, product, up
from ..cost.direct_conv import DirectConvTile, Windows
from ..factors import INT8, OTHERS, TYPES, Types, kind_of_factors
from .contraction import analyse, factors_of

# The blocks: the image and the weights as they are fetched, both as matrices, what is added up, the
# sums in shared memory, and what of them is the output.
NAMES = HALO, WEIGHTS, SHIFTED, FILTERS, SUMS, RESULTS, CROP = (
    "halo", "halo_weights", "halo_shifted", "halo_filters", "halo_sums", "halo_results",
    "halo_crop",
)  # fmt: skip
TOTAL = "halo_total"


@dataclass(frozen=True)
class _Found:
    """A convolution's block, what it reads (image, weights) and writes, and its windows."""

    block: Any
    image: Any
    weights: Any
    output: Any
    windows: Windows


def windows_of(schedule: Schedule) -> Windows:
    """The windows that a kernel adds up.

    Raises:
        NotThisKind: it is no such convolution of fp16 or bytes.
    """
    return _find(schedule).windows


def _find(schedule: Schedule) -> _Found:
    block = only_reduction(schedule)
    analyse(schedule, block)
    body = schedule.get(block)
    extents = {a.var: e for a, e in zip(body.iter_vars, extents_of(schedule, block), strict=True)}
    written = list(body.body.indices)
    one, other = factors_of(body)
    total = str(body.body.buffer.ty.dtype.dtype)
    kind = kind_of_factors(str(one.ty.dtype), str(other.ty.dtype), total)
    filters = 0 if kind == INT8 else -1  # the index of the weights that is the output's last
    if any(len(indices) != 4 for indices in (one.indices, other.indices, written)):
        raise NotThisKind("is no convolution over height and width")
    image, weights = (one, other) if _is(other.indices[filters], written[-1]) else (other, one)
    n, y, x, f = written
    ky, kx, c = list(weights.indices)[1:] if kind == INT8 else list(weights.indices)[:3]
    plain = (n, y, x, f, ky, kx, c)
    if any(variable not in extents for variable in plain) or len(set(plain)) != len(extents):
        raise NotThisKind("an index is more than a variable")
    same = [(weights.indices[filters], f), (image.indices[0], n), (image.indices[3], c)]
    if not all(_is(index, variable) for index, variable in same):
        raise NotThisKind("has another layout than channels last")
    steps = [_steps(image.indices[1], y, ky), _steps(image.indices[2], x, kx)]
    sizes = [extents[variable] for variable in plain]
    windows = Windows(
        batch=sizes[0], height=sizes[1], width=sizes[2], filters=sizes[3],
        kernel=(sizes[4], sizes[5]), channels=sizes[6],
        stride=(steps[0][0], steps[1][0]), dilation=(steps[0][1], steps[1][1]), factors=kind,
    )  # fmt: skip
    if kind == OTHERS or product(windows.kernel) == 1:
        raise NotThisKind("has no windows of fp16 or bytes")
    return _Found(block, image.source, weights.source, body.body.buffer, windows)


def _is(index: Any, variable: Any) -> bool:
    return isinstance(index, ir.Var) and index.same_as(variable)


def _steps(index: Any, out: Any, window: Any) -> tuple[int, int]:
    """Stride and dilation of an index ``out·stride + window·dilation``."""
    found = [int(v) if isinstance(v, tirx.IntImm) else 0 for v in _linear(index, [out, window])]
    if len(found) != 3 or found[0] < 1 or found[1] < 1 or found[2]:
        raise NotThisKind("an index of the image is no place in a window")
    return found[0], found[1]


def _linear(index: Any, variables: list[Any]) -> list[Any]:
    return list(sym.detect_linear_equation(index, variables))


def with_halo(schedule: Schedule, tile: DirectConvTile) -> Schedule:
    """A schedule of the kernel written in that form, its blocks named as in NAMES; TOTAL is there
    where there are parts.

    Raises:
        NotThisKind: see windows_of.
    """
    found = _find(schedule)
    root = schedule.get(schedule.get_sblock("root"))
    own = schedule.get(found.block)
    nests, buffers = _nests(found, tile, str(own.iter_vars[0].var.ty.dtype))
    statements = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    body = [n for s in statements for n in (nests if _holds(s, own) else [s])]
    block = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, tirx.SeqStmt(body), root.init,
        [*root.alloc_buffers, *buffers], root.match_buffers, root.annotations, root.span,
    )  # fmt: skip
    function = schedule.mod["main"]
    realized = s_tir.SBlockRealize(function.body.iter_values, function.body.predicate, block)
    return Schedule(
        tirx.PrimFunc(function.params, realized, function.ret_type, function.attrs, function.span)
    )


def _holds(statement: Any, block: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (s_tir.SBlock, found.append))
    return any(block.same_as(other) for other in found)


def _nests(found: _Found, tile: DirectConvTile, dtype: str) -> tuple[list[Any], list[Any]]:
    """The loops of all blocks, in the order of NAMES, and the buffers between them."""
    of = found.windows
    (high, wide), (sy, sx), (dy, dx) = of.kernel, of.stride, of.dilation
    height, width, filters = (
        up(size, part) * part
        for size, part in zip((of.height, of.width, of.filters), tile.outputs, strict=True)
    )
    parts = tile.split_k
    channels = up(of.channels, tile.k * parts) * tile.k
    rows, columns = (height - 1) * sy + (high - 1) * dy + 1, (width - 1) * sx + (wide - 1) * dx + 1
    types = TYPES[of.factors]
    make = _Nests(dtype, types)
    halo = make.copy(
        HALO,
        found.image,
        (parts, of.batch, rows, columns, channels),
        types.factor,
        lambda p, n, py, px, c: [n, py, px, p * channels + c],
    )
    shape = (parts, high, wide, *types.b(filters, channels))

    def of_weights(p: Any, ky: Any, kx: Any, row: Any, column: Any) -> list[Any]:
        if types.transposed:
            return [row, ky, kx, p * channels + column]
        return [ky, kx, p * channels + row, column]

    weights = make.copy(WEIGHTS, found.weights, shape, types.factor, of_weights)
    own = (tile.rows - 1) * sy + (high - 1) * dy + 1
    shifted = make.copy(
        SHIFTED,
        halo,
        (parts, of.batch, height // tile.rows, own, wide, width, channels),
        types.factor,
        lambda p, n, yh, row, kx, x, c: [p, n, yh * (tile.rows * sy) + row, x * sx + kx * dx, c],
    )
    taken = make.copy(FILTERS, weights, shape, types.factor)
    split = (parts, of.batch, height // tile.rows, tile.rows, width, filters)
    sums = make.sums(shifted, taken, split, (high, wide, channels), (sy, dy))
    results = make.copy(RESULTS, sums, split, types.sum)
    shape = (parts, of.batch, of.height, of.width, of.filters)
    partial = make.buffer("partial", shape, types.sum) if parts > 1 else None
    make.crop(results, (*split[:4], of.width, of.filters), of.height, partial, found.output)
    if partial is not None:
        make.total(partial, shape, found.output)
    return make.nests, make.buffers


class _Nests:
    """Loops around blocks, each with a buffer that the next ones read."""

    def __init__(self, dtype: str, types: Types) -> None:
        self.nests: list[Any] = []
        self.buffers: list[Any] = []
        self._dtype = dtype
        self._types = types

    def copy(
        self,
        name: str,
        source: Any,
        shape: tuple[int, ...],
        dtype: str,
        place: Callable[..., list[Any]] = lambda *at: list(at),
    ) -> Any:
        """A buffer of elements of another, zeros where those end."""
        made = self.buffer(name, shape, dtype)
        axes = self._axes(shape, "S")
        at = [axis.var for axis in axes]
        taken = place(*at)
        value = tirx.BufferLoad(source, taken)
        analyzer = sym.Analyzer()
        for axis in axes:
            analyzer.bind(axis.var, axis.dom)
        beyond = [
            index < end
            for index, end in zip(taken, source.ty.shape, strict=True)
            if analyzer.const_int_bound(index).max_value >= int(end)
        ]
        if beyond:
            value = tirx.if_then_else(tirx.all(*beyond), value, tirx.const(0, dtype))
        self._add(name, axes, [_point(source, taken)], tirx.BufferStore(made, value, at))
        return made

    def sums(
        self,
        image: Any,
        weights: Any,
        shape: tuple[int, ...],
        reduced: tuple[int, int, int],
        steps: tuple[int, int],
    ) -> Any:
        """The products, added up."""
        sum_type = self._types.sum
        made = self.buffer(SUMS, shape, sum_type)
        axes = [*self._axes(shape, "S"), *self._axes(reduced, "R")]
        p, n, yh, yl, x, f, ky, kx, c = (axis.var for axis in axes)
        at = [p, n, yh, yl, x, f]
        places = (
            [p, n, yh, yl * steps[0] + ky * steps[1], kx, x, c],
            [p, ky, kx, *((f, c) if self._types.transposed else (c, f))],
        )
        factors = [
            prim.Cast(sum_type, tirx.BufferLoad(b, p))
            for b, p in zip((image, weights), places, strict=True)
        ]
        value = tirx.BufferLoad(made, at) + factors[0] * factors[1]
        reads = [_point(b, p) for b, p in zip((image, weights), places, strict=True)]
        start = tirx.BufferStore(made, tirx.const(0, sum_type), at)
        self._add(SUMS, axes, reads, tirx.BufferStore(made, value, at), start)
        return made

    def crop(
        self, results: Any, shape: tuple[int, ...], height: int, partial: Any, output: Any
    ) -> None:
        """What of the results are the parts of the output; the output where there are none."""
        axes = self._axes(shape, "S")
        at = [axis.var for axis in axes]
        p, n, yh, yl, x, f = at
        place = [n, yh * shape[3] + yl, x, f]
        value = tirx.BufferLoad(results, at)
        if partial is None:
            body = tirx.BufferStore(output, value, place)
        else:
            body = tirx.BufferStore(partial, value, [p, *place])

        def inside(p: Any, n: Any, yh: Any, yl: Any, x: Any, f: Any) -> Any:
            return yh * shape[3] + yl < height

        self._add(CROP, axes, [_point(results, at)], body, within=inside)

    def total(self, partial: Any, shape: tuple[int, ...], output: Any) -> None:
        """The sums of all parts."""
        axes = [*self._axes(shape[1:], "S"), *self._axes(shape[:1], "R")]
        *at, p = (axis.var for axis in axes)
        value = tirx.BufferLoad(output, at) + tirx.BufferLoad(partial, [p, *at])
        start = tirx.BufferStore(output, tirx.const(0, self._types.sum), at)
        body = tirx.BufferStore(output, value, at)
        self._add(TOTAL, axes, [_point(partial, [p, *at])], body, start)

    def buffer(self, name: str, shape: tuple[int, ...], dtype: str) -> Any:
        """A buffer of its own."""
        sizes = [tirx.const(extent, self._dtype) for extent in shape]
        self.buffers.append(tirx.decl_buffer(sizes, dtype, name=name))
        return self.buffers[-1]

    def _axes(self, shape: tuple[int, ...], letter: str) -> list[Any]:
        kind = {"S": tirx.IterVar.DataPar, "R": tirx.IterVar.CommReduce}[letter]
        zero = tirx.const(0, self._dtype)
        return [
            tirx.IterVar(
                ir.Range(zero, tirx.const(extent, self._dtype)),
                tirx.Var(f"v_{letter.lower()}{i}", self._dtype),
                kind,
            )
            for i, extent in enumerate(shape)
        ]

    def _add(
        self,
        name: str,
        axes: list[Any],
        reads: list[Any],
        body: Any,
        init: Any = None,
        within: Callable[..., Any] = lambda *loops: tirx.const(True, "bool"),
    ) -> None:
        loops = [tirx.Var(axis.var.name[2:], self._dtype) for axis in axes]
        writes = [_point(body.buffer, body.indices)]
        block = s_tir.SBlock(axes, reads, writes, name, body, init)
        nest: Any = s_tir.SBlockRealize(loops, within(*loops), block)
        for loop, axis in zip(reversed(loops), reversed(axes), strict=True):
            zero = tirx.const(0, self._dtype)
            nest = tirx.For(loop, zero, axis.dom.extent, tirx.ForKind.SERIAL, nest)
        self.nests.append(nest)


def _point(buffer: Any, place: Any) -> Any:
    return tirx.BufferRegion(buffer, [ir.Range.from_min_extent(at, 1) for at in place])
