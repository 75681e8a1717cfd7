"""Products of one row that follow each other as one kernel, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.compiled import FIXED, executor_of, kernels_of
from support.fp16_forms import expected, node
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import schedule_function
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.gpu.chain import MOST_AGAIN
from tvm_vision.schedules.templates import TEMPLATES

TOLERANCE = {"fp32": 2e-5, "fp16": 1e-2}
BETWEEN = ("Relu", "Sigmoid", "HardSwish", "Elu", "Tanh")


def network(
    sizes: Sequence[int], kind: str, bias: bool = True, more: Sequence[Any] = (), gate: int = 0
) -> onnx.ModelProto:
    """Products of one row from ``x`` to ``y``, each but the last with a function behind it.

    Args:
        sizes: of ``x`` and of what each product comes to.
        kind: Conv, of one pixel, Gemm or MatMul.
        more: nodes behind them, which make ``z``; the results of products are ``t0``, ``t1`` ….
        gate: pixels to a side of an image that the last is multiplied with; 0 for none.
    """
    random = np.random.default_rng(sum(sizes))
    pixel: tuple[int, ...] = (1, 1) if kind == "Conv" else ()
    nodes, weights, row = [], {}, "x"
    for place, (terms, results) in enumerate(pairwise(sizes)):
        matrix = random.standard_normal((results, terms, *pixel)) / np.sqrt(terms)
        weights[f"w{place}"] = matrix.T if kind == "MatMul" else matrix
        weights[f"b{place}"] = random.standard_normal(results)
        added = f" b{place}" if bias and kind != "MatMul" else ""
        attributes = {"transB": 1} if kind == "Gemm" else {}
        nodes.append(node(kind, f"{row} w{place}{added}", f"p{place}", **attributes))
        plus = bias and kind == "MatMul"
        nodes.append(
            node("Add", f"p{place} b{place}", f"t{place}") if plus
            else node("Identity", f"p{place}", f"t{place}")
        )  # fmt: skip
        row = f"t{place}"
        if place < len(sizes) - 2:
            nodes.append(node(BETWEEN[place % len(BETWEEN)], row, f"a{place}"))
            row = f"a{place}"
    nodes.append(node("Sigmoid", row, "g" if gate else "y"))
    if gate:
        weights["image"] = random.standard_normal((1, sizes[-1], gate, gate))
        nodes.append(node("Mul", "image g", "y"))
    names = ["y", "z"][: 1 + bool(more)]
    read = {name for each in (*nodes, *more) for name in each.input}
    graph = helper.make_graph(
        [*nodes, *more],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, sizes[0], *pixel))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
        [
            numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name)
            for name, value in weights.items()
            if name in read
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def counts_of(model: onnx.ModelProto, **options: Any) -> list[int]:
    """Products in each kernel that has any."""
    _, groups = kernels_of(import_onnx(model)[0], FIXED, **options)
    found = [sum(name.startswith(("Conv", "Gemm", "MatMul")) for name in group) for group in groups]
    return [count for count in found if count]


def check(model: onnx.ModelProto, precision: str) -> None:
    x = (
        np.random.default_rng(3)
        .standard_normal([d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim])
        .astype(np.float32)
    )
    executor = executor_of(compile_model(*import_onnx(model), target="vulkan", precision=precision))
    executor.run(x=x)
    wanted = expected(model, x)
    error = np.abs(executor.outputs()["y"] - wanted).max() / np.abs(wanted).max()
    assert error < TOLERANCE[precision]


# Sizes that threads divide and that they do not, below and above a row of them, one term, and
# results that many threads leave over.
SIZES = (
    (32, 8, 32), (240, 10, 240), (480, 20, 480), (37, 11, 53), (5, 3, 2), (1, 7, 4), (17, 300, 3),
    (48, 64, 64, 12), (300, 32, 50), (7, 64, 64, 64, 3),
)  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
def test_one_kernel(sizes: tuple[int, ...], kind: str, device_info: Any) -> None:
    model = network(sizes, kind, bias=sum(sizes) % 2 == 0)
    assert counts_of(model) == [len(sizes) - 1]
    check(model, "fp32" if len(sizes) % 2 else "fp16")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("precision", TOLERANCE)
def test_gates_of_an_image(precision: str, layout: str, device_info: Any) -> None:
    model = network((96, 24, 96), "Conv", gate=9)
    assert counts_of(model, layout=layout) == [2]
    check(model, precision)


def test_names_are_of_all_nodes() -> None:
    model = network((32, 8, 32), "Gemm")
    _, groups = kernels_of(import_onnx(model)[0], FIXED)
    steps = [
        f"{each.op_type}_{place}"
        for place, each in enumerate(model.graph.node)
        if each.op_type != "Identity"
    ]
    assert list(dict.fromkeys(chain.from_iterable(groups))) == steps


APART = {
    "many weights": (network((MOST_AGAIN // 64, 128, 32), "Gemm"), [1, 1]),
    "many weights in the middle": (network((64, 32, MOST_AGAIN // 16, 8), "MatMul"), [2, 1]),
    "one result": (network((64, 32, 1), "Gemm"), [1, 1]),
    "one result behind two": (network((64, 32, 16, 1), "MatMul"), [2, 1]),
    "read elsewhere": (network((64, 32, 16), "Gemm", more=[node("Exp", "t0", "z")]), [1, 1]),
    "an output in between": (network((64, 32, 16), "Conv", more=[node("Abs", "a0", "z")]), [1, 1]),
}


@pytest.mark.parametrize("name", APART)
def test_what_stays_apart(name: str, device_info: Any) -> None:
    model, counts = APART[name]
    assert counts_of(model) == counts
    check(model, "fp32")


def test_off() -> None:
    model = network((64, 32, 16), "Gemm")
    assert counts_of(model) == [2]
    assert counts_of(model, join_chains=False) == [1, 1]


def test_rows_of_several_stay_products() -> None:
    """Two rows, a batch: tiles have them, and weights are read for both."""
    model = network((64, 32, 16), "Gemm")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    assert counts_of(model) == [1, 1]


def test_a_matrix_that_is_computed(device_info: Any) -> None:
    """The first product's results are the second's matrix, not its row."""
    nodes = [
        node("MatMul", "x w0", "p"), node("Relu", "p", "a"), node("Reshape", "a to", "m"),
        node("MatMul", "w1 m", "y"),
    ]  # fmt: skip
    random = np.random.default_rng(0)
    weights = {
        "w0": random.standard_normal((24, 64)).astype(np.float32),
        "w1": random.standard_normal((1, 64)).astype(np.float32),
        "to": np.array([64, 1]),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 24))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    check(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "fp32"
    )


@pytest.mark.parametrize("axis", [1, 2])
def test_sums_over_rows_of_a_square_are_none(axis: int) -> None:
    """A softmax has two sums, of as many terms as there are results where it is of a square."""
    graph = helper.make_graph(
        [node("Softmax", "x", "y", axis=axis)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 48, 48))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    module, _ = kernels_of(import_onnx(model)[0], FIXED)
    function = next(f for gv, f in module.functions_items() if gv.name_hint != "main")
    limits = TargetLimits.of(FIXED)
    assert TEMPLATES["chain"].shape(function) is None
    assert schedule_function(function, limits)[1] == "reduction"
