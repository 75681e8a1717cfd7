"""Networks over rows become networks over images of one row, and give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from support.onnx_chains import Chain, assert_right
from support.onnx_models import run_on_cpu
from support.relax_models import constant, module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.fold_constants import fold_constants
from tvm_vision.compiler.relax.rows_as_images import rows_as_images
from tvm_vision.frontend.onnx.load import import_onnx

LENGTH = 23


def chain(seed, batch=2, channels=6):
    return Chain(seed, (LENGTH,), batch, channels)


def plain(net):
    return net.conv(9, 3, pads=[1, 1]).add("Relu").conv(20, 5, strides=[2], pads=[2, 0])


def depthwise(net):
    return net.conv(12, 3, group=2, dilations=[2]).add("Tanh").conv(12, 3, group=12).conv(7, 1)


def upwards(net):
    net.transposed(8, 4, strides=[2], pads=[1, 1]).add("Elu")
    net.transposed(8, 3, group=4, strides=[3], output_padding=[1])
    return net.transposed(5, 3, dilations=[2])


def pooled(net):
    net.conv(8, 3).add("MaxPool", kernel_shape=[3], strides=[2], pads=[1, 1])
    net.add("AveragePool", kernel_shape=[2], strides=[2], pads=[0, 1], count_include_pad=1)
    return net.add("GlobalAveragePool")


def broadcast(net):
    net.conv(8, 3, pads=[1, 1])
    net.add("Mul", net.weight(8, 1)).add("Add", net.weight(1, 8, 1)).add("Sub", net.weight(LENGTH))
    net.add("Add", net.weight(1)).add("Div", net.weight(2, 1, 1)).add("Max", net.weight(8, LENGTH))
    return net.conv(4, 3)


def joined(net):
    first = net.conv(8, 3, pads=[1, 1]).last
    net.conv(8, 1).add("Concat", first, "x", axis=1)
    net.channels = 16 + net.shape[1]
    second = net.conv(4, 3, pads=[1, 1]).last
    return (
        net.add("Concat", second, axis=2).add("Add", net.weight(1)).add("Concat", second, axis=-1)
    )


def summed(net):
    return net.conv(8, 3).add("ReduceMax", axes=[2], keepdims=0)


def padded(net):
    width = net.number(np.array([0, 0, 2, 0, 0, 1]))
    return net.conv(8, 3).add("Pad", width).add("Relu").add("Pad", width).conv(4, 3)


def turned(net):
    """What has another axis last, or has no such form, goes on as a row, and comes back."""
    width = net.number(np.array([0, 0, 2, 0, 0, 1]))
    net.conv(8, 3).add("Pad", width, mode="edge").conv(8, 3).add("Transpose", perm=[0, 2, 1]).add(
        "Softmax", axis=-1
    )
    return net.add("Transpose", perm=[0, 2, 1]).conv(4, 3)


def normalized(net):
    net.conv(8, 3).add("Relu")
    mean, bias, scale = (net.weight(8) for _ in range(3))
    variance = net.number(np.linspace(0.5, 2, 8, dtype="float32"))
    net.add("BatchNormalization", scale, bias, mean, variance, epsilon=1e-3)
    return net.conv(4, 3, pads=[1, 1])


def of_bytes(net):
    """Layers of quantized weights, one scale for each channel, between quantized rows."""
    for out, kernel in ((16, 3), (8, 1), (8, 5)):
        scale, zero = net.number(np.float32(0.05)), net.number(np.int8(3))
        net.add("QuantizeLinear", scale, zero).add("DequantizeLinear", scale, zero)
        weights = net.random.integers(-127, 128, (out, net.channels, kernel)).astype("int8")
        scales = net.number(np.linspace(1e-3, 2e-3, out, dtype="float32"))
        rows, net.last = net.last, net.number(weights)
        net.add("DequantizeLinear", scales, net.number(np.zeros(out, "int8")), axis=0)
        weights, net.last = net.last, rows
        net.add("Conv", weights, net.weight(out), pads=[kernel // 2] * 2).add("Relu")
        net.channels = out
    return net


NETWORKS = [
    plain, depthwise, upwards, pooled, broadcast, joined, summed, padded, turned, normalized,
    of_bytes,
]  # fmt: skip


@pytest.mark.parametrize("build", NETWORKS)
@pytest.mark.parametrize("batch", [1, 2])
def test_the_form_is_another_and_results_are_the_same(build, batch):
    net = build(chain(3, batch))
    module = rows_as_images(import_onnx(net.model())[0])
    assert not [name for name in operators_in(module) if "1d" in name]
    assert_right(net, lambda x: run_on_cpu(module, x)[0])


@pytest.mark.parametrize(
    "build", [plain, depthwise, upwards, pooled, broadcast, joined, normalized]
)
def test_nothing_is_reshaped_but_at_the_ends(build):
    module = fold_constants(import_onnx(build(chain(3)).model())[0])
    names = operators_in(rows_as_images(module))
    ends = 1 + (build is joined)  # whose input is joined, too
    assert names.count("reshape") <= 1 + ends, names
    assert names[0] == names[-2] == "reshape"  # and the last is a name


def test_bytes_are_summed_as_those_of_images_are(tmp_path):
    net = of_bytes(chain(4, channels=16))
    imported = import_onnx(net.model())
    kernels = compile_model(*imported, target="vulkan", int8="on").graph["kernels"]
    assert sum("int8" in kernel["function"] for kernel in kernels) == 3


@pytest.mark.parametrize(
    ("build", "target", "precision"),
    [
        # The form is the same for both types: by default each network has one of them on a GPU.
        pytest.param(*(build, *way), marks=[] if way in quick else [pytest.mark.slow])
        for place, build in enumerate(NETWORKS)
        for quick in [(("llvm", "fp32"), ("vulkan", ("fp32", "fp16")[place % 2]))]
        for way in (("llvm", "fp32"), ("vulkan", "fp32"), ("vulkan", "fp16"))
    ],
)
def test_compiled(build, target, precision, tmp_path):
    import tvm_vision

    net = build(chain(4, channels=16))
    tvm_vision.compile(net.model(), tmp_path / "n.tar", target=target, precision=precision)
    network = tvm_vision.load(tmp_path / "n.tar", device="cpu" if target == "llvm" else target)

    def run(x):
        return next(iter(network.frame({"x": x}).values()))

    bound = 1e-2 if precision == "fp16" else 1e-5
    # A sum of halves that is between two bytes may round to either.
    assert_right(net, run, bound * (1 + 2 * (build is of_bytes)))


def test_weights_that_come_as_an_input():
    def build(builder, x, w):
        return builder.emit(relax.op.nn.conv1d(x, w, padding=1))

    module, _ = module_of(build, (1, 4, 9), (5, 4, 3))
    x, w = (np.random.default_rng(1).random(s, "float32") for s in ((1, 4, 9), (5, 4, 3)))
    made = rows_as_images(module)
    assert "nn.conv2d" in operators_in(made)
    before, after = (run_on_cpu(m, x, w)[0] for m in (module, made))
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_rows_of_float64_keep_their_digits():
    """Which onnxruntime has no convolutions of."""

    def build(builder, x):
        wide = [np.random.default_rng(2).standard_normal(shape) for shape in ((8, 6, 3), (8, 1))]
        weights, factors = (relax.const(values, "float64") for values in wide)
        return builder.emit(
            relax.op.multiply(builder.emit(relax.op.nn.conv1d(x, weights)), factors)
        )

    module, _ = module_of(build, (1, 6, LENGTH), dtype="float64")
    made = rows_as_images(module)
    assert "nn.conv2d" in operators_in(made)
    x = np.random.default_rng(1).random((1, 6, LENGTH))
    before, after = (run_on_cpu(m, x)[0] for m in (module, made))
    np.testing.assert_allclose(after, before, atol=1e-13)


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_padding_as_pytorch_has_it(mode):
    def build(builder, x):
        y = builder.emit(relax.op.nn.conv1d(x, constant(1, 5, 4, 3)[0]))
        y = builder.emit(relax.op.nn.pad(y, [0, 0, 0, 0, 2, 1], mode, 0.5))
        return builder.emit(relax.op.nn.conv1d(y, constant(2, 3, 5, 3)[0]))

    module, _ = module_of(build, (1, 4, 9))
    made = rows_as_images(module)
    assert operators_in(made)[:4] == ["reshape", "nn.conv2d", "nn.pad", "nn.conv2d"]
    x = np.random.default_rng(1).random((1, 4, 9), "float32")
    before, after = (run_on_cpu(m, x)[0] for m in (module, made))
    np.testing.assert_allclose(after, before, atol=1e-6)


@pytest.mark.parametrize("axes", [2, 3])
def test_networks_without_rows_stay_as_they_are(axes):
    def build(builder, x):
        convolution = getattr(relax.op.nn, f"conv{axes}d")
        y = builder.emit(convolution(x, constant(1, 5, 4, *[3] * axes)[0]))
        return builder.emit(relax.op.nn.relu(y))

    module, _ = module_of(build, (1, 4, *[9] * axes))
    assert rows_as_images(module) is module
