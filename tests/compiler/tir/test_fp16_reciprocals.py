"""Reciprocals beyond fp16 are found, and rows that are multiplied by such stay numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import te, tirx

import tvm_vision
from tvm_vision.compiler.tir.fp16_reciprocals import holds_reciprocals

Element = Callable[[Any, Any], Any]
TERMS = 1 << 18  # of which no kernel has all of a row: its reciprocal is a tensor


def number(value: float) -> Any:
    return tirx.const(value, "float32")


def written(element: Element, given: set[int]) -> bool:
    """Of element(x, y) for tensors x, y, whether a reciprocal beyond fp16 may be written."""
    x, y = (te.placeholder((4,), "float32", name) for name in "xy")
    out = te.compute((4,), lambda i: element(x[i], y[i]), "out")
    *inputs, output = holds_reciprocals(te.create_prim_func([x, y, out]), given)
    assert inputs == [False, False]
    return output


@pytest.mark.parametrize(
    ("element", "is_beyond"),
    [
        (lambda x, y: tirx.rsqrt(x), True),
        (lambda x, y: tirx.rsqrt(x + number(1e-12)), True),
        (lambda x, y: tirx.rsqrt(x + number(1e-5)), False),
        (lambda x, y: tirx.rsqrt(tirx.max(x, number(1e-12))), True),
        (lambda x, y: number(1.0) / x, True),
        (lambda x, y: number(1.0) / tirx.sqrt(x + number(1e-12)), True),
        (lambda x, y: number(1.0) / tirx.sqrt(number(1e-6) + x), False),
        (lambda x, y: number(1.0) / tirx.max(tirx.sqrt(x), number(1e-12)), True),
        (lambda x, y: number(1.0) / (number(1.0) + tirx.exp(x)), False),  # a sigmoid
        (lambda x, y: tirx.pow(x, number(-0.5)), True),
        (lambda x, y: tirx.pow(x + number(1e-5), number(-0.5)), False),
        (lambda x, y: y * tirx.rsqrt(x), True),
        (lambda x, y: tirx.Select(x > y, y, tirx.rsqrt(x)), True),
        (lambda x, y: y / tirx.sqrt(x), False),  # a row by its deviation
        (lambda x, y: tirx.sqrt(x), False),
        (lambda x, y: x * y, False),
    ],
)
def test_what_is_written(element: Element, is_beyond: bool) -> None:
    assert written(element, set()) == is_beyond


def test_what_is_made_of_those_that_are_given() -> None:
    assert written(lambda x, y: x * y, {0})
    assert written(lambda x, y: x, {0})
    assert not written(lambda x, y: x + y, {0})


def test_sums_are_none() -> None:
    x, term = te.placeholder((4,), "float32", "x"), te.reduce_axis((0, 4), "term")
    total = te.compute((1,), lambda _: te.sum(tirx.rsqrt(x[term]), term), "total")
    assert not any(holds_reciprocals(te.create_prim_func([x, total]), set()))


def test_values_that_are_read_several_times_are_looked_through_once() -> None:
    """Sixty products of the one before with itself: 2 ** 60 ways to the first."""
    x = te.placeholder((4,), "float32", "x")

    def step(of: Any) -> Any:
        return te.compute((4,), lambda i: of[i] * of[i] + of[i] * of[i])

    steps = [step(x)]
    for _ in range(60):
        steps.append(step(steps[-1]))
    out = te.compute((4,), lambda i: tirx.rsqrt(steps[-1][i]) * steps[-1][i], "out")
    assert holds_reciprocals(te.create_prim_func([x, out]), set()) == [False, True]


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def mean(of: str, output: str) -> onnx.NodeProto:
    return node("ReduceMean", of, output, axes=[2], keepdims=1)


CENTERED = [mean("x", "m"), node("Sub", "x m", "d"), node("Mul", "d d", "s"), mean("s", "v")]
DEVIATION = [*CENTERED, node("Add", "v small", "e"), node("Sqrt", "e", "r")]
NORMS = {
    "reciprocal": [*DEVIATION, node("Reciprocal", "r", "q"), node("Mul", "d q", "y")],
    "quotient of one": [*DEVIATION, node("Div", "one r", "q"), node("Mul", "q d", "y")],
    "power": [*CENTERED, node("Add", "v small", "e"), node("Pow", "e minus", "q"),
              node("Mul", "d q", "y")],
    "root of mean square": [node("Mul", "x x", "s"), mean("s", "v"), node("Add", "v small", "e"),
                            node("Sqrt", "e", "r"), node("Reciprocal", "r", "q"),
                            node("Mul", "x q", "y")],
    "group normalization": [
        node("Reshape", "x two", "g"), node("InstanceNormalization", "g ones zeros", "i",
                                            epsilon=1e-12), node("Reshape", "i back", "y")],
}  # fmt: skip
CONSTANTS = {
    "small": np.float32(1e-12), "one": np.float32(1), "minus": np.float32(-0.5),
    "two": np.array([1, 2, -1]), "back": np.array([1, 2, TERMS]),
    "ones": np.ones(2, "float32"), "zeros": np.zeros(2, "float32"),
}  # fmt: skip


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("norm", NORMS)
def test_long_rows_without_a_deviation_stay_numbers(norm: str, tmp_path: Path) -> None:
    shape = [1, 2, TERMS]
    used = {name for each in NORMS[norm] for name in each.input}
    graph = helper.make_graph(
        NORMS[norm],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in CONSTANTS.items() if n in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    package = tvm_vision.compile(model, tmp_path / "m.tar", target="vulkan", precision="fp16")
    network = tvm_vision.load(package)
    noise = np.random.default_rng(1).standard_normal(shape).astype("float32")
    for x in (noise, 1e-3 * noise, np.zeros_like(noise), np.full_like(noise, 3.0)):
        (expected,) = session.run(None, {"x": x})
        network.run(x=x)
        np.testing.assert_allclose(network.outputs()["y"], expected, rtol=2e-3, atol=2e-3)
