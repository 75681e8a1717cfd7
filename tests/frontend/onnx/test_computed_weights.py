"""Weights that a file computes are constants before onnxsim reads it: the same network."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvm_vision.frontend.onnx import computed_weights, simplify
from tvm_vision.frontend.onnx.computed_weights import with_weights_computed

RANDOM = np.random.default_rng(5)
SHAPE = (1, 16, 6, 6)


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_weights, "LEAST_BYTES", 1)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)


def node(kind: str, *names: str, **attributes: object) -> onnx.NodeProto:
    """The last of the names is the result's."""
    return helper.make_node(kind, names[:-1], names[-1:], name=names[-1], **attributes)


def model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], *outputs: str
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    axes = list("nc" if nodes[-1].op_type == "MatMul" else "nchw")
    found = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, axes) for name in outputs or ("y",)
    ]
    graph = helper.make_graph(nodes, "network", inputs, found, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def standardized(of: str, to: str) -> list[onnx.NodeProto]:
    """A weight less its mean, by its deviation, times a gain."""
    mean, less, square, variance, deviation, over = (f"{to}{n}" for n in range(6))
    return [
        node("ReduceMean", of, mean, axes=[1, 2, 3]),
        node("Sub", of, mean, less),
        node("Mul", less, less, square),
        node("ReduceMean", square, variance, axes=[1, 2, 3]),
        node("Sqrt", variance, deviation),
        node("Div", less, deviation, over),
        node("Mul", over, "gain", to),
    ]


def network() -> onnx.ModelProto:
    """Two standardized weights, the gain of both computed of a small constant, one that is turned
    and one that is read as it is, too."""
    nodes = [
        node("Identity", "g", "gain"),
        *standardized("w", "v"),
        *standardized("u", "t"),
        node("Conv", "x", "v", "a", pads=[1] * 4),
        node("Conv", "a", "t", "b", pads=[1] * 4),
        node("Conv", "b", "w", "c", pads=[1] * 4),
        node("Transpose", "m", "n", perm=[1, 0]),
        node("Flatten", "c", "f"),
        node("MatMul", "f", "n", "y"),
    ]
    weights = [weight("w", 16, 16, 3, 3), weight("u", 16, 16, 3, 3), weight("m", 8, 576)]
    return model(nodes, [*weights, weight("g", 1)])


def results(proto: onnx.ModelProto) -> list[np.ndarray]:
    image = np.random.default_rng(1).random(SHAPE, np.float32)
    return ReferenceEvaluator(proto).run(None, {"x": image})


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [each.op_type for each in proto.graph.node]


def test_what_is_computed_of_weights_is_a_constant() -> None:
    before = network()
    kept = onnx.ModelProto()
    kept.CopyFrom(before)
    after = with_weights_computed(before)
    assert before == kept
    assert kinds(after) == ["Identity", "Conv", "Conv", "Conv", "Flatten", "MatMul"]
    assert {t.name for t in after.graph.initializer} == {"v", "t", "w", "n", "g"}
    onnx.checker.check_model(after)
    np.testing.assert_allclose(results(after)[0], results(before)[0], rtol=1e-5)


def test_onnxsim_makes_the_same_network_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, given = {"x": SHAPE}, network()
    after = simplify.simplified(given, shapes)
    monkeypatch.setattr(simplify, "with_weights_computed", lambda proto: proto)
    before = simplify.simplified(given, shapes)
    assert after is not None and before is not None
    assert kinds(after) == kinds(before)
    for ours, theirs in zip(results(after), results(before), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def repeated() -> onnx.ModelProto:
    """Sixteen times as large as what it is made of."""
    nodes = [
        node("Tile", "w", "times", "v"),
        node("Conv", "x", "v", "y", pads=[1] * 4),
    ]
    times = numpy_helper.from_array(np.array([1, 16, 1, 1]), "times")
    return model(nodes, [weight("w", 128, 1, 3, 3), times])


def quantized() -> onnx.ModelProto:
    nodes = [
        node("DequantizeLinear", "w", "s", "v"),
        node("Relu", "v", "r"),
        node("Conv", "x", "r", "y", pads=[1] * 4),
    ]
    whole = RANDOM.integers(-100, 100, (64, 16, 3, 3)).astype(np.int8)
    return model(nodes, [numpy_helper.from_array(whole, "w"), weight("s")])


def returned() -> onnx.ModelProto:
    nodes = [node("Relu", "w", "v"), node("Conv", "x", "v", "y", pads=[1] * 4)]
    return model(nodes, [weight("w", 16, 16, 3, 3)], "y", "v")


def of_an_input() -> onnx.ModelProto:
    """Old files list weights among the inputs, and a caller may give others."""
    made = returned()
    del made.graph.output[1]
    value = helper.make_tensor_value_info("w", TensorProto.FLOAT, (16, 16, 3, 3))
    made.graph.input.append(value)
    return made


def with_a_branch() -> onnx.ModelProto:
    nodes = [node("Relu", "w", "v"), node("Conv", "x", "v", "a", pads=[1] * 4)]
    inner = helper.make_graph(
        [node("Add", "a", "a", "i")], "then", [], [helper.make_empty_tensor_value_info("i")]
    )
    nodes.append(node("If", "t", "y", then_branch=inner, else_branch=inner))
    condition = numpy_helper.from_array(np.array(True), "t")
    return model(nodes, [weight("w", 16, 16, 3, 3), condition])


def of_small_ones() -> onnx.ModelProto:
    nodes = [node("Relu", "s", "v"), node("Mul", "x", "v", "y")]
    return model(nodes, [weight("s", 1, 16, 1, 1)])


def measured() -> onnx.ModelProto:
    """The shape of a weight is known without it."""
    nodes = [node("Shape", "w", "s"), node("Expand", "x", "s", "y")]
    return model(nodes, [weight("w", 64, 16, 6, 6)])


def resized() -> onnx.ModelProto:
    """Of which ONNX's reference takes a millisecond for a number."""
    nodes = [node("Resize", "w", "", "", "n", "v", mode="linear"), node("Add", "x", "v", "y")]
    sizes = numpy_helper.from_array(np.array([1, 16, 6, 6]), "n")
    return model(nodes, [weight("w", 1, 16, 9, 9), sizes])


@pytest.mark.parametrize(
    "make",
    [repeated, quantized, returned, of_an_input, with_a_branch, of_small_ones, measured, resized],
)
def test_what_stays(make) -> None:
    proto = make()
    assert with_weights_computed(proto) is proto


def test_results_that_are_left_out_are_no_values() -> None:
    """Nor are inputs that are: nodes have nothing in common for having some."""
    nodes = [
        helper.make_node("Dropout", ["w"], ["v", ""], "v"),
        node("Conv", "x", "v", "a", pads=[1] * 4),
        helper.make_node("Dropout", ["a"], ["b", ""], "b"),
        node("Clip", "b", "", "most", "y"),
    ]
    most = numpy_helper.from_array(np.array(2, np.float32), "most")
    before = model(nodes, [weight("w", 16, 16, 3, 3), most])
    after = with_weights_computed(before)
    assert kinds(after) == ["Conv", "Dropout", "Clip"]
    np.testing.assert_allclose(results(after)[0], results(before)[0], rtol=1e-5)


def test_little_is_left_to_onnxsim(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = network()
    size = sum(4 * int(np.prod(t.dims)) for t in proto.graph.initializer if t.name != "g")
    monkeypatch.setattr(computed_weights, "LEAST_BYTES", size + 5)
    assert with_weights_computed(proto) is proto
    monkeypatch.setattr(computed_weights, "LEAST_BYTES", size)
    assert with_weights_computed(proto) is not proto


def test_what_the_reference_cannot_compute_stays() -> None:
    nodes = [
        node("Reshape", "w", "to", "v"),  # into another number of elements
        node("Relu", "u", "r"),
        node("Conv", "x", "v", "a", pads=[1] * 4),
        node("Conv", "a", "r", "y", pads=[1] * 4),
    ]
    to = numpy_helper.from_array(np.array([16, 16, 3, 5]), "to")
    weights = [weight("w", 16, 16, 3, 3), weight("u", 16, 16, 3, 3), to]
    assert kinds(with_weights_computed(model(nodes, weights))) == ["Reshape", "Conv", "Conv"]
