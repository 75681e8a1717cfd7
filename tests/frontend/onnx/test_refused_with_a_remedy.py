"""What cannot be imported is refused by the user's own names, with a remedy that works."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import make_model, run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused

WIDTH = 4
FOREIGN = helper.make_node("Own", ["a"], ["y"], name="mine", domain="my.own")
PRODUCT = helper.make_node("MatMul", ["x", "w"], ["a"], name="product")
WEIGHT = [("w", np.eye(WIDTH, dtype=np.float32))]
ENDS = [("x", (2, WIDTH))], [("y", (2, WIDTH))]


@pytest.mark.parametrize("operator", ["Bernoulli", "RandomNormalLike", "RandomUniformLike"])
def test_random_numbers_are_refused_by_the_name_of_the_node(operator):
    node = helper.make_node(operator, ["x"], ["y"], name="dice")
    with pytest.raises(NodesRefused, match=f"{operator} .* at random.* at 'dice': make them an"):
        import_onnx(make_model([node], *ENDS))


def test_a_cut_is_offered_behind_what_is_worth_it():
    with pytest.raises(NodesRefused, match="end the model before it, as 'compile --cut' does"):
        import_onnx(make_model([PRODUCT, FOREIGN], *ENDS, WEIGHT, domain="my.own"))


@pytest.mark.parametrize("before", ["Relu", "Bernoulli"])
def test_no_cut_is_offered_where_nothing_is_left(before):
    nodes = [helper.make_node(before, ["x"], ["a"], name="first"), FOREIGN]
    with pytest.raises(NodesRefused) as error:
        import_onnx(make_model(nodes, *ENDS, domain="my.own"))
    assert "--cut" not in str(error.value)
    assert "use onnxruntime for this model" in str(error.value)


def test_no_cut_is_offered_where_data_decides_all():
    model = make_model([helper.make_node("Unique", ["x"], ["y"])], [("x", (5,))], [("y", ("n",))])
    with pytest.raises(
        NodesRefused, match="Unique .*depends on the data. at '.*': use onnxruntime"
    ):
        import_onnx(model)


def test_what_opens_a_shape_is_named():
    """The node itself, not an output far behind it, nor the type that TVM has of that."""
    nodes = [
        PRODUCT,
        helper.make_node("Unique", ["a"], ["u"], name="few"),
        helper.make_node("Neg", ["u"], ["y"]),
    ]
    with pytest.raises(NodesRefused) as error:
        import_onnx(make_model(nodes, ENDS[0], [("y", ("n",))], WEIGHT))
    assert str(error.value) == (
        "1 node cannot be imported: Unique (the size of its result depends on the data) at 'few': "
        "end the model before it, as 'compile --cut' does, or express it by other operators"
    )


def test_a_function_may_be_of_another_operator_set():
    """Split has another form in each of them; onnxruntime takes it in the model's form."""
    axes = numpy_helper.from_array(np.array([1]), "axes")
    body = [
        helper.make_node("Constant", [], ["axes"], value=axes),
        helper.make_node("ReduceSum", ["v", "axes"], ["s"]),
        helper.make_node("Split", ["v"], ["l", "r"], axis=1),
        helper.make_node("Concat", ["r", "s", "l"], ["u"], axis=1),
    ]
    imports = [helper.make_opsetid("", 13)]
    function = helper.make_function("my", "Turned", ["v"], ["u"], body, imports)
    node = helper.make_node("Turned", ["x"], ["y"], domain="my")
    ends = ENDS[0], [("y", (2, WIDTH + 1))]
    model = make_model([node], *ends, opset=18, domain="my")
    model.functions.append(function)
    x = np.arange(2 * WIDTH, dtype=np.float32).reshape(2, WIDTH)
    expected = np.hstack([x[:, 2:], x.sum(1, keepdims=True), x[:, :2]])
    module, _ = import_onnx(model)
    np.testing.assert_array_equal(run_on_cpu(module, x)[0], expected)


def test_text_is_refused():
    text = helper.make_tensor_value_info("x", TensorProto.STRING, (2,))
    same = helper.make_tensor_value_info("y", TensorProto.STRING, (2,))
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [text], [same])
    with pytest.raises(UnsupportedModelError, match="'x' is one of strings: export the model"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


LABELS = helper.make_tensor("labels", TensorProto.STRING, [WIDTH], [b"ball", b"post", b"", b"x"])
PLACES = helper.make_node("ArgMax", ["a"], ["i"], axis=1, keepdims=0)
LOOKED_UP = [PLACES, helper.make_node("Gather", ["labels", "i"], ["g"], name="look")]
TEXTS = {
    "a weight": LOOKED_UP,
    "a constant": [helper.make_node("Constant", [], ["labels"], value=LABELS), *LOOKED_UP],
    "a cast": [helper.make_node("Cast", ["a"], ["g"], name="look", to=TensorProto.STRING)],
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_refused_by_the_node_that_reads_or_makes_it(name):
    """Not by TVM's word for what it has no tensors of; what comes before can be compiled."""
    nodes = [PRODUCT, *TEXTS[name], helper.make_node("Identity", ["g"], ["y"])]
    shape = (2, WIDTH) if name == "a cast" else (2,)
    model = make_model(nodes, ENDS[0], [("y", shape)], WEIGHT)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    if name == "a weight":
        model.graph.initializer.append(LABELS)
    with pytest.raises(NodesRefused) as error:
        import_onnx(model)
    operator = "Cast" if name == "a cast" else "Gather"
    assert str(error.value) == (
        f"1 node cannot be imported: {operator} (its values are text, and tensors here are "
        "numbers) at 'look': end the model before it, as 'compile --cut' does, or express it by "
        "other operators"
    )


# operator: what it is given beside x of (2, 4, 8), and how both are told
UNFIT: dict[str, tuple[list[Any], str]] = {
    "Gemm": ([np.ones((7, 3))], "float32 (8, 8) and float32 (7, 3)"),
    "Conv": ([np.ones((4, 3, 3))], "float32 (2, 4, 8) and float32 (4, 3, 3)"),
    "ConvTranspose": ([np.ones((3, 4, 3))], "float32 (2, 4, 8) and float32 (3, 4, 3)"),
    "InstanceNormalization": ([np.ones(3), np.ones(3)], "float32 (2, 4, 8) and float32 (3)"),
    "LayerNormalization": ([np.ones(3)], "float32 (2, 4, 8) and float32 (3)"),
    "Reshape": ([np.array([3, 7])], r"float32 (2, 4, 8) and [3, 7]"),
    "Add": ([np.arange(9)[:8] * 10**10], "float32 (2, 4, 8) and ["),
    "ScatterND": (
        [np.array([[1], [0]]), np.ones((2, 4, 7))],
        "float32 (2, 4, 8) and int64 (2, 1) and float32 (2, 4, 7)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", UNFIT)
def test_inputs_that_do_not_go_together_are_told_by_their_types(operator):
    """Not as TVM writes types and operators."""
    others, told = UNFIT[operator]
    x = "flat" if operator == "Gemm" else "x"
    names = [f"w{place}" for place in range(len(others))]
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node(operator, [x, *names], ["y"], name="k"),
    ]
    weights = [
        (name, value if value.dtype == np.int64 else value.astype(np.float32))
        for name, value in zip(names, others, strict=True)
    ]
    weights.append(("shape", np.array([8, 8])))
    with pytest.raises(NodesRefused) as error:
        import_onnx(make_model(nodes, [("x", (2, 4, 8))], [("y", None)], weights))
    assert f"{operator} (inputs of {told}" in str(error.value)
    assert "do not go together) at 'k': export the model again" in str(error.value)
