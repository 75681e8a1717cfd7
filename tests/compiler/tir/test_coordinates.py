"""Numbers whose last digits decide are found where they are used, and stay float32 in fp16."""

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
from tvm_vision.compiler.tir.coordinates import holds_coordinates

COLUMNS = 3000


def found(compute: Callable[[Any, Any], Any], outputs: tuple[int, ...] = ()) -> list[bool]:
    """For x [4, 8] and y [4, 8] of float32, read by ``compute``: which of them are such."""
    x, y = (te.placeholder((4, 8), "float32", name) for name in "xy")
    return holds_coordinates(te.create_prim_func([x, y, compute(x, y)]), outputs)[:2]


def element(of: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: te.compute((4, 8), lambda i, j: of(x[i, j], y[i, j]), "out")


def whole(value: Any) -> Any:
    return tirx.Cast("int32", value)


def flags(x: Any, y: Any) -> Any:
    return tirx.Cast("float32", x == y)


def gathered(x: Any, y: Any) -> Any:
    place = te.compute((4, 8), lambda i, j: tirx.floor(y[i, j] * 2.0) - 1.0, "place")
    return te.compute((4, 8), lambda i, j: x[i, whole(place[i, j])], "out")


def summed(terms: int) -> Callable[[Any, Any], Any]:
    k = te.reduce_axis((0, terms), "k")
    return lambda x, y: te.compute((4, 4), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), "out")


def highest(x: Any, y: Any) -> Any:
    k = te.reduce_axis((0, 8), "k")
    pooled = te.compute((4,), lambda i: te.max(x[i, k], axis=k), "pooled")
    return te.compute((4, 8), lambda i, j: flags(y[i, j], pooled[i]), "out")


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (gathered, [False, True]),
        (element(lambda x, y: whole(tirx.round(x + 0.5))), [True, False]),
        (element(lambda x, y: tirx.Cast("int8", tirx.round(x))), [False, False]),
        (element(lambda x, y: tirx.truncmod(x, y) + 1.0), [True, True]),
        (element(lambda x, y: x + tirx.truncmod(y, tirx.const(0.7, "float32"))), [False, True]),
        (element(lambda x, y: tirx.sin(x * 6.28) + y), [True, False]),
        (element(lambda x, y: x * (1.0 + tirx.cos(y))), [False, True]),
        (element(lambda x, y: tirx.tanh(x) + tirx.atan(y)), [False, False]),
        (element(flags), [True, True]),
        (element(lambda x, y: flags(x, x)), [False, False]),  # which is NaN
        (element(lambda x, y: flags(x, tirx.const(0.0, "float32")) + y), [False, False]),
        (highest, [True, True]),
        (element(lambda x, y: tirx.Select(x > y, x, y)), [False, False]),
        (summed(4), [False, False]),
    ],
)
def test_what_decides(compute: Callable[[Any, Any], Any], expected: list[bool]) -> None:
    assert found(compute) == expected


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (element(lambda x, y: x * 2.0 + y), [True, True]),
        (element(lambda x, y: tirx.Select(x > 0.0, y, y * 2.0)), [False, True]),
        (element(lambda x, y: tirx.floor(x) + tirx.exp(y)), [True, True]),
        (summed(4), [True, True]),  # coordinates are turned and moved
        (summed(8), [False, False]),  # a layer's features are no coordinates
    ],
)
def test_what_a_coordinate_is_computed_from(
    compute: Callable[[Any, Any], Any], expected: list[bool]
) -> None:
    assert found(compute) == [False, False]
    assert found(compute, (2,)) == expected


def test_an_arg_max_reads_no_coordinates() -> None:
    from tvm import topi

    assert found(lambda x, y: topi.argmax(x, axis=1)) == [False, False]


SAMPLED = [  # one row of an image at places that the network computes
    helper.make_node("Mul", ["x", "half"], ["moved"]),
    helper.make_node("Concat", ["moved", "zeros"], ["grid"], axis=3),
    helper.make_node("GridSample", ["image", "grid"], ["y"], align_corners=1),
]
TOKENS = [  # numbers of tokens that the network computes
    helper.make_node("Sqrt", ["x"], ["share"]),
    helper.make_node("Mul", ["share", "last"], ["number"]),
    helper.make_node("Cast", ["number"], ["token"], to=TensorProto.INT64),
    helper.make_node("Gather", ["image", "token"], ["y"], axis=3),
]
PEAKS = [  # 1 where a score is the largest of its neighbours
    helper.make_node("Mul", ["x", "half"], ["score"]),
    helper.make_node("MaxPool", ["score"], ["top"], kernel_shape=[3, 1], pads=[1, 0, 1, 0]),
    helper.make_node("Equal", ["score", "top"], ["peak"]),
    helper.make_node("Cast", ["peak"], ["y"], to=TensorProto.FLOAT),
]


@pytest.mark.parametrize("nodes", [SAMPLED, TOKENS, PEAKS], ids=["sampled", "tokens", "peaks"])
@pytest.mark.usefixtures("device_info")
def test_places_tokens_and_peaks_are_those_of_float32(
    nodes: list[onnx.NodeProto], tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    constants = {
        "half": np.float32(0.5),
        "last": np.float32(COLUMNS - 1),
        "zeros": np.zeros((1, 1, COLUMNS, 1), "float32"),
        "image": rng.random((1, 1, 1, COLUMNS), "float32"),
    }
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 1, COLUMNS, 1]), ("y", None))
    )
    used = {name for node in nodes for name in node.input}
    known = [numpy_helper.from_array(v, k) for k, v in constants.items() if k in used]
    graph = helper.make_graph(nodes, "g", [x], [y], known)
    opsets = [helper.make_opsetid("", 16)]
    path = tmp_path / "n.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    image = np.linspace(0.1, 0.9, COLUMNS, dtype="float32").reshape(1, 1, COLUMNS, 1)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": image})
    package = tvm_vision.compile(path, tmp_path / "n.tar", target="vulkan", precision="fp16")
    executor = tvm_vision.load(package)
    executor.set_input("x", image)
    executor.run()
    np.testing.assert_allclose(executor.outputs()["y"], expected, atol=3e-3)
