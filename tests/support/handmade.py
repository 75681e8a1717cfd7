"""A package for this CPU whose kernels are written by hand, and the same network as ONNX.

y = relu(p0 @ x + p1) as [1, 3]; the graph is packages.sample_graph().
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import te
from tvm.target import Target

from support import packages
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.options import CompileOptions
from tvm_vision.package import ModelInfo, write_package

MODEL = ModelInfo("tiny", kind="classifier", labels=("a", "b", "c"))


@dataclass
class Compiled:
    """Stands for the compiler's result."""

    library: Any
    graph: dict[str, Any] = field(default_factory=packages.sample_graph)
    params: dict[str, Any] = field(default_factory=lambda: dict(packages.WEIGHTS))
    target: Any = field(default_factory=lambda: Target({"kind": "llvm"}))
    inputs: tuple[TensorSpec, ...] = (TensorSpec("x", (4,), "float32"),)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("y", (1, 3), "float32"),)
    options: CompileOptions = field(default_factory=CompileOptions)
    memory: dict[str, int] = field(
        default_factory=lambda: {"weights": 60, "activations": 40, "peak": 100}
    )
    tuned: int = 0
    measured_precision: Any = None


def library(target: str = "llvm") -> Any:
    """The kernels matmul_add and relu."""
    weights = te.placeholder((3, 4), name="weights")
    x, bias, y = (te.placeholder((n,), name=name) for n, name in ((4, "x"), (3, "b"), (3, "y")))
    k = te.reduce_axis((0, 4), name="k")
    product = te.compute((3,), lambda i: te.sum(weights[i, k] * x[k], axis=k), name="product")
    total = te.compute((3,), lambda i: product[i] + bias[i], name="total")
    positive = te.compute((3,), lambda i: te.max(y[i], 0.0), name="positive")
    functions = {
        "matmul_add": te.create_prim_func([weights, x, bias, total]),
        "relu": te.create_prim_func([y, positive]),
    }
    module = {name: f.with_attr("global_symbol", name) for name, f in functions.items()}
    return tvm.compile(tvm.IRModule(module), Target({"kind": target})).mod


def write_package_file(path: Path) -> Path:
    write_package(path, Compiled(library()), MODEL)
    return path


def write_model(path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["p0", "x"], ["product"], name="MatMul_0"),
        helper.make_node("Add", ["product", "p1"], ["total"], name="Add_1"),
        helper.make_node("Relu", ["total"], ["positive"], name="Relu_2"),
        helper.make_node("Reshape", ["positive", "shape"], ["y"], name="Reshape_3"),
    ]
    weights = {**packages.WEIGHTS, "shape": np.array([1, 3])}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(packages.WEIGHTS["p0"] @ x + packages.WEIGHTS["p1"], 0)[None]
