"""Weights away from onnxsim: the same network as with them, whatever its passes do to weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvm_vision.frontend.onnx import simplify, stand_ins
from tvm_vision.frontend.onnx.simplify import simplified

SHAPE = (1, 4, 6, 6)
RANDOM = np.random.default_rng(3)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)


def model(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, list("nchw"))]
    graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(kind: str, *names: str, **attributes: object) -> onnx.NodeProto:
    """The last of the names is the result's."""
    return helper.make_node(kind, names[:-1], names[-1:], name=names[-1], **attributes)


def plain() -> onnx.ModelProto:
    nodes = [node("Conv", "x", "w", "b", "a"), node("MatMul", "a", "m", "y")]
    return model(nodes, [weight("w", 4, 4, 1, 1), weight("b", 4), weight("m", 6, 6)])


def product_with_a_summand() -> onnx.ModelProto:
    """Which onnxsim joins, between Reshapes, where it sees that the product is one of weights."""
    nodes = [node("MatMul", "x", "m", "p"), node("Add", "p", "s", "y")]
    return model(nodes, [weight("m", 6, 6), weight("s", 6)])


def normalized() -> onnx.ModelProto:
    nodes = [node("Conv", "x", "w", "a"), node("BatchNormalization", "a", *"gbmv", "y")]
    ones = numpy_helper.from_array(np.ones(4, np.float32), "v")
    return model(nodes, [weight("w", 4, 4, 1, 1), *(weight(n, 4) for n in "gbm"), ones])


def scaled() -> onnx.ModelProto:
    nodes = [node("Mul", "x", "s", "a"), node("Conv", "a", "w", "c"), node("Mul", "c", "s", "y")]
    return model(nodes, [weight("w", 4, 4, 1, 1), weight("s", 1, 4, 1, 1)])


def scaled_elsewhere() -> onnx.ModelProto:
    """Convolutions in front of another function, between two readers, in front of a sum of two that
    is scaled, behind a scale and a summand, and one behind a scale alone."""
    nodes = [
        node("Conv", "x", "w1", "a"), node("Relu", "a", "r"), node("Mul", "r", "s", "m"),
        node("Conv", "m", "w2", "b"), node("Relu", "b", "q"),
        node("Conv", "q", "w3", "c"), node("Mul", "c", "s", "d"), node("Mul", "c", "d", "e"),
        node("Conv", "e", "w4", "f"), node("Add", "f", "x", "g"), node("Mul", "g", "s", "h"),
        node("Add", "h", "s", "i"), node("Conv", "i", "w5", "y"),
    ]  # fmt: skip
    weights = [weight(f"w{number}", 4, 4, 1, 1) for number in range(1, 6)]
    return model(nodes, [*weights, weight("s", 1, 4, 1, 1)])


def scaled_behind_a_summand() -> onnx.ModelProto:
    nodes = [node("Conv", "x", "w", "a"), node("Add", "a", "s", "b"), node("Mul", "b", "s", "y")]
    return model(nodes, [weight("w", 4, 4, 1, 1), weight("s", 1, 4, 1, 1)])


def scaled_before_nothing_is_added() -> onnx.ModelProto:
    """As before training: a sum with zeros, one of them by another name, is none to onnxsim."""
    nodes = [
        node("Mul", "x", "s", "a"), node("Add", "a", "z", "b"), node("Conv", "b", "w", "c"),
        node("Relu", "c", "r"), node("Mul", "r", "s", "d"), node("Identity", "z", "o"),
        node("Sub", "d", "o", "e"), node("Conv", "e", "v", "y"),
    ]  # fmt: skip
    zeros = numpy_helper.from_array(np.zeros((1, 4, 1, 1), np.float32), "z")
    weights = [weight("w", 4, 4, 1, 1), weight("v", 4, 4, 1, 1), weight("s", 1, 4, 1, 1)]
    return model(nodes, [*weights, zeros])


def folded() -> onnx.ModelProto:
    """Weights that are computed from weights, one of them from a shape as well."""
    nodes = [
        node("Transpose", "w", "t", perm=[1, 0, 2, 3]), node("Conv", "x", "t", "a"),
        node("MatMul", "n", "m", "k"), node("MatMul", "a", "k", "p"),
        node("Shape", "x", "h"), node("Cast", "h", "f", to=TensorProto.FLOAT),
        node("MatMul", "f", "l", "q"), node("Add", "p", "q", "y"),
    ]  # fmt: skip
    weights = [weight("w", 4, 4, 1, 1), weight("m", 6, 6), weight("n", 6, 6), weight("l", 4, 6)]
    return model(nodes, weights)


def twins() -> onnx.ModelProto:
    """Two weights of the same numbers, and one of the same shape alone."""
    first = weight("w", 6, 6)
    again = numpy_helper.from_array(numpy_helper.to_array(first), "v")
    nodes = [node("MatMul", "x", "w", "a"), node("Relu", "a", "r"), node("MatMul", "r", "v", "b")]
    nodes += [node("Relu", "b", "s"), node("MatMul", "s", "u", "y")]
    return model(nodes, [first, again, weight("u", 6, 6)])


def queries_keys_and_values() -> onnx.ModelProto:
    """Three products of one value without summands: onnxsim makes one of them, which reads them."""
    nodes = []
    for name in "qkv":
        nodes.append(node("MatMul", "r", f"w_{name}", f"p_{name}"))
        nodes.append(node("Reshape", f"p_{name}", f"shape_{name}", f"h_{name}"))
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(node("Transpose", f"h_{name}", f"t_{name}", perm=order))
    rows = numpy_helper.from_array(np.array([1, 24, 6]), "rows")
    nodes = [node("Reshape", "x", "rows", "r"), *nodes]
    nodes += [node("MatMul", "t_q", "t_k", "a"), node("Softmax", "a", "s", axis=-1)]
    nodes += [node("MatMul", "s", "t_v", "y")]
    shapes = [numpy_helper.from_array(np.array([1, 24, 2, 3]), f"shape_{name}") for name in "qkv"]
    return model(nodes, [rows, *shapes, *(weight(f"w_{name}", 6, 6) for name in "qkv")])


def read_twice() -> onnx.ModelProto:
    """A weight of a product that is added as well."""
    nodes = [node("MatMul", "x", "w", "a"), node("Add", "a", "w", "y")]
    return model(nodes, [weight("w", 6, 6)])


@pytest.fixture(autouse=True)
def all_weights_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_ins, "LEAST", 1)


def form(found: onnx.ModelProto) -> list[tuple[str, list[str]]]:
    """Its nodes with what they compute; names of weights are free."""
    return [(n.op_type, list(n.output)) for n in found.graph.node]


@pytest.mark.parametrize(
    ("build", "away"),
    [
        (plain, {"w", "m"}),
        (normalized, set()),
        (scaled, set()),
        (scaled_elsewhere, {"w1", "w3", "w4", "w5"}),
        (scaled_behind_a_summand, set()),
        (scaled_before_nothing_is_added, set()),
        (folded, set()),
        (twins, {"w", "u"}),
        (read_twice, set()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_network_is_the_same(build, away, monkeypatch) -> None:
    given = build()
    assert set(stand_ins.with_stand_ins(given)[1]) == away
    ours = simplified(given, {"x": SHAPE})
    monkeypatch.setattr(simplify, "with_stand_ins", lambda whole: (whole, {}))
    whole = simplified(given, {"x": SHAPE})
    assert form(ours) == form(whole)
    assert len(ours.graph.initializer) == len(whole.graph.initializer)
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    results = [ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (ours, whole)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("build", "away"),
    [(queries_keys_and_values, {"w_q", "w_k", "w_v"}), (product_with_a_summand, {"m"})],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_products_keep_their_weights(build, away) -> None:
    """No form is asked for: onnxsim makes one product of three, or of one and a summand, where it
    sees their weights."""
    given = build()
    assert set(stand_ins.with_stand_ins(given)[1]) == away
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    found = simplified(given, {"x": SHAPE})
    ours, whole = (ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (found, given))
    np.testing.assert_allclose(ours, whole, rtol=1e-5, atol=1e-6)


def test_what_nothing_uses_any_more_is_gone() -> None:
    light, away = stand_ins.with_stand_ins(plain())
    del light.graph.node[1:]
    assert stand_ins.put_back(light, away)
    assert [tensor.name for tensor in light.graph.initializer] == ["b", "w"]
    assert [value.name for value in light.graph.input] == ["x"]


def reads_a_weight() -> onnx.NodeProto:
    return node("Transpose", "w", "t", perm=[1, 0, 2, 3])


def as_an_image() -> onnx.NodeProto:
    return node("Conv", "w", "x", "t")


def of_another_domain() -> onnx.NodeProto:
    made = node("MatMul", "x", "m", "t")
    made.domain = "com.example"
    return made


@pytest.mark.parametrize("pass_adds", [reads_a_weight, as_an_image, of_another_domain])
def test_a_stand_in_that_something_else_reads_is_noticed(pass_adds) -> None:
    """As a pass would that computes weights of others, and is not known here."""
    light, away = stand_ins.with_stand_ins(plain())
    light.graph.node.append(pass_adds())
    assert not stand_ins.put_back(light, away)


def test_onnxsim_gets_the_weights_where_it_cannot_do_without(monkeypatch) -> None:
    monkeypatch.setattr(simplify, "put_back", lambda *_: False)
    found = simplified(plain(), {"x": SHAPE})
    assert next(n.op_type for n in found.graph.node) == "Conv"
    assert {len(t.raw_data) for t in found.graph.initializer} >= {4 * 16, 4 * 36}
