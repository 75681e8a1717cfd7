"""What asks whether numbers are NaN finds them, on both targets."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.frontend.onnx.load import import_onnx

NUMBERS = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 0.5, -2, 3], np.float32)
ORDERS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
NUMBERS_OF_TYPE = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("dtype", NUMBERS_OF_TYPE)
def test_comparisons_and_what_is_not_so(dtype, target):
    """With itself, as JAX's exporter asks for NaN, and with a number."""
    nodes = [helper.make_node("Where", ["notEqual_itself", "one", "x"], ["filled"])]
    outputs = [("filled", NUMBERS_OF_TYPE[dtype])]
    for operator in ("Equal", *ORDERS):
        for name, other in (("itself", "x"), ("one", "one")):
            same = f"{operator}_{name}"
            nodes[:0] = [
                helper.make_node(operator, ["x", other], [same]),
                helper.make_node("Not", [same], [f"not{same}"]),
            ]
            outputs += [(same, TensorProto.BOOL), (f"not{same}", TensorProto.BOOL)]
    graph = helper.make_graph(
        nodes,
        "nan",
        [helper.make_tensor_value_info("x", NUMBERS_OF_TYPE[dtype], NUMBERS.shape)],
        [helper.make_tensor_value_info(name, kind, NUMBERS.shape) for name, kind in outputs],
        [numpy_helper.from_array(np.array(1, dtype), "one")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    x = NUMBERS.astype(dtype)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = executor(import_onnx(model), target)(x)
    for (name, _), result, wanted in zip(outputs, found, session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=name)
