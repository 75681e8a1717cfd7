"""What follows from shapes is folded before onnxsim works, and nothing else is touched."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import make_model
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx import fold, simplify, tools
from tvm_vision.frontend.onnx.fold import SIZE_ROUNDS, with_sizes_folded
from tvm_vision.frontend.onnx.known_sizes import KnownSizes

LAYERS = 6


def older_export():
    """As torch's older exporter writes a view: sizes are measured, taken apart and put together."""
    nodes, value = [], "x"
    constants: dict[str, np.ndarray] = {
        "one": np.array([1], np.int64),
        "minus": np.array([-1], np.int64),
    }
    for index in range(LAYERS):
        shape, first, wanted, moved, value_after = (f"{n}{index}" for n in "sfwmv")
        nodes += [
            helper.make_node("Shape", [value], [shape]),
            helper.make_node("Constant", [], [f"zero{index}"], value_int=0),
            helper.make_node("Gather", [shape, f"zero{index}"], [first], axis=0),
            helper.make_node("Unsqueeze", [first, "axes"], [f"u{index}"]),
            helper.make_node("Concat", [f"u{index}", "one", "minus"], [wanted], axis=0),
            helper.make_node("Reshape", [value, wanted], [moved]),
            helper.make_node("MatMul", [moved, "weights"], [value_after]),
        ]
        value = value_after
    nodes.append(helper.make_node("Relu", [value], ["y"]))
    weights = np.random.default_rng(0).standard_normal((40, 40), np.float32)
    constants["weights"], constants["axes"] = weights, np.array([0], np.int64)
    model = make_model(nodes, [("x", ("batch", 5, 8))], [("y", ("batch", 1, 40))])
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    return model


def shifted_windows(layers=3 * SIZE_ROUNDS):
    """Sizes that are chosen by comparing them, which ONNX's inference does not follow: what is
    behind a layer is not known before its own sizes are."""
    nodes, value = [], "x"
    for index in range(layers):
        shape, larger, wanted, moved = (f"{n}{index}" for n in "slwm")
        nodes += [
            helper.make_node("Shape", [value], [shape]),
            helper.make_node("Greater", [shape, "one"], [larger]),
            helper.make_node("Where", [larger, shape, "one"], [wanted]),
            helper.make_node("Reshape", [value, wanted], [moved]),
            helper.make_node("Relu", [moved], [f"v{index}"]),
        ]
        value = f"v{index}"
    nodes.append(helper.make_node("Neg", [value], ["y"]))
    model = make_model(nodes, [("x", ("batch", 5, 8))], [("y", ("batch", 5, 8))])
    model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "one"))
    return model


def test_sizes_are_followed_through_all_layers_at_once(monkeypatch):
    asked = []
    run = tools.run

    def watched(step, model, **options):
        asked.append(step)
        return run(step, model, **options)

    monkeypatch.setattr(tools, "run", watched)
    monkeypatch.setattr(fold, "run", watched)
    found = with_sizes_folded(simplify.with_input_shapes(shifted_windows(), {"x": (2, 5, 8)}))
    assert kinds(found) == ["Reshape", "Relu"] * 3 * SIZE_ROUNDS + ["Neg"]
    # Once more for what the first round lets be folded.
    assert asked == ["infer_by_values"] * 2
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in (*found.graph.value_info, *found.graph.output)}  # fmt: skip
    assert shapes["y"] == shapes["v0"] == shapes["m11"] == [2, 5, 8]


@pytest.mark.parametrize(
    ("nodes", "values"),
    [
        # Nothing that has to be drawn, is large, or comes from the input is known.
        ([("RandomUniform", [], {"shape": [2]})], {}),
        ([("Expand", ["one", "many"], {})], {}),
        ([("Relu", ["x"], {}), ("Shape", ["v0"], {"start": 1})], {"v1": [5, 8]}),
        ([("Size", ["x"], {}), ("Div", ["v0", "one"], {})], {"v0": 80, "v1": [80]}),
        ([("Constant", [], {"value_int": 3}), ("Add", ["v0", "one"], {})], {"v0": 3, "v1": [4]}),
        ([("Range", ["zero", "three", "unit"], {})], {"v0": [0, 1, 2]}),
        ([("NonZero", ["one"], {})], {}),
        # What cannot be computed is left.
        ([("Reshape", ["one", "many"], {}), ("Shape", ["x"], {})], {"v1": [2, 5, 8]}),
    ],
)  # fmt: skip
def test_values_that_are_known(nodes, values):
    made = [
        helper.make_node(kind, inputs, [f"v{number}"], **options)
        for number, (kind, inputs, options) in enumerate(nodes)
    ]
    model = make_model(made, [("x", (2, 5, 8))], [(made[-1].output[0], None)])
    for name, value in {
        "one": [1], "many": [5000], "zero": 0, "three": 3, "unit": 1,
    }.items():  # fmt: skip
        tensor = numpy_helper.from_array(np.array(value, np.int64), name)
        model.graph.initializer.append(tensor)
    found = KnownSizes(model).values
    assert {name: value.tolist() for name, value in found.items()} == values


def kinds(model):
    return [node.op_type for node in model.graph.node]


def test_onnxsim_is_given_no_nodes_of_sizes(monkeypatch):
    seen = []
    run = simplify.run

    def watched(step, model, **options):
        seen.append(kinds(model))
        return run(step, model, **options)

    monkeypatch.setattr(simplify, "run", watched)
    model = older_export()
    before = model.SerializeToString()
    result = simplify.simplified(model, {"x": (2, 5, 8)})
    assert seen == [["Reshape", "MatMul"] * LAYERS + ["Relu"]]
    assert result is not None
    assert [d.dim_value for d in result.graph.output[0].type.tensor_type.shape.dim] == [2, 1, 40]
    assert model.SerializeToString() == before
    x = np.random.default_rng(1).standard_normal((2, 5, 8), np.float32)
    expected, found = (Reference(each).run({"x": x})["y"] for each in (model, result))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_values_of_large_weights_are_not_read():
    """They may be missing, or others in their place."""
    model = older_export()
    for tensor in model.graph.initializer:
        if tensor.name == "weights":
            tensor.raw_data = b"stand-in"
    model.graph.node.insert(0, helper.make_node("Neg", ["weights"], ["minus_weights"]))
    found = with_sizes_folded(simplify.with_input_shapes(model, {"x": (2, 5, 8)}))
    assert kinds(found) == ["Neg"] + ["Reshape", "MatMul"] * LAYERS + ["Relu"]


@pytest.mark.parametrize("kind", ["output", "quantizer"])
def test_what_stays(kind):
    """Outputs are made by nodes, and what a quantizer wrote is read as it did."""
    if kind == "output":
        nodes = [helper.make_node("Shape", ["x"], ["y"])]
        element = TensorProto.INT64
    else:
        nodes = [
            helper.make_node("DequantizeLinear", ["held", "scale"], ["real"]),
            helper.make_node("Add", ["x", "real"], ["y"]),
        ]
        element = TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (3,))
    y = helper.make_tensor_value_info("y", element, (None,))
    held = [
        numpy_helper.from_array(np.array([1, 2, 3], np.int8), "held"),
        numpy_helper.from_array(np.float32(0.5), "scale"),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], held if kind == "quantizer" else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    assert kinds(with_sizes_folded(model)) == [node.op_type for node in nodes]


def test_images_of_constants_are_left_to_onnxsim(monkeypatch):
    """ONNX's reference is written in Python: it took 15 s to resize positions as old exports of
    transformers do, of sizes that a dynamic image has."""
    positions = np.random.default_rng(0).random((1, 8, 4, 4), np.float32)
    nodes = [
        helper.make_node("Resize", ["positions", "", "", "sizes"], ["resized"], mode="cubic"),
        helper.make_node("Shape", ["resized"], ["size"]),
        helper.make_node("Reshape", ["x", "size"], ["moved"]),
        helper.make_node("Add", ["moved", "resized"], ["y"]),
    ]
    weights = [("positions", positions), ("sizes", np.array([1, 8, 6, 5], np.int64))]
    model = make_model(nodes, [("x", (1, 240))], [("y", (1, 8, 6, 5))], weights, opset=17)
    known = KnownSizes(model)
    assert "resized" not in known.values
    assert known.values["size"].tolist() == [1, 8, 6, 5]
    asked = []
    monkeypatch.setattr(fold, "_evaluated", lambda node, *_: asked.append(node.op_type))
    kept = [node.op_type for node in with_sizes_folded(model).graph.node]
    assert not asked
    assert kept == ["Resize", "Reshape", "Add"]
