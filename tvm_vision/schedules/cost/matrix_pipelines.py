"""Estimated cycles and registers of kernels on cooperative matrices by pipelines (pipelines.py).

What a product and a convolution out of a halo have in common: waves that fetch vectors into shared
memory, load matrices from there and multiply them, step by step.
"""

from __future__ import annotations

from dataclasses import dataclass

from .pipelines import WaveCycles, cycles_of_groups, resident_groups
from .tile_costs import MatrixPipelineCosts, Units

VECTOR_BYTES = 16  # that a thread fetches at once
SUM_BYTES = 4


@dataclass(frozen=True)
class WaveWork:
    """What a wave does in a workgroup.

    Attributes:
        products: of matrices.
        loads: of matrices from shared memory, each of which gives a lane ``row_bytes``.
        fetched: vectors of each thread, and ``windowed`` of an image that is read by windows.
        steps: along k.
        stops: barriers behind a fetch.
        outputs: of each thread.
        row_bytes: of a matrix along k.
    """

    products: float
    loads: float
    fetched: float
    windowed: float
    steps: int
    stops: int
    outputs: float
    row_bytes: int


@dataclass(frozen=True)
class ThreadData:
    """What a thread keeps, in registers of 32 bits.

    Attributes:
        sums: that it adds up.
        factors: of matrices that are multiplied next.
        fetched: on the way from memory to shared memory.
        ahead: whether that is so while matrices are multiplied.
    """

    sums: float
    factors: float
    fetched: float
    ahead: bool = False


def registers(of: ThreadData, costs: MatrixPipelineCosts) -> float:
    """Registers of a thread, estimated."""
    held = max(costs.factors * of.factors, costs.vectors * of.fetched)
    return (
        costs.registers
        + costs.sums * of.sums
        + held
        + (costs.ahead * of.fetched if of.ahead else 0.0)
    )


def factor_registers(rows: int, row_bytes: int, costs: MatrixPipelineCosts) -> float:
    """Registers of a thread for matrices of so many rows together, of which lanes hold copies."""
    return rows * row_bytes / 4 / costs.holders


def fits_registers(of: ThreadData, threads: int, costs: MatrixPipelineCosts, units: Units) -> bool:
    """Whether a workgroup's threads have registers for what they keep, so that none is spilled."""
    return registers(of, costs) <= min(costs.most, units.registers // threads)


def matrix_waves(
    of: ThreadData, waves: int, shared_bytes: int, costs: MatrixPipelineCosts, units: Units
) -> float:
    """Waves that a scheduler holds at once, estimated; ``waves`` and bytes are a workgroup's."""
    groups = resident_groups(waves * units.lanes, shared_bytes, registers(of, costs), units)
    return groups * waves / units.schedulers


def matrix_cycles(
    work: WaveWork,
    data: ThreadData,
    groups: int,
    waves: int,
    shared_bytes: int,
    costs: MatrixPipelineCosts,
    units: Units,
) -> float:
    """Cycles of all workgroups of a kernel.

    Args:
        groups: of the kernel.
        waves: of a workgroup, ``shared_bytes`` likewise.
    """
    issued = (
        costs.product * work.products
        + costs.load * work.loads
        + costs.fetch * work.fetched
        + costs.window * work.windowed
        + costs.step * work.steps
        + costs.output * work.outputs
        + costs.start
    )
    waited = costs.wait * work.steps + costs.stop * work.stops + costs.begin
    vectors = VECTOR_BYTES * (work.fetched + work.windowed)
    # Results go through shared memory to be written side by side.
    shared = work.row_bytes * work.loads + vectors + 2 * SUM_BYTES * work.outputs
    fetched = vectors + SUM_BYTES * work.outputs
    wave = WaveCycles(
        alone=costs.chain * issued + waited,
        issued=issued,
        shared=units.lanes * shared / costs.shared_rate,
        cache=units.lanes * fetched / costs.memory_rate,
    )
    resident = resident_groups(waves * units.lanes, shared_bytes, registers(data, costs), units)
    return cycles_of_groups(wave, groups, waves, resident, units)
