"""What both templates of products share: operands as matrices, loops over tiles, sums of groups.

The block of a product has the iteration variables b, m, n and k, one each, in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.s_tir import Schedule

from ..common import NotThisKind, index_map, inline_consumers, inline_producers, is_reduction
from ..iter_maps import transform_block_layout
from .vectors import last_written, simplify


def operands_of(
    schedule: Schedule, block: Any, sizes: tuple[int, int, int], b_axes: str = "bkn"
) -> tuple[list[Any], Any]:
    """The blocks that make A[b, m, k] and B[b, k, n], padded to tiles, and the one of C.

    Args:
        b_axes: the axes of B from the slowest on.
    """
    for number in (0, 1):
        schedule.reindex(block, ("read", number))
        _put_b_in_order(schedule, block, number, b_axes)
    output = schedule.reindex(block, ("write", 0))
    schedule.pad_einsum(block, [1, *sizes])
    return [_inlined_operand(schedule, block, number) for number in (0, 1)], output


def operand_axes(schedule: Schedule, block: Any, number: int) -> str:
    """Which of b, m, n, k index an operand, in the order of its dimensions."""
    body = schedule.get(block)
    names = {axis.var.name: letter for axis, letter in zip(body.iter_vars, "bmnk", strict=True)}
    region = body.reads[number].region
    return "".join(names.get(getattr(place.min, "name", ""), "?") for place in region)


def _put_b_in_order(schedule: Schedule, block: Any, number: int, b_axes: str) -> None:
    """A is kept as [b, m, k]; both come with k last."""
    axes = operand_axes(schedule, block, number)
    if "n" in axes:
        order = [axes.index(axis) for axis in b_axes if axis in axes]
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


def pack_dp4a(schedule: Schedule, block: Any, operand: Any, lanes: int) -> None:
    """Keeps B[b, k, n] as B[b, k // lanes, n * lanes + k % lanes]: neighbours along k together."""
    body = schedule.get(operand)
    row, column = last_written(body)

    def words(k: int, n: int) -> Callable[..., list[Any]]:
        def transposed(*axes: Any) -> list[Any]:
            found = list(axes)
            found[k], found[n] = axes[k] // lanes, axes[n] * lanes + axes[k] % lanes
            return found

        return transposed

    rank = len(body.writes[0].region)
    layout = index_map(schedule, block, words(rank - 2, rank - 1), rank)
    schedule.transform_layout(operand, ("write", 0), layout)
    order = index_map(schedule, operand, words(row, column), len(body.iter_vars))
    transform_block_layout(schedule, operand, order)
    simplify(schedule, operand)


def inline_around(schedule: Schedule, block: Any, output: Any) -> None:
    """Inlines what crops the padded C, and what follows it up to the next sum."""
    own = schedule.get(output).name_hint
    for consumer in schedule.get_consumers(block):
        if schedule.get(consumer).name_hint != own:
            schedule.compute_inline(consumer)
    if not any(is_reduction(schedule, consumer) for consumer in schedule.get_consumers(output)):
        inline_consumers(schedule, output)


def cut_loops(
    schedule: Schedule,
    block: Any,
    cuts: dict[str, int | None],
    workers: Sequence[str],
    steps: Sequence[str],
    axis: str,
) -> tuple[Any, dict[str, Any]]:
    """Cuts and binds the loops of a product; returns the block that sums up and its loops by name.

    Args:
        cuts: loops and their extents. Those of m, n and k (by their first letters) from the
            outermost on; of m and n the first goes over workgroups, with b.
        workers: those of m and n over threads or subgroups, as the groups that share k
            (``k_group``) are where there are any.
        steps: the other loops, from the outermost on.
        axis: of threads, for the loop called ``worker`` over all threads or subgroups.
    """
    slice_k = int(cuts["k_group"] or 1)
    parts = {}
    for letter, loop in zip("mnk", schedule.get_loops(block)[1:], strict=True):
        factors = [extent for name, extent in cuts.items() if name[0] == letter]
        parts[letter] = schedule.split(loop, factors)
    sums = schedule.rfactor(parts["k"][1], 0) if slice_k > 1 else block
    loops = dict(zip(["b", *cuts], schedule.get_loops(sums), strict=True))
    groups = ["b", *(next(name for name in cuts if name[0] == letter) for letter in "mn")]
    workers, steps = list(workers), list(steps)
    if slice_k > 1:
        workers.insert(0, "k_group")
    else:
        steps.insert(1, "k_group")
    schedule.reorder(*(loops[name] for name in groups + workers + steps))
    for name, grid in zip(groups, ("z", "y", "x"), strict=True):
        schedule.bind(loops[name], f"blockIdx.{grid}")
    loops["worker"] = schedule.fuse(*(loops[name] for name in workers))
    schedule.bind(loops["worker"], axis)
    return sums, loops


def add_up(
    schedule: Schedule,
    total: Any,
    output: Any,
    group: Any,
    spread: Callable[[Any, Any], list[Any]],
    finish: Callable[[list[Any]], None],
) -> None:
    """Adds the sums of the groups that share k, from shared memory, and writes C.

    Args:
        group: the loop over workgroups.
        spread: puts the two loops of the tile on threads; the loops over turns, over threads (one
            or more) and within a thread.
        finish: what becomes of the last two loops of the output.
    """
    schedule.reverse_compute_at(total, group, preserve_unit_loops=True)
    part, *unit, row, column = schedule.get_loops(total)[3:]
    schedule.reorder(*unit, row, column, part)
    turn, *threads, own = spread(row, column)
    schedule.reorder(turn, *threads, part, own)
    schedule.set_scope(total, 0, "local")
    schedule.reverse_compute_at(output, threads[-1], preserve_unit_loops=True)
    for loop in (turn, part):
        schedule.unroll(loop)
    finish(schedule.get_loops(output)[-2:])
    schedule.vectorize(own)
    schedule.decompose_reduction(total, part)
