"""Matrix products C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n] by tiles in shared memory.

A workgroup computes a tile of C. Step by step along k its threads fetch a tile of A and one of B
together, then each adds up its own few rows and columns in registers. Where C has too few tiles to
occupy a GPU, ``split_k`` groups of threads share the steps of one tile and their sums are added at
the end. Whatever precedes the product (padding, the indices of a convolution) is computed as a tile
is fetched, whatever follows it as C is written.
"""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from .common import NotThisKind, index_map, inline_consumers, inline_producers, is_reduction
from .gemm_tile import VECTOR, GemmTile


def schedule_gemm(schedule: Schedule, block: Any, tile: GemmTile) -> None:
    """Schedules a block whose iteration variables are b, m, n and k (one each, in that order).

    Its reads must be A[b, m, k] and B[b, k, n] through any index expressions and producers. All
    other blocks become part of its kernel.

    Raises:
        tvm.s_tir.ScheduleError, NotThisKind: the kernel does not fit; the schedule is then spoilt.
    """
    operands, output = operands_of(schedule, block, (tile.m, tile.n, tile.k))
    inline_around(schedule, block, output)
    sums, loops = _tile(schedule, block, tile)
    for operand in operands:
        _fetch(schedule, sums, operand, tile, loops)
    for name in ("k_own", "m_own", "n_quad"):
        schedule.unroll(loops[name])
    schedule.vectorize(loops["n_own"])
    if tile.split_k > 1:
        _add_up(schedule, sums, block, tile, output, loops)
    else:
        _write(schedule, sums, output, loops)
    schedule.decompose_reduction(sums, loops["k_tile"])


def operands_of(
    schedule: Schedule, block: Any, sizes: tuple[int, int, int]
) -> tuple[list[Any], Any]:
    """The blocks that make A[b, m, k] and B[b, k, n], padded to tiles, and the one of C."""
    for number in (0, 1):
        schedule.reindex(block, ("read", number))
        _put_b_in_order(schedule, block, number)
    output = schedule.reindex(block, ("write", 0))
    schedule.pad_einsum(block, [1, *sizes])
    return [_inlined_operand(schedule, block, number) for number in (0, 1)], output


def operand_axes(schedule: Schedule, block: Any, number: int) -> str:
    """Which of b, m, n, k index an operand, in the order of its dimensions."""
    body = schedule.get(block)
    names = {axis.var.name: letter for axis, letter in zip(body.iter_vars, "bmnk", strict=True)}
    region = body.reads[number].region
    return "".join(names.get(getattr(place.min, "name", ""), "?") for place in region)


def _put_b_in_order(schedule: Schedule, block: Any, number: int) -> None:
    """A is kept as [b, m, k] and B as [b, k, n]; both come with k last."""
    axes = operand_axes(schedule, block, number)
    if "n" in axes:
        order = [axes.index(axis) for axis in "bkn" if axis in axes]
        swap = index_map(schedule, block, lambda *at: [at[i] for i in order], len(order))
        schedule.transform_layout(block, ("read", number), swap)


def _inlined_operand(schedule: Schedule, block: Any, number: int) -> Any:
    """The block that makes an operand, with all that precedes it inlined."""
    buffer = schedule.get(block).reads[number].source
    for producer in schedule.get_producers(block):
        if schedule.get(producer).writes[0].source.same_as(buffer):
            inline_producers(schedule, producer)
            return producer
    raise NotThisKind("an operand has no block that makes it")


def inline_around(schedule: Schedule, block: Any, output: Any) -> None:
    """Inlines what crops the padded C, and what follows it up to the next sum."""
    own = schedule.get(output).name_hint
    for consumer in schedule.get_consumers(block):
        if schedule.get(consumer).name_hint != own:
            schedule.compute_inline(consumer)
    if not any(is_reduction(schedule, consumer) for consumer in schedule.get_consumers(output)):
        inline_consumers(schedule, output)


def _tile(schedule: Schedule, block: Any, tile: GemmTile) -> tuple[Any, dict[str, Any]]:
    """Cuts and binds the loops; returns the block that sums up and its loops by name."""
    m_loop, n_loop, k_loop = schedule.get_loops(block)[1:]
    schedule.split(m_loop, [None, tile.m // tile.thread_m, tile.thread_m])
    schedule.split(n_loop, [None, tile.n // tile.thread_n, tile.thread_n // VECTOR, VECTOR])
    quads = tile.k // tile.split_k // VECTOR
    k_split = schedule.split(k_loop, [None, tile.split_k, quads, VECTOR])
    sums = schedule.rfactor(k_split[1], 0) if tile.split_k > 1 else block
    names = (
        "b", "m_group", "m_thread", "m_own", "n_group", "n_thread", "n_quad", "n_own",
        "k_tile", "k_group", "k_quad", "k_own",
    )  # fmt: skip
    loops = dict(zip(names, schedule.get_loops(sums), strict=True))
    groups, threads = ["b", "m_group", "n_group"], ["m_thread", "n_thread"]
    steps = ["k_tile", "k_group", "k_quad", "k_own", "m_own", "n_quad", "n_own"]
    if tile.split_k > 1:
        threads.insert(0, steps.pop(1))
    schedule.reorder(*(loops[name] for name in groups + threads + steps))
    for name, axis in zip(groups, ("z", "y", "x"), strict=True):
        schedule.bind(loops[name], f"blockIdx.{axis}")
    loops["thread"] = schedule.fuse(*(loops[name] for name in threads))
    schedule.bind(loops["thread"], "threadIdx.x")
    return sums, loops


def _over_threads(
    schedule: Schedule, row: Any, column: Any, threads: int, neighbours: int = VECTOR
) -> list[Any]:
    """Spreads two loops over threads, some neighbours each: loops of turns, threads, neighbours."""
    column, own = schedule.split(column, [None, neighbours])
    turn, thread = schedule.split(schedule.fuse(row, column), [None, threads])
    schedule.bind(thread, "threadIdx.x")
    return [turn, thread, own]


def _fetch(
    schedule: Schedule, sums: Any, operand: Any, tile: GemmTile, loops: dict[str, Any]
) -> None:
    """Stages an operand: four values to registers, as one vector to shared memory, and back."""
    made = schedule.get(operand).writes[0].source
    shared = schedule.cache_read(sums, _place_of(schedule, sums, made), "shared")
    schedule.compute_at(shared, loops["k_tile"], preserve_unit_loops=True)
    row, column = schedule.get_loops(shared)[-2:]
    turn, thread, own = _over_threads(schedule, row, column, tile.threads)
    schedule.unroll(turn)
    schedule.vectorize(own)
    schedule.set_scope(operand, 0, "local")
    schedule.compute_at(operand, thread, preserve_unit_loops=True)
    schedule.unroll(schedule.get_loops(operand)[-1])
    made = schedule.get(shared).writes[0].source
    local = schedule.cache_read(sums, _place_of(schedule, sums, made), "local")
    schedule.compute_at(local, loops["k_quad"], preserve_unit_loops=True)
    _copy_quads(schedule, local)


def _place_of(schedule: Schedule, block: Any, buffer: Any) -> int:
    """Which of the reads of a block is of a buffer."""
    return [read.source.same_as(buffer) for read in schedule.get(block).reads].index(True)


def _copy_quads(schedule: Schedule, block: Any) -> None:
    """Unrolls the last two loops of a copy in registers, by vectors of four."""
    row, column = schedule.get_loops(block)[-2:]
    quad, own = schedule.split(column, [None, VECTOR])
    schedule.unroll(row)
    schedule.unroll(quad)
    schedule.vectorize(own)


def _write(schedule: Schedule, sums: Any, output: Any, loops: dict[str, Any]) -> None:
    """Writes C from the registers of each thread."""
    schedule.set_scope(sums, 0, "local")
    schedule.reverse_compute_at(output, loops["thread"], preserve_unit_loops=True)
    for loop in schedule.get_loops(output)[-2:]:
        schedule.unroll(loop)


def _add_up(
    schedule: Schedule, sums: Any, total: Any, tile: GemmTile, output: Any, loops: dict[str, Any]
) -> None:
    """Adds the sums of the groups of threads through shared memory and writes C."""
    written = schedule.cache_write(sums, 0, "local")
    schedule.set_scope(written, 0, "shared")
    schedule.reverse_compute_at(written, loops["thread"], preserve_unit_loops=True)
    _copy_quads(schedule, written)
    schedule.reverse_compute_at(total, loops["n_group"], preserve_unit_loops=True)
    part, *unit, row, column = schedule.get_loops(total)[3:]
    schedule.reorder(*unit, row, column, part)
    neighbours = min(VECTOR, tile.m * tile.n // tile.threads)
    turn, thread, own = _over_threads(schedule, row, column, tile.threads, neighbours)
    schedule.reorder(turn, thread, part, own)
    schedule.set_scope(total, 0, "local")
    schedule.reverse_compute_at(output, thread, preserve_unit_loops=True)
    for loop in (turn, part, *schedule.get_loops(output)[-2:]):
        schedule.unroll(loop)
    schedule.vectorize(own)
    schedule.decompose_reduction(total, part)
