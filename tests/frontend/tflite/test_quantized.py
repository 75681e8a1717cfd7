"""Quantized files: integers as LiteRT computes them, a step apart at the most in each layer."""

from __future__ import annotations

import numpy as np
import pytest

from support.tflite_models import Graph
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx

SAME = 0
RELU, RELU6 = 1, 3
RNG = np.random.default_rng(3)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def own_numbers():
    """The same for a test whichever ran before it."""
    RNG.bit_generator.state = START


pytestmark = pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")

IMAGE = (1, 6, 7, 4)
WINDOW = {"Padding": SAME, "StrideH": 2, "StrideW": 2}
POOL = {**WINDOW, "FilterHeight": 3, "FilterWidth": 3}
PADS = np.array([[0, 0], [1, 1], [0, 2], [0, 0]], np.int32)


def activation(graph, shape, dtype, scale=0.03, zero=4):
    return graph.tensor(shape, dtype, scale=scale, zero_point=zero + 128 * (dtype == "uint8"))


def weights(graph, shape, dtype, channels, axis):
    """Per channel for int8, and per tensor, around a zero point of its own, for uint8."""
    if dtype == "uint8":
        data = RNG.integers(0, 256, shape).astype(np.uint8)
        return graph.tensor(data=data, scale=0.02, zero_point=120), np.full(1, 0.02)
    scale = RNG.uniform(0.005, 0.03, channels).astype(np.float32)
    data = RNG.integers(-127, 128, shape).astype(np.int8)
    return graph.tensor(data=data, scale=scale, axis=axis), scale


def bias(graph, channels, scale):
    data = RNG.integers(-900, 900, channels).astype(np.int32)
    return graph.tensor(data=data, scale=0.03 * scale)


def convolution(graph, x, dtype):
    w, scale = weights(graph, (5, 3, 3, 4), dtype, 5, 0)
    y = activation(graph, (1, 3, 4, 5), dtype, 0.09, -20)
    graph.operator("CONV_2D", [x, w, bias(graph, 5, scale)], [y], **WINDOW,
                   DilationHFactor=1, DilationWFactor=1, FusedActivationFunction=RELU6)  # fmt: skip
    return y


def depthwise(graph, x, dtype):
    w, scale = weights(graph, (1, 3, 3, 8), dtype, 8, 3)
    y = activation(graph, (1, 3, 4, 8), dtype, 0.05, 0)
    graph.operator("DEPTHWISE_CONV_2D", [x, w, bias(graph, 8, scale)], [y], **WINDOW,
                   DilationHFactor=1, DilationWFactor=1, DepthMultiplier=2)  # fmt: skip
    return y


def dense(graph, x, dtype):
    w, scale = weights(graph, (5, 168), dtype, 1, 0)
    y = activation(graph, (1, 5), dtype, 0.2, 10)
    graph.operator("FULLY_CONNECTED", [x, w, bias(graph, 5, scale)], [y])
    return y


def plain(kind, shape, *more, scale=0.03, zero=4, **options):
    """An operator of the image, and perhaps of constants."""

    def build(graph, x, dtype):
        y = activation(graph, shape, dtype, scale, zero)
        extra = [x if isinstance(value, str) else graph.tensor(data=value) for value in more]
        graph.operator(kind, [x, *extra], [y], **options)
        return y

    return build


def with_weights(kind, **options):
    """An operator of the image and a quantized constant."""

    def build(graph, x, dtype):
        limits = np.iinfo(dtype)
        data = RNG.integers(limits.min, limits.max + 1, (4,)).astype(dtype)
        c = graph.tensor(data=data, scale=0.01, zero_point=(limits.max + limits.min) // 2)
        y = activation(graph, IMAGE, dtype, 0.05, 0)
        graph.operator(kind, [x, c], [y], **options)
        return y

    return build


BUILD = {
    "conv": convolution,
    "depthwise": depthwise,
    "dense": dense,
    "add": with_weights("ADD", FusedActivationFunction=RELU),
    "mul": with_weights("MUL"),
    "maximum": plain("MAXIMUM", IMAGE, "x"),
    "average_pool": plain("AVERAGE_POOL_2D", (1, 3, 4, 4), **POOL),
    "max_pool": plain("MAX_POOL_2D", (1, 3, 4, 4), **POOL, FusedActivationFunction=RELU),
    "mean": plain("MEAN", (1, 4), np.array([1, 2], np.int32)),
    "logistic": plain("LOGISTIC", IMAGE, scale=1 / 256, zero=-128),
    "tanh": plain("TANH", IMAGE, scale=1 / 128, zero=0),
    "softmax": plain("SOFTMAX", IMAGE, scale=1 / 256, zero=-128, Beta=1.0),
    "hard_swish": plain("HARD_SWISH", IMAGE, scale=0.025, zero=-100),
    "leaky_relu": plain("LEAKY_RELU", IMAGE, scale=0.02, Alpha=0.1),
    "relu": plain("RELU", IMAGE, scale=0.015, zero=-128),
    "reshape": plain("RESHAPE", (6, 28), np.array([6, 28], np.int32), NewShape=[6, 28]),
    "transpose": plain("TRANSPOSE", (1, 4, 6, 7), np.array([0, 3, 1, 2], np.int32)),
    "pad": plain("PAD", (1, 8, 9, 4), PADS),
    "concat": plain("CONCATENATION", (1, 6, 7, 8), "x", Axis=3),
    "concat_to_another_scale": plain("CONCATENATION", (1, 6, 7, 8), "x", scale=0.05, Axis=3),
    "resize_bilinear": plain("RESIZE_BILINEAR", (1, 12, 14, 4), np.array([12, 14], np.int32)),
    "resize_nearest": plain("RESIZE_NEAREST_NEIGHBOR", (1, 3, 7, 4), np.array([3, 7], np.int32)),
    "requantize": plain("QUANTIZE", IMAGE, scale=0.05, zero=-3),
    "strided_slice": plain("STRIDED_SLICE", (1, 6, 4, 4), np.array([0, 0, 0, 0], np.int32),
                           np.array(IMAGE, np.int32), np.array([1, 1, 2, 1], np.int32)),
}  # fmt: skip
# LiteRT refuses it for int8.
CASES = [
    (name, dtype)
    for name in BUILD
    for dtype in ("int8", "uint8")
    if (name, dtype) != ("concat_to_another_scale", "int8")
]


def written(path, build, dtype):
    graph = Graph()
    x = activation(graph, IMAGE, dtype)
    return graph.write(path, [x], [build(graph, x, dtype)])


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_an_operator_is_at_most_a_step_off(name, dtype, tmp_path):
    path = written(tmp_path / "one.tflite", BUILD[name], dtype)
    limits = np.iinfo(dtype)
    fed = {"t0": RNG.integers(limits.min, limits.max + 1, IMAGE).astype(dtype)}
    (wanted,) = LiteRtReference(path, optimized=False, raw_io=True).run(fed).values()
    (found,) = Reference(path, raw_io=True).run(fed).values()
    assert found.dtype == wanted.dtype == dtype
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
    assert np.unique(found).size > min(3, found.size // 2)


def test_numbers_in_place_of_integers_are_rounded_at_the_ends(tmp_path):
    path = written(tmp_path / "one.tflite", convolution, "int8")
    numbers = RNG.uniform(-4, 4, IMAGE).astype(np.float32)
    steps = np.clip(np.round(numbers / np.float32(0.03)) + 4, -128, 127).astype(np.int8)
    (real,) = Reference(path).run({"t0": numbers}).values()
    (raw,) = Reference(path, raw_io=True).run({"t0": steps}).values()
    np.testing.assert_array_equal(real, (raw.astype(np.float32) + 20) * np.float32(0.09))
    steps_of = tflite_to_onnx(path).steps
    assert {n: (s.dtype, s.zero_point) for n, s in steps_of.items()} == {
        "t0": ("int8", 4),
        "t2": ("int8", -20),
    }


def test_int8_weights_of_a_float_network_are_float32(tmp_path):
    """Which LiteRT multiplies by inputs that it rounds for each image."""
    graph = Graph()
    x, y = graph.tensor((3, 64)), graph.tensor((3, 5))
    data, scale = RNG.integers(-127, 128, (5, 64)).astype(np.int8), 0.01
    graph.operator("FULLY_CONNECTED", [x, graph.tensor(data=data, scale=scale)], [y])
    path = graph.write(tmp_path / "dynamic.tflite", [x], [y])
    fed = RNG.uniform(-1, 1, (3, 64)).astype(np.float32)
    (found,) = Reference(path).run({"t0": fed}).values()
    np.testing.assert_allclose(found, fed @ (data.T * np.float32(scale)), rtol=1e-5, atol=1e-5)
    (wanted,) = LiteRtReference(path).run({"t0": fed}).values()
    assert np.abs(found - wanted).max() <= 0.02 * np.abs(wanted).max()


def test_int16_activations_are_not_rounded_within(tmp_path):
    graph = Graph()
    x = graph.tensor((2, 8), "int16", scale=1e-4)
    w = graph.tensor(data=RNG.integers(-127, 128, (5, 8)).astype(np.int8), scale=0.01)
    y = graph.tensor((2, 5), "int16", scale=2e-4)
    graph.operator("FULLY_CONNECTED", [x, w], [y])
    path = graph.write(tmp_path / "one.tflite", [x], [y])
    fed = {"t0": RNG.integers(-32768, 32768, (2, 8)).astype(np.int16)}
    (wanted,) = LiteRtReference(path, raw_io=True).run(fed).values()
    (found,) = Reference(path, raw_io=True).run(fed).values()
    assert found.dtype == np.int16
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


@pytest.mark.parametrize("dtype", ["float16", "int4"])
def test_weights_of_other_types_are_dequantized(dtype, tmp_path):
    graph = Graph()
    x, y, w = graph.tensor((3, 7)), graph.tensor((3, 5)), graph.tensor((5, 7))
    if dtype == "float16":
        data = RNG.uniform(-1, 1, (5, 7)).astype(np.float16)
        numbers = data.astype(np.float32)
        stored = graph.tensor(data=data)
    else:
        data = RNG.integers(-8, 8, (5, 7)).astype(np.int8)
        numbers = data * np.float32(0.1)
        stored = graph.tensor(data=data, dtype="int4", scale=0.1)
    graph.operator("DEQUANTIZE", [stored], [w])
    graph.operator("FULLY_CONNECTED", [x, w], [y])
    path = graph.write(tmp_path / "one.tflite", [x], [y])
    fed = RNG.uniform(-1, 1, (3, 7)).astype(np.float32)
    (found,) = Reference(path).run({"t0": fed}).values()
    np.testing.assert_allclose(found, fed @ numbers.T, rtol=1e-5, atol=1e-5)
