"""What a driver says of kernels itself, where no model knows the device: Intel's, in its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .network import Network
from .pipelines import Compiled

HEADER = (
    "network", "precision", "device", "launches", "kernels", "SIMD8", "SIMD16", "SIMD32", "spill",
    "instructions", "sends", "cycles",
)  # fmt: skip
KERNEL_HEADER = (
    "kernel", "times", "groups", "threads", "SIMD", "spills", "fills", "LDS", "instructions",
    "sends", "loops", "cycles",
)  # fmt: skip
LEGEND = (
    "the driver's own statistics, of the code and not of its way through it. cycles: its estimate "
    "of one hardware thread, which guesses how often loops run; sends: messages, most to memory"
)


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


def survey(network: Network, compiled: Compiled, device: str) -> dict[str, Any]:
    """A network's kernels as plain data, without times."""
    groups: dict[str, list[int]] = {name: [] for name in network.kernels}
    for launch in network.launches:
        groups[launch.kernel].append(launch.groups)
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
            )
        )
    return {
        "network": network.name,
        "precision": network.precision,
        "device": device,
        "driver": compiled.driver,
        "kernels": kernels,
    }


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
        found.append([each["network"], each["precision"], each["device"], *map(str, counts)])
    return found


def kernel_rows(each: dict[str, Any], most: int) -> list[list[str]]:
    """The kernels of most instructions, ``most`` of them, below KERNEL_HEADER."""
    order = sorted(each["kernels"].values(), key=lambda kernel: -kernel["instructions"])
    columns = ("threads", "lanes", "spills", "fills", "shared_bytes", "instructions", "sends")
    return [
        [
            kernel["name"][:44],
            str(len(kernel["groups"])),
            str(max(kernel["groups"])),
            *(str(kernel[name]) for name in (*columns, "loops", "cycles")),
        ]
        for kernel in order[:most]
    ]
