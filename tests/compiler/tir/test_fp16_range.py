"""What fp16 would take for 0 or infinity is found where it is written, and stays float32."""

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
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.target import parse_target
from tvm_vision.compiler.tir.fp16_range import holds_lost, lost
from tvm_vision.frontend.onnx.load import import_onnx

LEAST = -3.4028234663852886e38
Element = Callable[[Any, Any], Any]


@pytest.mark.parametrize(
    ("number", "is_lost"),
    [
        (0.0, False), (1.0, False), (65504.0, False), (65520.0, True), (LEAST, True),
        (1e-12, True), (-1e-9, True), (6e-8, False), (1e-5, False), (float("-inf"), False),
    ],
)  # fmt: skip
def test_numbers(number: float, is_lost: bool) -> None:
    assert lost(number) == is_lost


def written(element: Element, numbers: dict[int, float], tensors: set[int]) -> bool:
    """Of element(x, y) for tensors x, y whether fp16 loses what is written."""
    x, y = (te.placeholder((4,), "float32", name) for name in "xy")
    out = te.compute((4,), lambda i: element(x[i], y[i]), "out")
    *inputs, output = holds_lost(te.create_prim_func([x, y, out]), numbers, tensors)
    assert inputs == [False, False]
    return output


def number(value: float) -> Any:
    return tirx.const(value, "float32")


@pytest.mark.parametrize(
    ("element", "is_lost"),
    [
        (lambda x, y: tirx.max(x, number(1e-12)), True),
        (lambda x, y: tirx.max(tirx.sqrt(x), number(1e-12)), True),
        (lambda x, y: tirx.min(tirx.max(x, number(1e-12)), number(-LEAST)), True),
        (lambda x, y: x + number(1e-12), True),
        (lambda x, y: x * number(LEAST), True),
        (lambda x, y: tirx.Select(x > y, number(LEAST), number(0.0)), True),
        (lambda x, y: tirx.if_then_else(x > y, y, number(1e9)), True),
        (lambda x, y: tirx.max(x, number(LEAST)), False),  # bounds that nothing reaches
        (lambda x, y: tirx.min(x, number(-LEAST)), False),
        (lambda x, y: x / tirx.max(y, number(1e-12)), False),  # used, and not written
        (lambda x, y: tirx.exp(x + number(LEAST)), False),
        (lambda x, y: x + (number(1.0) - y) * number(LEAST), True),  # what hides, over scores
        (lambda x, y: x * (number(0.5) + y * (number(0.1) + y * number(1e-10))), False),
        # The last number, asked for where only an infinity's neighbour would be it.
        (lambda x, y: tirx.if_then_else(x == number(LEAST), number(LEAST), x), False),
        (lambda x, y: tirx.Select(number(LEAST) == x, number(LEAST), y), False),
        (lambda x, y: tirx.Select(x == number(1.0), number(LEAST), y), True),
        (lambda x, y: tirx.Select(tirx.max(x, number(1e9)) == number(1e9), number(1e9), y), True),
        (lambda x, y: x + y, False),
        (lambda x, y: tirx.max(x, number(0.5)) * number(3.0), False),
    ],
)
def test_what_is_written(element: Element, is_lost: bool) -> None:
    assert written(element, {}, set()) == is_lost


def test_numbers_and_tensors_that_are_given_count_as_well() -> None:
    def least(x: Any, y: Any) -> Any:
        return tirx.max(x, y)

    assert written(least, {1: 1e-12}, set())
    assert not written(least, {1: LEAST}, set())
    assert not written(least, {1: 0.1}, set())
    assert written(lambda x, y: x + y, {}, {1})  # what hides, over scores
    assert not written(lambda x, y: tirx.exp(x - y), {}, {1})


def test_a_maximum_begins_with_the_least_number_and_may_be_padded_with_it() -> None:
    x = te.placeholder((4, 8), "float32", "x")

    def padding(i: Any, k: Any) -> Any:
        return tirx.if_then_else(k < 8, x[i, k], number(LEAST))

    padded = te.compute((4, 9), padding, "padded")
    k = te.reduce_axis((0, 9), "k")
    out = te.compute((4,), lambda i: te.max(padded[i, k], axis=k), "out")
    assert holds_lost(te.create_prim_func([x, out]), {}, set()) == [False, False]


def test_values_that_are_read_several_times_are_looked_through_once() -> None:
    """Sixty steps, each of which reads the one before three times: 3 ** 60 ways to the first."""
    x = te.placeholder((4,), "float32", "x")

    def step(of: Any) -> Any:
        return te.compute((4,), lambda i: of[i] * of[i] + of[i])

    hidden = te.compute((4,), lambda i: x[i] * number(LEAST))
    for out, is_lost in ((hidden, True), (x, False)):
        for _ in range(60):
            out = step(out)
        assert holds_lost(te.create_prim_func([x, out]), {}, set()) == [False, is_lost]


def network(nodes: list[onnx.NodeProto], constants: dict[str, Any], path: Path) -> Path:
    """x and hidden [1,6,8] to y."""
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 6, 8])
        for name in ("x", "hidden", "y")
    ]
    known = [
        numpy_helper.from_array(np.asarray(v, "float32"), name) for name, v in constants.items()
    ]
    graph = helper.make_graph(nodes, "g", values[:2], values[2:], known)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path
    )
    return path


UNIT_LENGTH = [  # of each row, and of what is hidden nothing
    helper.make_node("Mul", ["x", "hidden"], ["seen"]),
    helper.make_node("ReduceL2", ["seen"], ["length"], axes=[-1]),
    helper.make_node("Clip", ["length", "least"], ["bounded"]),
    helper.make_node("Relu", ["x"], ["between"]),
    helper.make_node("Div", ["between", "bounded"], ["unit"]),
    helper.make_node("Add", ["unit", "x"], ["y"]),
]
MASKED = [  # a softmax over places, of which some or all are hidden
    helper.make_node("Sub", ["one", "hidden"], ["off"]),
    helper.make_node("Mul", ["off", "lowest"], ["mask"]),
    helper.make_node("Add", ["x", "mask"], ["scores"]),
    helper.make_node("Softmax", ["scores"], ["y"], axis=-1),
]

DIMMED = [  # by scales of which fp16 keeps few digits, as layers begin with in ConvNeXt
    helper.make_node("Mul", ["x", "small"], ["dim"]),
    helper.make_node("Mul", ["dim", "large"], ["bright"]),
    helper.make_node("Add", ["bright", "hidden"], ["y"]),
]


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (UNIT_LENGTH, {"least": 1e-12}),
        (MASKED, {"one": 1.0, "lowest": LEAST}),
        (DIMMED, {"small": np.full(8, 1.23e-6), "large": 8e5}),
    ],
    ids=["unit_length", "masked", "dimmed"],
)
@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.usefixtures("device_info")
def test_black_images_and_rows_that_are_hidden_whole_stay_numbers(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], value: float, tmp_path: Path
) -> None:
    path = network(nodes, constants, tmp_path / "n.onnx")
    package = tvm_vision.compile(path, tmp_path / "n.tar", target="vulkan", precision="fp16")
    noise = np.random.default_rng(3).standard_normal((1, 6, 8)).astype("float32")
    hidden = np.full((1, 6, 8), value, "float32")
    inputs = {"x": noise * value, "hidden": hidden}
    (expected,) = onnxruntime.InferenceSession(path).run(None, inputs)
    executor = tvm_vision.load(package)
    for name, array in inputs.items():
        executor.set_input(name, array)
    executor.run()
    np.testing.assert_allclose(executor.outputs()["y"], expected, atol=5e-3)


def extremes(operator: str, path: Path) -> Path:
    """x [1,6,8] through a product, its extreme along the last axis taken from it, and a product."""
    weights = np.eye(8, dtype="float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node(operator, ["a"], ["extreme"], axes=[-1], keepdims=1),
        helper.make_node("Sub", ["a", "extreme"], ["apart"]),
        helper.make_node("MatMul", ["apart", "w"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["d"]),
        helper.make_node("Add", ["d", "hidden"], ["y"]),
    ]
    return network(nodes, {"w": weights}, path)


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_what_extremes_are_taken_of_is_fp16_and_so_is_all_that_follows(
    operator: str, tmp_path: Path
) -> None:
    """The importer asks for the last numbers of float32 around them, for infinities' sake."""
    model = extremes(operator, tmp_path / "model.onnx")
    module, _ = import_onnx(onnx.load(model))
    graph = prepare(module, target=parse_target("llvm"), precision="fp16")
    ends = {*graph.inputs, *graph.outputs}
    between = [graph.tensors[t].dtype for k in graph.kernels for t in k.outputs if t not in ends]
    assert between and set(between) == {"float16"}
