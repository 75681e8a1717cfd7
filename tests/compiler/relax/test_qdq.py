"""Quantized networks: bytes in memory, sums in int32, and onnxruntime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from support.compiled import executor_of
from support.networks import transformer
from support.quantized_networks import Quantized, as_written, network
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.target import parse_target
from tvm_vision.errors import InputError
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.onnx.quantize import plain_onnx, quantized
from tvm_vision.options import variable_of
from tvm_vision.schedules import kernel_key

# Sums that lie close to half a step may be rounded the other way: float32 adds up in another order.
SHARE = 0.005
# Target and layout of each way in which a network is computed in bytes.
GPU = {"kind": "vulkan", "from_device": 0, "supports_integer_dot_product": True,
       "supports_cooperative_matrix": False, "keys": ["vulkan", "gpu"]}  # fmt: skip
WITHOUT = {**GPU, "supports_integer_dot_product": False}
WAYS = [("llvm", "auto"), (GPU, "nhwc"), (WITHOUT, "nhwc"), (GPU, "nchw")]


@pytest.fixture(autouse=True)
def _in_bytes_everywhere(monkeypatch):
    monkeypatch.setenv(variable_of("int8"), "on")


def run(model, x, target, layout="auto", precision="fp32"):
    return outputs(compiled(model, target, layout, precision), x)


def compiled(model, target, layout="auto", precision="fp32"):
    module, signature = import_onnx(model)
    return compile_model(module, signature, target=target, layout=layout, precision=precision)


def outputs(made, x):
    executor = executor_of(made, None if "gpu" in made.target.keys else tvm.cpu())
    executor.set_input(0, x)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.num_outputs)]


def graph_of(model, target="llvm", layout="auto"):
    module, _ = import_onnx(model)
    return prepare(module, target=parse_target(target), layout=layout)


def assert_same_steps(found, expected, step):
    """Equal, or one step of quantization apart in a share of SHARE at most."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    assert expected.std() > 3 * step  # the network says something
    assert apart.max() <= 1.01 * step
    assert (apart > 0.01 * step).mean() <= SHARE


def random_image(shape, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def between(made):
    """Types of the tensors that kernels of a compiled network hand to each other."""
    written, read = set(), set()
    for kernel in made.graph["kernels"]:
        tensors = [made.graph["tensors"][t] for t in kernel["args"]]
        places = [(t["storage"], t["offset"], t["dtype"]) for t in tensors]
        written |= set(places[-kernel["num_outputs"] :])
        read |= set(places[: -kernel["num_outputs"]])
    return {dtype for _, _, dtype in written & read}


def weight_types(made):
    """Types of constants with more than one axis of several numbers, of a graph or a compiled
    network."""
    return {str(v.dtype) for v in made.params.values() if sum(n > 1 for n in v.shape) > 1}


CONVOLUTIONS: dict[str, Any] = {
    "dense": ((1, 8, 9, 7), (12, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "image": ((1, 3, 13, 11), (8, 3, 5, 3), {"pads": [2, 1, 2, 1], "strides": [2, 2]}),
    "grey": ((1, 1, 9, 8), (6, 1, 3, 3), {"pads": [0, 0, 1, 1]}),
    "one pixel": ((2, 6, 5, 7), (10, 6, 1, 1), {}),
    "one-sided padding": ((1, 4, 8, 9), (5, 4, 3, 2), {"pads": [0, 1, 2, 0], "strides": [1, 2]}),
    "dilated": ((1, 5, 12, 10), (7, 5, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "groups": ((1, 12, 7, 7), (6, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 3}),
    "depthwise": ((1, 10, 9, 9), (10, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 10}),
    "depthwise twice": ((1, 6, 8, 8), (12, 1, 3, 3), {"strides": [2, 2], "group": 6}),
}


def convolution(shape, weights, dtype=np.uint8, **attributes):
    """A quantized convolution of a quantized image, and the step of its output."""
    zero = 37 if dtype is np.uint8 else -21
    net = Quantized(shape, dtype=dtype)
    out = net.conv(net.rounded("x", 0.009, zero), *weights, scale=0.009, **attributes)
    return net.model(net.rounded(out, 0.011, zero + 60)), 0.011


# Bytes without a sign become bytes with one before the target is asked for anything: each target
# has the first kind, and processors have both.
IN_BYTES = [
    *((np.uint8, *way) for way in WAYS),
    (np.int8, *WAYS[0]),
    *(pytest.param(np.int8, *way, marks=pytest.mark.slow) for way in WAYS[1:]),
]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(("dtype", "target", "layout"), IN_BYTES)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions_are_of_bytes_and_padded_by_the_zero_point(kind, dtype, target, layout):
    shape, weights, attributes = CONVOLUTIONS[kind]
    model, step = convolution(shape, weights, dtype, single=kind == "dilated", **attributes)
    made = compiled(model, target, layout)
    assert weight_types(made) <= {"int8"}
    assert between(made) == {"int8"}
    data = random_image(shape)
    (found,), (expected,) = outputs(made, data), as_written(model, data)
    assert_same_steps(found, expected, step)


def test_padding_by_another_byte_would_not_pass():
    shape, weights = (1, 8, 9, 7), (12, 8, 3, 3)
    model, step = convolution(shape, weights, pads=[1, 1, 1, 1])
    data = random_image(shape)
    # Around the image there is what byte 0 stands for, not byte 37, which stands for 0.
    edge = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-37 * 0.009)
    wrong, _ = convolution(edge.shape, weights)
    with pytest.raises(AssertionError):
        assert_same_steps(as_written(wrong, edge)[0], as_written(model, data)[0], step)


def whole_network(dtype=np.uint8):
    """Residual sums, a pool, concatenations of equal and of other scales, resizing, activations."""
    net = Quantized((1, 3, 17, 19), dtype=dtype)
    zero = 128 if dtype is np.uint8 else 0
    x = net.rounded("x", 0.008, zero)
    a = net.conv(x, 8, 3, 3, 3, scale=0.008, strides=[2, 2], pads=[1, 1, 1, 1])
    a = net.rounded(net.node("Relu", a), 0.006, zero - 128)
    a = net.rounded(net.node("MaxPool", a, kernel_shape=[2, 2], strides=[1, 1]), 0.006, zero - 128)
    b = net.conv(a, 8, 8, 3, 3, scale=0.006, pads=[1, 1, 1, 1])
    b = net.rounded(b, 0.012, zero + 3)
    c = net.rounded(net.node("Add", b, a), 0.014, zero - 5)
    c = net.rounded(net.node("LeakyRelu", c, alpha=0.1), 0.013, zero - 90)
    d = net.conv(c, 8, 1, 3, 3, scale=0.013, group=8, pads=[1, 1, 1, 1])
    d = net.rounded(net.node("Sigmoid", net.rounded(d, 0.011, zero)), 1 / 255, zero - 128)
    e = net.rounded(net.node("Concat", c, d, axis=1), 0.013, zero - 80)
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    e = net.rounded(
        net.node("Resize", e, "", scales, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric"), 0.013, zero - 80
    )  # fmt: skip
    e = net.rounded(net.node("Concat", e, e, axis=1), 0.013, zero - 80)
    f = net.rounded(net.conv(e, 6, 32, 1, 1, scale=0.013), 0.02, zero)
    g = net.rounded(net.node("GlobalAveragePool", f), 0.008, zero)
    h = net.rounded(net.node("AveragePool", f, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), 0.02, zero)
    rows = net.rounded(net.node("Flatten", g), 0.008, zero)
    dense = net.node("MatMul", rows, net.weights(6, 9, axis=1))
    return net.model(net.rounded(dense, 0.004, zero), h)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(("target", "layout"), WAYS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_bytes_travel_between_all_kernels_of_a_network(dtype, target, layout):
    model = whole_network(dtype)
    made = compiled(model, target, layout)
    assert weight_types(made) == {"int8"}
    assert between(made) == {"int8"}
    data = random_image((1, 3, 17, 19))
    found, expected = outputs(made, data), as_written(model, data)
    for one, other, step in zip(found, expected, (0.004, 0.02), strict=True):
        apart = np.abs(one - other)
        # Here a step that was rounded the other way goes through the layers that follow.
        assert apart.max() <= 2.01 * step
        assert (apart > 0.01 * step).mean() <= 0.03
        assert other.std() > 3 * step


@pytest.mark.usefixtures("device_info")
def test_a_gpu_with_an_instruction_for_it_puts_channels_last_by_itself(monkeypatch):
    monkeypatch.delenv(variable_of("int8"))
    model = whole_network()
    graph = graph_of(model, GPU)
    shapes = {v.shape for v in graph.params.values() if v.dtype == np.int8 and v.ndim > 2}
    # (kh, kw, i/4, o, 4) with three channels filled up to four, and depthwise ones (kh, kw, 1, o).
    assert shapes == {(3, 3, 1, 8, 4), (3, 3, 2, 8, 4), (3, 3, 1, 8), (1, 1, 8, 6, 4)}
    # Matrices take them as (o, kh, kw, i).
    matrices = {**GPU, "supports_cooperative_matrix": True,
                "keys": ["vulkan", "gpu", "cooperative_matrix_int8_16x16x32"]}  # fmt: skip
    graph = graph_of(model, matrices)
    shapes = {v.shape for v in graph.params.values() if v.dtype == np.int8 and v.ndim > 2}
    assert shapes == {(8, 3, 3, 4), (8, 3, 3, 8), (3, 3, 1, 8), (6, 1, 1, 32)}
    assert weight_types(graph_of(model, WITHOUT)) == {"float32"}
    assert weight_types(graph_of(model, "llvm")) == {"float32"}


@pytest.mark.parametrize("target", ["llvm", GPU])
@pytest.mark.usefixtures("device_info")
def test_switched_off_the_network_is_computed_in_float32(target, monkeypatch):
    monkeypatch.setenv(variable_of("int8"), "off")
    model = whole_network()
    made = compiled(model, target)
    assert weight_types(made) == {"float32"}
    data = random_image((1, 3, 17, 19))
    for one, other in zip(outputs(made, data), as_written(model, data), strict=True):
        assert (np.abs(one - other) > 1e-3).mean() <= 0.03


@pytest.mark.parametrize(
    ("target", "way", "said"),
    [(WITHOUT, "auto", True), (WITHOUT, "on", False), (WITHOUT, "off", False), (GPU, "auto", False),
     ("llvm", "auto", False)],
)  # fmt: skip
@pytest.mark.usefixtures("device_info")
def test_where_quantization_does_not_pay_it_is_said(target, way, said, caplog):
    net = Quantized((1, 3, 4, 4))
    model = net.model(net.rounded("x", 0.01, 128))
    module, signature = import_onnx(model)
    compile_model(module, signature, target=target, int8=way)
    assert ("does not pay" in caplog.text) == said


def test_another_value_of_the_switch_is_an_error(monkeypatch):
    monkeypatch.setenv(variable_of("int8"), "maybe")
    with pytest.raises(InputError, match="TVM_VISION_INT8 must be auto, on or off, found 'maybe'"):
        graph_of(whole_network())


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("target", ["llvm", GPU])
def test_weights_with_zero_points_stay_real_numbers(target):
    net = Quantized((1, 4, 8, 8))
    x = net.rounded("x", 0.009, 120)
    out = net.conv(x, 5, 4, 3, 3, scale=0.009, weight_zero=3, bias=False)
    model = net.model(net.rounded(out, 0.012, 128))
    made = compiled(model, target)
    assert weight_types(made) == {"float32"}
    data = random_image((1, 4, 8, 8))
    assert_same_steps(outputs(made, data)[0], as_written(model, data)[0], 0.012)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("target", ["llvm", GPU])
def test_weights_may_be_rounded_by_the_network(target):
    net = Quantized((1, 4, 8, 8))
    out = net.node("Conv", net.rounded("x", 0.009, 120), net.rounded_weights(6, 4, 3, 3))
    model = net.model(net.rounded(net.node("Relu", out), 0.004, 0))
    made = compiled(model, target)
    assert weight_types(made) == {"int8"}
    data = random_image((1, 4, 8, 8))
    assert_same_steps(outputs(made, data)[0], as_written(model, data)[0], 0.004)


def test_kernels_are_named_after_the_nodes_of_the_model():
    model = whole_network()
    graph = graph_of(model, GPU, "nchw")
    named = {name for kernel in graph.kernels for name in kernel.nodes}
    assert named <= {node.name for node in model.graph.node}


def test_schedules_serve_networks_of_other_scales():
    def keys(scale, zero, channels=8):
        net = Quantized((1, 8, 9, 9))
        out = net.conv(net.rounded("x", scale, zero), channels, 8, 3, 3, scale=scale, pads=[1] * 4)
        out = net.rounded(net.node("LeakyRelu", net.rounded(out, 2 * scale, zero), alpha=0.1),
                          3 * scale, zero)  # fmt: skip
        out = net.conv(out, 4, channels, 1, 1, scale=3 * scale)
        graph = graph_of(net.model(net.rounded(out, scale, zero)), GPU)
        return [kernel_key(graph.functions[kernel.function]) for kernel in graph.kernels[1:-1]]

    assert keys(0.009, 37) == keys(0.011, 90)
    assert set(keys(0.009, 37)).isdisjoint(keys(0.009, 37, channels=12))


@pytest.mark.usefixtures("device_info")
def test_halves_between_and_bytes_where_the_network_has_them():
    """Scales of sums are about 1e-5, which fp16 holds with few digits: they must not."""
    model = whole_network()
    data = random_image((1, 3, 17, 19))
    found = run(model, data, GPU, precision="fp16")
    for one, other, step in zip(found, as_written(model, data), (0.004, 0.02), strict=True):
        assert np.abs(one - other).max() <= 2.01 * step
        assert (np.abs(one - other) > 0.01 * step).mean() <= 0.05


def integer_model(operator, inputs, shape, result, constants, **attributes):
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    kinds = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int32): TensorProto.INT32}
    return network(
        [node],
        helper.make_tensor_value_info("x", TensorProto.UINT8, shape),
        {"y": kinds[np.dtype(result)]},
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )


def integer_operators():
    random = np.random.default_rng(3)
    w = random.integers(-127, 128, (6, 5, 3, 3)).astype(np.int8)
    rows = random.integers(-127, 128, (20, 7)).astype(np.int8)
    scales = random.uniform(0.001, 0.002, 6).astype(np.float32)
    zero, point = np.uint8(100), np.uint8(128)
    of_x = {"xs": np.float32(0.02), "xz": zero}
    yield integer_model("ConvInteger", ["x", "w", "xz"], (1, 5, 8, 9), np.int32,
                        {"w": w, "xz": zero}, pads=[1, 1, 1, 1])  # fmt: skip
    yield integer_model("MatMulInteger", ["x", "w", "xz"], (3, 20), np.int32,
                        {"w": rows, "xz": zero})  # fmt: skip
    yield integer_model(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], (1, 5, 8, 9), np.uint8,
        {**of_x, "w": w, "ws": scales, "wz": np.zeros(6, np.int8), "ys": np.float32(0.02),
         "yz": point, "b": np.arange(-300, 300, 100).astype(np.int32)}, pads=[1, 1, 1, 1],
    )  # fmt: skip
    yield integer_model(
        "QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], (3, 20), np.uint8,
        {**of_x, "w": rows, "ws": np.float32(0.001), "wz": np.int8(0), "ys": np.float32(0.01),
         "yz": point},
    )  # fmt: skip
    yield integer_model(
        "QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], (3, 20), np.uint8,
        {**of_x, "w": rows, "ws": np.resize(scales, 7), "wz": np.zeros(7, np.int8),
         "ys": np.float32(0.01), "yz": point},
    )  # fmt: skip


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("target", ["llvm", GPU])
@pytest.mark.parametrize("model", list(integer_operators()), ids=lambda m: m.graph.node[0].op_type)
def test_operators_on_integers_are_the_same_kernels(model, target):
    made = compiled(model, target)
    assert weight_types(made) == {"int8"}
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(4).integers(0, 256, shape).astype(np.uint8)
    (found,) = outputs(made, data)
    # onnxruntime 1.23 has no ConvInteger of int8 weights; of the other, whose weights have no zero
    # point, its sums overflow on processors without VNNI.
    by_onnx = model.graph.node[0].op_type in ("ConvInteger", "MatMulInteger")
    (expected,) = (
        ReferenceEvaluator(model).run(None, {"x": data})
        if by_onnx
        else Reference(model).run({"x": data}).values()
    )
    assert expected.std() > 20
    assert found.dtype == expected.dtype
    apart = np.abs(found.astype(int) - expected.astype(int))
    assert apart.max() <= (expected.dtype == np.uint8)
    assert (apart > 0).mean() <= SHARE


# Shapes of the scale and of the zero point of x, and of those of w.
PLACES = {
    "columns": ((), (), (7,), (7,)),
    "columns of batches": ((), (), (2, 1, 7), (2, 1, 7)),
    "rows": ((3,), (3,), (), ()),
    "rows of batches, columns": ((2, 3, 1), (2, 3, 1), (7,), (7,)),
    "one zero point": ((3,), (1,), (7,), ()),
}


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("target", ["llvm", GPU])
@pytest.mark.parametrize("name", PLACES)
def test_products_of_rows_and_columns_with_scales_of_their_own(name, target):
    random = np.random.default_rng(6)
    shapes = dict(zip(("xs", "xz", "ws", "wz"), PLACES[name], strict=True))
    given: dict[str, np.ndarray] = {
        "xs": random.uniform(0.01, 0.03, shapes["xs"]).astype(np.float32),
        "xz": random.integers(90, 160, shapes["xz"]).astype(np.uint8),
        "w": random.integers(-127, 128, (2, 20, 7)).astype(np.int8),
        "ws": random.uniform(0.001, 0.002, shapes["ws"]).astype(np.float32),
        "wz": random.integers(-9, 9, shapes["wz"]).astype(np.int8),
        "ys": np.array(0.01, np.float32), "yz": np.array(128, np.uint8),
    }  # fmt: skip
    model = integer_model(
        "QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], (2, 3, 20), np.uint8, given
    )
    x = random.integers(0, 256, (2, 3, 20)).astype(np.uint8)
    (found,) = outputs(compiled(model, target), x)
    (scale, zero), (of_w, zero_of_w) = (
        (given[name].reshape(-1, 1) if given[name].shape == (3,) else given[name] for name in names)
        for names in (("xs", "xz"), ("ws", "wz"))
    )
    real = ((x.astype(float) - zero) * scale) @ ((given["w"].astype(float) - zero_of_w) * of_w)
    wanted = np.clip(np.rint(real / given["ys"]) + 128, 0, 255)
    assert wanted.std() > 20
    assert np.abs(found - wanted).max() <= 1


@pytest.mark.usefixtures("device_info")
def test_what_lies_between_products_of_a_quantized_transformer_is_the_kernels_that_it_was(
    monkeypatch,
):
    """One more for the image, and for what each attention gives, which is rounded by itself; its
    queries, keys and values are not joined."""
    monkeypatch.setenv(variable_of("join_products"), "off")
    layers = 2
    plain = plain_onnx(transformer(layers=layers), {})
    image = np.random.default_rng(3).uniform(-1, 1, (1, 3, 64, 64)).astype(np.float32)
    model = quantized(plain, [{"input": image}])
    made, before = compiled(model, GPU), compiled(plain, GPU)
    kernels = [len(m.graph["kernels"]) for m in (made, before)]
    assert kernels[0] <= kernels[1] + layers + 1
    (found,), (expected,) = outputs(made, image), as_written(model, image)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
