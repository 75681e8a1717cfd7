"""Networks of bfloat16, beside the same in float32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.brain_floats import without_bfloat16
from tvm_vision.frontend.onnx.load import import_onnx

ROUNDED = ml_dtypes.bfloat16
BFLOAT16, FLOAT = TensorProto.BFLOAT16, TensorProto.FLOAT
RANDOM = np.random.default_rng(2)


def model_of(ends: int) -> onnx.ModelProto:
    """A convolution, a norm, a product and a soft max, of bfloat16 within. ends: the type of the
    input and of the output."""
    make = helper.make_node
    nodes = [
        make("Conv", ["a", "w", "wb"], ["b"]),
        make("Relu", ["b"], ["c"]),
        make("Flatten", ["c"], ["d"]),
        make("LayerNormalization", ["d", "g", "gb"], ["e"]),
        make("MatMul", ["e", "m"], ["f"]),
        make("Softmax", ["f"], ["h"]),
    ]
    if ends == FLOAT:
        nodes = [make("Cast", ["x"], ["a"], to=BFLOAT16), *nodes]
        nodes.append(make("Cast", ["h"], ["y"], to=FLOAT))
    else:
        nodes[0].input[0], nodes[-1].output[0] = "x", "y"
    shapes = {"w": (4, 3, 3, 3), "wb": (4,), "g": (64,), "gb": (64,), "m": (64, 5)}
    weights = [
        numpy_helper.from_array(RANDOM.standard_normal(shape).astype(ROUNDED), name)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", ends, (1, 3, 6, 6))],
        [helper.make_tensor_value_info("y", ends, (1, 5))], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("ends", [FLOAT, BFLOAT16])
def test_a_network_of_bfloat16(ends: int, target: str, device_info: Any) -> None:
    model = model_of(ends)
    x = RANDOM.standard_normal((1, 3, 6, 6)).astype(ROUNDED if ends == BFLOAT16 else np.float32)
    imported = import_onnx(model)
    _, signature = imported
    assert {spec.dtype for spec in (*signature.inputs, *signature.outputs)} == {
        "bfloat16" if ends == BFLOAT16 else "float32"
    }
    (found,) = executor(imported, target)(x)
    (expected,) = Reference(model).run({"x": x}).values()
    np.testing.assert_allclose(np.asarray(found, np.float32), expected, rtol=1e-2, atol=1e-3)


def test_what_is_rounded_alone_is_rounded() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=BFLOAT16),
        helper.make_node("Cast", ["a"], ["y"], to=FLOAT),
    ]
    ends = [helper.make_tensor_value_info(name, FLOAT, (7,)) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    assert without_bfloat16(model) is model
    x = RANDOM.standard_normal(7).astype(np.float32)
    (found,) = executor(import_onnx(model), "llvm")(x)
    assert (found == x.astype(ROUNDED).astype(np.float32)).all()
