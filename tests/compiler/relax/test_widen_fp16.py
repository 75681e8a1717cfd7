"""What a file computes in float16 is added up in float32, on every target, beside onnxruntime's
float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from support.compiled import MATRIX_GPU, executor_of
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
# What adds up to more than 65,504, the largest number of float16, though no result does.
LARGE = 20 * IMAGE
PIXELS = np.array([2, 3])
ROW = np.array([0, 1, -1])
FORMS = {
    "mean of large": of("ReduceMean", LARGE, PIXELS),
    "mean of channels": of("ReduceMean", 20 * near_one(1, LONG, 2, 2), AXIS),
    "pool of all of large": of("GlobalAveragePool", LARGE),
    "pool of large": of("AveragePool", LARGE, kernel_shape=[64, 64]),
    "norm of large": of("ReduceL2", LARGE, PIXELS),
    "of length one": of("LpNormalization", 20 * near_one(1, 256, 5, 6), axis=1),
    "instance norm of large": of("InstanceNormalization", LARGE, np.ones(3), np.zeros(3)),
    "variance of large": (
        [
            helper.make_node("ReduceMean", ["x", "c0"], ["m"]),
            helper.make_node("Sub", ["x", "m"], ["d"]),
            helper.make_node("Mul", ["d", "d"], ["s"]),
            helper.make_node("ReduceMean", ["s", "c0"], ["y"]),
        ],
        LARGE,
        {"c0": PIXELS},
    ),
    # The number of its elements, by which TVM divides, is none of float16's.
    "norm of one group": (
        [
            helper.make_node("Reshape", ["x", "c0"], ["r"]),
            helper.make_node("InstanceNormalization", ["r", "c1", "c2"], ["n"]),
            helper.make_node("Reshape", ["n", "c3"], ["y"]),
        ],
        near_one(1, 3, 160, 150) + 9,
        {"c0": ROW, "c1": np.ones(1), "c2": np.zeros(1), "c3": np.array([1, 3, 160, 150])},
    ),
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


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_the_last_number_of_float16_is_no_infinity(operator: str) -> None:
    """Masks are made of it."""
    x = np.full((2, 4), np.finfo(np.float16).max * (-1 if operator == "ReduceMax" else 1), "f2")
    x[1] = -np.inf if operator == "ReduceMax" else np.inf
    model = model_of(of(operator, x, AXIS), np.float16)
    compiled = compile_model(*import_onnx(model), target="llvm")
    executor = executor_of(compiled, tvm.cpu())
    executor.run(x=x)
    np.testing.assert_array_equal(executor.get_output(0).numpy().ravel(), x[:, 0])


def test_other_networks_are_left_alone() -> None:
    module, _ = import_onnx(model_of(FORMS["mean"], np.float32))
    assert widen_fp16(module).same_as(module)


def cast(source: str, made: str, dtype: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [made], to=dtype)


def partly(float32: int) -> onnx.ModelProto:
    """Six convolutions, of which the first so many are left in float32."""
    nodes, kind = [], TensorProto.FLOAT
    last, weights = "x", []
    for n in range(6):
        wanted = TensorProto.FLOAT if n < float32 else TensorProto.FLOAT16
        if wanted != kind:
            nodes.append(cast(last, f"cast{n}", wanted))
            last, kind = f"cast{n}", wanted
        array = near_one(4, 4, 3, 3).astype(helper.tensor_dtype_to_np_dtype(kind)) / 36
        weights.append(numpy_helper.from_array(array, f"w{n}"))
        nodes.append(helper.make_node("Conv", [last, f"w{n}"], [f"y{n}"], pads=[1] * 4))
        last = f"y{n}"
    nodes.append(cast(last, "y", TensorProto.FLOAT))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4, 8, 8)) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


WITHOUT = {**MATRIX_GPU, "supports_16bit_buffer": False}


@pytest.mark.parametrize(
    ("target", "float32", "kept"),
    [
        ("vulkan", 0, True),
        ("vulkan", 2, True),
        ("vulkan", 4, False),
        ("llvm", 0, False),
        (WITHOUT, 0, False),
    ],
)
def test_a_gpu_keeps_tensors_of_what_is_mostly_float16(target, float32, kept) -> None:
    compiled = compile_model(*import_onnx(partly(float32)), target=target)
    dtypes = {value.dtype for value in compiled.params.values() if value.ndim > 1}
    assert dtypes == {np.dtype("float16" if kept else "float32")}
    # By which, too, is known what rounding a check has to bear.
    assert compiled.options.precision == ("fp16" if kept else "fp32")
