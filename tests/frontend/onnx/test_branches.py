"""If: the branch that is known, or both and a choice; as onnxruntime, or refused."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from support.onnx_models import make_model
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx import load
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (2, 3)


@pytest.fixture(params=["onnxsim", "ourselves"])
def folded_by(request, monkeypatch):
    if request.param == "ourselves":
        monkeypatch.setattr(load, "simplified", lambda *arguments: None)


def branch(nodes, *outputs, weights=()):
    return helper.make_graph(
        nodes,
        "branch",
        [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.array(value), name) for name, value in weights],
    )


def scaled(factor, name="r"):
    """x times a weight; every branch calls its values the same."""
    node = helper.make_node("Mul", ["x", "w"], [name])
    return branch([node], name, weights=[("w", np.float32(factor))])


def choice(then, otherwise, results=("y",)):
    return helper.make_node("If", ["c"], list(results), then_branch=then, else_branch=otherwise)


def model_of(node, condition, count=1):
    """``condition``: "known" by the shape of x, or "data" that it depends on."""
    if condition == "known":
        head = [
            helper.make_node("Size", ["x"], ["m"]),
            helper.make_node("Equal", ["m", "k"], ["c"]),
        ]
        weights = [("k", np.array(6))]
    else:
        head = [
            helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
            helper.make_node("Greater", ["m", "k"], ["c"]),
        ]
        weights = [("k", np.array(0.5, np.float32))]
    outputs = [(name, SHAPE) for name in node.output][:count]
    return make_model([*head, node], [("x", SHAPE)], outputs, weights)


def assert_right(model):
    execute = executor(import_onnx(model), "llvm")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for value in (0.25, 0.75):
        data = np.full(SHAPE, value, np.float32)
        for found, wanted in zip(execute(data), session.run(None, {"x": data}), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("condition", ["known", "data"])
def test_one_result(condition, folded_by):
    assert_right(model_of(choice(scaled(2), scaled(3)), condition))


@pytest.mark.parametrize("condition", ["known", "data"])
def test_branches_within_branches_and_several_results(condition, folded_by):
    # The inner branches use values of the outer one, and call theirs the same.
    inner_then = branch(
        [helper.make_node("Add", ["r", "v"], ["i"])], "i", weights=[("v", np.float32(4))]
    )
    inner_else = branch([helper.make_node("Sub", ["r", "w"], ["i"])], "i")
    outer = branch(
        [
            helper.make_node("Mul", ["x", "w"], ["r"]),
            helper.make_node("If", ["c"], ["q"], then_branch=inner_then, else_branch=inner_else),
        ],
        "r",
        "q",
        weights=[("w", np.float32(2))],
    )
    plain = branch(
        [helper.make_node("Neg", ["x"], ["r"]), helper.make_node("Abs", ["x"], ["q"])], "r", "q"
    )
    assert_right(model_of(choice(outer, plain, ("y", "z")), condition, count=2))


def test_what_a_branch_knows_decides_the_branches_within_it(folded_by):
    """The other inner branch would have another shape, but is never taken."""
    sized = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Equal", ["n", "six"], ["is_six"]),
        helper.make_node(
            "If",
            ["is_six"],
            ["r"],
            then_branch=branch([helper.make_node("Neg", ["x"], ["i"])], "i"),
            else_branch=branch([helper.make_node("ReduceSum", ["x"], ["i"])], "i"),
        ),
    ]
    outer = branch(sized, "r", weights=[("six", np.array(6))])
    assert_right(model_of(choice(outer, scaled(3)), "data"))


def test_branches_that_differ_in_sizes_give_the_larger_and_counts(folded_by):
    part = [helper.make_node("Slice", ["x", "zero", "one", "last"], ["r"])]
    places = [("zero", np.array([0])), ("one", np.array([1])), ("last", np.array([1]))]
    narrow = branch(part, "r", weights=places)
    module, signature = import_onnx(model_of(choice(narrow, scaled(3)), "data"))
    assert [str(spec) for spec in signature.outputs] == ["y: float32[2, 3]", "y_count: int64[]"]
    execute = executor((module, signature), "llvm")
    for value, count in ((0.25, 3), (0.75, 1)):
        found, rows = execute(np.full(SHAPE, value, np.float32))
        assert rows == count
        expected = value * (1 if count == 1 else 3)
        np.testing.assert_allclose(found[:, :count], expected)
        np.testing.assert_array_equal(found[:, count:], 0)


def test_branches_that_differ_in_axes_are_refused(folded_by):
    one = branch([helper.make_node("ReduceSum", ["x"], ["r"], keepdims=0)], "r")
    model = model_of(choice(one, scaled(3)), "data")
    with pytest.raises(
        UnsupportedModelError,
        match=r"If .its condition .* float32\[\] and float32\[2, 3\]. "
        "at 'If_2': make constants of what decides it, or",
    ):
        import_onnx(model)
