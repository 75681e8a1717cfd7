"""Models in two parts: both together give what the whole gives."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.cut import cut_onnx

F = TensorProto.FLOAT
IMAGE = np.random.default_rng(0).normal(size=(1, 3, 6, 8)).astype(np.float32)


def whole(tail, outputs, *, image=(1, 3, 6, 8)):
    """A convolution of 4 channels, "a", and its activation, "r" [1, 4, 6, 8]; then ``tail``."""
    random = np.random.default_rng(1)
    constants = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "three": np.array(3, np.float32),
        "true": np.array(True),
        "k": np.array(0.5, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        *tail,
    ]
    graph = helper.make_graph(
        nodes,
        "whole",
        [helper.make_tensor_value_info("x", F, image)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def by_onnxruntime(model, inputs):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = {value.name: inputs[value.name] for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, wanted), strict=True))


def both_parts(cut, inputs):
    """What the first part gives on this processor, and the rest from it in onnxruntime."""
    module, signature = cut.imported
    given = [inputs[spec.name] for spec in signature.inputs]
    names = [spec.name for spec in signature.outputs]
    first = dict(zip(names, run_on_cpu(module, *given), strict=True))
    return {**first, **by_onnxruntime(cut.rest, {**inputs, **first})}


def loop_over(value):
    """Three times as large, in three steps; the body reads a value of the graph around it."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["sum", value], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("sum", F, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("more", F, None),
        ],
    )
    return helper.make_node("Loop", ["trip", "true", "a"], ["y"], "loop", body=body)


# TVM has no random numbers; from 2 to 2 there is one, whatever the seed.
TWOS = helper.make_node("RandomUniformLike", ["r"], ["v"], "twos", low=2.0, high=2.0)
# One of three steps that only the data knows, though it is always three.
STEPS = [
    helper.make_node("Sigmoid", ["a"], ["between"]),
    helper.make_node("Ceil", ["between"], ["ones"]),
    helper.make_node("ReduceMax", ["ones"], ["one"], keepdims=0),
    helper.make_node("Mul", ["one", "three"], ["many"]),
    helper.make_node("Cast", ["many"], ["trip"], "steps", to=TensorProto.INT64),
]
TAILS = {
    "operator that TVM lacks": ([TWOS, helper.make_node("Mul", ["v", "k"], ["y"])], ["r"]),
    "two of them, one behind the other": (
        [
            TWOS,
            helper.make_node("RandomUniformLike", ["v"], ["y"], low=1.0, high=1.0),
        ],
        ["r"],
    ),
    "operator of another domain": (
        [
            helper.make_node("SampleOp", ["r"], ["v"], domain="com.microsoft"),
            helper.make_node("Add", ["v", "a"], ["y"]),
        ],
        ["a", "r"],
    ),
    "body that reads from outside": ([*STEPS, loop_over("r")], ["a", "r", "trip"]),
    "reads the image": (
        [TWOS, helper.make_node("Concat", ["v", "x"], ["y"], axis=1)],
        ["r"],
    ),
}


@pytest.mark.parametrize("name", TAILS)
def test_both_parts_give_what_the_whole_gives(name):
    tail, outputs = TAILS[name]
    also = helper.make_node("Neg", ["a"], ["also"])
    model = whole([*tail, also], {"y": F, "also": F})
    cut = cut_onnx(model)
    assert [spec.name for spec in cut.imported[1].outputs] == ["also", *outputs]
    assert cut.nodes == len(model.graph.node)
    found, wanted = both_parts(cut, {"x": IMAGE}), by_onnxruntime(model, {"x": IMAGE})
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5)


def test_open_inputs_are_fixed_first_and_what_follows_from_them_is_constant():
    shape = helper.make_node("Shape", ["r"], ["size"])
    size = helper.make_node("Cast", ["size"], ["s"], to=F)
    last = helper.make_node("ReduceSum", ["s"], ["t"])
    model = whole(
        [TWOS, shape, size, last, helper.make_node("Mul", ["v", "t"], ["y"])],
        {"y": F},
        image=("batch", 3, 6, "width"),
    )
    with pytest.raises(UnsupportedModelError, match="--input-shape x:1,3,6,width, in numbers"):
        cut_onnx(model)
    cut = cut_onnx(model, input_shapes={"x": (1, 3, 6, 8)})
    assert [spec.name for spec in cut.imported[1].outputs] == ["r"]
    found = both_parts(cut, {"x": IMAGE})["y"]
    np.testing.assert_allclose(found, by_onnxruntime(model, {"x": IMAGE})["y"], rtol=1e-5)


def test_nothing_to_cut_and_nothing_left():
    fine = cut_onnx(whole([], {"r": F}))
    assert (fine.rest, fine.reasons) == (None, ())
    node = helper.make_node("RandomUniformLike", ["x"], ["y"])
    model = whole([node], {"y": F})
    with pytest.raises(UnsupportedModelError, match="and there are none: use onnxruntime"):
        cut_onnx(model)
