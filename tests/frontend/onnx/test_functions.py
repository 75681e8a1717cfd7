"""Functions that a model brings along: what onnxruntime makes of them, and what it refuses."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import OPSET, RNG_SEED, run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (2, 3)
ADD = helper.make_node("Add", ["v", "v"], ["w"])
MICROSOFT = "com.microsoft"


def leaky():
    """Its slope is an attribute of the function."""
    node = helper.make_node("LeakyRelu", ["v"], ["w"])
    node.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    return node


def function(nodes, opset=OPSET, own=1, name="F", domain="own", inputs=("v",), **options):
    """A function that returns w. own: the version of its domain that it says it is of."""
    opsets = [helper.make_opsetid(*each) for each in (("", opset), (domain, own), ("far", 1))]
    return helper.make_function(domain, name, inputs, ["w"], nodes, opsets, **options)


def call(name="F", inputs=("x",), output="y", domain="own", **attributes):
    return helper.make_node(name, inputs, [output], domain=domain, **attributes)


def model_of(nodes, functions, opsets=(("", OPSET), ("own", 1)), weights=(), shape=SHAPE):
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def branch(name, node):
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([node], name, [], [value])


def chosen(then, otherwise, condition="yes", output="y"):
    return helper.make_node(
        "If", [condition], [output],
        then_branch=branch(then.output[0], then),
        else_branch=branch(otherwise.output[0], otherwise),
    )  # fmt: skip


YES = [("yes", np.bool_(True))]
HALF = [("half", np.float32(0.5))]
CLIP = helper.make_node("Clip", ["v", "low", "high"], ["w"])
BOUNDS = {"inputs": ("v", "low", "high")}
INNER = function([ADD], name="G")
WITH_DEFAULT = function([leaky()], attribute_protos=[helper.make_attribute("slope", 0.7)])
MODELS = {
    "another version of its domain": model_of([call()], [function([ADD], own=5)]),
    "in a branch": model_of(
        [chosen(call(output="t"), helper.make_node("Neg", ["x"], ["e"]))],
        [function([ADD], own=5)],
        weights=YES,
    ),
    "with a branch": model_of(
        [call(inputs=("x", "yes"))],
        [
            function(
                [
                    chosen(
                        helper.make_node("Add", ["v", "v"], ["t"]),
                        helper.make_node("Neg", ["v"], ["e"]),
                        condition="c",
                        output="w",
                    )
                ],
                inputs=("v", "c"),
            )
        ],
        weights=YES,
    ),
    "of functions": model_of(
        [call()], [function([call("G", ("v",), "w")], own=5), INNER], [("", OPSET), ("own", 2)]
    ),
    "the model has no opset": model_of([call()], [function([ADD], 18)], [("own", 1)]),
    "the domain by its long name": model_of(
        [call()], [function([ADD])], [("ai.onnx", OPSET), ("own", 1)]
    ),
    "an attribute": model_of([call(slope=0.3)], [function([leaky()], attributes=["slope"])]),
    "an attribute left out": model_of([call()], [function([leaky()], attributes=["slope"])]),
    "a default left out": model_of([call()], [WITH_DEFAULT]),
    "a default given": model_of([call(slope=0.3)], [WITH_DEFAULT]),
    "a default within": model_of(
        [call("G")], [function([call("F", ("v",), "w")], name="G"), WITH_DEFAULT]
    ),
    "an empty input": model_of(
        [call(inputs=("x", "", "half"))], [function([CLIP], **BOUNDS)], weights=HALF
    ),
    "a last input left out": model_of(
        [call(inputs=("x", "half"))], [function([CLIP], **BOUNDS)], weights=HALF
    ),
    "the name of ONNX's operator": model_of(
        [helper.make_node("Neg", ["x"], ["y"])], [function([ADD], name="Neg", domain="")],
        [("", OPSET)],
    ),
    "the name of onnxruntime's operator": model_of(
        [call("Gelu", domain=MICROSOFT)], [function([ADD], name="Gelu", domain=MICROSOFT)],
        [("", OPSET), (MICROSOFT, 1)],
    ),
    "not called": model_of(
        [helper.make_node("Neg", ["x"], ["y"])], [function([call("NoSuch", ("v",), "w", "far")])]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_functions_are_what_onnxruntime_takes_them_for(name):
    model = MODELS[name]
    before = model.SerializeToString()
    x = np.random.default_rng(RNG_SEED).standard_normal(SHAPE).astype(np.float32)
    expected = onnxruntime.InferenceSession(before).run(None, {"x": x})[0]
    module, _ = import_onnx(model)
    np.testing.assert_allclose(run_on_cpu(module, x)[0], expected, rtol=1e-6, atol=1e-6)
    assert model.SerializeToString() == before


def test_a_function_of_another_opset_is_converted():
    """onnxruntime refuses it: it takes the function's operators for the model's."""
    mean = helper.make_node("ReduceMean", ["v"], ["w"], axes=[1], keepdims=1)
    model = model_of([call()], [function([mean], opset=13)], [("", 21), ("own", 1)], shape=(2, 1))
    x = np.arange(6, dtype=np.float32).reshape(SHAPE)
    module, _ = import_onnx(model)
    np.testing.assert_allclose(run_on_cpu(module, x)[0], [[1], [4]])


def test_an_operator_newer_than_the_model_is_named():
    gelu = helper.make_node("Gelu", ["v"], ["w"], name="it")
    model = model_of([call()], [function([gelu], opset=20)])
    with pytest.raises(UnsupportedModelError, match="Gelu .*operator set 20 on, and the model is"):
        import_onnx(model)


def test_a_function_that_calls_itself_is_refused_in_one_line():
    with pytest.raises(UnsupportedModelError, match="inliner of functions") as caught:
        import_onnx(model_of([call()], [function([call("F", ("v",), "w")])]))
    assert "\n" not in str(caught.value)
