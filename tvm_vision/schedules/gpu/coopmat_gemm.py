"""Matrix products by the cooperative matrices of subgroups: of fp16, added up in float32, and of
bytes, in int32.

A workgroup computes a tile of C. Step by step along k its threads fetch the next tile of A and of B
into registers while the subgroups multiply the present ones from shared memory. Where C has too few
tiles to occupy a GPU, ``slice_k`` groups of subgroups share the steps of one tile. The sums go
through shared memory to the threads, which write C and what follows it: all of a tile at once, or
as subtiles, each a row of matrices of every subgroup. Subgroups have neighbouring rows of matrices
then, so that a subtile's rows follow each other in C.

The loops over one matrix become tensor intrinsics (tensor_intrinsics.py), which the Vulkan backend
writes in GLSL (codegen/glsl/cooperative_matrix.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from ..cost.coopmat_gemm import VECTOR, CoopmatTile
from ..factors import TYPES
from .tensor_intrinsics import intrinsic
from .tiles import add_up, cut_loops, inline_around, operand_axes, operands_of
from .vectors import in_vectors, widths


def schedule_matrix(schedule: Schedule, block: Any, tile: CoopmatTile, lanes: int) -> None:
    """Schedules a block whose iteration variables are b, m, n and k (one each, in that order).

    Its reads must be factors A[b, m, k] and B[b, k, n] of the tile's type, in either order, through
    any index expressions and producers. All other blocks become part of its kernel.

    Args:
        lanes: threads of a subgroup.

    Raises:
        tvm.s_tir.ScheduleError, NotThisKind: the kernel does not fit; the schedule is then spoilt.
    """
    b_axes = "bnk" if TYPES[tile.factors].transposed else "bkn"
    operands, output = operands_of(schedule, block, (tile.m, tile.n, tile.k), b_axes)
    sides = "ba" if "n" in operand_axes(schedule, block, 0) else "ab"
    inline_around(schedule, block, output)
    sums, loops = _tile(schedule, block, tile)
    tensorized = []
    for side, operand in zip(sides, operands, strict=True):
        tensorized.append(_fetch(schedule, sums, operand, side, tile, loops, lanes))
    matrices = _share_sums(schedule, sums, loops["n_group" if tile.subtiles else "worker"])
    spread = partial(_over_subgroups, schedule, tile, lanes)
    if tile.slice_k > 1:
        add_up(
            schedule,
            block,
            output,
            loops["n_group"],
            spread,
            lambda last: schedule.vectorize(last[-1]),
        )
    else:
        schedule.reverse_compute_at(output, loops["n_group"], preserve_unit_loops=True)
        row, column = schedule.get_loops(output)[-2:]
        # Without a tile's padding rows may end within a vector: neighbouring threads write then.
        even = int(schedule.get(column).extent) % VECTOR == 0
        if tile.subtiles:
            subtile, row = schedule.split(row, [None, tile.subtile_m])
            whole, column = schedule.split(column, [None, tile.n])  # whole matrices are stored
            schedule.reorder(whole, subtile, row, column)
            schedule.unroll(subtile)
            schedule.compute_at(matrices, subtile, preserve_unit_loops=True)
        # What follows a product may be long, a GELU, and code that runs once a frame is fetched
        # for it: turns of a loop share theirs.
        *_, own = spread(row, column, neighbours=VECTOR if even else 1)
        schedule.vectorize(own)
    tensorized.append(_from_matrices(schedule, matrices, tile))
    for name in ("k_matrix", "m_matrix", "n_matrix"):
        schedule.unroll(loops[name])
    # By way of registers also what is found number by number gets to shared memory in vectors.
    for operand in operands:
        schedule.annotate(operand, "tirx.manifest_shared_memory_local_stage", 1)
    if int(schedule.get(loops["k_tile"]).extent) > 1:
        _overlap(schedule, loops["k_tile"])
    start = schedule.decompose_reduction(sums, loops["k_tile"])
    tensorized += [
        (schedule.get_loops(start)[-2], intrinsic("fill", tile.matrix, factors=tile.factors)),
        (loops["m_own"], intrinsic(f"multiply_{sides}", tile.matrix, factors=tile.factors)),
    ]
    # At the end, as blocks that were tensorized cannot be moved any more.
    for loop, name in tensorized:
        schedule.tensorize(loop, name)


def _tile(schedule: Schedule, block: Any, tile: CoopmatTile) -> tuple[Any, dict[str, Any]]:
    """Cuts and binds the loops; returns the block that sums up and its loops by name."""
    m, n, k = tile.matrix
    own_m: list[tuple[str, int | None]] = [
        ("m_subgroup", tile.subgroups_m),
        ("m_matrix", tile.m // tile.subgroups_m // m),
    ]
    cuts = {
        "m_group": None,
        **dict(reversed(own_m) if tile.subtiles else own_m),
        "m_own": m,
        "n_group": None,
        "n_subgroup": tile.subgroups_n,
        "n_matrix": tile.n // tile.subgroups_n // n,
        "n_own": n,
        "k_tile": None,
        "k_group": tile.slice_k,
        "k_matrix": tile.k // tile.slice_k // k,
        "k_own": k,
    }
    steps = ["k_tile", "k_matrix", "m_matrix", "n_matrix", "m_own", "n_own", "k_own"]
    return cut_loops(schedule, block, cuts, ["m_subgroup", "n_subgroup"], steps, "threadIdx.y")


def _fetch(
    schedule: Schedule,
    sums: Any,
    operand: Any,
    side: str,
    tile: CoopmatTile,
    loops: dict[str, Any],
    lanes: int,
) -> tuple[Any, str]:
    """Stages an operand in registers and shared memory, then in matrices.

    Args:
        side: which of the factors it is, "a" or "b".
    """
    made = schedule.get(operand).writes[0].source
    schedule.set_scope(operand, 0, "shared")
    reads = schedule.get(sums).reads
    shared = schedule.get(operand).writes[0].source
    place = [read.source.same_as(shared) or read.source.same_as(made) for read in reads].index(True)
    matrices = schedule.cache_read(sums, place, f"wmma.matrix_{side}")
    is_b = side == "b"
    # With subtiles a subgroup's rows of A do not follow each other: one matrix after another.
    place_of = loops["m_matrix" if tile.subtiles and not is_b else "k_matrix"]
    schedule.compute_at(matrices, place_of, preserve_unit_loops=True)
    m, n, k = tile.matrix
    first = blocked(schedule, matrices, TYPES[tile.factors].b(n, k) if is_b else (m, k))
    count = tile.k * (tile.n if is_b else tile.m)
    threads = lanes * tile.subgroups
    even = [wide for wide in widths(tile.wide) if count % (wide * threads) == 0]
    in_vectors(schedule, operand, even, fallback=VECTOR)
    schedule.compute_at(operand, loops["k_tile"], preserve_unit_loops=True)
    row, vector, own = schedule.get_loops(operand)[-3:]
    cut = [None, tile.subgroups, lanes]
    _, subgroup, lane = schedule.split(schedule.fuse(row, vector), cut)
    schedule.bind(subgroup, "threadIdx.y")
    schedule.bind(lane, "threadIdx.x")
    schedule.vectorize(own)
    schedule.storage_align(operand, 0, -2, 2 * tile.skew, tile.skew)
    return first, intrinsic(f"load_{side}", tile.matrix, factors=tile.factors)


def blocked(schedule: Schedule, block: Any, size: tuple[int, int]) -> Any:
    """Cuts the last two loops of a block into matrices; returns the first loop within one."""
    row, column = schedule.get_loops(block)[-2:]
    row, row_own = schedule.split(row, [None, size[0]])
    column, column_own = schedule.split(column, [None, size[1]])
    schedule.reorder(row, column, row_own, column_own)
    schedule.unroll(row)
    schedule.unroll(column)
    return row_own


def _over_subgroups(
    schedule: Schedule,
    tile: CoopmatTile,
    lanes: int,
    row: Any,
    column: Any,
    neighbours: int = VECTOR,
) -> list[Any]:
    """Spreads two loops over all threads: loops of turns, subgroups, threads, neighbours."""
    cut = [None, tile.subgroups, lanes, neighbours]
    turn, subgroup, lane, own = schedule.split(schedule.fuse(row, column), cut)
    schedule.bind(subgroup, "threadIdx.y")
    schedule.bind(lane, "threadIdx.x")
    return [turn, subgroup, lane, own]


def _share_sums(schedule: Schedule, sums: Any, loop: Any) -> Any:
    """Keeps the sums in matrices; returns the block that puts them into shared memory at the end of
    a loop."""
    schedule.set_scope(sums, 0, "shared")
    matrices = schedule.cache_write(sums, 0, "wmma.accumulator")
    schedule.reverse_compute_at(matrices, loop, preserve_unit_loops=True)
    return matrices


def _from_matrices(schedule: Schedule, matrices: Any, tile: CoopmatTile) -> tuple[Any, str]:
    """Stores matrices in shared memory, all of a subgroup or those of a subtile."""
    if tile.subtiles:
        row, column = schedule.get_loops(matrices)[-2:]
        subgroup_m, row = schedule.split(row, [tile.subgroups_m, None])
        subgroup_n, column = schedule.split(column, [tile.subgroups_n, None])
        schedule.reorder(subgroup_m, subgroup_n, row, column)
        schedule.bind(schedule.fuse(subgroup_m, subgroup_n), "threadIdx.y")
    first = blocked(schedule, matrices, tile.matrix[:2])
    return first, intrinsic("store", tile.matrix, factors=tile.factors)


def _overlap(schedule: Schedule, loop: Any) -> None:
    """Fetches the next tiles into registers while the present ones are multiplied.

    The statements of a step are: A to registers, to shared memory, B likewise, the products.
    """
    schedule.annotate(loop, "software_pipeline_stage", [0, 1, 0, 1, 1])
    schedule.annotate(loop, "software_pipeline_order", [1, 0, 3, 2, 4])
