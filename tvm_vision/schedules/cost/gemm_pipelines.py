"""Estimated cycles of a matrix product by the pipelines that it fills (pipelines.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common import up
from .pipelines import WaveCycles, cycles_of_groups, resident_groups
from .tile_costs import PipelineCosts, Units

if TYPE_CHECKING:
    from .gemm_tile import GemmTile, Product

VECTOR = 4  # elements that a thread fetches at once


def tile_registers(tile: GemmTile, costs: PipelineCosts) -> float:
    """Registers of a thread, estimated."""
    fetched = (tile.m + tile.n) * tile.k / VECTOR / tile.threads
    of_sums = costs.sums * tile.outputs_of_thread
    return costs.registers + costs.edge * (tile.thread_m + tile.thread_n) + of_sums + fetched


def fits_registers(tile: GemmTile, costs: PipelineCosts) -> bool:
    """Whether a thread of a tile is estimated to spill none."""
    return not costs.most or tile_registers(tile, costs) <= costs.most


def held_bytes(tile: GemmTile, costs: PipelineCosts) -> int:
    """Shared memory of a workgroup, estimated."""
    return tile.merged_bytes(costs.element) if costs.element else tile.shared_bytes


def resident_tiles(tile: GemmTile, costs: PipelineCosts, units: Units) -> int:
    """Workgroups that a unit is estimated to hold at once."""
    registers = tile_registers(tile, costs)
    return resident_groups(tile.threads, held_bytes(tile, costs), registers, units)


def product_cycles(
    tile: GemmTile,
    shape: Product,
    costs: PipelineCosts,
    units: Units,
    packed: bool = False,
    faster: float = 1.0,
) -> float:
    """Cycles of all workgroups of a product, without what adds up the parts of a cut sum.

    Args:
        packed: of fp16, added up in fp16 within a tile (gpu/packed_fp16.py).
        faster: how many times a product of the tile's kind takes less than one of float32.
    """
    waves = up(tile.threads, units.lanes)
    steps = up(up(shape.k, tile.dot) // tile.split_k, tile.k)
    depth = tile.k // tile.slice_k
    edge = tile.thread_m + tile.thread_n
    fetches = {side: getattr(tile, side) * tile.k / 4 / tile.threads for side in "mn"}
    fetch = sum(fetches.values())
    each_step = (
        costs.multiply / faster * depth * tile.outputs_of_thread
        + (costs.convert if packed else 0.0) * tile.outputs_of_thread
        + costs.unpack * depth * edge
        + costs.load * fetch
        + costs.window * fetches.get(shape.windows, 0.0)
        + costs.step
    )
    work = steps * each_step + costs.output * tile.outputs_of_thread
    issued = work * units.lanes * units.schedulers / costs.width
    queued = costs.queue * fetch + costs.queue_window * fetches.get(shape.windows, 0.0)
    waited = steps * (costs.fetch + queued + costs.shared * depth / 4) + costs.start
    moved = units.lanes * VECTOR * (2 if packed else 4) * steps  # of a vector a thread and step
    shared = moved * (depth * edge / 4 + fetch) / costs.shared_rate
    fetched = moved * fetch / costs.memory_rate

    wave = WaveCycles(costs.chain * issued + waited, issued, shared, fetched)
    groups = shape.b * tile.split_k * up(shape.m, tile.m) * up(shape.n, tile.n)
    resident = resident_tiles(tile, costs, units)
    return cycles_of_groups(wave, groups, waves, resident, units)
