"""Frames as numbers for other programs, as lines for people, and beside those of another time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .assembly import Kind, Work
from .model import Frame, LaunchReport

Json = dict[str, Any]
Rows = list[list[str]]

# A SIMD with fewer waves waits for memory more than it computes.
FEW_WAVES = 4
FRAME_HEADER = (
    "network", "precision", "device", "ms", "memory ms", "by memory", "launches", "kernels",
    "<4 waves", "<wave", "spill", "branches", "packed", "dot", "matrix", "convert",
)  # fmt: skip
KERNEL_HEADER = (
    "kernel", "us", "times", "bound", "groups", "threads", "waves", "by", "VGPR", "spill", "LDS",
    "in flight", "branches", "fma", "packed", "dot", "matrix", "convert", "vector",
)  # fmt: skip
LEGEND = (
    "modelled, not calibrated: nothing was measured on these devices. ms: of a frame; memory ms: "
    "if only its bytes counted; by memory: of ms, in launches that the memory holds up; <4 waves, "
    "<wave: kernels with less than 4 waves a SIMD, and with workgroups below a wave; branches: on "
    "lanes, in the code; packed, dot, matrix, convert: of the vector instructions that run; in "
    "flight: loads on their way when a wave waits for some"
)
_SHARES = (Work.PACKED, Work.DOT, Work.MATRIX, Work.CONVERT)


def to_json(frame: Frame) -> Json:
    """A frame as plain data: sums, then its kernels with their launches."""
    launches: dict[str, list[LaunchReport]] = {name: [] for name in frame.kernels}
    for launch in frame.launches:
        launches[launch.kernel].append(launch)
    kernels = {}
    for name, kernel in frame.kernels.items():
        kernels[name] = asdict(kernel)
        kernels[name]["seconds"] = sum(each.seconds for each in launches[name])
        kernels[name]["launches"] = [asdict(each) for each in launches[name]]
    return {
        "network": frame.network,
        "precision": frame.precision,
        "device": frame.device,
        "driver": frame.driver,
        "seconds": frame.seconds,
        "memory_seconds": frame.memory_seconds,
        "instructions": dict(_instructions(frame)),
        "kernels": kernels,
    }


def _instructions(frame: Frame) -> Counter[str]:
    """What all waves of a frame run, by kind and by work."""
    counts: Counter[str] = Counter()
    for launch in frame.launches:
        kernel = frame.kernels[launch.kernel]
        waves = launch.groups * kernel.occupancy.waves
        counts.update({name: count * waves for name, count in kernel.mix.items()})
    return counts


def frame_rows(frames: Sequence[Json]) -> Rows:
    """A line for each network and device, below FRAME_HEADER."""
    return [_frame_row(frame) for frame in frames]


def _frame_row(frame: Json) -> list[str]:
    kernels = list(frame["kernels"].values())
    return [
        frame["network"],
        frame["precision"],
        frame["device"],
        f"{1e3 * frame['seconds']:.2f}",
        f"{1e3 * frame['memory_seconds']:.2f}",
        f"{_share_by_memory(frame):.0%}",
        str(sum(len(kernel["launches"]) for kernel in kernels)),
        str(len(kernels)),
        str(sum(kernel["occupancy"]["per_simd"] < FEW_WAVES for kernel in kernels)),
        str(sum(kernel["threads"] < kernel["lanes"] for kernel in kernels)),
        str(sum(kernel["spills"] > 0 for kernel in kernels)),
        str(sum(kernel["branches"] for kernel in kernels)),
        *_shares(frame["instructions"]),
    ]


def _share_by_memory(frame: Json) -> float:
    launches = [each for kernel in frame["kernels"].values() for each in kernel["launches"]]
    held = sum(each["seconds"] for each in launches if each["bound"] == "memory")
    return float(held / frame["seconds"]) if launches else 0.0


def _shares(counts: dict[str, int]) -> list[str]:
    every = max(counts.get(Kind.VECTOR.value, 0), 1)
    return [f"{counts.get(work.value, 0) / every:.0%}" for work in _SHARES]


def kernel_rows(frame: Json, most: int) -> Rows:
    """The kernels that take longest, ``most`` of them, below KERNEL_HEADER."""
    order = sorted(frame["kernels"].values(), key=lambda kernel: -kernel["seconds"])
    return [_kernel_row(kernel) for kernel in order[:most]]


def _kernel_row(kernel: Json) -> list[str]:
    longest = max(kernel["launches"], key=lambda launch: launch["seconds"])
    mix, held = kernel["mix"], kernel["occupancy"]
    return [
        kernel["name"][:44] + ("?" if kernel["unknown"] else ""),
        f"{1e6 * kernel['seconds']:.1f}",
        str(len(kernel["launches"])),
        longest["bound"],
        str(longest["groups"]),
        str(kernel["threads"]),
        f"{held['per_simd']:g}",
        held["bound"],
        str(kernel["registers"]),
        str(kernel["spills"]),
        str(kernel["shared_bytes"]),
        f"{kernel['clause']:.1f}",
        str(kernel["branches"]),
        str(mix.get(Work.MULTIPLY_ADD.value, 0) + mix.get(Work.MIXED.value, 0)),
        *(str(mix.get(work.value, 0)) for work in _SHARES),
        str(mix.get(Kind.VECTOR.value, 0)),
    ]


def compare(before: Sequence[Json], after: Sequence[Json], most: int) -> list[str]:
    """Lines that say what changed between frames of the same networks and devices.

    most: kernels of each that changed most are named, by their names.
    """
    former = {_key(frame): frame for frame in before}
    lines = []
    for frame in after:
        old = former.get(_key(frame))
        if old is None:
            continue
        lines.append(f"{' '.join(_key(frame))}: {_change(old['seconds'], frame['seconds'])}")
        lines += [f"  {line}" for line in _changed_kernels(old, frame, most)]
    return lines


def _key(frame: Json) -> tuple[str, str, str]:
    return frame["network"], frame["precision"], frame["device"]


def _changed_kernels(before: Json, after: Json, most: int) -> list[str]:
    seconds = [{name: k["seconds"] for name, k in f["kernels"].items()} for f in (before, after)]
    names = sorted({*seconds[0], *seconds[1]})
    changes = [(name, seconds[0].get(name, 0.0), seconds[1].get(name, 0.0)) for name in names]
    changes = [each for each in changes if abs(each[2] - each[1]) > 1e-7]
    changes.sort(key=lambda each: -abs(each[2] - each[1]))
    return [f"{name}: {_change(old, new)}" for name, old, new in changes[:most]]


def _change(old: float, new: float) -> str:
    ratio = f", {new / old:.2f} of it" if old and new else ""
    return f"{1e3 * old:.3f} -> {1e3 * new:.3f} ms{ratio}"
