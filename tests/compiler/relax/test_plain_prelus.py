"""PReLU becomes operators that follow a convolution within its kernel, with the same results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from support.onnx_chains import Chain, assert_right
from support.onnx_models import run_on_cpu
from support.relax_models import operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.plain_prelus import plain_prelus
from tvm_vision.frontend.onnx.load import import_onnx

ONE, EACH = np.full(1, 0.25, "float32"), np.linspace(-0.5, 1.5, 9, dtype="float32")


def net(slopes: np.ndarray, sizes: tuple[int, ...] = (7, 11)) -> Chain:
    chain = Chain(3, sizes, 2, 6)
    ones = [1] * len(sizes)
    chain.conv(9, (3,) * len(sizes), pads=[*ones, *ones])
    chain.add("PRelu", chain.number(slopes.reshape(-1, *ones)))
    return chain.conv(4, tuple(ones))


@pytest.mark.parametrize("slopes", [ONE, EACH], ids=["one", "each"])
@pytest.mark.parametrize("sizes", [(23,), (7, 11), (3, 5, 7)], ids=["row", "image", "volume"])
def test_results_are_the_same(slopes: np.ndarray, sizes: tuple[int, ...]) -> None:
    chain = net(slopes, sizes)
    module = plain_prelus(import_onnx(chain.model())[0])
    assert "nn.prelu" not in operators_in(module)
    assert ("nn.leakyrelu" in operators_in(module)) == (slopes is ONE)
    assert_right(chain, lambda x: run_on_cpu(module, x)[0])


@pytest.mark.parametrize("slopes", [ONE, EACH], ids=["one", "each"])
@pytest.mark.parametrize("sizes", [(23,), (7, 11)], ids=["row", "image"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_convolution_has_it_in_its_kernel(
    slopes: np.ndarray, sizes: tuple[int, ...], precision: str
) -> None:
    """Of one axis, too, whose tensors are images of one row there."""
    imported = import_onnx(net(slopes, sizes).model())
    graph = compile_model(*imported, target="vulkan", precision=precision).graph
    functions = [kernel["function"] for kernel in graph["kernels"]]
    assert not [name for name in functions if "conv2d" not in name and "pad" not in name], functions


def alone(slopes: str) -> onnx.ModelProto:
    floats = onnx.TensorProto.FLOAT
    given = [helper.make_tensor_value_info("x", floats, [1, 3, 2])]
    constants = [helper.make_tensor("c", floats, [3, 1], [0.5, 0.0, -2.0])]
    if slopes == "s":
        given.append(helper.make_tensor_value_info("s", floats, [3, 1]))
    result = helper.make_tensor_value_info("y", floats, [1, 3, 2])
    node = helper.make_node("PRelu", ["x", slopes], ["y"])
    graph = helper.make_graph([node], "prelu", given, [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_slopes_that_are_given_stay() -> None:
    assert "nn.prelu" in operators_in(plain_prelus(import_onnx(alone("s"))[0]))


def test_infinities_and_zeros_are_as_they_were() -> None:
    module = plain_prelus(import_onnx(alone("c"))[0])
    x = np.array([[[np.inf, -np.inf], [np.inf, -3.0], [0.0, -np.inf]]], "float32")
    y = run_on_cpu(module, x)[0]
    expected = [[[np.inf, -np.inf], [np.inf, 0.0], [0.0, np.inf]]]
    np.testing.assert_array_equal(y, expected)
