"""Sums with what is before and behind them as one kernel, against onnxruntime."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from support.compiled import FIXED, executor_of, kernels_of
from support.fp16_forms import Nodes, expected, network_of, node, of_image
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

random = np.random.default_rng(5)
CONSTANTS: dict[str, np.ndarray] = {
    "small": np.array(1e-3, np.float32),
    "pixels": np.array([2, 3]),
    "gain": random.uniform(0.5, 1.5, (3, 1, 1)).astype(np.float32),
    "large": np.array(2.0**20, np.float32),
    "one": np.array([1]),
    "square": random.standard_normal((3, 3, 1, 1)).astype(np.float32) / 4,
    "picture": random.standard_normal((1, 3, 20, 32)).astype(np.float32),
}
SUM = node("ReduceSum", "i pixels", "s")
# Nodes in each kernel.
FORMS: dict[str, tuple[Nodes, list[int]]] = {
    "length": (of_image(node("ReduceL2", "i pixels", "y")), [2, 1]),
    "root of a sum of squares": (
        of_image(
            node("Mul", "i i", "m"), node("ReduceSum", "m pixels", "s"), node("Sqrt", "s", "y")
        ),
        [2, 3],
    ),
    "several behind": (
        of_image(
            node("Exp", "i", "a"), node("ReduceSum", "a pixels", "s"), node("Add", "s small", "p"),
            node("Mul", "p gain", "q"), node("Reciprocal", "q", "y"),
        ),
        [2, 5],
    ),
    "nothing before": (of_image(SUM, node("Abs", "s", "y")), [2, 2]),
    "global response": (
        of_image(
            node("ReduceL2", "i pixels", "q"), node("ReduceMean", "q one", "m"),
            node("Add", "m small", "a"), node("Div", "q a", "n"), node("Mul", "i n", "y"),
        ),
        [2, 1, 3, 1],
    ),
    "before it what a product takes in": (
        of_image(
            node("Conv", "i square", "c"), node("Exp", "c", "e"),
            node("ReduceSum", "e pixels", "s"), node("Sqrt", "s", "y"),
        ),
        [2, 2, 2],
    ),
    "read twice": (
        of_image(
            SUM, node("Abs", "s", "a"), node("ReduceMean", "s one", "b"), node("Sub", "a b", "y")
        ),
        [2, 1, 3],
    ),
    "mean of products": (
        of_image(node("Mul", "i picture", "m"), node("ReduceMean", "m one", "y")), [4],
    ),
    "mean with several before and behind it": (
        of_image(
            node("Mul", "i picture", "m"), node("Exp", "m", "e"), node("ReduceMean", "e one", "a"),
            node("Sqrt", "a", "y"),
        ),
        [6],
    ),
    "mean of what a product takes in": (
        of_image(
            node("Conv", "i square", "c"), node("Exp", "c", "e"),
            node("ReduceMean", "e pixels", "y"),
        ),
        [2, 2, 1],
    ),
    "mean of what a product takes in by two ways": (
        of_image(
            node("Conv", "i square", "c"), node("Sigmoid", "c", "g"), node("Mul", "c g", "e"),
            node("ReduceMean", "e pixels", "y"),
        ),
        [2, 3, 1],
    ),
    "mean of what is read elsewhere": (
        of_image(
            node("Exp", "i", "e"), node("ReduceMean", "e pixels", "m"), node("Mul", "e m", "y"),
        ),
        [3, 2],
    ),
    "larger behind": (of_image(SUM, node("Mul", "picture s", "y")), [2, 1, 1]),
    "taken back": (
        of_image(node("ReduceSum", "i pixels", "s"), node("Add", "s large", "p"),
                 node("Sub", "p large", "y")),
        [2, 1, 1, 1],
    ),
}  # fmt: skip
TOLERANCE = {"fp32": 1e-5, "fp16": 4e-3}  # of the largest; one form rounds to eighths


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", FORMS)
def test_kernels(name: str, precision: str, device_info) -> None:
    nodes, counts = FORMS[name]
    model = network_of(nodes, CONSTANTS)
    _, groups = kernels_of(import_onnx(model)[0], FIXED)
    assert [len(group) for group in groups] == counts
    steps = [f"{each.op_type}_{place}" for place, each in enumerate(model.graph.node)]
    assert list(dict.fromkeys(chain.from_iterable(groups))) == steps
    x = np.random.default_rng(4).standard_normal((1, 20, 96)).astype(np.float32) + 1
    made = compile_model(*import_onnx(model), target="vulkan", precision=precision)
    executor = executor_of(made)
    executor.run(x=x)
    wanted = expected(model, x)
    error = np.abs(executor.outputs()["y"] - wanted).max() / np.abs(wanted).max()
    assert error < TOLERANCE[precision]
