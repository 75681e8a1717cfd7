"""TVM_VISION_POISON=on shows what a kernel does not write; these tests run under it throughout."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T
from tvm.target import Target

from support.lowering import HOST
from tvm_vision.errors import InputError
from tvm_vision.runtime import graph_executor

N = 64
# A kernel of whole results first, so that its memory is used again by one of half a result.
GRAPH: dict[str, Any] = {
    "storages": [4 * N] * 4,
    "tensors": [
        {"shape": [N], "dtype": "float32", "storage": 0, "offset": 0},
        {"shape": [N], "dtype": "float32", "storage": 1, "offset": 0},
        {"shape": [N // 2], "dtype": "float32", "storage": 2, "offset": 0},
        {"shape": [N // 2], "dtype": "float32", "storage": 1, "offset": 0},
        {"shape": [N // 2], "dtype": "float32", "storage": 3, "offset": 0},
    ],
    "params": {},
    "inputs": [0],
    "outputs": [4],
    "kernels": [
        {"function": "copy", "args": [0, 1], "num_outputs": 1, "nodes": ["copy"]},
        {"function": "narrow", "args": [1, 2], "num_outputs": 1, "nodes": ["narrow"]},
        {"function": "part", "args": [2, 3], "num_outputs": 1, "nodes": ["part"]},
        {"function": "again", "args": [3, 4], "num_outputs": 1, "nodes": ["again"]},
    ],
}


def copying(read: int, written: int, elements: int) -> Any:
    @T.prim_func(private=True)
    def function(x: T.Buffer((read,), "float32"), y: T.Buffer((written,), "float32")):
        T.func_attr({"tirx.is_scheduled": True})
        for i in T.thread_binding(elements, thread="threadIdx.x"):
            y[i] = x[i]

    @T.prim_func(private=True)
    def loops(x: T.Buffer((read,), "float32"), y: T.Buffer((written,), "float32")):
        for i in range(elements):
            y[i] = x[i]

    return function, loops


def executor(device: Any) -> graph_executor.GraphExecutor:
    made = {
        "copy": copying(N, N, N),
        "narrow": copying(N, N // 2, N // 2),
        "part": copying(N // 2, N // 2, N // 4),
        "again": copying(N // 2, N // 2, N // 2),
    }
    gpu = device.type == "vulkan"
    target = Target({"kind": "vulkan", "from_device": 0, "host": HOST} if gpu else HOST)
    functions = {
        name: (threads if gpu else loops).with_attr("global_symbol", name)
        for name, (threads, loops) in made.items()
    }
    with target:
        library = tvm.tirx.build(tvm.IRModule(functions), target=target)
    names = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}]}
    return graph_executor.create({"graph": GRAPH, **names}, library, device)


@pytest.fixture(params=["vulkan", "cpu"])
def device(request: pytest.FixtureRequest, device_info: Any) -> Any:
    return tvm.device(request.param, 0)


def test_the_tests_run_under_it() -> None:
    assert os.environ["TVM_VISION_POISON"] == "on"


def test_what_a_kernel_does_not_write_is_no_number(device: Any) -> None:
    x = np.arange(N, dtype="float32")
    made = executor(device)
    for _ in range(2):
        made.run(x=x)
        found = made.get_output(0).numpy()
        np.testing.assert_array_equal(found[: N // 4], x[: N // 4])
        assert np.isnan(found[N // 4 :]).all()


def test_without_it_memory_keeps_what_it_held(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_POISON", "off")
    x = np.arange(N, dtype="float32")
    made = executor(device)
    made.run(x=x)
    np.testing.assert_array_equal(made.get_output(0).numpy(), x[: N // 2])


def test_another_value_is_refused(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_POISON", "maybe")
    with pytest.raises(InputError, match='TVM_VISION_POISON must be on or off, found "maybe"'):
        executor(device)
