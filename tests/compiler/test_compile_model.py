"""Whole networks and odd kernels: right on both targets, at every level, in both precisions."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

import tvm_vision
from support.compiled import kernels_of
from support.interpreter import run
from support.networks import NETWORKS, mainly, reference
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.graph.lower import lower_to_graph
from tvm_vision.compiler.precision.convert_fp16 import to_fp16
from tvm_vision.compiler.target import parse_target
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

OP = relax.op
SIZE = 64
# Largest error as a share of the largest value; an arg max may differ in so many pixels.
TOLERANCE = {"fp32": 1e-5, "fp16": 1e-2}
# lavapipe takes seconds for each new shader; all six in float32 are slow tests of
# tests/vulkan/test_networks.py.
ON_VULKAN = [
    pytest.param("efficientnet_lite0", "fp32", marks=pytest.mark.slow),
    ("blocks", "fp32"),
    ("shufflenet_v2", "fp16"),
]


def random_image(seed, size=SIZE):
    return np.random.default_rng(seed).standard_normal((1, 3, size, size)).astype("float32")


def error_of(result, expected):
    if expected.dtype.kind != "f":
        return float((result != expected).mean())
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def check_network(name, target, precision):
    model, image = NETWORKS[name](SIZE), random_image(7)
    module, signature = import_onnx(model)
    compiled = compile_model(module, signature, target=target, precision=precision)
    results = run(compiled, [image])
    for spec, result, expected in zip(
        compiled.outputs, results, reference(model, image), strict=True
    ):
        assert (spec.shape, spec.dtype) == (expected.shape, str(expected.dtype))
        assert error_of(result, expected) < TOLERANCE[precision]
    return compiled


@pytest.mark.parametrize("name", mainly("blocks", "yoeo_like"))
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_networks_on_the_processor(name, precision):
    check_network(name, "llvm", precision)


@pytest.mark.parametrize(("name", "precision"), ON_VULKAN)
def test_networks_on_vulkan(name, precision, device_info):
    check_network(name, "vulkan", precision)


@pytest.mark.parametrize("opt_level", [0, 1, 2])
def test_levels_differ_in_kernels_not_in_results(opt_level):
    model, image = NETWORKS["blocks"](SIZE), random_image(7)
    module, signature = import_onnx(model)
    compiled = compile_model(module, signature, target="llvm", opt_level=opt_level)
    assert len(compiled.graph["kernels"]) == {0: 70, 1: 61, 2: 22}[opt_level]
    (result,) = run(compiled, [image])
    assert error_of(result, reference(model, image)[0]) < 1e-5


def test_halves_take_half_the_memory():
    module, signature = import_onnx(NETWORKS["blocks"](SIZE))
    full, half = (
        compile_model(module, signature, target="llvm", precision=p) for p in ("fp32", "fp16")
    )
    # Each tensor begins at a boundary.
    assert half.memory["weights"] == pytest.approx(full.memory["weights"] / 2, rel=0.01)
    image = 3 * SIZE * SIZE * 4
    # The input and the output, with the sums it is a view of, stay float32.
    assert half.memory["activations"] - image < 0.55 * (full.memory["activations"] - image) + 4000
    assert [spec.dtype for spec in (*half.inputs, *half.outputs)] == ["float32"] * 2


def test_sums_of_halves_are_not_halves():
    """4096 terms of 1 after one of 4096: a sum in fp16 would stop at 4096."""

    def build(builder, x):
        total = builder.emit(OP.sum(builder.emit(OP.abs(x)), axis=1))
        return builder.emit(OP.nn.softmax(builder.emit(OP.negative(total)), axis=0))

    module, signature = module_of(build, (2, 4097))
    x = np.ones((2, 4097), "float32")
    x[:, 0] = 4096
    x[1, 1] = -3
    compiled = compile_model(module, signature, target="llvm", precision="fp16", opt_level=1)
    dtypes = {t["dtype"] for t in compiled.graph["tensors"]}
    assert dtypes == {"float16", "float32"}
    total = np.abs(x).sum(1)
    e = np.exp(-total - (-total).max())
    np.testing.assert_allclose(run(compiled, [x])[0], e / e.sum(), rtol=1e-3)


def test_weights_too_large_for_halves_stay_float32():
    big = np.array([[1e6, 1.0], [2.0, 1e-3]], "float32")

    def build(builder, x):
        return builder.emit(OP.matmul(x, relax.const(big)))

    module, signature = module_of(build, (3, 2))
    compiled = compile_model(module, signature, target="llvm", precision="fp16")
    assert compiled.params["p0"].dtype == np.float32
    x = np.ones((3, 2), "float32")
    np.testing.assert_allclose(run(compiled, [x])[0], x @ big, rtol=1e-5)


def test_kernels_that_are_scheduled_already_keep_float32():
    from tvm_vision.compiler.tir.cast_buffers import narrowable

    from tvm.script import tirx as T  # isort: skip

    @T.prim_func(s_tir=True)
    def bound(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, "threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                b[v] = a[v]

    assert narrowable(bound) == [False, False]


def test_functions_serve_all_calls_that_are_alike():
    """The same operator once on the input (float32) and once inside (half): two functions."""

    def build(builder, x):
        y = x
        for _ in range(3):
            y = builder.emit(OP.nn.softmax(y, axis=-1))
        return y

    module, _ = module_of(build, (4, 8))
    graph = to_fp16(lower_to_graph(*kernels_of(module, parse_target("llvm"))))
    assert [k.function for k in graph.kernels] == [
        "softmax_fp16",
        "softmax_fp16_1",
        "softmax_fp16_2",
    ]


def conv_with_norm(builder, x):
    weights, _ = constant(1, 4, 3, 3, 3)
    y = builder.emit(OP.nn.conv2d(x, weights, padding=1))
    y = builder.emit(OP.add(y, constant(2, 1, 4, 1, 1)[0]))
    stats = [constant(i, 4, low=0.5, high=2.0)[0] for i in (3, 4, 5, 6)]
    y = builder.emit(OP.nn.batch_norm(y, *stats, axis=1, epsilon=1e-3))
    return builder.emit(OP.nn.relu(builder.emit(y[0])))


def scaled_product(builder, x):
    y = builder.emit(OP.matmul(x, constant(1, 5, 7)[0]))
    y = builder.emit(OP.subtract(constant(2, 7)[0], y))
    return builder.emit(OP.divide(y, relax.const(np.float32(3))))


def transposed_convolution(builder, x):
    y = builder.emit(OP.nn.conv2d_transpose(x, constant(1, 3, 4, 2, 2)[0], strides=2))
    y = builder.emit(OP.multiply(y, constant(2, 4, 1, 1)[0]))
    return builder.emit(OP.add(constant(3, 1, 4, 1, 1)[0], y))


@pytest.mark.parametrize(
    ("build", "shape", "constants"),
    [
        (conv_with_norm, (1, 3, 6, 6), 2),
        (scaled_product, (2, 5), 2),
        (transposed_convolution, (1, 3, 5, 5), 2),
    ],
)
def test_scales_go_into_weights(build, shape, constants):
    module, signature = module_of(build, shape)
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    plain, folded = (
        compile_model(module, signature, target="llvm", opt_level=level) for level in (2, 3)
    )
    assert len(folded.params) == constants <= len(plain.params)
    np.testing.assert_allclose(run(folded, [x])[0], run(plain, [x])[0], rtol=1e-4, atol=1e-5)


def used_twice(builder, x):
    y = builder.emit(OP.nn.conv2d(x, constant(1, 4, 3, 1, 1)[0]))
    return [builder.emit(OP.multiply(y, constant(2, 1, 4, 1, 1)[0])), y]


def along_width(builder, x):
    y = builder.emit(OP.nn.conv2d(x, constant(1, 6, 3, 1, 1)[0]))
    return builder.emit(OP.multiply(y, constant(2, 6)[0]))


@pytest.mark.parametrize("build", [used_twice, along_width])
def test_scales_stay_where_folding_would_be_wrong(build):
    module, signature = module_of(build, (1, 3, 6, 6))
    x = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype("float32")
    results = [
        run(compile_model(module, signature, target="llvm", opt_level=level), [x])
        for level in (1, 3)
    ]
    for plain, folded in zip(*results, strict=True):
        np.testing.assert_allclose(folded, plain, rtol=1e-5, atol=1e-6)


def named_network():
    """conv -> relu -> conv -> relu, the two pairs alike, with names on all nodes."""
    weights = onnx.numpy_helper.from_array(constant(1, 3, 3, 1, 1)[1], "w")
    nodes = []
    for i, (source, result) in enumerate((("input", "a"), ("a", "output"))):
        nodes.append(
            onnx.helper.make_node("Conv", [source, "w"], [f"c{i}"], name=f"block/{i}/conv")
        )
        nodes.append(onnx.helper.make_node("Relu", [f"c{i}"], [result], name=f"block/{i}/act"))
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3, 4, 4])
        for name in ("input", "output")
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], [weights])
    opset = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)


@pytest.mark.parametrize("opt_level", [1, 3])
def test_kernels_know_the_nodes_they_compute(opt_level):
    module, signature = import_onnx(named_network())
    compiled = compile_model(module, signature, target="llvm", opt_level=opt_level, layout="nchw")
    nodes = [kernel["nodes"] for kernel in compiled.graph["kernels"]]
    names = [f"block/{i}/{part}" for i in (0, 1) for part in ("conv", "act")]
    assert nodes == ([names[:2], names[2:]] if opt_level == 3 else [[name] for name in names])
    assert len({kernel["function"] for kernel in compiled.graph["kernels"]}) < len(names)


def test_names_of_functions_stay_short():
    def build(builder, x):
        for i in range(40):
            x = builder.emit((OP.exp, OP.negative, OP.tanh)[i % 3](x))
        return x

    module, signature = module_of(build, (4,))
    (kernel,) = compile_model(module, signature, target="llvm").graph["kernels"]
    assert len(kernel["function"]) <= 80


FINGERPRINT = """
import hashlib, json
from support.networks import efficientnet_b0
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
model = compile_model(
    *import_onnx(efficientnet_b0(32, stages=1)), target="llvm", precision="fp16", kernel_cache=False
)
digest = hashlib.sha256(json.dumps(model.graph).encode())
for name, value in model.params.items():
    digest.update(name.encode() + value.tobytes())
for name, code in model.library.kernels.items():
    digest.update(name.encode() + code.host)
print(digest.hexdigest())
"""


def test_the_same_input_gives_the_same_bytes_in_every_process():
    children = [
        subprocess.Popen(
            [sys.executable, "-c", FINGERPRINT],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]  # fmt: skip
    digests = {child.communicate(timeout=100)[0].splitlines()[-1] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opt_level": 4}, "opt_level must be 0, 1, 2 or 3, found 4"),
        ({"precision": "int4"}, "precision must be fp32 or fp16, found 'int4'"),
        ({"precision": "int8"}, "found 'int8': use 'tvm-vision quantize' first, which makes"),
        ({"precision": "half"}, "found 'half': use fp16"),
        ({"layout": "plain"}, "layout must be auto, nchw or nhwc, found 'plain'"),
        ({"target": "cuda"}, "found kind 'cuda'"),
        ({"target": "vulkan -max_threads_per_block=64", "precision": "fp16"}, "supports_16bit"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    module, signature = module_of(lambda b, x: b.emit(OP.exp(x)), (4,))
    with pytest.raises(InputError, match=message):
        compile_model(module, signature, **{"target": "llvm", **options})


OPERATOR = 'ir.Op(span=None, ty=ir.Type(span=None), name="relax.add", support_level=10)'


@pytest.mark.parametrize(
    ("said", "told"),
    [("Check failed: x\n  a stack", "Check failed: x"), (f"In {OPERATOR}, y", "In relax.add, y")],
)
def test_what_tvm_cannot_compile_is_one_line_with_a_remedy(said, told, monkeypatch):
    def fail(*_):
        raise tvm.error.InternalError(said)

    monkeypatch.setattr("tvm_vision.compiler.kernels.make.cpu_schedules", fail)
    module, signature = module_of(lambda b, x: b.emit(OP.exp(x)), (4,))
    with pytest.raises(UnsupportedModelError) as raised:
        compile_model(module, signature, target="llvm")
    assert str(raised.value) == (
        f"TVM cannot compile the kernels of the network ({told}): report it with the model, and "
        "try another target or '--opt-level 0' meanwhile"
    )


def test_compile_writes_a_package(tmp_path):
    steps: list[str] = []
    paths = [
        tvm_vision.compile(named_network(), tmp_path / f"{i}.tar", target="llvm", name="pairs",
                           progress=steps.append)
        for i in (1, 2)
    ]  # fmt: skip
    first, second = (hashlib.sha256(path.read_bytes()).hexdigest() for path in paths)
    assert first == second
    assert steps[0] == "reading the model" and len(steps) == 8
    assert steps[6] == "3 of 3 kernels made before"
    from tvm_vision.package import read_package

    with read_package(paths[0]) as package:
        assert package.info.model.name == "pairs"
        assert package.info.device is None
        assert json.loads(package.info.to_bytes())["graph"]["kernels"]


def test_compile_without_output_returns_the_compiled_model():
    compiled = tvm_vision.compile(named_network(), target="llvm", opt_level=1)
    assert (compiled.name, compiled.options.opt_level, compiled.options.precision) == (
        "network",
        1,
        "fp32",
    )


def test_compile_refuses_what_is_no_model():
    with pytest.raises(InputError, match="found int"):
        tvm_vision.compile(3, target="llvm")
