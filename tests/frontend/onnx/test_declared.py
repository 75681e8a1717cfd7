"""What onnxruntime runs although ONNX's checker refuses it: compiled, or asked for what is open."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import conv_model, make_model, run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx import simplify
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (1, 3, 8, 8)


def with_input(shape):
    model = conv_model()
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    return model


def with_output(change):
    model = conv_model()
    change(model.graph.output[0])
    return model


def with_value(shape):
    model = conv_model()
    value = helper.make_tensor_value_info("c", TensorProto.FLOAT, shape)
    model.graph.value_info.append(value)
    return model


def within_a_branch(shape):
    """An If whose branches declare what they give."""
    branches = [
        helper.make_graph(
            [helper.make_node(operator, ["x"], [f"{operator}_result"])],
            operator,
            [],
            [helper.make_tensor_value_info(f"{operator}_result", TensorProto.FLOAT, shape)],
        )
        for operator in ("Relu", "Neg")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    return make_model([node], [("x", SHAPE)], [("y", None)], [("c", np.array([True]))])


def assert_right(model, **options):
    data = np.random.default_rng(1).random(SHAPE, np.float32)
    result = run_on_cpu(import_onnx(model, **options)[0], data)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for found, wanted in zip(result, session.run(None, {"x": data}), strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        with_value((-1, 4, -1, -1)),
        with_value((0, 4, 0, 0)),
        with_output(lambda y: y.CopyFrom(helper.make_tensor_value_info("y", 1, (-1, 4, -1, 0)))),
        with_output(lambda y: y.type.tensor_type.ClearField("shape")),
        with_output(lambda y: y.ClearField("type")),
        within_a_branch((-1, 3, -1, 8)),
        within_a_branch(None),
    ],
)
def test_what_is_declared_of_results(model):
    assert_right(model)


@pytest.mark.parametrize("shape", [(-1, 3, -1, -1), None])
def test_inputs_of_open_shape(shape):
    model = with_input(shape)
    with pytest.raises(
        UnsupportedModelError, match=r"fixed shapes .* input 'x'.*: pass input_shapes=.*--input-sh"
    ):
        import_onnx(model)
    assert_right(model, input_shapes={"x": SHAPE})


def test_a_size_of_zero_gives_way_to_one_that_is_given():
    model = with_input((0, 3, 8, 8))
    with pytest.raises(UnsupportedModelError, match="has no elements: .*; pass input_shapes"):
        import_onnx(model)
    assert import_onnx(model, input_shapes={"x": SHAPE})[1].inputs[0].shape == SHAPE


def test_an_output_whose_type_nobody_knows():
    model = with_output(lambda y: y.ClearField("type"))
    model.graph.output[0].name = "nowhere"
    with pytest.raises(UnsupportedModelError, match="'nowhere' is not an output of any node"):
        import_onnx(model)


def chain(fixed):
    """Six nodes after each other; the results of the first ``fixed`` have a fixed shape."""
    names = [f"v{number}" for number in range(6)]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in zip(["x", *names], names, strict=False)]
    model = make_model(nodes, [("x", (1,))], [(names[-1], (1 if fixed > 5 else "n",))])
    for number, name in enumerate(names[:-1]):
        size = (1,) if number < fixed else ("n",)
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, size))
    return model


@pytest.mark.parametrize(
    ("found", "runs"),
    [
        ([6], 1),  # all fixed at once
        ([2, 6], 2),
        ([2, 4, 6], 3),
        ([2, 2], 2),  # no progress
        ([1, 2, 3, 4, 5, 6], simplify.MAX_RUNS),
    ],
)
def test_onnxsim_runs_again_as_long_as_that_fixes_shapes(found, runs, monkeypatch):
    given = iter(found)
    asked = []
    monkeypatch.setattr(simplify, "inferred", lambda model: model)
    monkeypatch.setattr(simplify, "folded", lambda model: model)

    def step(name, model, **options):
        asked.append(name)
        return chain(next(given))

    monkeypatch.setattr(simplify, "run", step)
    result = simplify.simplified(chain(0), {"x": [1]})
    assert asked == ["simplify"] * runs
    assert isinstance(result, onnx.ModelProto)
    assert simplify._open_values(result) == 6 - max(found[:runs])


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (helper.make_node("Split", ["x", "sizes"], ["a", "y"], axis=1), "sum of 'split' \\(2\\)"),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3]), "incorrect size"),
        (helper.make_node("Add", ["x", "five"], ["y"]), "Incompatible dimensions"),
    ],
    ids=lambda value: getattr(value, "op_type", ""),
)
def test_a_model_that_contradicts_itself_says_where(node, said):
    """onnxruntime refuses these as well; exporters wrote them from what they traced."""
    weights = [("sizes", np.array([1, 1])), ("five", np.zeros(5, np.float32))]
    model = helper.make_model(
        helper.make_graph(
            [node, helper.make_node("ReduceMean", ["y"], ["z"], keepdims=0)],
            "wrong",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 4))],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(value, name) for name, value in weights],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    pattern = f"{node.op_type} \\(it fits its inputs in no way: .*{said}.*: export the model again"
    with pytest.raises(UnsupportedModelError, match=pattern):
        import_onnx(model)


def test_where_another_number_of_images_is_written_into_what_follows_the_line_says_so():
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["image", "shape"], ["y"], "pairs")],
        "two_images",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 6])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array([2, 144]), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedModelError, match=r"'pairs': give another .* image:2,3,8,6, or"):
        import_onnx(model)
    assert import_onnx(model, input_shapes={"image": (2, 3, 8, 6)})[1].outputs[0].shape == (2, 144)
