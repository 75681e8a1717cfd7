"""Small inputs made constants: values and arrays, what their remedy names, and what comes of it."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from support.onnx_models import make_model
from support.tflite_models import Graph
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.input_values import value_array
from tvm_vision.frontend.model import import_model
from tvm_vision.frontend.onnx.cut import cut_onnx
from tvm_vision.frontend.onnx.load import import_onnx

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "array"),
    [
        (16000, "int64", (), np.array(16000)),
        (2, "float32", (2, 3), np.full((2, 3), 2.0)),
        ([1, 2], "int32", (2,), np.array([1, 2])),
        ([1, 2], "int64", (None,), np.array([1, 2])),
        ([1, 2, 3, 4], "int64", (2, 2), np.array([[1, 2], [3, 4]])),
        ([0.1, 2], "float16", (1, 2), np.array([[0.1, 2]], np.float16)),
        (3, "int64", (None, 1), np.array([[3]])),
        (True, "bool", (), np.array(True)),
        (1, "bool", (1,), np.array([True])),
    ],
)
def test_an_array_of_a_value(value, dtype, shape, array):
    found = value_array("n", value, dtype, shape)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "words"),
    [
        (1.5, "int64", (), r"int64\[\], and 1.5 does not fit it: give"),
        (300, "uint8", (), "300 does not fit it: give"),
        (-1, "uint8", (), "-1 does not fit it: give"),
        (1e300, "float32", (), "does not fit it: give"),
        (float("inf"), "int32", (), "does not fit it: give"),
        (2, "bool", (), "2 does not fit it: give"),
        ([1, 2], "int64", (), "2 values do not fill it: give"),
        ([1, 2, 3], "int64", (2, None), "3 values do not fill it: give"),
        ("left", "int64", (), "a number or at most 1024 of them are needed"),
        (np.zeros(2000), "float32", (2000,), "found 2000 of float64; leave it an input"),
    ],
)
def test_what_fits_no_input(value, dtype, shape, words):
    with pytest.raises(InputError, match=words):
        value_array("n", value, dtype, shape)


def body(*nodes, given, made):
    return helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in given],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in made],
    )


def by_a_loop():
    step = body(
        helper.make_node("Add", ["v", "v"], ["next"]),
        helper.make_node("Identity", ["go"], ["on"]),
        given=[("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []),
               ("v", TensorProto.FLOAT, X.shape)],
        made=[("on", TensorProto.BOOL), ("next", TensorProto.FLOAT)],
    )  # fmt: skip
    return [helper.make_node("Loop", ["n", "", "x"], ["y"], body=step)], ()


def by_a_branch():
    """Results of two ranks: both at once cannot be had."""
    part = body(helper.make_node("ReduceSum", ["x"], ["r"], keepdims=0),
                given=(), made=[("r", TensorProto.FLOAT)])  # fmt: skip
    whole = body(helper.make_node("Neg", ["x"], ["s"]), given=(), made=[("s", TensorProto.FLOAT)])
    nodes = [
        helper.make_node("Equal", ["n", "three"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=part, else_branch=whole),
    ]
    return nodes, [("three", 3)]


def by_a_shape():
    nodes = [
        helper.make_node("Unsqueeze", ["n", "zero"], ["times"]),
        helper.make_node("Concat", ["times", "one"], ["by"], axis=0),
        helper.make_node("Tile", ["x", "by"], ["y"]),
    ]
    return nodes, [("zero", [0]), ("one", [1])]


def by_a_slice():
    nodes = [
        helper.make_node("Unsqueeze", ["n", "zero"], ["end"]),
        helper.make_node("Slice", ["x", "zero", "end", "one"], ["y"]),
    ]
    return nodes, [("zero", [0]), ("one", [1])]


def model_by(made):
    nodes, weights = made()
    weights = [(name, np.array(value, np.int64)) for name, value in weights]
    model = make_model(nodes, [("x", X.shape)], [], weights)
    model.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT64, []))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return model


WAYS = [by_a_loop, by_a_branch, by_a_shape, by_a_slice]


@pytest.mark.parametrize("made", WAYS)
@pytest.mark.parametrize("value", [3, 2])
def test_the_remedy_names_the_input_and_works(made, value):
    model = model_by(made)
    with pytest.raises(UnsupportedModelError, match="'n' by --input-value n=.*input_values") as one:
        import_onnx(model)
    assert "\n" not in str(one.value) and "'x'" not in str(one.value).partition("give the")[2]
    imported = import_onnx(model, input_values={"n": value})
    assert [spec.name for spec in imported[1].inputs] == ["x"]
    assert imported[1].input_values == {"n": value}
    found = executor(imported, "llvm")(X)[0]
    wanted = Reference(model, input_values={"n": value}).run({"x": X})["y"]
    np.testing.assert_array_equal(found, wanted)


def test_a_model_that_is_cut_keeps_them():
    model = model_by(by_a_slice)
    model.graph.node.insert(0, helper.make_node("MatMul", ["x", "w"], ["m"]))
    model.graph.node.append(helper.make_node("RandomUniformLike", ["m"], ["z"]))
    model.graph.node[2].input[0] = "m"
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    parts = cut_onnx(model, input_values={"n": 2})
    assert parts.left == ("RandomUniformLike",)
    assert parts.imported[1].input_values == {"n": 2}
    assert [spec.name for spec in parts.imported[1].inputs] == ["x"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"m": 1}, "input_values names 'm', and the model's inputs are: x, n; use their names"),
        ({"n": 1, "x": 0}, "input_values leave a network no input: leave out that of the data"),
    ],
)
def test_values_of_no_input(values, words):
    with pytest.raises(InputError, match=words):
        import_onnx(model_by(by_a_slice), input_values=values)


def test_what_has_no_inputs_to_fix():
    values = {"n": 1}
    imported = import_onnx(model_by(by_a_slice), input_values=values)
    with pytest.raises(InputError, match="input_values are for who imports the model: give"):
        import_model(imported, input_values=values)


@pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")
def test_of_a_tflite_file(tmp_path):
    graph = Graph()
    x, n, y = graph.tensor((2, 4)), graph.tensor((2,), "int32", name="n"), graph.tensor((4, 4))
    graph.operator("TILE", [x, n], [y])
    path = graph.write(tmp_path / "tile.tflite", [x, n], [y])
    values = {"n": [2, 1]}
    imported = import_model(path, input_values=values)
    assert imported[1].input_values == values
    wanted = LiteRtReference(path, input_values=values)
    assert wanted.inputs == ["t0"]
    found = executor(imported, "llvm")(X)[0]
    for reference in (wanted, Reference(path, input_values=values)):
        np.testing.assert_array_equal(found, reference.run({"t0": X})["t2"])
