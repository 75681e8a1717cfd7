"""What a file computes in float16 is added up in float32, on every target, beside onnxruntime's
float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper

from support.compiled import executor_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.widen_fp16 import widen_fp16
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx

pytestmark = pytest.mark.usefixtures("device_info")
LONG = 6000  # sums of so many numbers near one stand still in float16
AXIS = np.array([1])


def near_one(*shape: int) -> Any:
    return np.random.default_rng(LONG).random(shape) + 0.5


def of(operator: str, x: Any, *more: Any, **attributes: Any) -> tuple[Any, ...]:
    """One node, its input and its constants."""
    names = ["x", *(f"c{i}" for i in range(len(more)))]
    nodes = [helper.make_node(operator, names, ["y"], **attributes)]
    return nodes, x, dict(zip(names[1:], more, strict=True))


ROWS, MATRIX = near_one(2, LONG), near_one(LONG, 5) / 4
IMAGE = near_one(1, 3, 70, 70)
FORMS = {
    "mean": of("ReduceMean", ROWS, AXIS),
    "sum": of("ReduceSum", ROWS / 2, AXIS),
    "norm": of("ReduceL2", ROWS, AXIS),
    "squares": of("ReduceSumSquare", ROWS, AXIS),
    "soft max": of("Softmax", 3 * ROWS),
    "layer norm": of("LayerNormalization", ROWS, np.ones(LONG), np.zeros(LONG)),
    "instance norm": of("InstanceNormalization", IMAGE + 2, np.ones(3), np.zeros(3)),
    "product": of("MatMul", ROWS, MATRIX),
    "product with bias": of("Gemm", ROWS, MATRIX, near_one(5), alpha=0.5),
    "einsum": of("Einsum", ROWS, MATRIX, equation="ij,jk->ik"),
    "convolution": of("Conv", near_one(1, 256, 6, 6), near_one(5, 256, 3, 3)),
    "pool": of("AveragePool", IMAGE, kernel_shape=[50, 50]),
    "pool of all": of("GlobalAveragePool", IMAGE),
    "running sum": of("CumSum", ROWS / 8, np.array(1)),
    "two results": (
        [
            helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
            helper.make_node("ReduceMean", ["a", "c0"], ["m"]),
            helper.make_node("Mul", ["b", "m"], ["y"]),
        ],
        ROWS,
        {"c0": AXIS},
    ),
}


def model_of(form: tuple[Any, ...], dtype: type) -> onnx.ModelProto:
    nodes, x, constants = form
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = [
        # Of the numbers that float16 has in both.
        numpy_helper.from_array(
            value.astype(np.float16).astype(dtype) if value.dtype.kind == "f" else value, name
        )
        for name, value in constants.items()
    ]
    ends = [helper.make_tensor_value_info("x", kind, x.shape)]
    results = [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "g", ends, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("form", FORMS)
def test_long_sums_of_float16(form: str, target: str) -> None:
    x = FORMS[form][1].astype(np.float16)
    (exact,) = Reference(model_of(FORMS[form], np.float32)).run({"x": x.astype("f")}).values()
    compiled = compile_model(*import_onnx(model_of(FORMS[form], np.float16)), target=target)
    executor = executor_of(compiled, tvm.device("vulkan" if target == "vulkan" else "cpu"))
    executor.run(x=x)
    found = executor.get_output(0).numpy()
    assert found.dtype == np.float16
    error = np.max(np.abs(found.astype("f") - exact)) / np.max(np.abs(exact))
    assert error < 4e-3


def test_other_networks_are_left_alone() -> None:
    module, _ = import_onnx(model_of(FORMS["mean"], np.float32))
    assert widen_fp16(module).same_as(module)
