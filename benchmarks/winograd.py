"""Times Winograd's convolution beside the plain one on the first Vulkan device, in one process.

Every network is compiled as it is, with F(2x2, 3x3) and with F(4x4, 3x3) wherever that can be; the
three are then run in turns, round after round, so that clocks and whatever else the machine does
meet all of them. Spans are from the first to the last kernel of a frame, by the device's clock:
medians over the rounds, and the ratio to the plain one. Without a NAME the layers that decide are
timed: one 3x3 convolution with bias and activation each.
Usage: python benchmarks/winograd.py [--precision fp16] [--seconds 3] [network | model.onnx ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the networks that the tests check are those timed here

WAYS = ("0", "2", "4")
SIZES = {"yoeo_like": 416}
# Channels in and out, height and width: of ResNet, and of YOEO at 416.
LAYERS = ((64, 64, 56), (128, 128, 28), (256, 256, 14), (512, 512, 7), (32, 64, 104), (64, 64, 104))
IN_A_ROW = 3  # frames of a profile
WARM_UP = 1.0  # seconds of work before the first measurement: an idle GPU clocks lower


@click.command()
@click.argument("names", nargs=-1)
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), default="fp32")
@click.option("--seconds", type=float, default=3.0, show_default=True, help="For each network.")
def main(names: tuple[str, ...], precision: str, seconds: float) -> None:
    """Time NAMES: networks of the tests, or ONNX files."""
    from tvm_vision import vulkan

    print(f"{vulkan.devices()[0].describe()}\n{precision}\n")
    print("| network | plain, µs | F(2×2), µs | F(4×4), µs | plain ÷ F(2×2) | plain ÷ F(4×4) "
          "| kernels | weights, MB | error |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    models = {Path(name).stem: load(name) for name in names} or {
        f"{c}→{o}, {size}×{size}": layer(c, o, size) for c, o, size in LAYERS
    }
    for name, model in models.items():
        print(row(name, model, precision, seconds), flush=True)


def load(name: str) -> onnx.ModelProto:
    """A network of the tests, or that of a file."""
    from support.networks import NETWORKS

    make = NETWORKS.get(name)
    return make(SIZES.get(name, 224)) if make is not None else onnx.load(name)


def layer(inputs: int, outputs: int, size: int) -> onnx.ModelProto:
    """A 3×3 convolution with bias and ReLU."""
    random = np.random.default_rng(0)
    bound = np.sqrt(6.0 / (9 * inputs))
    weights = random.uniform(-bound, bound, (outputs, inputs, 3, 3)).astype("float32")
    bias = random.uniform(-0.1, 0.1, outputs).astype("float32")
    shape = [1, inputs, size, size]
    nodes = [
        helper.make_node("Conv", ["input", "w", "b"], ["y"], pads=[1] * 4),
        helper.make_node("Relu", ["y"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, outputs, size, size])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def row(name: str, model: onnx.ModelProto, precision: str, seconds: float) -> str:
    """A line of the table."""
    image = np.random.default_rng(1).standard_normal(shape_of(model)).astype("float32")
    expected = reference(model, image)
    engines, weights = [], []
    for way in WAYS:
        executor, compiled = engine(model, way, precision, image)
        engines.append(executor)
        weights.append(compiled.memory["weights"] / 1e6)
    spans: list[list[float]] = [[] for _ in engines]
    warm = time.perf_counter() + WARM_UP
    while time.perf_counter() < warm:
        for executor in engines:
            executor.run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for executor, taken in zip(engines, spans, strict=True):
            taken.append(executor.profile(repeat=IN_A_ROW, warmup=1).span_us)
    plain, *others = [median(taken) for taken in spans]
    times = " | ".join(f"{value:.0f}" for value in (plain, *others))
    ratios = " | ".join(f"{plain / value:.2f}" for value in others)
    kernels = ", ".join(str(len(e.info["graph"]["kernels"])) for e in engines)
    sizes = ", ".join(f"{size:.1f}" for size in weights)
    errors = ", ".join(f"{error(e, expected):.0e}" for e in engines)
    return f"| {name} | {times} | {ratios} | {kernels} | {sizes} | {errors} |"


def shape_of(model: onnx.ModelProto) -> list[int]:
    """The shape of the first input."""
    return [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]


def engine(model: onnx.ModelProto, way: str, precision: str, image: np.ndarray) -> tuple[Any, Any]:
    """An executor with its input set and one frame done, and what it was compiled to."""
    from support.compiled import executor_of
    from tvm_vision.compiler import compile_model
    from tvm_vision.frontend.onnx.load import import_onnx

    module, signature = import_onnx(model)
    compiled = compile_model(
        module, signature, target="vulkan", precision=precision, layout="nchw", winograd=way
    )
    executor = executor_of(compiled)
    executor.set_input(0, image)
    executor.run()
    return executor, compiled


def reference(model: onnx.ModelProto, image: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime computes."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: image})


def error(executor: Any, expected: list[np.ndarray]) -> float:
    """The largest error of the outputs of floats, over the largest value."""
    found = [
        float(np.abs(executor.get_output(i).numpy() - value).max() / np.abs(value).max())
        for i, value in enumerate(expected)
        if value.dtype.kind == "f"
    ]
    return max(found)


if __name__ == "__main__":
    main()
