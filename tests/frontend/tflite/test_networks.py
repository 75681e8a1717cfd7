"""Whole TFLite networks, compiled and run: channels first within, integers told in mod.json."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_vision
from support.tflite_models import Graph
from tvm_vision.errors import InputError
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx
from tvm_vision.package import read_package

RELU6 = 3
SHAPE = (1, 12, 10, 3)
ONES = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


class Net:
    """Builds the same network in float32 or int8: values are tensor numbers."""

    def __init__(self, quantized: bool) -> None:
        self.graph, self.random, self.quantized = Graph(), np.random.default_rng(2), quantized

    def value(self, shape, scale=0.03):
        if not self.quantized:
            return self.graph.tensor(shape)
        return self.graph.tensor(shape, "int8", scale=scale, zero_point=-10)

    def weights(self, shape, axis):
        real = self.random.uniform(-0.4, 0.4, shape).astype(np.float32)
        if not self.quantized:
            return self.graph.tensor(data=real)
        others = tuple(i for i in range(len(shape)) if i != axis)
        scale = np.abs(real).max(axis=others) / 127
        steps = np.round(real / np.expand_dims(scale, others)).astype(np.int8)
        return self.graph.tensor(data=steps, scale=scale, axis=axis)

    def give(self, kind, inputs, shape, scale=0.03, **options):
        result = self.value(shape, scale)
        self.graph.operator(kind, inputs, [result], **options)
        return result

    def conv(self, x, channels, shape, stride=1):
        w = self.weights((shape[3], 3, 3, channels), 0)
        zeros = np.zeros(shape[3], np.int32 if self.quantized else np.float32)
        b = self.graph.tensor(data=zeros, scale=np.full(shape[3], 1e-3) if self.quantized else None)
        steps = {**ONES, "StrideH": stride, "StrideW": stride}
        return self.give("CONV_2D", [x, w, b], shape, **steps, FusedActivationFunction=RELU6)


def backbone(quantized, path):
    """Convolutions, a residual, a squeeze of channels, a concatenation, a resize, two heads."""
    net = Net(quantized)
    x = net.value(SHAPE, 0.02)
    a = net.conv(x, 3, (1, 6, 5, 8), stride=2)
    w = net.weights((1, 3, 3, 8), 3)
    zeros = np.zeros(8, np.int32 if quantized else np.float32)
    bias = net.graph.tensor(data=zeros, scale=np.full(8, 1e-3) if quantized else None)
    b = net.give("DEPTHWISE_CONV_2D", [a, w, bias], (1, 6, 5, 8), **ONES, DepthMultiplier=1)
    c = net.give("ADD", [a, b], (1, 6, 5, 8), 0.05)
    axes = net.graph.tensor(data=np.array([1, 2], np.int32))
    pooled = net.give("MEAN", [c, axes], (1, 1, 1, 8), KeepDims=True)
    gate = net.give("LOGISTIC", [pooled], (1, 1, 1, 8), 1 / 256)
    if quantized:
        net.graph.tensors[gate].zero_point = -128
    d = net.give("MUL", [c, gate], (1, 6, 5, 8))
    e = net.conv(d, 8, (1, 6, 5, 6))
    f = net.give("CONCATENATION", [e, e], (1, 6, 5, 12), Axis=3)
    to = net.graph.tensor(data=np.array([12, 10], np.int32))
    up = net.give("RESIZE_BILINEAR", [f, to], (1, 12, 10, 12), HalfPixelCenters=True)
    mask = net.conv(up, 12, (1, 12, 10, 4))
    flat = net.give("RESHAPE", [f, net.graph.tensor(data=np.array([1, 360], np.int32))], (1, 360))
    scores = net.give("FULLY_CONNECTED", [flat, net.weights((5, 360), 0)], (1, 5), 0.2)
    return net.graph.write(path, [x], [mask, scores])


@pytest.mark.parametrize("quantized", [False, True])
def test_no_axes_are_turned_between_convolutions(quantized, tmp_path):
    model = tflite_to_onnx(backbone(quantized, tmp_path / "net.tflite")).model
    # The input, the mask, and what is flattened in the file's order.
    assert [node.op_type for node in model.graph.node].count("Transpose") == 3


@pytest.fixture(scope="module", params=[False, True], ids=["float32", "int8"])
def network(request, tmp_path_factory):
    path = backbone(request.param, tmp_path_factory.mktemp("nets") / "net.tflite")
    fed = np.random.default_rng(4).uniform(-2, 2, SHAPE).astype(np.float32)
    return path, {"t0": fed}, request.param


def limit(quantized):
    return 5e-2 if quantized else 1e-5


@pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")
def test_a_network_gives_what_litert_gives(network):
    path, fed, quantized = network
    ours, wanted = Reference(path).run(fed), LiteRtReference(path).run(fed)
    for name, values in wanted.items():
        assert np.abs(ours[name] - values).max() <= limit(quantized) * np.abs(values).max()


def test_a_network_is_compiled_and_runs(network, tmp_path):
    path, fed, quantized = network
    target = "vulkan" if quantized else "llvm"
    package = tvm_vision.compile(path, tmp_path / "net.tar", target=target)
    executor = tvm_vision.load(package)
    executor.run(**fed)
    for number, values in enumerate(Reference(path).run(fed).values()):
        found = executor.get_output(number).numpy()
        assert np.abs(found - values).max() <= limit(quantized) * np.abs(values).max()
    with read_package(package) as opened:
        (tensor,) = opened.info.inputs
    assert (tensor.shape, tensor.dtype, tensor.layout) == (SHAPE, "float32", "NHWC")
    steps = tensor.quantization
    assert (steps is not None) == quantized
    if steps is not None:
        assert (steps.dtype, steps.zero_point) == ("int8", -10)
        assert steps.scale == pytest.approx(0.02)


def test_ends_may_stay_integers(tmp_path):
    net = Net(True)
    x = net.value(SHAPE)
    path = net.graph.write(tmp_path / "net.tflite", [x], [net.conv(x, 3, (1, 6, 5, 8), 2)])
    package = tvm_vision.compile(path, tmp_path / "net.tar", target="llvm", raw_io=True)
    executor = tvm_vision.load(package)
    fed = {"t0": np.random.default_rng(4).integers(-128, 128, SHAPE).astype(np.int8)}
    executor.run(**fed)
    for number, values in enumerate(Reference(path, raw_io=True).run(fed).values()):
        found = executor.get_output(number).numpy()
        assert found.dtype == np.int8
        assert np.abs(found.astype(int) - values.astype(int)).max() <= 1
    with read_package(package) as opened:
        assert {tensor.dtype for tensor in (*opened.info.inputs, *opened.info.outputs)} == {"int8"}


def test_only_tflite_files_have_raw_ends():
    with pytest.raises(InputError, match="a TFLite file is needed for raw_io"):
        tvm_vision.compile("model.onnx", target="llvm", raw_io=True)
