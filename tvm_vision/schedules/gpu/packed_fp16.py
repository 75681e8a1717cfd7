"""Products of fp16 that are added up in fp16 within a tile along k, and in float32 over the tiles.

GPUs with packed arithmetic multiply and add two values of fp16 where they do one of float32, to
which values of fp16 have to be converted first. The sum of a tile has at most ``MOST_TERMS`` terms
of a thread: in the worst case it is off by MOST_TERMS / 2048 of the sum of the terms' absolute
values, where rounding the operands alone makes it 1 / 1024.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir import Schedule

from ..common import kinds_of

FP16, FP32 = "float16", "float32"
MOST_TERMS = 32
VECTOR = 4


def sum_in_fp16(
    schedule: Schedule, sums: Any, loops: dict[str, Any]
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Cuts the sums of tiles out of the block of a product.

    Args:
        sums: adds up products of float16 in float32.
        loops: of it, by name, as cut_loops has them.

    Returns:
        The block of the sums of a tile, the loops by name, those over a thread's outputs its own,
        and the loops over these in the block that adds up the tiles.

    Raises:
        tvm.s_tir.ScheduleError: the product has another form.
    """
    tile = schedule.rfactor(loops["k_tile"], 0)
    *outer, k_tile, m_own, n_quad, n_own = schedule.get_loops(sums)
    schedule.set_scope(tile, 0, "local")
    schedule.compute_at(tile, k_tile, preserve_unit_loops=True)
    summed = kinds_of(schedule, tile).count("R")  # with k cut over threads, one less
    inner = schedule.get_loops(tile)
    (row, column), along = inner[:-summed][-2:], inner[-summed:]
    vector, lane = schedule.split(column, [None, VECTOR])
    schedule.reorder(*along[:-1], row, vector, lane, along[-1])
    schedule.unsafe_set_dtype(tile, 0, FP16)
    _without_casts(schedule, tile)
    found = {
        **loops, "worker": outer[-1], "n_group": outer[2], "k_tile": k_tile, "k_group": along[0],
        "k_quad": along[-3], "k_own": along[-2], "m_own": row, "n_quad": vector, "n_own": lane,
    }  # fmt: skip
    return tile, found, [m_own, n_quad, n_own]


def adds_fp16(body: Any) -> bool:
    """Whether a block adds up products of two float16 in float32."""
    total = body.body.value
    products = [t for t in (total.a, total.b) if type(t) is prim.Mul] if _is_sum(total) else []
    return len(products) == 1 and all(
        _is_cast(factor, FP16, FP32) for factor in (products[0].a, products[0].b)
    )


def _is_sum(value: Any) -> bool:
    return type(value) is prim.Add and str(value.ty.dtype) == FP32


def _is_cast(value: Any, source: str, to: str) -> bool:
    kinds = (str(value.ty.dtype), str(getattr(value, "value", value).ty.dtype))
    return type(value) is prim.Cast and kinds == (to, source)


def _without_casts(schedule: Schedule, block: Any) -> None:
    """Computes in float16 what a block computes in float32 of float16 alone."""
    body = schedule.get(block)
    stored = body.body
    total = stored.value.value  # of the cast to float16
    own, factors = (total.a, total.b) if type(total.b) is prim.Mul else (total.b, total.a)
    value = own.value + factors.a.value * factors.b.value
    start = tirx.BufferStore(body.init.buffer, tirx.const(0.0, FP16), body.init.indices)
    lean = s_tir.SBlock(
        body.iter_vars, body.reads, body.writes, body.name_hint,
        tirx.BufferStore(stored.buffer, value, stored.indices), start,
        body.alloc_buffers, body.match_buffers, body.annotations, body.span,
    )  # fmt: skip
    schedule.state.replace(schedule.get_sref(block), lean, {body: lean})
