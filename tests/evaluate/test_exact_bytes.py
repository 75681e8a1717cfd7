"""References add products of bytes without overflow on any processor: the largest weights and
inputs there are, in each operator that onnxruntime has for them and in each form of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.evaluate import Reference
from tvm_vision.evaluate.exact_bytes import may_overflow, with_exact_bytes

COUNT = 64  # products in a sum
ROWS = 2
LARGEST = {"uint8": 255, "int8": 127}
ELEMENT = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}
MICROSOFT = "com.microsoft"


def model_of(nodes, x, constants, functions=()):
    """x: type and shape of the input."""
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    inputs = [helper.make_tensor_value_info("x", ELEMENT[x[0]], x[1])]
    y = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph(nodes, "g", inputs, [y], held)
    opsets = [helper.make_opsetid(*each) for each in (("", 17), (MICROSOFT, 1), ("own", 1))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def node(kind, inputs, output="y", **attributes):
    domain = MICROSOFT if kind in CONTRIBUTED else ""
    return helper.make_node(kind, inputs.split(","), [output], domain=domain, **attributes)


CONTRIBUTED = (
    "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention", "QGemm"
)  # fmt: skip
# Of each operator: its inputs, those in brackets left out where zero points are; whether it is a
# convolution; whether it takes floats.
OPERATORS = {
    "ConvInteger": ("x,w[,xz,wz]", True, False),
    "DynamicQuantizeMatMul": ("x,w,one[,wz]", False, True),
    "MatMulInteger": ("x,w[,xz,wz]", False, False),
    "MatMulIntegerToFloat": ("x,w,one,one[,xz,wz]", False, False),
    "QGemm": ("x,one,xz,w,one,wz,,ys,xz", False, False),
    "QLinearConv": ("x,one,xz,w,one,wz,ys,xz", True, False),
    "QLinearMatMul": ("x,one,xz,w,one,wz,ys,xz", False, False),
}
# What onnxruntime does not have.
MISSING = {("ConvInteger", "int8")}


def sums(kind, other="uint8", zeros=True):
    """A model of one operator, its input, and what it should give."""
    inputs, convolution, floats = OPERATORS[kind]
    left, _, rest = inputs.partition("[")
    inputs = left + (rest.replace("]", "") if zeros else "")
    largest = LARGEST[other]
    total = COUNT * largest * 127
    w = np.full((ROWS, COUNT, 1, 1) if convolution else (COUNT, ROWS), 127, np.int8)
    scale = total / 100  # of results that are bytes
    constants = {"w": w, "one": np.float32(1), "ys": np.float32(scale), "wz": np.int8(0)}
    constants["xz"] = np.dtype(other).type(0)
    shape = (1, COUNT, 3, 3) if convolution else (1, COUNT)
    kept = "float32" if floats else other
    model = model_of([node(kind, inputs)], (kept, shape), constants)
    return model, np.full(shape, largest, kept), total if "ys" not in inputs else 100


@pytest.fixture(params=[False, True], ids=["plain", "optimized"])
def optimized(request):
    return request.param


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("other", LARGEST)
@pytest.mark.parametrize("kind", OPERATORS)
def test_sums_of_operators_on_bytes(kind, other, zeros, optimized):
    if (kind, other) in MISSING:
        pytest.skip("onnxruntime has no such operator of int8")
    model, x, total = sums(kind, other, zeros)
    found = Reference(model, optimized=optimized).run({"x": x})["y"]
    np.testing.assert_allclose(found, np.full(found.shape, total), rtol=1e-6)


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("other", LARGEST)
@pytest.mark.parametrize("kind", ["Conv", "MatMul", "Gemm"])
def test_sums_between_quantize_and_dequantize(kind, other, zeros, channels, optimized):
    """As quantizers write them, a scale a channel or one for all, whose zero points may be left
    out."""
    largest = LARGEST[other]
    total = COUNT * largest * 127
    convolution = kind == "Conv"
    w = np.full((ROWS, COUNT, 1, 1) if convolution else (COUNT, ROWS), 127, np.int8)
    sizes = (ROWS,) if channels else ()
    constants = {
        "w": w, "ws": np.ones(sizes, np.float32), "wz": np.zeros(sizes, np.int8),
        "one": np.float32(1), "ys": np.float32(total / 100), "xz": np.dtype(other).type(0),
    }  # fmt: skip
    along = {"axis": 0 if convolution else 1} if channels else {}
    nodes = [
        node("QuantizeLinear", "x,one,xz", "xq"),
        node("DequantizeLinear", "xq,one,xz", "xr"),
        node("DequantizeLinear", "w,ws,wz" if zeros else "w,ws", "wr", **along),
        node(kind, "xr,wr", "yr"),
        node("QuantizeLinear", "yr,ys,xz", "yq"),
        node("DequantizeLinear", "yq,ys,xz", "y"),
    ]
    shape = (1, COUNT, 3, 3) if convolution else (1, COUNT)
    model = model_of(nodes, ("float32", shape), constants)
    found = Reference(model, optimized=optimized).run({"x": np.full(shape, largest, np.float32)})
    np.testing.assert_allclose(found["y"], np.full(found["y"].shape, total), rtol=1e-6)


@pytest.mark.parametrize("zeros", [False, True])
def test_sums_of_attention(zeros, optimized):
    """Each value is the mean of equal ones: sums of the projection."""
    size = 32
    constants = {
        "w": np.full((COUNT, 3 * size), 127, np.int8), "b": np.zeros(3 * size, np.float32),
        "xs": np.float32(1 / 255), "ws": np.float32(1 / 127 / COUNT), "m": np.array([4], np.int32),
        "xz": np.uint8(0), "wz": np.int8(0),
    }  # fmt: skip
    inputs = "x,w,b,xs,ws,m" + (",xz,wz" if zeros else "")
    model = model_of([node("QAttention", inputs, num_heads=1)], ("uint8", (1, 4, COUNT)), constants)
    found = Reference(model, optimized=optimized).run({"x": np.full((1, 4, COUNT), 255, np.uint8)})
    np.testing.assert_allclose(found["y"], np.ones((1, 4, size)), rtol=1e-5)


def test_sums_of_a_recurrent_layer(optimized):
    """An LSTM of one step: gates are saturated by right sums, of about 1, not by half of them."""
    size = 4
    gates = np.full((1, COUNT, 4 * size), 127, np.int8)
    scale = np.full((1,), 1 / 127 / COUNT, np.float32)
    constants = {
        "w": gates, "r": np.zeros((1, size, 4 * size), np.int8), "s": scale,
        "z": np.zeros((1,), np.int8),
    }  # fmt: skip
    model = model_of(
        [node("DynamicQuantizeLSTM", "x,w,r,,,,,,s,z,s,z", hidden_size=size)],
        ("float32", (1, 1, COUNT)),
        constants,
    )
    x = np.ones((1, 1, COUNT), np.float32)
    (found,) = Reference(model, optimized=optimized).run({"x": x}).values()
    gate = 1 / (1 + np.exp(-1.0))
    expected = gate * np.tanh(gate * np.tanh(1.0))
    np.testing.assert_allclose(found, np.full(found.shape, expected), rtol=1e-5)


def test_dynamic_quantization_of_what_is_moved(optimized):
    """The type of what weights are multiplied by is known behind operators that keep it."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("Transpose", "q", "t", perm=[1, 0]),
        node("MatMulInteger", "t,w", "sums"),
        node("Cast", "sums", "real", to=TensorProto.FLOAT),
        node("Mul", "real,s", "y"),
    ]
    model = model_of(nodes, ("float32", (COUNT, 1)), {"w": np.full((COUNT, ROWS), 127, np.int8)})
    found = Reference(model, optimized=optimized).run({"x": np.ones((COUNT, 1), np.float32)})["y"]
    np.testing.assert_allclose(found, np.full((1, ROWS), COUNT * 127), rtol=1e-5)


def inside(place):
    """A product of bytes, its weights a Constant, in a branch or a function of the model."""
    weights = numpy_helper.from_array(np.full((COUNT, ROWS), 127, np.int8), "held")
    scale = numpy_helper.from_array(np.float32(1), "one")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weights),
        helper.make_node("Constant", [], ["one"], value=scale),
        node("DynamicQuantizeMatMul", "x,w,one"),
    ]
    if place == "function":
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        function = helper.make_function("own", "Product", ["x"], ["y"], nodes, opsets)
        outer = helper.make_node("Product", ["x"], ["y"], domain="own")
        return model_of([outer], ("float32", (1, COUNT)), {}, [function])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, ROWS))
    nodes[-1].output[0] = "inner"
    y.name = "inner"
    branch = helper.make_graph(nodes, "branch", [], [y])
    outer = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    return model_of([outer], ("float32", (1, COUNT)), {"yes": np.bool_(True)})


@pytest.mark.parametrize("place", ["branch", "function"])
def test_sums_within_branches_and_functions(place, optimized):
    found = Reference(inside(place), optimized=optimized)
    y = found.run({"x": np.full((1, COUNT), 255, np.float32)})["y"]
    np.testing.assert_allclose(y, np.full((1, ROWS), COUNT * 255 * 127), rtol=1e-6)


def test_of_a_file_and_with_values_between(tmp_path: Path):
    model, x, total = sums("MatMulInteger")
    model.graph.node.add().CopyFrom(node("Neg", "y", "below"))
    model.graph.output[0].name = "below"
    onnx.save(model, tmp_path / "sums.onnx")
    found = Reference(tmp_path / "sums.onnx", values=["y"]).run({"x": x})
    assert found["y"].tolist() == [[total] * ROWS]
    assert found["below"].tolist() == [[-total] * ROWS]


def test_the_model_of_the_caller_stays_as_it_is():
    model, _, _ = sums("MatMulInteger")
    before = model.SerializeToString()
    assert may_overflow(model)
    assert not may_overflow(with_exact_bytes(model))
    assert model.SerializeToString() == before


@pytest.mark.parametrize("other", ["int8", "unknown", "ring"])
def test_what_is_not_multiplied_by_uint8_stays(other):
    model, _, _ = sums("MatMulInteger", zeros=False)
    if other == "int8":
        model, _, _ = sums("MatMulInteger", "int8", zeros=False)
    else:
        model.graph.node[0].input[0] = "somewhere"
    if other == "ring":
        model.graph.node.add().CopyFrom(node("Neg", "nowhere", "somewhere"))
        model.graph.node.add().CopyFrom(node("Neg", "somewhere", "nowhere"))
    assert not may_overflow(model)
