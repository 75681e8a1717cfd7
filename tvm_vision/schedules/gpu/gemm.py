"""Matrix products C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n] by tiles in shared memory.

A workgroup computes a tile of C. Step by step along k its threads fetch a tile of A and one of B
together, then each adds up its own few rows and columns in registers. Where C has too few tiles to
occupy a GPU, ``slice_k`` groups of threads share the steps of one tile and their sums are added at
the end. Whatever precedes the product (padding, the indices of a convolution) is computed as a tile
is fetched, whatever follows it as C is written.

Of bytes, words of four neighbours along k take the place of the elements: a tile of B is kept as
[k / 4, n, 4], and four products are added up by one instruction.
"""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from ..common import extents_of
from ..cost.gemm_tile import VECTOR, GemmTile
from .kernel_marks import KEEP_LOOPS, SUBGROUP
from .packed_fp16 import adds_fp16, sum_in_fp16
from .tensor_intrinsics import dot_product
from .tiles import add_up, cut_loops, inline_around, operands_of, pack_dp4a
from .vectors import in_vectors

MOST_UNROLLED = 64  # steps of a thread's turns over a tile


def schedule_gemm(
    schedule: Schedule,
    block: Any,
    tile: GemmTile,
    *,
    simpler: bool = False,
    packed: bool = False,
    packed_lanes: int = 0,
    ahead: bool = False,
) -> None:
    """Schedules a block whose iteration variables are b, m, n and k (one each, in that order).

    Its reads must be A[b, m, k] and B[b, k, n] through any index expressions and producers. All
    other blocks become part of its kernel.

    Args:
        simpler: indices of values that do not lie together are simplified four by four, so that
            what four have in common is computed once.
        packed: products of fp16 are added up in fp16 within a tile (packed_fp16.py).
        packed_lanes: of subgroups that these ask for; 0 leaves it to the driver.
        ahead: tiles of float32 are fetched into registers while those before are multiplied.

    Raises:
        tvm.s_tir.ScheduleError, NotThisKind: the kernel does not fit; the schedule is then spoilt.
    """
    operands, output = operands_of(schedule, block, (tile.m, tile.n, tile.k * tile.dot))
    inline_around(schedule, block, output)
    if tile.dot > 1:
        pack_dp4a(schedule, block, operands[1], tile.dot)
    sums, loops = _tile(schedule, block, tile)
    products = sums
    if packed and adds_fp16(schedule.get(sums)):
        products, loops, (*rows, lanes) = sum_in_fp16(schedule, sums, loops)
        for loop in rows:
            schedule.unroll(loop)
        schedule.vectorize(lanes)
        if packed_lanes:
            schedule.annotate(loops["worker"], SUBGROUP, packed_lanes)
            schedule.annotate(loops["worker"], KEEP_LOOPS, 1)
    made = [schedule.get(operand).writes[0].source for operand in operands]
    ahead = ahead and int(schedule.get(loops["k_tile"]).extent) > 1
    ahead = ahead and all(str(each.ty.dtype.dtype) == "float32" for each in made)
    for operand in operands:
        if ahead:
            _fetch_ahead(schedule, products, operand, tile, loops)
        else:
            _fetch(schedule, products, operand, tile, loops, simpler)
    if ahead:
        # The statements of a step are: A to registers, to shared memory, B likewise, the products.
        schedule.annotate(loops["k_tile"], "software_pipeline_stage", [0, 1, 0, 1, 1])
        schedule.annotate(loops["k_tile"], "software_pipeline_order", [1, 0, 3, 2, 4])
    for name in ("k_own", "m_own", "n_quad"):
        schedule.unroll(loops[name])
    if tile.dot > 1:
        schedule.unroll(loops["n_own"])
    else:
        schedule.vectorize(loops["n_own"])
    if tile.slice_k > 1:
        _add_up(schedule, sums, block, tile, output, loops)
    else:
        _write(schedule, sums, output, loops)
    schedule.decompose_reduction(sums, loops["k_tile"])
    if products is not sums:
        schedule.decompose_reduction(products, loops["k_group"])
    if tile.dot > 1:
        schedule.tensorize(loops["k_byte"], dot_product(tile.dot))


def _tile(schedule: Schedule, block: Any, tile: GemmTile) -> tuple[Any, dict[str, Any]]:
    """Cuts and binds the loops; returns the block that sums up and its loops by name."""
    cuts = {
        "m_group": None,
        "m_thread": tile.m // tile.thread_m,
        "m_own": tile.thread_m,
        "n_group": None,
        "n_thread": tile.n // tile.thread_n,
        "n_quad": tile.thread_n // VECTOR,
        "n_own": VECTOR,
        "k_tile": None,
        "k_group": tile.slice_k,
        "k_quad": tile.k // tile.slice_k // VECTOR,
        "k_own": VECTOR,
        "k_byte": tile.dot,
    }
    steps = ["k_tile", "k_quad", "k_own", "m_own", "n_quad", "n_own", "k_byte"]
    return cut_loops(schedule, block, cuts, ["m_thread", "n_thread"], steps, "threadIdx.x")


def _over_threads(
    schedule: Schedule, row: Any, column: Any, threads: int, neighbours: int = VECTOR
) -> list[Any]:
    """Spreads two loops over threads, some neighbours each: loops of turns, threads, neighbours."""
    column, own = schedule.split(column, [None, neighbours])
    turn, thread = schedule.split(schedule.fuse(row, column), [None, threads])
    schedule.bind(thread, "threadIdx.x")
    return [turn, thread, own]


def _fetch(
    schedule: Schedule,
    sums: Any,
    operand: Any,
    tile: GemmTile,
    loops: dict[str, Any],
    simpler: bool,
) -> None:
    """Stages an operand: four values to registers, as one vector to shared memory, and back.

    Of bytes these are four words; where no sixteen bytes lie together they are fetched by the word.
    """
    neighbours = VECTOR * tile.dot
    made = schedule.get(operand).writes[0].source
    shared = schedule.cache_read(sums, _place_of(schedule, sums, made), "shared")
    schedule.compute_at(shared, loops["k_tile"], preserve_unit_loops=True)
    row, column = schedule.get_loops(shared)[-2:]
    turn, thread, own = _over_threads(schedule, row, column, tile.threads, neighbours)
    schedule.unroll(turn)
    schedule.vectorize(own)
    schedule.set_scope(operand, 0, "local")
    vectors = in_vectors(schedule, operand, [neighbours, VECTOR] if tile.dot > 1 else [VECTOR])
    if not vectors and simpler:
        in_vectors(schedule, operand, [], VECTOR)
    schedule.compute_at(operand, thread, preserve_unit_loops=True)
    last = schedule.get_loops(operand)[-1]
    if vectors:
        schedule.vectorize(last)
    else:
        schedule.unroll(last)
    _to_registers(schedule, sums, shared, loops, neighbours)


def _fetch_ahead(
    schedule: Schedule, sums: Any, operand: Any, tile: GemmTile, loops: dict[str, Any]
) -> None:
    """Stages an operand: all of a tile to registers before any of it goes to shared memory, and
    from there back, four values at a time.

    TVM's own pass makes the copy in registers, a statement for itself as the pipeline needs it.
    ``_fetch`` cannot do with that: four values that do not lie together would be stored one by one.
    """
    schedule.set_scope(operand, 0, "shared")
    vectors = in_vectors(schedule, operand, [VECTOR])
    schedule.compute_at(operand, loops["k_tile"], preserve_unit_loops=True)
    if vectors:
        row, column, own = schedule.get_loops(operand)[-3:]
        turn, thread = schedule.split(schedule.fuse(row, column), [None, tile.threads])
        schedule.bind(thread, "threadIdx.x")
    else:
        row, column = schedule.get_loops(operand)[-2:]
        turn, thread, own = _over_threads(schedule, row, column, tile.threads)
    # TVM takes the loop apart before it unrolls the parts.
    schedule.annotate(turn, "pragma_auto_unroll_max_step", MOST_UNROLLED)
    schedule.annotate(turn, "pragma_unroll_explicit", 1)
    schedule.vectorize(own)
    schedule.annotate(operand, "tirx.manifest_shared_memory_local_stage", 1)
    _to_registers(schedule, sums, operand, loops, VECTOR)


def _to_registers(
    schedule: Schedule, sums: Any, shared: Any, loops: dict[str, Any], neighbours: int
) -> None:
    """Copies what a step of the products needs of a tile from shared memory."""
    made = schedule.get(shared).writes[0].source
    local = schedule.cache_read(sums, _place_of(schedule, sums, made), "local")
    schedule.compute_at(local, loops["k_quad"], preserve_unit_loops=True)
    _copy_vectors(schedule, local, neighbours)


def _place_of(schedule: Schedule, block: Any, buffer: Any) -> int:
    """Which of the reads of a block is of a buffer."""
    return [read.source.same_as(buffer) for read in schedule.get(block).reads].index(True)


def _copy_vectors(schedule: Schedule, block: Any, lanes: int) -> None:
    """Unrolls the last two loops of a copy in registers, by vectors."""
    row, column = schedule.get_loops(block)[-2:]
    vector, own = schedule.split(column, [None, lanes])
    schedule.unroll(row)
    schedule.unroll(vector)
    schedule.vectorize(own)


def _write(schedule: Schedule, sums: Any, output: Any, loops: dict[str, Any]) -> None:
    """Writes C from the registers of each thread."""
    schedule.set_scope(sums, 0, "local")
    schedule.reverse_compute_at(output, loops["worker"], preserve_unit_loops=True)
    row, column = schedule.get_loops(output)[-2:]
    schedule.unroll(row)
    _write_vectors(schedule, output, column)


def _write_vectors(schedule: Schedule, output: Any, column: Any) -> None:
    """Writes neighbours of C as vectors where none of them lies beyond its edge."""
    extent = int(schedule.get(column).extent)
    if extent % VECTOR == 0 and extents_of(schedule, output)[-1] % VECTOR == 0:
        column, own = schedule.split(column, [None, VECTOR])
        schedule.vectorize(own)
    schedule.unroll(column)


def _add_up(
    schedule: Schedule, sums: Any, total: Any, tile: GemmTile, output: Any, loops: dict[str, Any]
) -> None:
    """Adds the sums of the groups of threads through shared memory and writes C."""
    written = schedule.cache_write(sums, 0, "local")
    schedule.set_scope(written, 0, "shared")
    schedule.reverse_compute_at(written, loops["worker"], preserve_unit_loops=True)
    _copy_vectors(schedule, written, VECTOR)
    neighbours = min(VECTOR, tile.m * tile.n // tile.threads)

    def spread(row: Any, column: Any) -> list[Any]:
        return _over_threads(schedule, row, column, tile.threads, neighbours)

    def finish(last: list[Any]) -> None:
        schedule.unroll(last[0])
        _write_vectors(schedule, output, last[1])

    add_up(schedule, total, output, loops["n_group"], spread, finish)
