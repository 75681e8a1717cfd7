"""A function or more for every schedule template, each with what it is in float64.

test_hard_numbers.py computes them on numbers that are hard to compute with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi
from tvm.s_tir import Schedule

from support.hard_numbers import ROUNDOFF, SMALLEST_NORMAL, Array, Case
from support.matrix_runs import SHAPE, halves
from support.numpy_operators import sliding_windows
from support.schedule_runs import fused
from tvm_vision.compiler.tir.cast_buffers import narrowed
from tvm_vision.schedules import ScheduleConfig
from tvm_vision.schedules.cost.device_model import DISCRETE, INTEGRATED
from tvm_vision.schedules.cost.direct_conv import DirectConvTile
from tvm_vision.schedules.gpu.trace import TRACE
from tvm_vision.topi import nchwc
from tvm_vision.topi.attention import FORM, AttentionForm, View, attention
from tvm_vision.topi.winograd import (
    FULL_INPUTS,
    FULL_OUTPUTS,
    MATRICES,
    Rows,
    Tiling,
    convolution,
    transform_image,
    transform_image_in_blocks,
    transform_output,
    transform_output_in_blocks,
)
from tvm_vision.tuning.metaschedule import trace_decision

OP = relax.op
Maker = Callable[[str], tirx.PrimFunc]
Shapes = tuple[tuple[int, ...], ...]
Exact = Callable[..., Array]
Sign = Callable[[float], float]


def of_relax(build: Callable[..., Any], shapes: Shapes) -> Maker:
    """The one kernel of a Relax function."""

    def make(dtype: str) -> tirx.PrimFunc:
        functions = fused(build, shapes, dtype).functions.values()
        return next(f for f in functions if isinstance(f, tirx.PrimFunc))

    return make


def _case(
    template: str, build: Callable[..., Any], shapes: Shapes, *given: Any, **more: Any
) -> Case:
    return Case(template, of_relax(build, shapes), shapes, *given, **more)


def _windows(x: Array, size: int, pad: float) -> Array:
    """[n, c, h, w, size, size]: windows of a stride of 1 that stay centred."""
    r = size // 2
    padded = np.pad(x, ((0, 0), (0, 0), (r, r), (r, r)), constant_values=pad)
    return np.asarray(sliding_windows(padded, (size, size), (2, 3)))


def _conv(x: Array, w: Array) -> Array:
    return np.einsum("nchwij,ocij->nohw", _windows(x, 3, 0.0), w)


def _conv_channels_last(x: Array, w: Array) -> Array:
    return _conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(0, 2, 3, 1)


def _clip_low_first(x: Array) -> Array:
    return np.fmin(np.fmax(x, 0.0), 6.0)


def _clip_high_first(x: Array) -> Array:
    return np.fmax(np.fmin(x, 6.0), 0.0)


def _largest(x: Array) -> Array:
    return _windows(x, 3, -np.inf).max((4, 5))


def _largest_number(x: Array) -> Array:
    return _largest(np.where(np.isnan(x), -np.inf, x))


def _depthwise(x: Array, w: Array) -> Array:
    return np.einsum("nchwij,cij->nchw", _windows(x, w.shape[-1], 0.0), w[:, 0])


PLANE, ROWS, IMAGE = (5, 67), (6, 300), (1, 3, 9, 11)
PRODUCT, DEEP = ((17, 33), (33, 19)), ((8, 640), (640, 12))


def _general(elementwise: str, product: str, reduction: str) -> dict[str, Case]:
    """What GPUs and processors have alike, by the templates that take it."""
    return {
        "maximum": _case(
            elementwise, OP.maximum, (PLANE, PLANE), np.maximum, passing_nan=(np.fmax,)
        ),
        "minimum": _case(
            elementwise, OP.minimum, (PLANE, PLANE), np.minimum, passing_nan=(np.fmin,)
        ),
        "relu": _case(
            elementwise, OP.nn.relu, (PLANE,), lambda x: np.maximum(x, 0.0),
            passing_nan=(lambda x: np.fmax(x, 0.0),),
        ),
        "clip": _case(
            elementwise, lambda x: OP.clip(x, 0, 6), (PLANE,), lambda x: np.clip(x, 0, 6),
            passing_nan=(_clip_low_first, _clip_high_first),
        ),
        "add": _case(elementwise, OP.add, (PLANE, PLANE), np.add),
        "multiply": _case(elementwise, OP.multiply, (PLANE, PLANE), np.multiply),
        "matmul": _case(product, OP.matmul, PRODUCT, np.matmul, 33),
        "sum": _case(reduction, lambda x: OP.sum(x, 1), (ROWS,), lambda x: x.sum(1), 300),
        "max": _case(
            reduction, lambda x: OP.max(x, 1), (ROWS,), lambda x: x.max(1),
            passing_nan=(lambda x: np.nanmax(x, 1),),
        ),
        "min": _case(
            reduction, lambda x: OP.min(x, 1), (ROWS,), lambda x: x.min(1),
            passing_nan=(lambda x: np.nanmin(x, 1),),
        ),
    }  # fmt: skip


def _chain() -> Case:
    """A row times a matrix times another."""
    shapes = ((1, 67), (67, 20), (20, 19))

    def function(dtype: str) -> tirx.PrimFunc:
        row, *matrices = (
            te.placeholder(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)
        )
        inner = topi.nn.matmul(row, matrices[0])
        made = te.create_prim_func([row, *matrices, topi.nn.matmul(inner, matrices[1])])
        return narrowed(made, [0, 1, 2, 3]) if dtype == "float16" else made

    return Case("chain", function, shapes, lambda x, a, b: x @ a @ b, 67 + 20 + 2)


def _along(rows: Rows, x: Array, axis: int, sign: Sign) -> Array:
    """What a factor of zero meets is not looked at."""
    parts = np.moveaxis(x, axis, 0)
    sums = [
        sum(sign(float(n)) * part for n, part in zip(row, parts, strict=True) if n) for row in rows
    ]
    return np.moveaxis(np.stack([np.asarray(s) for s in sums]), 0, axis)


def _image_in_tiles(x: Array, tiling: Tiling, sign: Sign) -> Array:
    """Winograd's transform of an image (1, c, h, w); sign: of the factors of its matrix."""
    edge, rows = tiling.edge, MATRICES[tiling.m].image
    down, right = tiling.rows * tiling.m + 2, tiling.columns * tiling.m + 2
    full = np.zeros((*x.shape[:2], down, right))
    full[:, :, tiling.top : tiling.top + x.shape[2], tiling.left : tiling.left + x.shape[3]] = x
    tiles = sliding_windows(full, (edge, edge), (2, 3))[:, :, :: tiling.m, :: tiling.m]
    found = _along(rows, _along(rows, tiles, 4, sign), 5, sign)
    return found.transpose(4, 5, 1, 0, 2, 3).reshape(edge * edge, x.shape[1], tiling.tiles)


def _tiles_in_image(products: Array, tiling: Tiling, sign: Sign) -> Array:
    """And back, of products (numbers, c, tiles)."""
    edge, rows = tiling.edge, MATRICES[tiling.m].output
    tiles = products.reshape(edge, edge, -1, tiling.rows, tiling.columns)
    found = _along(rows, _along(rows, tiles, 0, sign), 1, sign).transpose(2, 3, 0, 4, 1)
    whole = found.reshape(1, -1, tiling.rows * tiling.m, tiling.columns * tiling.m)
    return np.asarray(whole[:, :, : tiling.height, : tiling.width])


def _winograd_as_one(packed: bool) -> Case:
    """The convolution as one kernel; packed: of fp16 that is added up in fp16 by 16 channels."""
    tiling, inputs, outputs = Tiling(2, 1, 7, 9, top=1, left=1), 20, 35
    full = (-(-inputs // FULL_INPUTS) * FULL_INPUTS, -(-outputs // FULL_OUTPUTS) * FULL_OUTPUTS)
    shapes = ((1, inputs, 7, 9), (16, *full))

    def function(dtype: str) -> tirx.PrimFunc:
        x, w = (te.placeholder(shape, "float32") for shape in shapes)
        made = te.create_prim_func([x, w, convolution(x, w, tiling, outputs)])
        return narrowed(made, [0, 1, 2]) if dtype == "float16" else made

    def whole(x: Array, w: Array, sign: Sign) -> Array:
        image = _image_in_tiles(x, tiling, sign)
        products = np.einsum("acp,aco->aop", image, w[:, :inputs, :outputs])
        return _tiles_in_image(products, tiling, sign)

    # Each stage of both transforms rounds, too, and what goes through shared memory.
    return Case(
        "winograd_conv", function, shapes, lambda x, w: whole(x, w, lambda n: n), inputs + 16,
        magnitudes=lambda x, w: whole(x, w, abs),
        dtypes=("float16",) if packed else ("float32", "float16"),
        limits={"device": replace(INTEGRATED, packed_fp16=packed)},
    )  # fmt: skip


def _winograd(of_image: bool, m: int, on_processor: bool = False) -> Case:
    tiling = Tiling(m, 1, 7, 9, top=1, left=1)
    matrices, edge, channels = MATRICES[m], m + 2, B if on_processor else 3
    rows = matrices.image if of_image else matrices.output
    shape: tuple[int, ...]
    shape = (1, channels, 7, 9) if of_image else (edge * edge, channels, tiling.tiles)
    if on_processor:
        shape = (1, 1, 7, 9, B) if of_image else (1, edge * edge, 1, tiling.tiles, B)
        transform = transform_image_in_blocks if of_image else transform_output_in_blocks
    else:
        transform = transform_image if of_image else transform_output

    def function(dtype: str) -> tirx.PrimFunc:
        x = te.placeholder(shape, dtype, "x")
        return te.create_prim_func([x, transform(x, tiling)])

    def transformed(x: Array, sign: Sign) -> Array:
        return (_image_in_tiles if of_image else _tiles_in_image)(x, tiling, sign)

    def whole(x: Array, sign: Sign) -> Array:
        """The same of channels in one block."""
        if not on_processor:
            return transformed(x, sign)
        if of_image:
            found = transformed(np.moveaxis(x[:, 0], -1, 1), sign)
            return np.moveaxis(found, 1, -1)[None, :, None]
        return np.moveaxis(transformed(np.moveaxis(x[0, :, 0], -1, 1), sign), 1, -1)[:, None]

    # Each factor of a term may be rounded, too; on a processor what rows share is added up first.
    terms = max(sum(n != 0 for n in row) for row in rows) ** 2 + 2
    more: dict[str, Any] = {"dtypes": ("float32",)} if on_processor else {}
    return Case(
        "cpu_winograd" if on_processor else "winograd", function, (shape,),
        lambda x: whole(x, lambda n: n), terms, magnitudes=lambda x: whole(x, abs), **more,
    )  # fmt: skip


def _traced(function: tirx.PrimFunc) -> list[ScheduleConfig]:
    """A thread for each result, as the steps of a schedule."""
    schedule = Schedule(function)
    block = schedule.get_sblock("matmul")
    rows, columns, _ = schedule.get_loops(block)
    outer, inner = schedule.split(schedule.fuse(rows, columns), [None, 32])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    decision = ScheduleConfig.from_dict(trace_decision(schedule.trace))
    assert decision.template == TRACE
    return [decision]


def _attention(template: str, dtype: str) -> Case:
    """Queries of which a few are hard; keys and values are plain. On matrices shares are narrowed
    to fp16, elsewhere only results, where these are."""
    on_matrices = template == "attention"
    heads = 2 if on_matrices else 16  # which are enough workgroups
    batch, n, m, d = (heads,), 18, 21, 16
    q, k, v = (View(number, 0, (rows * d, d, 1)) for number, rows in enumerate((n, m, m)))
    form = AttentionForm(batch, n, m, d, d, d**-0.5, q, k, v)
    shapes = tuple((heads * rows * d,) for rows in (n, m, m))

    def function(dtype: str) -> tirx.PrimFunc:
        given = [te.placeholder(shape, "float32") for shape in shapes]
        made = te.create_prim_func([*given, attention(given, form)])
        made = made.with_attr(FORM, form.to_json())
        return narrowed(made, [0, 1, 2, 3]) if dtype == "float16" else made

    def parts(*given: Array) -> tuple[Array, ...]:
        q, k, v = (x.reshape(heads, -1, d) for x in given)
        scores = q @ k.transpose(0, 2, 1) * form.scale
        return scores, np.exp(scores - scores.max(-1, keepdims=True)), v

    def turned(x: Array) -> Array:
        return x.transpose(1, 0, 2).reshape(form.shape)

    def exact(*given: Array) -> Array:
        _, shares, v = parts(*given)
        return turned(shares @ v / shares.sum(-1, keepdims=True))

    def bound(*given: Array) -> Array:
        """Errors of scores grow by exp, whose own are 3 + 2·abs(x) of the last place (Vulkan's
        precision of float32); shares and results are narrowed."""
        scores, shares, v = parts(*given)
        u, narrow, least = ROUNDOFF["float32"], ROUNDOFF[dtype], SMALLEST_NORMAL[dtype]
        of_shares = 2 * narrow if on_matrices else 2 * u
        magnitudes = parts(*map(np.abs, given))[0]
        off = 2 * (d + 2) * u * magnitudes.max(-1, keepdims=True)
        off = off + 2 * (3 + 2 * (scores.max(-1, keepdims=True) - scores)) * u
        each = shares * (np.expm1(off) + of_shares + (m + 2) * u) + least
        total = shares.sum(-1, keepdims=True)
        size = shares @ np.abs(v) / total
        error = (each @ np.abs(v) + each.sum(-1, keepdims=True) * size) / total
        return turned(error + 2 * narrow * size) + least

    limits = {"matrices": (SHAPE,), "subgroup": 32} if on_matrices else {}
    return Case(
        template, function, shapes, exact, m, bound=bound, dtypes=(dtype,),
        on_matrices=on_matrices, limits={**limits, "device": DISCRETE},
    )  # fmt: skip


def _on_matrices(
    template: str, build: Callable[..., Any], shapes: Shapes, exact: Exact, terms: int, **more: Any
) -> Case:
    """Of fp16 with sums in float32."""
    return Case(
        template, lambda dtype: halves(fused(build, shapes)), shapes, exact, terms,
        dtypes=("float16",), on_matrices=True, limits={"matrices": (SHAPE,)}, **more,
    )  # fmt: skip


def _conv2d_channels_last(x: Any, w: Any) -> Any:
    return OP.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO")


CHANNELS_LAST = ((1, 7, 9, 16), (3, 3, 16, 24))
# Which is offered for larger convolutions alone.
_DIRECT = [
    ScheduleConfig(
        "direct_conv",
        DirectConvTile(rows=2, filters=16, k=16, subgroups_n=1, columns=columns, matrix=SHAPE),
    )
    for columns in (1, 3)
]
B = 8  # lanes of a block, on processors


def _blocked(make: Callable[..., Any], shapes: Shapes) -> Maker:
    def function(dtype: str) -> tirx.PrimFunc:
        given = [te.placeholder(shape, dtype, f"x{i}") for i, shape in enumerate(shapes)]
        return te.create_prim_func([*given, make(*given)])

    return function


_WINDOW = nchwc.SlidingWindow((3, 3), (1, 1), 1, 1, (1, 1))
_BLOCKS = (1, 2, 7, 9, B)


def _blocked_windows(x: Array, pad: float) -> Array:
    """[n, blocks, h, w, lanes, 3, 3]."""
    plain = x.transpose(0, 1, 4, 2, 3).reshape(1, -1, 7, 9)
    return _windows(plain, 3, pad).reshape(1, 2, B, 7, 9, 3, 3).transpose(0, 1, 3, 4, 2, 5, 6)


def _processor_case(
    make: Callable[..., Any], shapes: Shapes, exact: Exact, terms: int = 0, **more: Any
) -> Case:
    function = _blocked(make, shapes)
    return Case("cpu_window", function, shapes, exact, terms, dtypes=("float32",), **more)


def _gather() -> Case:
    channels: Sequence[int] = (3, 1, 0, 9, 12, 5, 6, 7, 2)
    table = np.array([*channels, *[channels[-1]] * (2 * B - len(channels))], "int32")

    def function(dtype: str) -> tirx.PrimFunc:
        x = te.placeholder(_BLOCKS, dtype, "x")
        places = te.placeholder((2 * B,), "int32", "table")
        return te.create_prim_func([x, places, nchwc.gather([x], places, channels)])

    def exact(x: Array) -> Array:
        plain = x.transpose(0, 1, 4, 2, 3).reshape(1, 2 * B, 7, 9)[:, table]
        return plain.reshape(1, 2, B, 7, 9).transpose(0, 1, 3, 4, 2)

    return Case(
        "cpu_gather", function, (_BLOCKS,), exact, bound=np.zeros_like, constants=(table,),
        dtypes=("float32",),
    )  # fmt: skip


def _mirrored() -> Case:
    shape = (3, 9, 37)

    def function(dtype: str) -> tirx.PrimFunc:
        x = te.placeholder([tirx.IntImm("int64", size) for size in shape], dtype, "x")
        y = topi.nn.mirror_pad(x, (0, 2, 3), (0, 1, 5), "REFLECT")
        return te.create_prim_func([x, y])

    def exact(x: Array) -> Array:
        return np.pad(x, ((0, 0), (2, 1), (3, 5)), "reflect")

    return Case(
        "cpu_pieces", function, (shape,), exact, bound=lambda x: np.zeros_like(exact(x)),
        dtypes=("float32",),
    )  # fmt: skip


def _transposed() -> Case:
    shape = (3, 21, 5, 13)

    def function(dtype: str) -> tirx.PrimFunc:
        x = te.placeholder([tirx.IntImm("int64", size) for size in shape], dtype, "x")
        return te.create_prim_func([x, topi.transpose(x, (0, 2, 3, 1))])

    def exact(x: Array) -> Array:
        return x.transpose(0, 2, 3, 1)

    return Case(
        "cpu_transpose", function, (shape,), exact, bound=lambda x: np.zeros_like(exact(x)),
        dtypes=("float32", "float16"),
    )  # fmt: skip


def _enlarged() -> Case:
    """Twice as large by linear interpolation: a thread's results are of several channels."""
    shape = (1, 12, 20, 24)

    def build(x: Any) -> Any:
        return OP.image.resize2d(
            x, relax.ShapeExpr([40, 48]), layout="NCHW", method="linear",
            coordinate_transformation_mode="half_pixel",
        )  # fmt: skip

    def exact(x: Array) -> Array:
        for axis in (2, 3):
            x = np.moveaxis(x, axis, -1)
            before, behind = (np.concatenate(p, -1) for p in (
                (x[..., :1], x[..., :-1]), (x[..., 1:], x[..., -1:]),
            ))  # fmt: skip
            between = np.stack((0.25 * before + 0.75 * x, 0.75 * x + 0.25 * behind), -1)
            x = np.moveaxis(between.reshape(*x.shape[:-1], -1), -1, axis)
        return x

    return _case(
        "elementwise", build, (shape,), exact, 4, magnitudes=exact,
        limits={"device": INTEGRATED}, only=lambda shape: shape.across > 1,
    )  # fmt: skip


CASES: dict[str, Case] = {
    **_general("elementwise", "contraction", "reduction"),
    "enlarged image": _enlarged(),
    "conv2d": _case(
        "contraction", lambda x, w: OP.nn.conv2d(x, w, padding=1), ((1, 4, 7, 9), (8, 4, 3, 3)),
        _conv, 36,
    ),
    "matmul by split_k": _case(
        "contraction", OP.matmul, DEEP, np.matmul, 640, limits={"split_k": True},
        only=lambda tile: tile.split_k > 1,
    ),
    "matmul by a trace": _case(TRACE, OP.matmul, PRODUCT, np.matmul, 33, offered=_traced),
    "max_pool2d": _case(
        "window", lambda x: OP.nn.max_pool2d(x, (3, 3), padding=(1, 1)), (IMAGE,), _largest,
        passing_nan=(_largest_number,),
    ),
    "depthwise": _case(
        "window", lambda x, w: OP.nn.conv2d(x, w, padding=1, groups=3), (IMAGE, (3, 1, 3, 3)),
        _depthwise, 9,
    ),
    "large depthwise": _case(
        "window_rows", lambda x, w: OP.nn.conv2d(x, w, padding=4, groups=3), (IMAGE, (3, 1, 9, 9)),
        _depthwise, 81, limits={"device": INTEGRATED},
    ),
    **{
        f"winograd's {'image' if of_image else 'output'}, m = {m}": _winograd(of_image, m)
        for of_image in (True, False)
        for m in MATRICES
    },
    "winograd's convolution as one": _winograd_as_one(packed=False),
    "winograd's convolution as one, packed": _winograd_as_one(packed=True),
    "products in a row": _chain(),
    "attention": _attention("attention", "float16"),
    "plain attention": _attention("plain_attention", "float32"),
    "plain attention of fp16": _attention("plain_attention", "float16"),
    "matmul on matrices": _on_matrices("coopmat_gemm", OP.matmul, PRODUCT, np.matmul, 33),
    "conv2d on matrices": _on_matrices(
        "coopmat_gemm", _conv2d_channels_last, CHANNELS_LAST, _conv_channels_last, 144
    ),
    "conv2d by windows on matrices": _on_matrices(
        "direct_conv", _conv2d_channels_last, CHANNELS_LAST, _conv_channels_last, 144,
        offered=lambda function: _DIRECT,
    ),
    **{
        f"{name}, on a processor": replace(case, dtypes=("float32",))
        for name, case in _general("cpu_nest", "cpu_product", "cpu_rows").items()
    },
    **{
        f"winograd's {'image' if of_image else 'output'}, m = {m}, on a processor": _winograd(
            of_image, m, on_processor=True
        )
        for of_image in (True, False)
        for m in MATRICES
    },
    "conv2d, on a processor": _processor_case(
        lambda x, w: nchwc.convolution(x, w, _WINDOW, (2 * B, 7, 9)),
        (_BLOCKS, (3, 2, 3, 3, B, B)),
        lambda x, w: np.einsum("nihwcyx,oiyxcb->nohwb", _blocked_windows(x, 0.0), w), 18 * B,
    ),
    "product that stores rows, on a processor": _processor_case(
        lambda x, w: nchwc.product(x, w, 2 * B, (3, 7)),
        ((1, 1, 1, 21, 2 * B), (3, 1, 1, 1, 2 * B, B)),
        lambda x, w: np.einsum("rk,okl->rol", x[0, 0, 0], w[:, 0, 0, 0]).reshape(3, 7, 3 * B),
        2 * B,
    ),
    "max_pool2d in the network's order, on a processor": _case(
        "cpu_pool", lambda x: OP.nn.max_pool2d(x, (3, 3), padding=(1, 1)), (IMAGE,), _largest,
        passing_nan=(_largest_number,), dtypes=("float32",),
    ),
    "mirrored edges, on a processor": _mirrored(),
    "axes in another order, on a processor": _transposed(),
    "depthwise, on a processor": _processor_case(
        lambda x, w: nchwc.depthwise(x, w, _WINDOW, (7, 9)), (_BLOCKS, (2, 3, 3, B)),
        lambda x, w: np.einsum("nihwcyx,iyxc->nihwc", _blocked_windows(x, 0.0), w), 9,
    ),
    "max_pool2d, on a processor": _processor_case(
        lambda x: nchwc.max_pool(x, _WINDOW, (7, 9)), (_BLOCKS,),
        lambda x: _blocked_windows(x, -np.inf).max((5, 6)),
        passing_nan=(
            lambda x: _blocked_windows(np.where(np.isnan(x), -np.inf, x), -np.inf).max((5, 6)),
        ),
    ),
    "gather, on a processor": _gather(),
}  # fmt: skip
