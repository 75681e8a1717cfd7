"""Slices of every start, end and step: onnxruntime clamps them as ONNX says, and NumPy and TVM in
another way; and it reads one end as nobody else does."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.conformance.conformance_worker import executor
from support.onnx_models import image, make_model
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
STARTS = (LEAST, -9, -2, 2, MOST)
ENDS = (LEAST, -9, -1, 0, 2**31 - 1, 2**31, MOST)
STEPS = (1, -1, -2)
X = np.array([1, 2, 4], np.float32)


def slices(source):
    """Nodes, the last of which joins all slices of a vector of three, and their places."""
    nodes, weights, parts = [], [], []
    for number, places in enumerate(itertools.product(STARTS, ENDS, STEPS)):
        names = [f"{place}{number}" for place in ("start", "end", "step")]
        weights += [(n, np.array([p])) for n, p in zip(names, places, strict=True)]
        parts.append(f"part{number}")
        start, end, step = names
        nodes.append(helper.make_node("Slice", [source, start, end, "", step], parts[-1:]))
    return [*nodes, helper.make_node("Concat", parts, ["all"], axis=0)], weights


def assert_right(model, *arrays, **shapes):
    """As onnxruntime without its optimizations, of which some read slices as NumPy does."""
    reference = Reference(model, optimized=False)
    (wanted,) = reference.run(dict(zip(reference.inputs, arrays, strict=True))).values()
    (found,) = executor(import_onnx(model, input_shapes=shapes), "llvm")(*arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("source", ["x", "weights", "sizes"])
def test_places_and_steps(source):
    """Of an input, and of weights and sizes, which are folded."""
    nodes, weights = slices(source)
    before = [helper.make_node("Shape", ["y"], ["sizes"])]
    after = [
        helper.make_node("Cast", ["all"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["y"], ["sum_of_y"], keepdims=0),
        helper.make_node("Sum", ["numbers", "sum", "sum_of_y"], ["result"]),
    ]
    weights.append(("weights", np.array([3, 5, 7], np.float32)))
    model = make_model(
        [*before, *nodes, *after], [("x", (3,)), ("y", (2, 4, 1))], [("result", None)], weights
    )
    assert_right(model, X, image(2, 4, 1))


def test_the_end_within_branches():
    """Whose places are constants of the branch, and of what is around it. onnxruntime runs
    none whose size it believes to know."""
    back = helper.make_node("Slice", ["x", "last", "end", "", "step"], ["turned"])
    twice = helper.make_node("Concat", ["turned", "x"], ["all"], axis=0)
    made = helper.make_node("Constant", [], ["end"], value_ints=[MOST])
    of = {
        "then_branch": [made, back, twice],
        "else_branch": [helper.make_node("Concat", ["x", "x"], ["all"], axis=0)],
    }
    branches = {
        key: helper.make_graph(nodes, key, [], [helper.make_empty_tensor_value_info("all")])
        for key, nodes in of.items()
    }
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Less", ["most", "bound"], ["is_small"]),
        helper.make_node("If", ["is_small"], ["y"], **branches),
    ]
    weights = [
        ("bound", np.array(9, np.float32)),
        ("last", np.array([-1])),
        ("step", np.array([-1])),
    ]
    assert_right(make_model(nodes, [("x", ("n",))], [("y", None)], weights), X, x=(3,))
