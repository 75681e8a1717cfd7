"""Times the six test networks on this machine's processor, beside onnxruntime, in one process.

Every network is run in turn by onnxruntime, by a package with channels in blocks and by one with
channels in the model's order, each with the same number of threads, again and again: what else the
machine does then meets all of them. A frame is numpy in to numpy out. Prints a table for
benchmarks/cpu.md; ratios are of the best frames and of the medians. On a machine that is busy with
other things, --threads 1 --clock processor counts what the frames themselves take.
Usage: python benchmarks/cpu.py [--threads N] [--clock wall|processor] [network ...]
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the networks that the tests check are those timed here

SIZES = {"yoeo_like": 416}
# Frames of one engine in a row: the first ones find the caches full of another engine's weights.
IN_A_ROW = 4
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.process_time}


@click.command()
@click.argument("names", nargs=-1)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--seconds", type=float, default=10, show_default=True, help="For each network.")
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), default="fp32")
@click.option("--clock", type=click.Choice(list(CLOCKS)), default="wall", show_default=True)
def main(names: tuple[str, ...], threads: int, seconds: float, precision: str, clock: str) -> None:
    """Time NAMES (all six networks where none is given)."""
    os.environ["TVM_NUM_THREADS"] = str(threads)  # read when TVM's thread pool starts
    from support.networks import NETWORKS

    print(f"{processor()}, {threads} threads, {precision}, {clock} time\n")
    print(
        "| network | onnxruntime, ms | blocks, ms | model's order, ms | blocks / onnxruntime: best "
        "(median) | compile, s of processor time | error |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in names or NETWORKS:
        print(row(name, NETWORKS, threads, seconds, precision, CLOCKS[clock]), flush=True)


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def row(
    name: str, networks: Any, threads: int, seconds: float, precision: str, clock: Clock
) -> str:
    """A line of the table: the best frame in milliseconds and, in brackets, the median."""
    size = SIZES.get(name, 224)
    model = networks[name](size)
    image = np.random.default_rng(1).standard_normal((1, 3, size, size)).astype("float32")
    blocks, compiled = engine(name, model, "auto", precision)
    plain, _ = engine(name, model, "nchw", precision)
    session = reference(model, threads)
    expected = session(image)[0]
    error = float(np.abs(blocks(image)[0] - expected).max() / np.abs(expected).max())
    times = alternate([session, blocks, plain], image, seconds, clock)
    shown = " | ".join(f"{min(t) * 1e3:.2f} ({median(t) * 1e3:.2f})" for t in times)
    best = min(times[1]) / min(times[0])
    middle = median(times[1]) / median(times[0])
    return f"| {name} | {shown} | {best:.2f} ({middle:.2f}) | {compiled:.1f} | {error:.0e} |"


def engine(name: str, model: Any, layout: str, precision: str) -> tuple[Any, float]:
    """A function from an image to the outputs, and the processor time that compiling took."""
    import tvm_vision

    start = time.process_time()
    path = ROOT / "build" / "bench" / f"{name}-cpu-{layout}.tar"
    path.parent.mkdir(parents=True, exist_ok=True)
    tvm_vision.compile(model, path, target="llvm", layout=layout, precision=precision)
    compiled = time.process_time() - start
    executor = tvm_vision.load(path, device="cpu")

    def run(image: np.ndarray) -> list[np.ndarray]:
        executor.run(input=image)
        return list(executor.outputs().values())

    return run, compiled


def reference(model: Any, threads: int) -> Any:
    """The same with onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda image: session.run(None, {"input": image})


def alternate(
    engines: list[Any], image: np.ndarray, seconds: float, clock: Clock
) -> list[list[float]]:
    """Seconds of every frame of each engine, taken in turns."""
    times: list[list[float]] = [[] for _ in engines]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for run, taken in zip(engines, times, strict=True):
            for frame in range(IN_A_ROW):
                start = clock()
                run(image)
                if frame:
                    taken.append(clock() - start)
    return times


if __name__ == "__main__":
    main()
