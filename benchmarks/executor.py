"""Times the six test networks in the graph executor on this machine's GPU, fp32 and fp16.

A frame is numpy in to numpy out: set_input, run, get_output. Prints a table, writes JSON.
Usage: python benchmarks/executor.py [--device vulkan|cpu] [--output FILE] [network ...]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the networks that the tests check are those timed here
import networks  # noqa: E402

import tvm_vision  # noqa: E402
from tvm_vision.errors import DeviceError, TvmVisionError  # noqa: E402

WARM_SECONDS = 1.0  # an idle GPU clocks several times lower
RUNS = 300
SIZES = {"yoeo_like": 416}


@click.command()
@click.argument("names", nargs=-1)
@click.option("--device", type=click.Choice(["vulkan", "cpu"]), default="vulkan", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="JSON file.")
def main(names: tuple[str, ...], device: str, output: Path | None) -> None:
    """Time NAMES (all six networks where none is given)."""
    try:
        describe = _check_device(device)
        print(describe)
        rows = [
            measure(name, precision, device)
            for name in names or networks.NETWORKS
            for precision in ("fp32", "fp16")
        ]
    except TvmVisionError as error:
        raise click.ClickException(str(error)) from error
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        scratch = output.with_name(output.name + ".new")
        scratch.write_text(json.dumps({"device": describe, "rows": rows}, indent=1) + "\n")
        scratch.replace(output)
        print(f"wrote {output}")


def _check_device(device: str) -> str:
    if device == "cpu":
        return "cpu(0): the CPU through LLVM"
    found = tvm_vision.vulkan.devices()
    if not found:
        raise DeviceError(f"a benchmark needs a GPU, but {tvm_vision.vulkan.status()}")
    if found[0].is_cpu:
        raise DeviceError(
            f"a benchmark needs a GPU, found {found[0].describe()}; its times would say nothing "
            "about a GPU. --device cpu times TVM's CPU path"
        )
    return found[0].describe()


def measure(name: str, precision: str, device: str) -> dict[str, Any]:
    """Medians in milliseconds, error against onnxruntime (largest over largest value)."""
    size = SIZES.get(name, 224)
    model = networks.NETWORKS[name](size)
    image = np.random.default_rng(1).random((1, 3, size, size), "float32")
    reference = networks.reference(model, image)[0]
    start = time.perf_counter()
    target = "vulkan" if device == "vulkan" else "llvm"
    folder = ROOT / "build" / "bench"
    package = tvm_vision.compile(model, folder / f"{name}.tar", target=target, precision=precision)
    compiled = time.perf_counter()
    executor = tvm_vision.load(package)
    loaded = time.perf_counter()
    executor.run(input=image)
    error = np.abs(executor.get_output(0).numpy() - reference).max() / np.abs(reference).max()
    until = time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < until:
        executor.run(input=image)
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        executor.run(input=image)
        for i in range(executor.num_outputs):
            executor.get_output(i).numpy()
        times.append((time.perf_counter() - begin) * 1e3)
    profile = executor.profile(repeat=50)
    row = {
        "network": name,
        "precision": precision,
        "frame_ms": round(float(np.median(times)), 4),
        "frame_p95_ms": round(float(np.percentile(times, 95)), 4),
        "span_ms": round(profile.span_us / 1e3, 4),
        "sum_ms": round(profile.sum_us / 1e3, 4),
        "upload_ms": round(profile.upload_us / 1e3, 4),
        "readback_ms": round(profile.readback_us / 1e3, 4),
        "kernels": len(profile.kernels),
        "memory_mb": round(executor.memory_bytes / 1e6, 1),
        "package_mb": round(Path(str(package)).stat().st_size / 1e6, 1),
        "compile_s": round(compiled - start, 2),
        "load_s": round(loaded - compiled, 3),
        "error": float(f"{error:.2g}"),
    }
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    main()
