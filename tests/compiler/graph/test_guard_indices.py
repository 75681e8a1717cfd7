"""Indices that data decides: right where they are inside, harmless where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper

from support.compiled import executor_of, kernels_of
from support.networks import yoeo_like
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.graph.guard_indices import guarded
from tvm_vision.compiler.graph.lower import lower_to_graph
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx

ROWS, COLUMNS = 6, 5
# operator -> (attributes, shape of the indices, whether there are updates)
READS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Gather": ({"axis": 0}, (4,)),
    "GatherElements": ({"axis": 0}, (4, COLUMNS)),
    "GatherND": ({}, (4, 1)),
}
WRITES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "ScatterElements": ({"axis": 0}, (4, COLUMNS)),
    "ScatterND": ({}, (4, 1)),
}
BEYOND = (ROWS, ROWS + 1, -ROWS - 1, 2**31 - 1, -(2**31), 2**40, -(2**62), 10**9)


def data() -> np.ndarray:
    return np.arange(1.0, ROWS * COLUMNS + 1, dtype="float32").reshape(ROWS, COLUMNS)


def built(operator: str, target: str) -> Any:
    attributes, shape = {**READS, **WRITES}[operator]
    inputs = [("x", TensorProto.FLOAT, (ROWS, COLUMNS)), ("at", TensorProto.INT64, shape)]
    if operator in WRITES:
        inputs.append(("updates", TensorProto.FLOAT, (4, COLUMNS)))
    made = (ROWS, COLUMNS) if operator in WRITES else (4, COLUMNS)
    graph = helper.make_graph(
        [helper.make_node(operator, [name for name, *_ in inputs], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    module, signature = import_onnx(model)
    return executor_of(compile_model(module, signature, target=target), _device(target))


def _device(target: str) -> Any:
    return tvm.cpu() if target == "llvm" else tvm.vulkan(0)


def indices(operator: str, rows: list[int]) -> np.ndarray:
    shape = {**READS, **WRITES}[operator][1]
    return np.broadcast_to(np.array(rows).reshape(-1, *[1] * (len(shape) - 1)), shape).copy()


@pytest.fixture(scope="module", params=["vulkan", "llvm"])
def target(request: pytest.FixtureRequest, device_info: Any) -> str:
    return str(request.param)


@pytest.mark.parametrize("operator", READS)
def test_reads(operator: str, target: str) -> None:
    executor, x = built(operator, target), data()
    executor.run(x=x, at=indices(operator, [0, 5, -1, -6]))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), x[[0, 5, -1, -6]])
    for beyond in BEYOND:
        executor.run(x=x, at=indices(operator, [2, beyond, 3, beyond]))
        found = executor.get_output(0).numpy()
        np.testing.assert_array_equal(found[[0, 2]], x[[2, 3]])
        assert np.isin(found[[1, 3]], x[[0, -1]]).all(), beyond


@pytest.mark.parametrize("operator", WRITES)
def test_writes(operator: str, target: str) -> None:
    executor, x = built(operator, target), data()
    updates = -np.arange(1.0, 4 * COLUMNS + 1, dtype="float32").reshape(4, COLUMNS)
    expected = x.copy()
    expected[[0, 5, 2, 1]] = updates
    executor.run(x=x, at=indices(operator, [0, 5, 2, 1]), updates=updates)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)
    for beyond in BEYOND:
        expected = x.copy()
        expected[[2, 3]] = updates[[0, 2]]
        executor.run(x=x, at=indices(operator, [2, beyond, 3, beyond]), updates=updates)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), expected, str(beyond))


def test_functions_without_such_indices_stay_the_same_objects() -> None:
    module, _ = import_onnx(yoeo_like(64))
    kernels, nodes = kernels_of(module, parse_target("llvm"), opt_level=2)
    graph = lower_to_graph(kernels, nodes)
    assert all(guarded(function) is function for function in graph.functions.values())
