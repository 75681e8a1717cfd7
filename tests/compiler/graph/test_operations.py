"""How much arithmetic a kernel is, counted."""

import pytest
from tvm import te, tirx

from support import networks
from support.compiled import FIXED, MATRIX_GPU
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.graph.operations import count_operations
from tvm_vision.compiler.graph.static_graph import describe
from tvm_vision.frontend.onnx.load import import_onnx


def product(m, n, k, dtype="float32"):
    a, b = te.placeholder((m, k), dtype, "a"), te.placeholder((k, n), dtype, "b")
    r = te.reduce_axis((0, k), "r")
    return te.create_prim_func(
        [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], r))]
    )


def copied():
    a = te.placeholder((6, 4), "float32", "a")
    return te.create_prim_func([a, te.compute((4, 6), lambda i, j: a[j, i])])


def many_exp():
    a = te.placeholder((10,), "float32", "a")
    return te.create_prim_func([a, te.compute((10,), lambda i: tirx.exp(a[i]) + a[i])])


@pytest.mark.parametrize(
    ("function", "least", "most"),
    [
        (product(3, 5, 7), 2 * 3 * 5 * 7, 2 * 3 * 5 * 7),
        (product(4, 4, 64, "int32"), 2 * 4 * 4 * 64, 2 * 4 * 4 * 64),
        (copied(), 0, 0),
        (many_exp(), 10, 20),
    ],
)
def test_operations_of_a_function(function, least, most):
    assert least <= count_operations(function) <= most


def test_what_has_no_fixed_loops_has_no_count():
    rows = tirx.Var("rows", "int32")
    a = te.placeholder((rows,), "float32", "a")
    function = te.create_prim_func([a, te.compute((rows,), lambda i: a[i] + a[i])])
    assert count_operations(function) is None


def test_a_network_has_as_many_as_its_layers():
    """MobileNetV2 on 96×96: 301e6 multiply-adds at 224, nearly all of which go with the pixels;
    activations are on top."""
    module, _ = import_onnx(networks.mobilenet_v2(96))
    plain, _ = describe(prepare(module, target=FIXED))
    counts = [kernel["operations"] for kernel in plain["kernels"]]
    assert sum(counts) == pytest.approx(2 * 301e6 * (96 / 224) ** 2, rel=0.07)
    assert min(counts) >= 0


@pytest.mark.parametrize(("precision", "found"), [("fp16", {"float16"}), ("fp32", {None})])
def test_kernels_on_matrices_are_told(precision, found):
    module, signature = import_onnx(networks.mobilenet_v2(64, stages=2))
    on = {**MATRIX_GPU, "supports_cooperative_matrix": True}
    made = compile_model(module, signature, target=on, precision=precision)
    told = {kernel.get("matrices") for kernel in made.graph["kernels"]}
    assert told == found | {None}
