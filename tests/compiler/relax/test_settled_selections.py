"""Selections that are settled are left out, and a maximum stays in blocks of channels without."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.interpreter import run
from support.onnx_chains import Chain, assert_right
from support.onnx_models import run_on_cpu
from support.relax_models import operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.settled_selections import settled_selections
from tvm_vision.frontend.onnx.load import import_onnx

# Of what a maximum is known to be finite, and of what it is not.
BOUNDED = ["Relu", "Sigmoid", "Tanh", "Softmax", "Exp", "Abs"]
OPEN = ["Neg", "LeakyRelu", "Log"]


def reduced(
    activation: str, axes: list[int], keepdims: int = 1, extreme: str = "ReduceMax",
    sizes: tuple[int, ...] = (7, 11),
) -> Chain:  # fmt: skip
    chain = Chain(3, sizes, 2, 6).conv(37, (1,) * len(sizes))
    return chain.add(activation).add(extreme, axes=axes, keepdims=keepdims)


@pytest.mark.parametrize("activation", [*BOUNDED, *OPEN])
def test_what_a_value_never_is_is_not_looked_for(activation: str) -> None:
    module = import_onnx(reduced(activation, [2, 3]).model())[0]
    assert "where" in operators_in(module)
    left = "where" in operators_in(settled_selections(module))
    assert left == (activation in OPEN)


def test_a_least_value_is_settled_by_the_other_end() -> None:
    """A ReLU can be infinite, and that is what a minimum starts from."""
    for activation, left in (("Sigmoid", False), ("Relu", True)):
        module = import_onnx(reduced(activation, [3], extreme="ReduceMin").model())[0]
        assert ("where" in operators_in(settled_selections(module))) == left


def test_values_are_followed_through_what_moves_them() -> None:
    chain = Chain(3, (8, 12), 2, 6).conv(8, (1, 1)).add("Relu").add("MaxPool", kernel_shape=[2, 2])
    chain.add("Transpose", perm=[0, 2, 3, 1]).add("Reshape", chain.number(np.array([2, -1, 4])))
    chain.add("Concat", chain.last, axis=1).add("ReduceMax", axes=[1], keepdims=0)
    module = settled_selections(import_onnx(chain.model())[0])
    assert "where" not in operators_in(module)
    assert_right(chain, lambda x: run_on_cpu(module, x)[0])


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[2], [3], [2, 3], [-1], [1, 2]])
@pytest.mark.parametrize("extreme", ["ReduceMax", "ReduceMean"])
def test_parts_of_images_are_reduced_in_blocks(
    axes: list[int], keepdims: int, extreme: str
) -> None:
    """One kernel for the network, and one for the result in the model's order at the most."""
    chain = reduced("Relu", axes, keepdims, extreme)
    compiled = compile_model(*import_onnx(chain.model()), target="llvm")
    assert_right(chain, lambda x: run(compiled, [x])[0])
    if 1 not in axes:
        functions = [kernel["function"] for kernel in compiled.graph["kernels"]]
        assert len(functions) <= 4, functions
        assert not any("equal" in name for name in functions), functions


@pytest.mark.parametrize("keepdims", [0, 1])
def test_rows_stay_images(keepdims: int) -> None:
    """Of points: all of them at a time, with no tensor of all taken out of its blocks before."""
    chain = reduced("Relu", [2], keepdims, sizes=(40,))
    compiled = compile_model(*import_onnx(chain.model()), target="llvm")
    assert_right(chain, lambda x: run(compiled, [x])[0])
    assert not any("unpack" in kernel["function"] for kernel in compiled.graph["kernels"])


def test_infinities_of_open_values_come_out() -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
              for n, s in (("x", [2, 3]), ("y", [2]))]  # fmt: skip
    node = helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    least = np.finfo(np.float32).min
    x = np.array([[-np.inf] * 3, [-np.inf, least, -np.inf]], np.float32)
    module = settled_selections(import_onnx(model)[0])
    np.testing.assert_array_equal(run_on_cpu(module, x)[0], [-np.inf, least])
