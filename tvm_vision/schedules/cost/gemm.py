"""How a matrix product is cut into tiles, and which cut a model of a GPU holds for the fastest."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache

from ..common import TargetLimits, up
from ..factors import INT8
from .device_model import DeviceModel
from .gemm_pipelines import fits_registers, held_bytes, product_cycles
from .gemm_tile import DOT, VECTOR, GemmTile, Product
from .split_k import parts_of, split_k_cycles
from .tile_costs import GemmCosts, PipelineCosts, Units

MOST_THREADS = 256
TILES_M = (4, 8, 16, 32, 64)
TILES_N = (16, 32, 64, 128)
THREAD_SHAPES = ((2, 4), (4, 4), (8, 4))  # m and n of a thread
SPLITS = (1, 2, 4, 8, 16)
LINE = 32  # elements of a line of memory
STEPS = (8, 16, 32)  # length along k of a group of threads in one tile; see gpu/packed_fp16.py


@lru_cache(maxsize=1024)
def default(shape: Product, limits: TargetLimits) -> GemmTile:
    """The tile that the model holds for the fastest."""
    return candidates(shape, limits)[0]


def candidates(shape: Product, limits: TargetLimits) -> list[GemmTile]:
    """All tiles that the limits allow, the likeliest first; never empty."""
    dot = DOT if shape.factors == INT8 and limits.dp4a else 1
    costs = limits.device.gemm_costs(shape.fp16)
    found = [
        tile
        for tile in _tiles(shape, dot, limits.device)
        if fits(tile, limits)
        and (not isinstance(costs, PipelineCosts) or fits_registers(tile, costs))
    ]
    return sorted(found, key=lambda tile: likeliness(tile, shape, limits)) or [
        replace(SMALLEST, dot=dot, m=SMALLEST.m * max(1, limits.wave // SMALLEST.threads))
    ]


def likeliness(
    tile: GemmTile, shape: Product, limits: TargetLimits
) -> tuple[bool, bool, float, int]:
    """The order of tiles: what only a tuner may choose last, and where other waves alone hide
    latency tiles of which a unit holds one; then by estimated cycles."""
    return (
        tile.split_k > 1 and not limits.split_k,
        _is_alone(tile, shape, limits.device),
        cycles(tile, shape, limits.device),
        tile.threads,
    )


def _is_alone(tile: GemmTile, shape: Product, device: DeviceModel) -> bool:
    costs = device.gemm_costs(shape.fp16)
    if not isinstance(costs, PipelineCosts):
        return False
    return 2 * held_bytes(tile, costs) > device.units_of(costs).shared_bytes


SMALLEST = GemmTile(8, 16, 16, 1, 4)  # 32 threads and 1536 bytes: fits every device of Vulkan


def fits(tile: GemmTile, limits: TargetLimits) -> bool:
    """Whether a workgroup of the target can hold a tile, with the same work for every thread.

    The same, as TVM loses the condition under which a part of the threads works once a block is
    moved into such a loop.
    """
    threads = tile.threads
    if not limits.wave <= threads <= min(MOST_THREADS, limits.threads):
        return False
    even = (tile.m * tile.k // VECTOR, tile.n * tile.k // VECTOR, tile.m * tile.n)
    return tile.shared_bytes <= limits.shared_bytes and not any(n % threads for n in even)


def _tiles(shape: Product, dot: int, device: DeviceModel) -> list[GemmTile]:
    """Tiles that are not mostly padding."""
    terms = up(shape.k, dot)
    sizes = itertools.product(
        [size for size in TILES_M if size < 2 * max(shape.m, TILES_M[0])],
        [size for size in TILES_N if size < 2 * max(shape.n, TILES_N[0])],
    )
    cuts = [(s, s * d) for s in SPLITS for d in STEPS if s * d < 2 * max(terms, STEPS[0])]
    return [
        GemmTile(size_m, size_n, length, thread_m, thread_n, split, parts, dot)
        for (size_m, size_n), (thread_m, thread_n), (split, length) in itertools.product(
            sizes, THREAD_SHAPES, cuts
        )
        if size_m % thread_m == 0
        for tiles in [shape.b * up(shape.m, size_m) * up(shape.n, size_n)]
        for parts in parts_of(shape.k, tiles, device)
        if parts == 1 or terms // parts >= length
    ]


def _faster(tile: GemmTile, packed: bool, device: DeviceModel) -> float:
    """How many times a device multiplies and adds faster than in float32."""
    if device.rates is None:
        return 2.0 if packed else 1.0
    return device.rates.fp16 if packed else device.rates.dp4a if tile.dot > 1 else 1.0


def cycles(tile: GemmTile, shape: Product, device: DeviceModel) -> float:
    """Estimated cycles of a product: waves of workgroups, each with latency and shared work."""
    costs = device.gemm_costs(shape.fp16)
    units = device.units_of(costs)
    results = shape.b * shape.m * shape.n
    if isinstance(costs, PipelineCosts):
        packed = shape.fp16 and device.packed_fp16
        whole = product_cycles(tile, shape, costs, units, packed, _faster(tile, packed, device))
        return split_k_cycles(whole, results, tile.split_k, device.split_k)
    cut = costs.split_k or device.split_k
    return split_k_cycles(_waves_cycles(tile, shape, costs, units), results, tile.split_k, cut)


def _waves_cycles(tile: GemmTile, shape: Product, costs: GemmCosts, units: Units) -> float:
    """Of waves of workgroups, all full but the last: each takes what one workgroup takes alone, and
    what the schedulers issue for all that a unit holds."""
    warps = up(tile.threads, units.lanes)
    depth = tile.k // tile.slice_k
    fetched = (tile.m + tile.n) * tile.k
    fetch = up(fetched // VECTOR, tile.threads) * costs.quad
    loads = (costs.row * tile.thread_m + costs.column * tile.thread_n) / VECTOR
    shared = costs.sliced if tile.slice_k > 1 else 1.0
    work = fetch + shared * depth * (costs.multiply * tile.outputs_of_thread + loads)
    end = costs.output * tile.outputs_of_thread
    slices = costs.slice + costs.group * tile.slice_k if tile.slice_k > 1 else 0.0
    steps = up(up(shape.k, tile.dot) // tile.split_k, tile.k)
    wait = costs.fetch + costs.shared * depth / VECTOR
    alone = steps * (wait + work) + costs.start + slices + end
    issued = warps / units.schedulers * (steps * (work + costs.step) + end)

    edge = VECTOR * (tile.thread_m + tile.thread_n)
    registers = costs.registers + tile.outputs_of_thread + edge + fetched // tile.threads
    groups = shape.b * tile.split_k * up(shape.m, tile.m) * up(shape.n, tile.n)
    held = units.resident(groups, warps * units.lanes, tile.merged_bytes(4), registers)
    full, rest = divmod(up(groups, units.count), held)
    every = full * (alone + held * issued) + (alone + rest * issued if rest else 0.0)
    return every * (costs.narrow if tile.n < LINE else 1.0)
