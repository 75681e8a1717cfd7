"""What the models take each device for. None of it is calibrated: nothing was measured on these.

Sources. Units of GCN and their rates: AMD, "Vega" Instruction Set Architecture Reference Guide
(2017), and the Graphics Core Next Architecture white paper (2012): four SIMDs of 16 lanes, an
instruction of 64 lanes every four cycles, 256 registers a lane, ten waves a SIMD, 64 KiB of shared
memory that gives 128 bytes a cycle, a first cache that gives 64. RDNA: AMD, RDNA Architecture white
paper (2019), RDNA2 and RDNA3 Instruction Set Architecture guides (2020, 2023): two SIMDs of 32
lanes a unit, 64 lanes in two cycles, 16 waves a SIMD, 128 bytes a cycle of the first cache.
Registers a lane and waves a SIMD are also what the driver tells of the device
(VK_AMD_shader_core_properties), and a test compares them. Matrix products of RDNA3: 512 operations
a cycle and unit (AMD, "How to accelerate AI applications on RDNA 3 using WMMA", 2023). Units, clock
and memory are those of the data sheets of the processors named.

Xe-LP: Intel, oneAPI GPU Optimization Guide ("Xe GPU Architecture"): 16 execution units of a dual
subslice, each with seven threads, eight lanes of float32 or int32, 16 of float16, 8 dot products of
four bytes and 2 lanes of extended mathematics a cycle; 128 KiB of shared memory, and a data port of
128 bytes a cycle. Half of that is taken for device memory.

Assumed, and by nobody's data sheet: latencies of memory, which depend on where the data lies; that
half to two thirds of the memory's bandwidth is reached, by one kernel that shares it with a
processor; and what a launch costs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..target_keys import BANDWIDTH, COMPUTE_UNITS, LAUNCH, numbers_in
from . import drivers
from .assembly import Instruction, Kind, Work

# Of the rate of a multiply-add: transcendentals and whole products of 32 bits are a fourth,
# float64 on these GPUs a sixteenth.
_SLOWER = {Work.SPECIAL: 4.0, Work.WIDE_INTEGER: 4.0, Work.DOUBLE: 16.0}
_WAVE = 64
# What drivers' names of devices end with: "(RADV RENOIR)", "(TGL GT2)".
_CHIP = re.compile(r"\((?:RADV (\w+)|(\w+) GT\d)\)")


@dataclass(frozen=True)
class Machine:
    """A GPU, as far as the models need to know it. Cycles are those of its clock.

    Attributes:
        device: its name here.
        title: for people, with the processors that have it.
        family: of its instructions.
        units: compute units.
        hertz: its clock.
        simds: of a unit, each with waves of its own.
        lanes: of a SIMD: an instruction of 64 lanes takes 64 / lanes cycles.
        slots: most waves of a SIMD.
        registers: vector registers of a SIMD, of 64 lanes of 32 bits.
        granule: registers are given out in multiples of it, to a wave of 64 lanes.
        groups: most workgroups of more than one wave that a unit holds.
        barriers: most workgroups with shared memory, whose waves wait for each other, that a unit
            holds; 0 where ``groups`` says it.
        shared_bytes: of shared memory of a unit; ``shared_granule`` is what it is given out in, or
            in that times a power of two, where ``shared_doubles``.
        shared_rate: bytes of shared memory a cycle.
        cache_rate: bytes a cycle from a unit's first cache.
        issue: cycles from one instruction of a wave to its next.
        matrix: cycles of a matrix product of 16x16x16; 0 where there is none.
        counts_stores_apart: whether waits for loads do not wait for stores before them.
        memory_latency, store_latency, scalar_latency, shared_latency: cycles until a load's data
            are there, or a store counts as done.
        barrier, branch: cycles.
        arithmetic_latency: cycles until an instruction's result can be read, where a wave that
            needs it sooner waits; 0 where the next one has it.
        bandwidth: bytes of memory a second.
        launch: seconds from the end of a kernel to the begin of one that waits for it.
    """

    device: str
    title: str
    family: str
    units: int
    hertz: float
    simds: int
    lanes: int
    slots: int
    registers: int
    granule: int
    groups: int
    cache_rate: int
    issue: int
    bandwidth: float
    matrix: int = 0
    shared_bytes: int = 65536
    shared_granule: int = 512
    shared_doubles: bool = False
    barriers: int = 0
    shared_rate: int = 128
    counts_stores_apart: bool = True
    memory_latency: int = 600
    store_latency: int = 100
    scalar_latency: int = 200
    shared_latency: int = 100
    barrier: int = 20
    branch: int = 12
    arithmetic_latency: int = 0
    launch: float = 5e-6

    def issue_cycles(self, each: Instruction, lanes: int) -> float:
        """Cycles until a wave of ``lanes`` can go on, where it has nothing to wait for."""
        if each.kind is Kind.VECTOR:
            return max(self.issue, self.vector_cycles(each, lanes))
        return self.issue

    def vector_cycles(self, each: Instruction, lanes: int) -> float:
        """Cycles that an instruction keeps its SIMD busy; 0 for other than vector instructions."""
        if each.kind is not Kind.VECTOR:
            return 0.0
        if each.work is Work.MATRIX:
            return float(self.matrix)
        base = max(1, lanes // self.lanes)
        return base * _SLOWER.get(each.work, 1.0) if each.work else float(base)

    def shared_cycles(self, each: Instruction, lanes: int) -> float:
        """Cycles that an access keeps the shared memory busy, without conflicts of its banks."""
        return lanes * each.lane_bytes / self.shared_rate if each.kind is Kind.SHARED else 0.0

    def cache_cycles(self, each: Instruction, lanes: int) -> float:
        """Cycles that an access keeps the first cache busy, if it lies in a row."""
        if each.kind not in (Kind.LOAD, Kind.STORE):
            return 0.0
        return lanes * each.lane_bytes / self.cache_rate

    def groups_by_shared(self, size: int) -> int:
        """Workgroups of ``size`` bytes of shared memory, one or more, that a unit has room for."""
        taken = -(-size // self.shared_granule)
        if self.shared_doubles:
            taken = 1 << (taken - 1).bit_length()
        return self.shared_bytes // (taken * self.shared_granule)

    def waves_by_registers(self, registers: int, lanes: int = _WAVE) -> int:
        """Waves that a SIMD has registers for."""
        whole = self.registers * _WAVE // lanes
        granule = self.granule * _WAVE // lanes
        taken = max(1, -(-registers // granule)) * granule
        return min(self.slots, whole // taken)


def _gcn(device: str, title: str, units: int, hertz: float, bandwidth: float) -> Machine:
    return Machine(
        device, title, "GCN", units, hertz, simds=4, lanes=16, slots=10, registers=256, granule=4,
        groups=16, cache_rate=64, issue=4, bandwidth=bandwidth, counts_stores_apart=False,
    )  # fmt: skip


def _rdna(
    device: str, title: str, family: str, units: int, hertz: float, bandwidth: float, matrix: int
) -> Machine:
    return Machine(
        device, title, family, units, hertz, simds=2, lanes=32, slots=16, registers=512, granule=8,
        groups=16, cache_rate=128, issue=1, bandwidth=bandwidth, matrix=matrix,
    )  # fmt: skip


# 8,192 operations of a product of 16x16x16 at 256 a cycle and SIMD.
_WMMA = 32

MACHINES = {
    each.device: each
    for each in (
        _gcn("renoir", "Vega 8 (Ryzen 4800U, 5700U)", 8, 1.9e9, 40e9),
        _rdna("rembrandt", "Radeon 680M (Ryzen 6800U)", "RDNA2", 12, 2.2e9, 60e9, 0),
        _rdna("phoenix", "Radeon 780M (Ryzen 7840U)", "RDNA3", 12, 2.7e9, 65e9, _WMMA),
        _rdna("strix", "Radeon 890M (Ryzen AI 370)", "RDNA3.5", 16, 2.9e9, 75e9, _WMMA),
    )
}


# Intel's Xe-LP. Its execution units are SIMDs here, of eight lanes of 32 bits, each with seven
# hardware threads of registers of their own; a dual subslice is a unit. Workgroups and barriers of
# one, and sizes of shared memory, are those of Intel's GPU Occupancy Calculator (oneAPI samples).
XE = {
    "tgl": Machine(
        "tgl", "Iris Xe, 96 units (Core i7-1165G7)", "Xe-LP", units=6, hertz=1.3e9, simds=16,
        lanes=8, slots=7, registers=1 << 20, granule=1, groups=112, barriers=32, cache_rate=64,
        issue=1, bandwidth=41e9, shared_bytes=131072, shared_granule=1024, shared_doubles=True,
        memory_latency=400, shared_latency=80, arithmetic_latency=8,
    ),
}  # fmt: skip


# All that the models know.
MODELLED = {**MACHINES, **XE}


def find(device: str) -> Machine:
    """A machine by its name. Raises InputError for another."""
    if device not in MODELLED:
        raise InputError(f"a device of {', '.join(MODELLED)} is needed, found '{device}'")
    return MODELLED[device]


def named_by(target: Mapping[str, Any]) -> str:
    """The name in MODELLED of the device that a target's attributes name; "" for another."""
    found = _CHIP.search(str(target.get("device_name", "")))
    chip = (found[1] or found[2]).lower() if found else ""
    return next((each for each in MODELLED if chip == drivers.SHIM_NAMES.get(each, each)), "")


def of_target(device: str, target: Mapping[str, Any]) -> Machine:
    """A machine by its name, with the units, and the memory and the launch as they were measured,
    that the target tells where it was made for such a device: chips of a kind differ in these.

    Raises InputError for a name that is not in MODELLED.
    """
    machine = find(device)
    if named_by(target) != device:
        return machine
    told = numbers_in(target.get("keys", ()))
    return replace(
        machine,
        units=told.get(COMPUTE_UNITS, machine.units),
        bandwidth=1e6 * told[BANDWIDTH] if BANDWIDTH in told else machine.bandwidth,
        launch=told[LAUNCH] / 1e9 if LAUNCH in told else machine.launch,
    )
