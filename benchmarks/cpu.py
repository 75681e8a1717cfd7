"""Times networks on this machine's processor, beside onnxruntime, in one process.

Every network is run in turn by onnxruntime, by a package with channels in blocks, by the same with
what tuning found (--records) and by one with channels in the model's order (--plain), each with the
same number of threads, again and again: what else the machine does then meets all of them. A frame
is numpy in to numpy out. Prints a table for benchmarks/cpu.md; ratios are of the best frames and of
the medians. On a machine that is busy with other things, --threads 1 --clock processor counts what
the frames themselves take.
Usage: python benchmarks/cpu.py [--threads N] [--clock wall|processor] [network or file.onnx ...]
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the networks that the tests check are those timed here

SIZES = {"yoeo_like": 416}
# Frames of one engine in a row: the first ones find the caches full of another engine's weights.
IN_A_ROW = 4
Clock = Callable[[], float]
Inputs = Mapping[str, np.ndarray]
Engine = Callable[[Inputs], list[np.ndarray]]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.process_time}


@click.command()
@click.argument("names", nargs=-1)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--seconds", type=float, default=10, show_default=True, help="For each network.")
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), default="fp32")
@click.option("--clock", type=click.Choice(list(CLOCKS)), default="wall", show_default=True)
@click.option("--records", type=click.Path(path_type=Path), multiple=True, help="Of tuning.")
@click.option("--plain", is_flag=True, help="Channels in the model's order, too.")
def main(
    names: tuple[str, ...], threads: int, seconds: float, precision: str, clock: str,
    records: tuple[Path, ...], plain: bool,
) -> None:  # fmt: skip
    """Time NAMES: networks of the tests, or ONNX files; without any the six of the tests."""
    os.environ["TVM_NUM_THREADS"] = str(threads)  # read when TVM's thread pool starts
    from support.networks import NETWORKS

    kinds: dict[str, dict[str, Any]] = {"blocks": {}}
    if records:
        kinds["tuned"] = {"tuning_records": records}
    if plain:
        kinds["model's order"] = {"layout": "nchw"}
    print(f"{processor()}, {threads} threads, {precision}, {clock} time\n")
    columns = [
        "network", "onnxruntime, ms", *(f"{kind}, ms" for kind in kinds),
        *(f"{kind} / onnxruntime: best (median)" for kind in kinds), "error", "load",
    ]  # fmt: skip
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name in names or NETWORKS:
        path = Path(name)
        model = onnx.load(path) if path.suffix == ".onnx" else NETWORKS[name](SIZES.get(name, 224))
        wanted = {kind: {"precision": precision, **options} for kind, options in kinds.items()}
        print(row(path.stem, model, wanted, threads, seconds, CLOCKS[clock]), flush=True)


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def row(
    name: str, model: onnx.ModelProto, kinds: Mapping[str, Mapping[str, Any]], threads: int,
    seconds: float, clock: Clock,
) -> str:  # fmt: skip
    """A line of the table: the best frame in milliseconds and, in brackets, the median."""
    inputs = random_inputs(model)
    session = reference(model, threads)
    ours = [engine(name, kind, model, options) for kind, options in kinds.items()]
    expected = session(inputs)[0]
    error = max(float(np.abs(run(inputs)[0] - expected).max()) for run in ours)
    error /= float(np.abs(expected).max()) or 1.0
    times = alternate([session, *ours], inputs, seconds, clock)
    shown = [f"{min(t) * 1e3:.2f} ({median(t) * 1e3:.2f})" for t in times]
    ratios = [
        f"{min(t) / min(times[0]):.2f} ({median(t) / median(times[0]):.2f})" for t in times[1:]
    ]
    load = f"{os.getloadavg()[0]:.1f}"
    return f"| {' | '.join([name, *shown, *ratios, f'{error:.0e}', load])} |"


def random_inputs(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Normal values for each input of float32, 1 for open sizes."""
    random = np.random.default_rng(1)
    constants = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        if value.name not in constants:
            shape = [max(1, each.dim_value) for each in value.type.tensor_type.shape.dim]
            found[value.name] = random.standard_normal(shape).astype("float32")
    return found


def engine(name: str, kind: str, model: onnx.ModelProto, options: Mapping[str, Any]) -> Engine:
    """A function from inputs to outputs."""
    import tvm_vision

    path = ROOT / "build" / "bench" / f"{name}-cpu-{kind.replace(' ', '-')}.tar"
    path.parent.mkdir(parents=True, exist_ok=True)
    shapes = {key: value.shape for key, value in random_inputs(model).items()}
    tvm_vision.compile(model, path, target="llvm", input_shapes=shapes, **options)
    executor = tvm_vision.load(path, device="cpu")

    def run(inputs: Inputs) -> list[np.ndarray]:
        executor.run(**inputs)
        return list(executor.outputs().values())

    return run


def reference(model: onnx.ModelProto, threads: int) -> Engine:
    """The same with onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(None, inputs)


def alternate(
    engines: Sequence[Engine], inputs: Inputs, seconds: float, clock: Clock
) -> list[list[float]]:
    """Seconds of every frame of each engine, taken in turns."""
    times: list[list[float]] = [[] for _ in engines]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for run, taken in zip(engines, times, strict=True):
            for frame in range(IN_A_ROW):
                start = clock()
                run(inputs)
                if frame:
                    taken.append(clock() - start)
    return times


if __name__ == "__main__":
    main()
