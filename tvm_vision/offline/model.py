"""A model of how long a kernel takes on a machine of AMD's: optimistic, and not calibrated.

A kernel's time is the largest of what may hold it up: a wave's own way from begin to end (walk.py)
while others of its unit run beside it, the SIMDs' arithmetic, shared memory, the first cache, and
the bytes of its tensors over the memory's bandwidth. Left out are conflicts of banks, misses of
caches, accesses that do not lie in a row, and lanes that take different ways.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .assembly import Kind, parse
from .machines import Machine
from .network import Kernel, Launch, Network
from .pipelines import Compiled, Pipeline
from .walk import Walked, mix, walk


@dataclass(frozen=True)
class Occupancy:
    """How many waves stand ready on a unit.

    Attributes:
        waves: of a workgroup.
        groups: workgroups that a unit holds at once.
        per_simd: waves of a SIMD then.
        bound: what keeps it from more: "registers", "shared memory", "slots", "groups" or
            "barriers".
    """

    waves: int
    groups: int
    per_simd: float
    bound: str


@dataclass(frozen=True)
class KernelReport:
    """What is known of a kernel on a machine, without having run it.

    Attributes:
        name: of the kernel.
        threads: of a workgroup.
        lanes: of a wave.
        registers: vector registers of a lane.
        spills: registers that did not fit.
        shared_bytes: of a workgroup.
        code_bytes: of its machine code.
        occupancy: see there.
        mix: instructions that a wave runs, by kind and by work.
        branches: on lanes, in the code: each is a place where a wave's lanes part.
        clause: loads on their way at a wait for some of them, on average; 0 without loads.
        unknown: turns of loops that the model could not follow; their bodies count once.
        wave_cycles: of a wave by itself, and ``waited`` of these for memory.
        vector_cycles, shared_cycles, cache_cycles: that a wave keeps these busy.
    """

    name: str
    threads: int
    lanes: int
    registers: int
    spills: int
    shared_bytes: int
    code_bytes: int
    occupancy: Occupancy
    mix: dict[str, int]
    branches: int
    clause: float
    unknown: int
    wave_cycles: float
    waited: float
    vector_cycles: float
    shared_cycles: float
    cache_cycles: float


@dataclass(frozen=True)
class LaunchReport:
    """A launch and its modelled times, in seconds.

    Attributes:
        kernel: its name.
        groups: workgroups.
        bytes: of its tensors.
        compute: on the units, ``memory`` over the bandwidth; the larger one counts.
        seconds: of the launch in a frame, with what it costs to start it.
        bound: "latency", "arithmetic", "shared memory", "cache" or "memory".
    """

    kernel: str
    groups: int
    bytes: int
    compute: float
    memory: float
    seconds: float
    bound: str


@dataclass(frozen=True)
class Frame:
    """A network on a device as modelled; ``driver`` with its version."""

    network: str
    precision: str
    device: str
    driver: str
    kernels: dict[str, KernelReport]
    launches: tuple[LaunchReport, ...]

    @property
    def seconds(self) -> float:
        """Of the whole frame."""
        return sum(each.seconds for each in self.launches)

    @property
    def memory_seconds(self) -> float:
        """Of a frame that nothing but the memory holds up."""
        return sum(each.memory for each in self.launches)


def examine(network: Network, compiled: Compiled, machine: Machine) -> Frame:
    """A network's kernels, as a driver compiled them, on a machine.

    Raises InputError where the driver's text is not understood.
    """
    kernels = {
        name: examine_kernel(network.kernels[name], pipeline, machine)
        for name, pipeline in compiled.pipelines.items()
    }
    launches = tuple(time_launch(each, kernels[each.kernel], machine) for each in network.launches)
    return Frame(
        network.name, network.precision, machine.device, compiled.driver, kernels, launches
    )


def examine_kernel(kernel: Kernel, pipeline: Pipeline, machine: Machine) -> KernelReport:
    """One kernel. Raises InputError where the driver's text is not understood."""
    lanes = pipeline.subgroup
    program = parse(pipeline.assembly)
    walked = _walk(pipeline.assembly, machine, lanes)
    statistics = pipeline.statistics
    registers, shared = int(statistics["VGPRs"]), int(statistics["LDS size"])
    runs = list(zip(program.instructions, walked.runs, strict=True))
    clauses = walked.clauses
    return KernelReport(
        name=kernel.name,
        threads=kernel.workgroup,
        lanes=lanes,
        registers=registers,
        spills=int(statistics["Spilled VGPRs"]) + int(statistics["Spilled SGPRs"]),
        shared_bytes=shared,
        code_bytes=int(statistics["Code size"]),
        occupancy=occupancy(machine, kernel.workgroup, lanes, registers, shared),
        mix=dict(mix(program, walked)),
        branches=_lane_branches(pipeline.assembly),
        clause=sum(clauses) / len(clauses) if clauses else 0.0,
        unknown=walked.unknown,
        wave_cycles=walked.cycles,
        waited=walked.waited,
        vector_cycles=sum(n * machine.vector_cycles(each, lanes) for each, n in runs),
        shared_cycles=sum(n * machine.shared_cycles(each, lanes) for each, n in runs),
        cache_cycles=sum(n * machine.cache_cycles(each, lanes) for each, n in runs),
    )


@functools.lru_cache(maxsize=4096)
def _walk(assembly: str, machine: Machine, lanes: int) -> Walked:
    return walk(parse(assembly), machine, lanes)


def _lane_branches(assembly: str) -> int:
    instructions = parse(assembly).instructions
    return sum(each.kind is Kind.BRANCH and "exec" in each.op for each in instructions)


def occupancy(
    machine: Machine, threads: int, lanes: int, registers: int, shared_bytes: int
) -> Occupancy:
    """How many workgroups a unit holds, and what keeps it from more."""
    waves = -(-threads // lanes)
    by_registers = machine.waves_by_registers(registers, lanes)
    room = {
        "slots": machine.slots * machine.simds // waves,
        "registers": by_registers * machine.simds // waves,
    }
    if waves > 1:
        room["groups"] = machine.groups
    if shared_bytes:
        room["shared memory"] = machine.groups_by_shared(shared_bytes)
        if machine.barriers:
            room["barriers"] = machine.barriers
    bound = min(room, key=lambda name: room[name])
    groups = max(1, room[bound])
    return Occupancy(waves, groups, groups * waves / machine.simds, bound)


def time_launch(launch: Launch, kernel: KernelReport, machine: Machine) -> LaunchReport:
    """How long a launch takes: batch after batch of as many workgroups as a unit holds."""
    per_unit = -(-launch.groups // machine.units)
    full, rest = divmod(per_unit, kernel.occupancy.groups)
    cycles: dict[str, float] = {}
    for times, groups in ((full, kernel.occupancy.groups), (1, rest)):
        if times and groups:
            name, spent = _batch(kernel, groups, machine)
            cycles[name] = cycles.get(name, 0.0) + times * spent
    compute = sum(cycles.values()) / machine.hertz
    memory = launch.bytes / machine.bandwidth
    bound = "memory" if memory > compute else max(cycles, key=lambda name: cycles[name])
    return LaunchReport(
        launch.kernel, launch.groups, launch.bytes, compute, memory,
        max(compute, memory) + machine.launch, bound,
    )  # fmt: skip


def _batch(kernel: KernelReport, groups: int, machine: Machine) -> tuple[str, float]:
    """What holds up so many workgroups of a unit, and for how many cycles."""
    waves = groups * kernel.occupancy.waves
    per_simd = -(-waves // machine.simds)
    bounds: dict[str, float] = {
        "latency": kernel.wave_cycles,
        "arithmetic": per_simd * kernel.vector_cycles,
        "shared memory": waves * kernel.shared_cycles,
        "cache": waves * kernel.cache_cycles,
    }
    name = max(bounds, key=lambda each: bounds[each])
    return name, bounds[name]
