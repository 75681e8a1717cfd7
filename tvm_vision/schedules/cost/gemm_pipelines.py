"""Estimated cycles of a matrix product where each pipeline of a unit is either full or waited for.

A unit holds some workgroups at once. They take as long as the slowest of: one wave by itself, with
all that it waits for; the arithmetic of all waves of a scheduler; what all waves move to and from
shared memory; and to and from the nearest cache. That is how GPUs work that issue a wave's
instructions in order and hide its latency by other waves alone, as AMD's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common import up
from .device_model import PipelineCosts, Units

if TYPE_CHECKING:
    from .gemm_tile import GemmTile, Product

VECTOR = 4  # elements that a thread fetches at once


def product_cycles(
    tile: GemmTile, shape: Product, costs: PipelineCosts, units: Units, packed: bool = False
) -> float:
    """Cycles of all workgroups of a product, without what adds up the parts of a cut sum.

    Args:
        packed: of fp16, added up in fp16 within a tile (gpu/packed_fp16.py).
    """
    waves = up(tile.threads, units.lanes)
    steps = up(up(shape.k, tile.dot) // tile.split_k, tile.k)
    depth = tile.k // tile.slice_k
    edge = tile.thread_m + tile.thread_n
    fetches = {side: getattr(tile, side) * tile.k / 4 / tile.threads for side in "mn"}
    fetch = sum(fetches.values())
    each_step = (
        (0.5 if packed else 1.0) * costs.multiply * depth * tile.outputs_of_thread
        + (costs.convert if packed else 0.0) * tile.outputs_of_thread
        + costs.load * fetch
        + costs.window * fetches.get(shape.windows, 0.0)
        + costs.step
    )
    work = steps * each_step + costs.output * tile.outputs_of_thread
    issued = work * units.lanes / costs.width
    waited = steps * (costs.fetch + costs.shared * depth / 4) + costs.start
    moved = units.lanes * VECTOR * (2 if packed else 4) * steps  # of a vector a thread and step
    shared = moved * (depth * edge / 4 + fetch) / costs.shared_rate
    fetched = moved * fetch / costs.memory_rate

    def together(groups: int) -> float:
        all_waves = groups * waves
        return max(
            costs.chain * issued + waited,
            up(all_waves, units.schedulers) * issued,
            all_waves * shared,
            all_waves * fetched,
        )

    groups = shape.b * tile.split_k * up(shape.m, tile.m) * up(shape.n, tile.n)
    resident = _resident(tile, costs, units)
    rounds, rest = divmod(up(groups, units.count), resident)
    return rounds * together(resident) + (together(rest) if rest else 0.0)


def _resident(tile: GemmTile, costs: PipelineCosts, units: Units) -> int:
    """Workgroups that a unit holds at once, 1 at least."""
    registers = costs.registers + costs.edge * (tile.thread_m + tile.thread_n)
    registers += (tile.m + tile.n) * tile.k / 4 / tile.threads
    of_scheduler = units.lanes * units.schedulers
    waves = min(units.threads // of_scheduler, int(units.registers / (of_scheduler * registers)))
    room = min(
        units.schedulers * waves // up(tile.threads, units.lanes),
        units.shared_bytes // tile.shared_bytes,
    )
    return max(1, room)
