"""No product of fp16 is computed without the cooperative matrices of a GPU that is not here."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper
from tvm import tirx
from tvm.s_tir import Schedule

from support.compiled import MATRIX_GPU
from support.networks import Builder
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import NotThisKind, TargetLimits, schedule_function
from tvm_vision.schedules.common import FAILURES
from tvm_vision.schedules.gpu.contraction import as_product

CHANNELS, SIZE, FILTERS = 32, 12, 20  # odd enough to be padded to tiles
TENSORS = {
    "image": (1, CHANNELS, SIZE, SIZE), "line": (1, CHANNELS, 31), "space": (1, CHANNELS, 5, 6, 7),
    "rows": (2, 33, 24), "others": (2, 24, 33), "matrix": (33, 24),
}  # fmt: skip


def convolutions(b: Builder, values: dict[str, str]) -> list[str]:
    """Of every kind that TVM has another kernel for."""

    def conv(of: str, shape: tuple[int, ...], kind: str = "Conv", **attributes: Any) -> str:
        weights = b.random.standard_normal(shape).astype("float32")
        return b.node(kind, [values[of], b.constant(weights)], **attributes)

    square = (FILTERS, CHANNELS, 3, 3)
    return [
        conv("image", (FILTERS, CHANNELS, 1, 1)),
        conv("image", (FILTERS, CHANNELS, 1, 1), strides=[2, 2]),
        conv("image", square, pads=[1] * 4),
        conv("image", square, strides=[2, 2]),
        conv("image", square, dilations=[2, 2], pads=[2] * 4),
        conv("image", (FILTERS, CHANNELS // 2, 3, 3), group=2),
        conv("image", (CHANNELS, FILTERS, 2, 2), "ConvTranspose", strides=[2, 2]),
        conv("line", (FILTERS, CHANNELS, 3), pads=[1, 1]),
        conv("space", (FILTERS, CHANNELS, 3, 3, 3)),
    ]


def products(b: Builder, values: dict[str, str]) -> list[str]:
    """With weights, and of two activations, either of them turned or not."""
    rows, others, matrix = values["rows"], values["others"], values["matrix"]
    weights = b.constant(b.random.standard_normal((24, 40)).astype("float32"))
    turned = b.node("Transpose", [rows], perm=[0, 2, 1])
    return [
        b.node("MatMul", [rows, weights]),
        b.node("MatMul", [rows, others]),
        b.node("MatMul", [others, rows]),
        b.node("MatMul", [rows, turned]),
        b.node("MatMul", [b.node("Softmax", [b.node("MatMul", [turned, rows])], axis=-1), turned]),
        b.node("Gemm", [matrix, matrix], transB=1),
        b.node("Gemm", [matrix, matrix], transA=1),
        b.node("Transpose", [b.node("MatMul", [rows, weights])], perm=[0, 2, 1]),
    ]


def network() -> onnx.ModelProto:
    """Products of tensors that kernels made: a network's inputs stay float32."""
    b = Builder(5)
    values = {name: b.node("Sigmoid", [name]) for name in TENSORS}
    results = [*convolutions(b, values), *products(b, values)]
    results = [b.node("Tanh", [b.node("Relu", [result])]) for result in results]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in TENSORS.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph(b.nodes, "products", inputs, outputs, b.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def is_fp16_product(function: tirx.PrimFunc) -> bool:
    """Whether a kernel is a product, large enough for tiles, of two tensors of fp16."""
    try:
        _, shape, _ = as_product(Schedule(function))
    except (NotThisKind, *FAILURES):
        return False
    return shape.fp16


def test_every_product_of_fp16_is_on_matrices() -> None:
    target = parse_target(MATRIX_GPU)
    module, _ = import_onnx(network())
    graph = prepare(module, target=target, precision="fp16", layout="nchw")
    found = {name: f for name, f in graph.functions.items() if is_fp16_product(f)}
    assert len(found) >= 15
    limits = TargetLimits.of(target)
    kinds = {name: schedule_function(f, limits)[1] for name, f in found.items()}
    assert set(kinds.values()) <= {"coopmat_gemm", "direct_conv"}, kinds
