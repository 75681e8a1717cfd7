"""Networks over volumes become networks over their images on processors, and give what onnxruntime
gives."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from support.onnx_chains import Chain, assert_right
from support.onnx_models import run_on_cpu
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.fold_constants import fold_constants
from tvm_vision.compiler.relax.volumes_as_images import volumes_as_images
from tvm_vision.frontend.onnx.load import import_onnx

SIZES = (7, 9, 8)


def chain(seed, batch=1, channels=6):
    return Chain(seed, SIZES, batch, channels)


def plain(net):
    net.conv(9, (3, 3, 3), pads=[1] * 6).add("Relu")
    return net.conv(20, (3, 5, 1), strides=[2, 1, 2], pads=[2, 0, 1, 0, 3, 0])


def apart(net):
    """Windows of an image and of a place of all images, as R(2+1)D has them; and dilated."""
    net.conv(9, (1, 3, 3), pads=[0, 1, 1, 0, 1, 1]).add("Relu").conv(
        8, (3, 1, 1), strides=[2, 1, 1]
    )
    return net.conv(8, (2, 3, 2), dilations=[2, 1, 2], pads=[1, 1, 0, 1, 0, 1])


def grouped(net):
    net.conv(12, (3, 3, 3), group=2, pads=[1] * 6).add("Tanh")
    return net.conv(12, (3, 1, 3), group=12).conv(7, (1, 1, 1), strides=[2, 2, 1])


def pooled(net):
    net.conv(8, (1, 1, 1)).add("MaxPool", kernel_shape=[3, 3, 3], strides=[1, 2, 2], pads=[1] * 6)
    net.add("AveragePool", kernel_shape=[2, 2, 2], strides=[2, 1, 1])
    return net.add("MaxPool", kernel_shape=[2, 1, 2]).add("GlobalAveragePool")


def pooled_at_an_edge(net):
    """By other counts along the images: those stay volumes."""
    net.conv(8, (1, 1, 1)).add("AveragePool", kernel_shape=[3, 3, 3], pads=[1] * 6)
    net.conv(8, (1, 1, 1)).add("MaxPool", kernel_shape=[2, 2, 2], strides=[2] * 3, ceil_mode=1)
    return net.conv(4, (2, 2, 2))


def of_bytes(net):
    """Quantized volumes, whose largest bytes are looked for."""
    net.conv(8, (3, 3, 3), pads=[1] * 6)
    scale, zero = net.number(np.float32(0.05)), net.number(np.int8(3))
    net.add("QuantizeLinear", scale, zero).add(
        "MaxPool", kernel_shape=[3, 2, 2], pads=[1, 0, 0] * 2
    )
    return net.add("DequantizeLinear", scale, zero).conv(4, (1, 3, 3))


def gated(net):
    first = net.conv(8, (3, 3, 3), pads=[1] * 6).last
    net.add("GlobalAveragePool").conv(8, (1, 1, 1)).add("Sigmoid").add("Mul", first)
    net.add("Mul", net.weight(8, 1, 1, 1)).add("Add", net.weight(9, 8)).add("Sub", net.weight(1))
    net.add("Div", net.weight(7, 1, 1))  # another for each image
    return net.conv(4, (3, 3, 3))


def joined(net):
    first = net.conv(8, (3, 3, 3), pads=[1] * 6).last
    net.conv(8, (1, 1, 1)).add("Concat", first, "x", axis=1)
    net.channels = 16 + net.shape[1]
    second = net.conv(4, (3, 3, 3), pads=[1] * 6).last
    return net.add("Concat", second, axis=2).add("Concat", net.last, axis=-1).conv(4, (5, 1, 1))


def normalized(net):
    net.conv(8, (3, 3, 3)).add("InstanceNormalization", net.weight(8), net.weight(8))
    mean, bias, scale = (net.weight(8) for _ in range(3))
    variance = net.number(np.linspace(0.5, 2, 8, dtype="float32"))
    net.add("BatchNormalization", scale, bias, mean, variance, epsilon=1e-3)
    return net.conv(4, (3, 1, 3))


def upwards(net):
    net.conv(8, (1, 3, 3)).transposed(6, (2, 2, 2), strides=[2, 2, 2]).add("Relu")
    net.transposed(6, (3, 2, 3), strides=[1, 1, 1], group=2)
    return net.conv(4, (3, 3, 3))


NETWORKS = [
    plain, apart, grouped, pooled, pooled_at_an_edge, of_bytes, gated, joined, normalized, upwards,
]  # fmt: skip


@pytest.mark.parametrize("build", NETWORKS)
def test_the_form_is_another_and_results_are_the_same(build):
    net = build(chain(3))
    module = volumes_as_images(fold_constants(import_onnx(net.model())[0]))
    assert "nn.conv3d" not in operators_in(module)
    assert_right(net, lambda x: run_on_cpu(module, x)[0])


@pytest.mark.parametrize("build", [plain, apart, grouped, pooled, joined, normalized])
def test_axes_are_turned_at_the_ends_alone(build):
    module = fold_constants(import_onnx(build(chain(3)).model())[0])
    turned = operators_in(volumes_as_images(module)).count("permute_dims")
    assert turned == 2 + (build is joined)  # whose input is joined, too


@pytest.mark.parametrize("build", NETWORKS)
@pytest.mark.parametrize("batch", [1, 2])
def test_compiled(build, batch, tmp_path):
    """Volumes of a batch stay what they are."""
    import tvm_vision

    net = build(chain(4, batch, channels=16))
    tvm_vision.compile(net.model(), tmp_path / "n.tar", target="llvm")
    network = tvm_vision.load(tmp_path / "n.tar", device="cpu")
    assert_right(net, lambda x: next(iter(network.frame({"x": x}).values())), 1e-5)


def test_kernels_of_a_processor_are_those_of_images():
    kernels = compile_model(*import_onnx(plain(chain(4)).model()), target="llvm").graph["kernels"]
    assert not any("conv3d" in kernel["function"] for kernel in kernels)


def test_volumes_of_float64_keep_their_digits():
    """Which onnxruntime has no convolutions of."""

    def build(builder, x):
        weights = np.random.default_rng(2).standard_normal((8, 6, 3, 3, 3))
        y = builder.emit(relax.op.nn.conv3d(x, relax.const(weights, "float64")))
        return builder.emit(relax.op.nn.avg_pool3d(y, (2, 2, 2)))

    module, _ = module_of(build, (1, 6, *SIZES), dtype="float64")
    made = volumes_as_images(module)
    assert "nn.conv3d" not in operators_in(made)
    x = np.random.default_rng(1).random((1, 6, *SIZES))
    before, after = (run_on_cpu(m, x)[0] for m in (module, made))
    np.testing.assert_allclose(after, before, atol=1e-13)


def test_networks_without_volumes_stay_as_they_are():
    module, _ = import_onnx(Chain(1, (9, 9)).conv(5, (3, 3)).add("Relu").model())
    assert volumes_as_images(module) is module
