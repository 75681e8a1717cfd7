"""What Intel's driver says of kernels itself, and times of a model of where that knows the device.

The model is that of model.py with Intel's machine code in the place of AMD's (xe_walk.py): a launch
takes as long as the slowest of a thread's own way, the units' arithmetic, shared memory, the data
port and the bytes of its tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .machines import XE, Machine, of_target
from .model import KernelReport, LaunchReport, occupancy, time_launch
from .network import Kernel, Network
from .pipelines import Compiled, Pipeline
from .xe_assembly import parse
from .xe_walk import walk

HEADER = (
    "network", "precision", "device", "ms", "memory ms", "by memory", "launches", "kernels",
    "SIMD8", "SIMD16", "SIMD32", "spill", "instructions", "sends", "cycles",
)  # fmt: skip
KERNEL_HEADER = (
    "kernel", "us", "bound", "times", "groups", "threads", "SIMD", "spills", "fills", "LDS",
    "instructions", "sends", "loops", "cycles",
)  # fmt: skip
LEGEND = (
    "the driver's own statistics, of the code and not of its way through it. cycles: its estimate "
    "of one hardware thread, which guesses how often loops run; sends: messages, most to memory. "
    "ms, memory ms, by memory: modelled, not calibrated, where the device is known to the model"
)
_TEXT = "GEN Assembly"


@dataclass(frozen=True)
class SurveyedKernel:
    """A kernel by its driver's statistics.

    Attributes:
        name: of the kernel.
        threads: of a workgroup.
        lanes: that the driver gave a hardware thread (8, 16 or 32).
        spills: instructions that save registers, ``fills`` those that fetch them back.
        shared_bytes: of a workgroup.
        instructions, sends, loops, cycles: see LEGEND.
        groups: workgroups of each launch.
        launches: each as modelled; none where the device is not known to the model.
    """

    name: str
    threads: int
    lanes: int
    spills: int
    fills: int
    shared_bytes: int
    instructions: int
    sends: int
    loops: int
    cycles: int
    groups: tuple[int, ...]
    launches: tuple[LaunchReport, ...] = ()


def survey(network: Network, compiled: Compiled, device: str) -> dict[str, Any]:
    """A network's kernels as plain data, with times where the model knows the device.

    Raises InputError where the driver's text is not understood.
    """
    groups: dict[str, list[int]] = {name: [] for name in network.kernels}
    for launch in network.launches:
        groups[launch.kernel].append(launch.groups)
    modelled = {}
    if device in XE:
        modelled = _modelled(network, compiled, of_target(device, network.target))
    kernels = {}
    for name, pipeline in compiled.pipelines.items():
        said = pipeline.statistics
        kernels[name] = asdict(
            SurveyedKernel(
                name,
                network.kernels[name].workgroup,
                pipeline.subgroup,
                int(said["Spills"]),
                int(said["Fills"]),
                int(said["Workgroup Memory Size"]),
                int(said["Instructions"]),
                int(said["SENDs"]),
                int(said["Loops"]),
                int(said["Cycles"]),
                tuple(groups[name]),
                tuple(modelled.get(name, ())),
            )
        )
    return {
        "network": network.name,
        "precision": network.precision,
        "device": device,
        "driver": compiled.driver,
        **_seconds(modelled),
        "kernels": kernels,
    }


def _modelled(
    network: Network, compiled: Compiled, machine: Machine
) -> dict[str, list[LaunchReport]]:
    """Launches of each kernel."""
    reports = {
        name: examine_kernel(network.kernels[name], pipeline, machine)
        for name, pipeline in compiled.pipelines.items()
    }
    found: dict[str, list[LaunchReport]] = {name: [] for name in reports}
    for launch in network.launches:
        found[launch.kernel].append(time_launch(launch, reports[launch.kernel], machine))
    return found


def _seconds(launches: dict[str, list[LaunchReport]]) -> dict[str, float]:
    """Of a frame; nothing where the device is not known to the model."""
    every = [each for of_kernel in launches.values() for each in of_kernel]
    return {"modelled_seconds": sum(each.seconds for each in every)} if every else {}


def examine_kernel(kernel: Kernel, pipeline: Pipeline, machine: Machine) -> KernelReport:
    """One kernel. Raises InputError where the driver's text is not understood."""
    way = walk(parse(pipeline.texts[_TEXT]), machine)
    said, lanes = pipeline.statistics, pipeline.subgroup
    shared = int(said["Workgroup Memory Size"])
    return KernelReport(
        name=kernel.name,
        threads=kernel.workgroup,
        lanes=lanes,
        registers=0,
        spills=int(said["Spills"]),
        shared_bytes=shared,
        code_bytes=int(said["Code size"]),
        # A hardware thread has its registers, whatever it takes of them.
        occupancy=occupancy(machine, kernel.workgroup, lanes, 1, shared),
        mix=dict(way.counts),
        branches=0,
        clause=0.0,
        unknown=way.unknown,
        wave_cycles=way.cycles,
        waited=way.waited,
        vector_cycles=way.busy,
        shared_cycles=way.shared_bytes / machine.shared_rate,
        cache_cycles=way.memory_bytes / machine.cache_rate,
    )


def rows(surveys: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A line for each network and device, below HEADER."""
    found = []
    for each in surveys:
        kernels = list(each["kernels"].values())
        widths = Counter(kernel["lanes"] for kernel in kernels)
        sums = (sum(kernel[name] for kernel in kernels) for name in HEADER[-3:])
        spilling = sum(kernel["spills"] > 0 for kernel in kernels)
        launches = sum(len(kernel["groups"]) for kernel in kernels)
        counts = (launches, len(kernels), widths[8], widths[16], widths[32], spilling, *sums)
        names = [each["network"], each["precision"], each["device"]]
        found.append([*names, *_times(kernels), *map(str, counts)])
    return found


def _times(kernels: Sequence[dict[str, Any]]) -> list[str]:
    """Of a frame, of its bytes alone, and the share that the memory holds up."""
    launches = [launch for kernel in kernels for launch in kernel["launches"]]
    seconds = sum(each["seconds"] for each in launches)
    if not launches:
        return ["", "", ""]
    memory = sum(each["memory"] for each in launches)
    held = sum(each["seconds"] for each in launches if each["bound"] == "memory")
    return [f"{1e3 * seconds:.2f}", f"{1e3 * memory:.2f}", f"{held / seconds:.0%}"]


def _time(kernel: dict[str, Any]) -> list[str]:
    """Of a kernel's launches, and what holds up the longest."""
    launches = sorted(kernel["launches"], key=lambda each: -each["seconds"])
    if not launches:
        return ["", ""]
    return [f"{1e6 * sum(each['seconds'] for each in launches):.1f}", launches[0]["bound"]]


def kernel_rows(each: dict[str, Any], most: int) -> list[list[str]]:
    """The kernels that take longest, else those of most instructions, ``most`` of them, below
    KERNEL_HEADER."""
    order = sorted(each["kernels"].values(), key=_length, reverse=True)
    columns = ("threads", "lanes", "spills", "fills", "shared_bytes", "instructions", "sends")
    return [
        [
            kernel["name"][:44],
            *_time(kernel),
            str(len(kernel["groups"])),
            str(max(kernel["groups"])),
            *(str(kernel[name]) for name in (*columns, "loops", "cycles")),
        ]
        for kernel in order[:most]
    ]


def _length(kernel: dict[str, Any]) -> tuple[float, int]:
    return sum(each["seconds"] for each in kernel["launches"]), kernel["instructions"]
