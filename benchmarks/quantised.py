"""Times a quantised network beside the one it was made of, on the first Vulkan device.

One process has all variants: the network in float32 and in halves, the quantised one in bytes, in
bytes and halves, and in float32 with its roundings (TVM_VISION_INT8=0). They run in turns, round
after round, so that clocks and whatever else the machine does meet all of them. Spans are from the
first to the last kernel of a frame, by the device's clock: medians over the rounds, and their ratio
to float32.
Usage: python benchmarks/quantised.py [--seconds 3] resnet18.onnx resnet18_int8.onnx
The second file is what `tvm-vision quantize` writes. Needs no onnxruntime.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

# Name, whether of the quantised file, precision, TVM_VISION_INT8.
VARIANTS = (
    ("float32", False, "fp32", "0"),
    ("halves", False, "fp16", "0"),
    ("quantised, bytes", True, "fp32", "1"),
    ("quantised, bytes and halves", True, "fp16", "1"),
    ("quantised, float32", True, "fp32", "0"),
)
IN_A_ROW = 3  # frames of a profile
WARM_UP = 1.0  # seconds of work before the first measurement: an idle GPU clocks lower


@click.command()
@click.argument("model", type=click.Path(exists=True))
@click.argument("quantised", type=click.Path(exists=True))
@click.option("--seconds", type=float, default=3.0, show_default=True)
def main(model: str, quantised: str, seconds: float) -> None:
    """Time MODEL and QUANTISED."""
    from tvm_vision import vulkan

    print(vulkan.devices()[0].describe(), flush=True)
    engines = [
        engine(quantised if of_bytes else model, precision, way)
        for _, of_bytes, precision, way in VARIANTS
    ]
    spans: list[list[float]] = [[] for _ in engines]
    warm = time.perf_counter() + WARM_UP
    while time.perf_counter() < warm:
        for executor, _ in engines:
            executor.run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not spans[0]:
        for (executor, _), taken in zip(engines, spans, strict=True):
            taken.append(executor.profile(repeat=IN_A_ROW, warmup=1).span_us)
    print(
        f"\n| {Path(model).stem} | µs | float32 ÷ this | kernels | weights, MB | activations, MB |"
    )
    print("|---|---|---|---|---|---|")
    first = median(spans[0])
    for (name, *_), (executor, memory), taken in zip(VARIANTS, engines, spans, strict=True):
        span, kernels = median(taken), len(executor.info["graph"]["kernels"])
        sizes = " | ".join(f"{memory[kind] / 1e6:.1f}" for kind in ("weights", "activations"))
        print(f"| {name} | {span:.0f} | {first / span:.2f} | {kernels} | {sizes} |")


def engine(model: str, precision: str, way: str) -> tuple[Any, dict[str, int]]:
    """An executor with its input set and one frame done, and the memory that it takes."""
    from compiled import executor_of

    from tvm_vision.compiler import compile_model
    from tvm_vision.frontend.onnx import import_onnx

    os.environ["TVM_VISION_INT8"] = way
    module, signature = import_onnx(model)
    compiled = compile_model(module, signature, target="vulkan", precision=precision)
    executor = executor_of(compiled)
    random = np.random.default_rng(1)
    for index, spec in enumerate(signature.inputs):
        executor.set_input(index, random.random(spec.shape, np.float32).astype(spec.dtype))
    executor.run()
    return executor, compiled.memory


if __name__ == "__main__":
    main()
