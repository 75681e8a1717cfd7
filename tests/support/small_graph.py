"""A small network made by hand from TensorIR: two kernels, three launches, two outputs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx

from tvm_vision.runtime import graph_executor

N = 1000
BYTES = 4096  # of a storage: N floats, rounded up
# y = (x * w + x) twice over; z = y + 1, with w a parameter. Storage 3 is reused.
GRAPH: dict[str, Any] = {
    "storages": [BYTES, BYTES, BYTES, BYTES, BYTES],
    "tensors": [
        {"shape": [N], "dtype": "float32", "storage": 0, "offset": 0},
        {"shape": [N], "dtype": "float32", "storage": 1, "offset": 0},
        {"shape": [N], "dtype": "float32", "storage": 3, "offset": 0},
        {"shape": [N], "dtype": "float32", "storage": 2, "offset": 0},
        {"shape": [10, N // 10], "dtype": "float32", "storage": 2, "offset": 0},
        {"shape": [N], "dtype": "float32", "storage": 4, "offset": 0},
    ],
    "params": {"w": 1},
    "inputs": [0],
    "outputs": [4, 5],
    "kernels": [
        {"function": "scale_add", "args": [0, 1, 2], "num_outputs": 1, "nodes": ["Mul_0", "Add_0"]},
        {"function": "scale_add", "args": [2, 1, 3], "num_outputs": 1, "nodes": ["Mul_1", "Add_1"]},
        {"function": "plus_one", "args": [3, 5], "num_outputs": 1, "nodes": ["Add_2"]},
    ],
}
MOD_JSON = {
    "graph": GRAPH,
    "inputs": [{"name": "x", "shape": [N], "dtype": "float32"}],
    "outputs": [
        {"name": "y", "shape": [10, N // 10], "dtype": "float32"},
        {"name": "z", "shape": [N], "dtype": "float32"},
    ],
}


def functions() -> tvm.IRModule:
    x, w = te.placeholder((N,), "float32", "x"), te.placeholder((N,), "float32", "w")
    scaled = te.compute((N,), lambda i: x[i] * w[i] + x[i], "scaled")
    plus = te.compute((N,), lambda i: x[i] + tirx.const(1.0, "float32"), "plus")
    made = {
        "scale_add": te.create_prim_func([x, w, scaled]),
        "plus_one": te.create_prim_func([x, plus]),
    }
    return tvm.IRModule({n: f.with_attr("global_symbol", n) for n, f in made.items()})


def expected(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = x
    for _ in range(2):
        y = y * w + y
    return y.reshape(10, -1), y + 1


def loaded(built: tuple[Any, Any], description: Any) -> graph_executor.GraphExecutor:
    """An executor of the library on the device, with its weights."""
    library, device = built
    made = graph_executor.create(description, library_module(library), device)
    made.load_params({"w": WEIGHTS})
    return made


def library_module(executable: Any) -> Any:
    return getattr(executable, "mod", executable)


RANDOM = np.random.default_rng(11)
WEIGHTS = RANDOM.random(N, "float32")


def frame(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(N, "float32")


def assert_frame(executor: graph_executor.GraphExecutor, x: np.ndarray) -> None:
    y, z = expected(x, WEIGHTS)
    np.testing.assert_allclose(executor.get_output(0).numpy(), y, rtol=1e-5)
    np.testing.assert_allclose(executor.get_output("z").numpy(), z, rtol=1e-5)


def damaged(change: Any) -> dict[str, Any]:
    graph = copy.deepcopy(MOD_JSON)
    change(graph["graph"])
    return graph
