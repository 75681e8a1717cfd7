"""tanh and atanh on a processor have all digits, of small numbers as well."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx


@pytest.mark.parametrize(("operator", "exact"), [("Tanh", np.tanh), ("Atanh", np.arctanh)])
def test_all_digits(operator: str, exact: Callable[[np.ndarray], np.ndarray]) -> None:
    most = 0.9 if operator == "Atanh" else 20.0
    sizes = np.concatenate([np.geomspace(1e-30, most, 997), np.linspace(0.2, 0.3, 2003)])
    x = np.concatenate([sizes, -sizes, [0.0]]).astype("float32")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(x.shape)) for n in "xy"]
    node = helper.make_node(operator, ["x"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (found,) = run(compile_model(*import_onnx(model), target="llvm"), [x])
    np.testing.assert_allclose(found, exact(x.astype("float64")), rtol=1e-6)
