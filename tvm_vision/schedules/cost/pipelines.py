"""How long workgroups take where each pipeline of a unit is either full or waited for.

A unit holds some workgroups at once. They take as long as the slowest of: one wave by itself, with
all that it waits for; the arithmetic of all waves of a scheduler; what all waves move to and from
shared memory; and to and from the nearest cache. That is how GPUs work that issue a wave's
instructions in order and hide its latency by other waves alone, as AMD's do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..common import up
from .tile_costs import Units


@dataclass(frozen=True)
class WaveCycles:
    """What one wave takes of its unit, in cycles.

    Attributes:
        alone: from its begin to its end, with nothing beside it.
        issued: of its scheduler.
        shared: of the unit's shared memory.
        cache: of the unit's nearest cache.
    """

    alone: float
    issued: float
    shared: float
    cache: float


def cycles_of_groups(
    wave: WaveCycles, groups: int, waves: int, resident: int, units: Units
) -> float:
    """Cycles of all workgroups of a kernel.

    Args:
        groups: of the kernel.
        waves: of a workgroup.
        resident: workgroups that a unit holds at once.
    """

    def together(count: int) -> float:
        all_waves = count * waves
        return max(
            wave.alone,
            up(all_waves, units.schedulers) * wave.issued,
            all_waves * wave.shared,
            all_waves * wave.cache,
        )

    rounds, rest = divmod(up(groups, units.count), resident)
    return rounds * together(resident) + (together(rest) if rest else 0.0)


def resident_groups(threads: int, shared_bytes: int, registers: float, units: Units) -> int:
    """Workgroups that a unit holds at once, 1 at least.

    Args:
        threads: of a workgroup.
        shared_bytes: of a workgroup.
        registers: of a thread.
    """
    of_scheduler = units.lanes * units.schedulers
    waves = min(units.threads // of_scheduler, int(units.registers / (of_scheduler * registers)))
    room = min(
        units.schedulers * waves // up(threads, units.lanes),
        units.shared_bytes // shared_bytes,
    )
    return max(1, min(room, units.groups) if units.groups else room)
