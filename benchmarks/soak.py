"""Runs a network for a long time and says whether it stays as it was: memory, time, results.

    python -m benchmarks.soak network.tar --minutes 30
    python -m benchmarks.soak network.tar --frames 200000 --device cpu --json soak.json

The same few inputs come again and again, drawn from a fixed seed; their outputs must be those of
the first time to the last bit. Memory is the private one of the process, looked at every second;
its slope is that of the straight line that fits best, without the first tenth. Exit code 1 where an
output differs, or memory grows by more than --most-growth. What came of it so far is in --json's
file from minute to minute, and Ctrl-C ends a run as the end of its time does.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import re
import sys
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

import tvm_vision
from tvm_vision.errors import TvmVisionError
from tvm_vision.runtime.inputs import input_specs
from tvm_vision.whole_files import write_whole

LIBC = ctypes.CDLL(None)
SEED = 7
INPUTS = 4
LOOK_SECONDS = 1.0
TELL_SECONDS = 60.0
BEGIN = 0.1  # of the looks, in which caches fill
LEAST_SECONDS = 1e-6
BIN = 1.01


@dataclass(frozen=True)
class Soak:
    """What came of it. Times in milliseconds, memory in KiB, its slope in KiB an hour."""

    device: str
    frames: int
    seconds: float
    different: int
    median_ms: float
    p99_ms: float
    p99_9_ms: float
    longest_ms: float
    first_kib: int
    last_kib: int
    slope_kib_per_hour: float
    device_bytes: int

    def describe(self) -> str:
        """Lines for people."""
        return (
            f"{self.device}\n"
            f"{self.frames} frames in {self.seconds:.0f} s, {self.different} differ from the first "
            "of their input\n"
            f"median {self.median_ms:.2f} ms, p99 {self.p99_ms:.2f} ms, p99.9 {self.p99_9_ms:.2f} "
            f"ms, longest {self.longest_ms:.2f} ms\n"
            f"memory {self.first_kib} KiB at first, {self.last_kib} KiB at last, slope "
            f"{self.slope_kib_per_hour:+.0f} KiB an hour; {self.device_bytes} bytes on the device"
        )


class Times:
    """How often a frame took how long, in bins of one percent: no memory that grows with frames."""

    def __init__(self) -> None:
        self._counts = np.zeros(2100, np.int64)  # from a microsecond to twenty minutes
        self.longest = 0.0
        self.frames = 0

    def add(self, seconds: float) -> None:
        place = int(math.log(max(seconds, LEAST_SECONDS) / LEAST_SECONDS) / math.log(BIN))
        self._counts[min(place, len(self._counts) - 1)] += 1
        self.longest = max(self.longest, seconds)
        self.frames += 1

    def milliseconds(self, share: float) -> float:
        """What so many percent of the frames did not exceed, at most one percent too high."""
        below = np.cumsum(self._counts)
        place = int(np.searchsorted(below, share / 100 * max(self.frames, 1)))
        return 1e3 * min(LEAST_SECONDS * BIN ** (place + 1), self.longest)


def private_kib() -> int:
    """Private memory of this process: what nobody shares, and grows where something leaks.

    What the C library keeps of freed memory is given back first: of a driver with many threads that
    grows for minutes, and levels off.
    """
    LIBC.malloc_trim(0)
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(number) for number in re.findall(r"Private_\w+:\s+(\d+)", text))


def slope(seconds: array[float], kib: array[float]) -> float:
    """KiB an hour of the line through looks at the memory, without the begin; 0.0 for too few."""
    first = int(BEGIN * len(seconds))
    if len(seconds) - first < 3:
        return 0.0
    return float(3600.0 * np.polyfit(seconds[first:], kib[first:], 1)[0])


def draw_inputs(executor: Any) -> list[dict[Any, np.ndarray]]:
    """INPUTS times a value for each input: floats in 0..1, integers in 0..3."""
    random = np.random.default_rng(SEED)

    def value(spec: Any) -> np.ndarray:
        dtype = np.dtype(spec.dtype)
        if dtype.kind == "f":
            return random.random(spec.shape).astype(dtype)
        return random.integers(0, 4, spec.shape).astype(dtype)

    specs = input_specs(executor.info)
    return [{spec.name: value(spec) for spec in specs} for _ in range(INPUTS)]


def soak(
    executor: Any, seconds: float, frames: int, tell: Callable[[Soak], object] = lambda _: None
) -> Soak:
    """Run until the time or the number of frames is over, or Ctrl-C, whichever comes first; tell:
    gets what came of it so far, once a minute."""
    inputs = draw_inputs(executor)
    first = [_bytes(executor.frame(values)) for values in inputs]
    times, different = Times(), 0
    at, kib = array("d", [0.0]), array("d", [private_kib()])
    start = perf_counter()

    def found() -> Soak:
        at.append(perf_counter() - start)
        kib.append(private_kib())
        return Soak(
            device=executor.device_description,
            frames=times.frames,
            seconds=at[-1],
            different=different,
            median_ms=times.milliseconds(50),
            p99_ms=times.milliseconds(99),
            p99_9_ms=times.milliseconds(99.9),
            longest_ms=1e3 * times.longest,
            first_kib=int(kib[0]),
            last_kib=int(kib[-1]),
            slope_kib_per_hour=slope(at, kib),
            device_bytes=executor.memory_bytes,
        )

    told = start
    with contextlib.suppress(KeyboardInterrupt):
        for number in count():
            begin = perf_counter()
            if begin - start > seconds or number >= frames:
                break
            outputs = executor.frame(inputs[number % INPUTS])
            end = perf_counter()
            times.add(end - begin)
            different += _bytes(outputs) != first[number % INPUTS]
            if end - start - at[-1] >= LOOK_SECONDS:
                at.append(end - start)
                kib.append(private_kib())
            if end - told >= TELL_SECONDS:
                told = end
                tell(found())
    return found()


def _bytes(outputs: dict[str, np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in outputs.values()]


@click.command()
@click.argument("package", type=click.Path(exists=True))
@click.option("--minutes", type=click.FloatRange(min=0.0), default=5.0, show_default=True)
@click.option("--frames", type=click.IntRange(min=1), default=1 << 40, help="At most so many.")
@click.option("--device", type=click.Choice(["auto", "vulkan", "cpu"]), default="auto")
@click.option("--most-growth", default=1024.0, show_default=True, help="KiB in the whole run.")
@click.option("--json", "json_path", type=click.Path(), help="Write what came of it there.")
def main(
    package: str, minutes: float, frames: int, device: str, most_growth: float, json_path: str
) -> None:
    """Run PACKAGE for some minutes: memory slope, p99.9, results equal to the first."""

    def write(so_far: Soak) -> None:
        if json_path:
            write_whole(Path(json_path), f"{json.dumps(asdict(so_far), indent=1)}\n".encode())

    try:
        found = soak(tvm_vision.load(package, device), 60.0 * minutes, frames, write)
    except TvmVisionError as error:
        raise SystemExit(f"benchmarks.soak: {error}") from None
    print(found.describe())
    write(found)
    grown = found.slope_kib_per_hour * found.seconds / 3600.0
    sys.exit(1 if found.different or grown > most_growth else 0)


if __name__ == "__main__":
    main(prog_name="benchmarks.soak")
