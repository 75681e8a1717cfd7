"""Images that are read at places of a grid, on processors: as onnxruntime reads them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx


def network(shape, places, attributes, is_between):
    """GridSample of an image or a volume. is_between: convolutions of single pixels before and
    behind it."""
    channels, axes = shape[1], len(shape) - 2
    sample = helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes)
    nodes, result, weights = [sample], "y", []
    if is_between:
        random = np.random.default_rng(1).standard_normal((channels, channels, *[1] * axes))
        weights = [numpy_helper.from_array(random.astype("float32") / channels, "w")]
        sample.input[0], result = "before", "behind"
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["before"]),
            sample,
            helper.make_node("Conv", ["y", "w"], ["behind"]),
        ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
        for name, sizes in (
            ("x", shape), ("grid", places), (result, (*shape[:2], *places[1:-1])),
        )
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "sampled", ends[:2], ends[2:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def both(model, x, grid):
    """Ours, onnxruntime's, and our kernels."""
    compiled = compile_model(*import_onnx(model), target="llvm")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    kernels = [kernel["function"] for kernel in compiled.graph["kernels"]]
    return run(compiled, [x, grid])[0], session.run(None, {"x": x, "grid": grid})[0], kernels


@st.composite
def cases(draw):
    axes = draw(st.sampled_from([2, 2, 3]))
    mode = draw(
        st.sampled_from(["nearest", "linear", "cubic"] if axes == 2 else ["nearest", "linear"])
    )
    padding = draw(st.sampled_from(["zeros", "border", "reflection"]))
    n = draw(st.integers(1, 2))
    channels = draw(st.sampled_from([1, 3, 16, 20, 33]))
    sizes = [draw(st.integers(2, 9)) for _ in range(axes)]
    places = [draw(st.integers(1, 7)) for _ in range(axes)]
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": draw(st.integers(0, 1))}
    return (n, channels, *sizes), (n, *places, axes), attributes, draw(st.booleans())


@settings(max_examples=50, deadline=None, derandomize=True)
@given(cases())
def test_places_in_and_around_images(case):
    shape, places, attributes, is_between = case
    random = np.random.default_rng(2)
    x = random.standard_normal(shape).astype("float32")
    grid = (3.4 * random.random(places) - 1.7).astype("float32")
    found, expected, kernels = both(network(*case), x, grid)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert any("grid_taps" in kernel for kernel in kernels), (shape, attributes, is_between)


@pytest.mark.parametrize("channels", [2, 32])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_what_lies_outside_counts_nothing(mode, channels):
    """Even where the pixel that stands for it is infinite; nor does a place that is no number."""
    shape, places = (1, channels, 4, 5), (1, 1, 6, 2)
    x = np.full(shape, np.inf, np.float32)
    grid = np.full(places, 3, np.float32)
    grid[0, 0, 3:] = [[-1e30, 0], [0, 1e30], [np.nan, np.nan]]
    attributes = {"mode": mode, "padding_mode": "zeros"}
    model = network(shape, places, attributes, False)
    onnx.checker.check_model(model)
    compiled = compile_model(*import_onnx(model), target="llvm")
    np.testing.assert_array_equal(run(compiled, [x, grid])[0], 0)


def test_volumes_of_many_channels_are_read_in_blocks():
    shape, places = (1, 32, 3, 4, 5), (1, 2, 3, 4, 3)
    model = network(shape, places, {"mode": "linear"}, False)
    x = np.ones(shape, np.float32)
    *_, kernels = both(model, x, np.zeros(places, np.float32))
    assert any("unpack" in kernel for kernel in kernels)
