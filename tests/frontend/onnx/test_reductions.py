"""Reductions at their ends: rows of nothing but the least number, no axes, types that few have."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.frontend.onnx.load import import_onnx

OF_ONE = {"L1": np.abs, "L2": np.abs, "LogSum": np.log, "SumSquare": np.square}
NAMES = [*OF_ONE, "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum"]
SIZES = (3, 70)


def model_of(nodes, dtype, shape):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", kind, shape)],
        [onnx.ValueInfoProto(name=node.output[0]) for node in nodes],
        [numpy_helper.from_array(np.zeros(0, np.int64), "none")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def session_of(model):
    return onnxruntime.InferenceSession(model.SerializeToString())


def ends_of(dtype):
    """The least and the largest number of a type."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float16", "float32"])
def test_the_place_of_the_best_where_all_are_the_worst(dtype, target):
    """As in a row that a mask leaves nothing of: it is one of the row."""
    for operator, worst in zip(("ArgMax", "ArgMin"), ends_of(dtype), strict=True):
        nodes = [
            helper.make_node(operator, ["x"], [f"y{axis}{last}"], axis=axis, select_last_index=last)
            for axis in (0, 1)
            for last in (0, 1)
        ]
        model = model_of(nodes, dtype, SIZES)
        run = executor(import_onnx(model), target)
        x = np.full(SIZES, worst, dtype)
        x[1, :5] = 1
        for found, wanted in zip(run(x), session_of(model).run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_extremes_tell_the_last_finite_number_from_infinity(dtype, target):
    """As in rows of what masks are made of, which is the one or the other."""
    most, infinity = np.finfo(dtype).max, np.inf
    rows = [most, infinity, [most] * 3 + [infinity] * 2, [most, -most, infinity, -infinity, 0]]
    x = np.array([sign * np.broadcast_to(row, 5) for row in rows for sign in (1, -1)], dtype)
    nodes = [
        helper.make_node(f"Reduce{name}", ["x", f"axis{axis}"], [f"{name}{axis}"])
        for name in ("Max", "Min")
        for axis in (0, 1)
    ]
    model = model_of(nodes, dtype, x.shape)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array([axis]), f"axis{axis}") for axis in (0, 1)
    )
    wanted = session_of(model).run(None, {"x": x})
    for found, expected in zip(executor(import_onnx(model), target)(x), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["llvm", pytest.param("vulkan", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_without_axes_each_number_is_by_itself(dtype, target):
    """As ONNX says it, and onnxruntime has it in 1.32; 1.23 passes all numbers on."""
    forms = [
        (name, inputs, kept)
        for name in NAMES
        for inputs in (["x"], ["x", "none"])
        for kept in (0, 1)
    ]
    nodes = [
        helper.make_node(
            f"Reduce{name}", inputs, [f"{name}{len(inputs)}{kept}"],
            noop_with_empty_axes=1, keepdims=kept,
        )
        for name, inputs, kept in forms
    ]  # fmt: skip
    x = np.array([[1, 2, 7], [3, 1, 5]], dtype)
    if dtype != "int32":  # the logarithm of numbers below 0 is no integer
        x[:, 1] *= -1
    results = executor(import_onnx(model_of(nodes, dtype, x.shape)), target)(x)
    for (name, _, _), found in zip(forms, results, strict=True):
        with np.errstate(invalid="ignore"):
            wanted = OF_ONE.get(name, np.copy)(x).astype(dtype)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_powers_of_infinities(axis, dtype, target):
    """As in a row that a mask leaves nothing of, in optimal transport by Sinkhorn's steps."""
    node = helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=axis)
    model = model_of([node], dtype, (4, 4))
    model.graph.initializer.append(numpy_helper.from_array(np.array([axis - 2]), "axes"))
    x = np.random.default_rng(3).standard_normal((4, 4)).astype(dtype)
    for place, value in ((0, -np.inf), (1, np.inf)):
        x[place], x[:, place] = value, value
    x[2, 1], x[1, 2] = -np.inf, -np.inf
    wanted = np.logaddexp.reduce(x.astype(np.float64), axis, keepdims=bool(axis)).astype(dtype)
    (found,) = executor(import_onnx(model), target)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_the_largest_of_16_bits(dtype, target):
    """Which processors have no sort for, nor onnxruntime 1.23."""
    node = helper.make_node("TopK", ["x", "k"], ["y", "places"])
    model = model_of([node], dtype, SIZES)
    model.graph.output.append(onnx.ValueInfoProto(name="places"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([4]), "k"))
    least, most = ends_of(dtype)
    x = np.random.default_rng(5).integers(least, most + 1, SIZES).astype(dtype)
    x[0, :9] = most
    values, places = executor(import_onnx(model), target)(x)
    wanted = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :4]
    assert values.dtype == dtype
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("named", [False, True], ids=["", "named again"])
def test_a_squeeze_of_a_list_of_no_axes(named):
    """All axes of size 1 go, as onnxruntime reads it; ONNX's inference lets all stay."""
    axes = [helper.make_node("Identity", ["none"], ["axes"])] if named else []
    squeeze = helper.make_node("Squeeze", ["x", "axes" if named else "none"], ["s"])
    model = model_of(
        [*axes, squeeze, helper.make_node("Neg", ["s"], ["y"])], np.float32, (2, 1, 3, 1)
    )
    del model.graph.output[:-1]
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3, 1)
    (found,) = executor(import_onnx(model), "llvm")(x)
    (wanted,) = session_of(model).run(None, {"x": x})
    assert found.shape == (2, 3)
    np.testing.assert_array_equal(found, wanted)
