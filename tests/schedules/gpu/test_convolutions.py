"""Convolutions of every form against numpy, on the first Vulkan device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax

from support.numpy_operators import conv2d, conv2d_transpose
from support.schedule_runs import check, noise
from tvm_vision.schedules.gpu import contraction

pytestmark = pytest.mark.usefixtures("device_info")

NN = relax.op.nn
PADS = (1, 1, 1, 1)

# name: (x, w, stride, pad, dilation, groups, expected kind)
CASES: dict[str, tuple[Any, ...]] = {
    "one value": ((1, 1, 1, 1), (1, 1, 1, 1), 1, (0,) * 4, 1, 1, "window"),
    "one pixel": ((1, 33, 1, 1), (70, 33, 1, 1), 1, (0,) * 4, 1, 1, "reduction"),
    "1x1": ((1, 24, 14, 14), (40, 24, 1, 1), 1, (0,) * 4, 1, 1, "contraction"),
    "1x1, odd": ((2, 13, 7, 9), (19, 13, 1, 1), 1, (0,) * 4, 1, 1, "contraction"),
    "3x3": ((1, 32, 14, 14), (24, 32, 3, 3), 1, PADS, 1, 1, "contraction"),
    "strided, batch": ((2, 3, 13, 11), (7, 3, 3, 3), 2, PADS, 1, 1, "contraction"),
    "dilated": ((1, 5, 17, 9), (9, 5, 3, 3), 1, (2,) * 4, 2, 1, "contraction"),
    "padded on two sides": ((1, 4, 9, 9), (6, 4, 3, 2), 1, (0, 1, 2, 1), 1, 1, "contraction"),
    "four places": ((1, 33, 2, 2), (20, 33, 3, 3), 1, PADS, 1, 1, "contraction"),
    "four places, grouped": ((1, 32, 2, 2), (16, 8, 3, 3), 1, PADS, 1, 4, "reduction"),
    "grouped": ((2, 12, 9, 7), (18, 4, 3, 3), 1, PADS, 1, 3, "contraction"),
    "small groups": ((1, 6, 9, 7), (6, 3, 1, 1), 1, (0,) * 4, 1, 2, "window"),
    "two output channels": ((1, 16, 12, 12), (2, 16, 3, 3), 1, PADS, 1, 1, "reduction"),
    "a picture of two channels": ((1, 16, 64, 64), (2, 16, 3, 3), 1, PADS, 1, 1, "contraction"),
    "a picture of one channel": ((1, 16, 64, 64), (1, 16, 3, 3), 1, PADS, 1, 1, "reduction"),
    "a picture, depthwise": ((1, 3, 64, 64), (3, 1, 9, 9), 1, (4,) * 4, 1, 3, "window_rows"),
    "a picture, a channel a group": ((1, 8, 64, 64), (2, 4, 5, 5), 1, (2,) * 4, 1, 2, "reduction"),
    "a picture, two a group": ((1, 8, 64, 64), (4, 4, 5, 5), 1, (2,) * 4, 1, 2, "contraction"),
    "one output channel": ((1, 16, 12, 12), (1, 16, 3, 3), 1, PADS, 1, 1, "reduction"),
    "depthwise": ((1, 9, 11, 13), (9, 1, 3, 3), 1, PADS, 1, 9, "window"),
    "depthwise, strided": ((1, 6, 12, 13), (6, 1, 5, 5), 2, (2,) * 4, 1, 6, "window"),
    "depthwise, several": ((2, 5, 8, 8), (10, 1, 3, 3), 1, PADS, 1, 5, "window"),
    "depthwise, large": ((1, 22, 64, 56), (22, 1, 3, 3), 1, PADS, 1, 22, "window"),
}


def convolution(stride: int, pad: Any, dilation: int, groups: int) -> Any:
    """A convolution with what usually follows it: bias, sum, activation."""

    def build(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        y = NN.conv2d(x, w, strides=stride, padding=list(pad), dilation=dilation, groups=groups)
        return NN.relu(relax.op.add(relax.op.add(y, bias), residual))

    return build


def check_convolution(
    x: Any, w: Any, stride: int, pad: Any, dilation: int, groups: int, seed: int = 0
) -> list[str]:
    image, weights = noise([x, w], seed)
    plain = conv2d(image, weights, stride, tuple(pad), dilation, groups)
    bias, residual = noise([(1, w[0], 1, 1), plain.shape], seed + 1)
    expected = np.maximum(plain + bias + residual, 0)
    inputs = [image, weights, bias, residual]
    return check(convolution(stride, pad, dilation, groups), inputs, expected)


@pytest.mark.parametrize("name", CASES)
def test_convolution_equals_numpy(name: str) -> None:
    x, w, stride, pad, dilation, groups, kind = CASES[name]
    assert check_convolution(x, w, stride, pad, dilation, groups) == [kind]


@pytest.mark.parametrize("name", CASES)
def test_convolution_equals_numpy_where_tiles_may_be_thin(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done for large images alone, of the small ones."""
    monkeypatch.setattr(contraction, "LONG", 1)
    monkeypatch.setattr(contraction, "LEAST_WINDOW", 1)
    x, w, stride, pad, dilation, groups, _ = CASES[name]
    check_convolution(x, w, stride, pad, dilation, groups)


@pytest.mark.parametrize("channels", [2, 3, 5])
def test_a_picture_with_channels_last_is_a_product(channels: int) -> None:
    """Of fewer channels than a tile has columns; sums by rows would take a workgroup a pixel."""
    image, weights = noise([(1, 16, 64, 65), (channels, 16, 5, 5)])
    expected = conv2d(image, weights, 1, (2, 2, 2, 2), 1, 1).transpose(0, 2, 3, 1)

    def build(x: Any, w: Any) -> Any:
        return NN.conv2d(
            x, w, padding=[2, 2, 2, 2], data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC"
        )

    turned = [image.transpose(0, 2, 3, 1).copy(), weights.transpose(2, 3, 1, 0).copy()]
    assert check(build, turned, expected) == ["contraction"]


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batch=st.integers(1, 2),
    groups=st.integers(1, 3),
    inside=st.integers(1, 9),
    outside=st.integers(1, 9),
    size=st.tuples(st.integers(5, 17), st.integers(5, 17)),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    pad=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_any_convolution_equals_numpy(
    batch: int, groups: int, inside: int, outside: int, size: tuple[int, int],
    kernel: int, stride: int, pad: int, dilation: int,
) -> None:  # fmt: skip
    x = (batch, groups * inside, *size)
    w = (groups * outside, inside, kernel, kernel)
    check_convolution(x, w, stride, (pad,) * 4, dilation, groups)


@pytest.mark.parametrize(("stride", "pad", "extra", "kernel"), [(2, 1, 1, 3), (2, 0, 0, 2)])
def test_transposed_convolution_equals_numpy(
    stride: int, pad: int, extra: int, kernel: int
) -> None:
    image, weights = noise([(2, 6, 5, 7), (6, 9, kernel, kernel)])
    bias = noise([(1, 9, 1, 1)], 2)[0]
    expected = conv2d_transpose(image, weights, stride, pad, extra) + bias

    def build(x: Any, w: Any, b: Any) -> Any:
        y = NN.conv2d_transpose(x, w, strides=stride, padding=pad, output_padding=extra)
        return relax.op.add(y, b)

    assert check(build, [image, weights, bias], expected) == ["contraction"]


def test_activation_that_uses_its_input_twice() -> None:
    image, weights = noise([(1, 8, 7, 7), (12, 8, 1, 1)])
    plain = conv2d(image, weights)
    expected = plain / (1 + np.exp(-plain))
    assert check(lambda x, w: NN.silu(NN.conv2d(x, w)), [image, weights], expected) == [
        "contraction"
    ]


def test_image_with_channels_last() -> None:
    image, weights = noise([(1, 9, 8, 12), (3, 3, 12, 20)])
    plain = conv2d(image.transpose(0, 3, 1, 2), weights.transpose(3, 2, 0, 1), 1, PADS)

    def build(x: Any, w: Any) -> Any:
        return NN.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO")

    assert check(build, [image, weights], plain.transpose(0, 2, 3, 1)) == ["contraction"]


def test_halves_are_added_up_in_float32() -> None:
    image, weights = noise([(1, 64, 9, 9), (16, 64, 3, 3)], dtype="float16")
    expected = conv2d(image, weights, 1, PADS)

    def build(x: Any, w: Any) -> Any:
        return NN.conv2d(x, w, padding=1, out_dtype="float32")

    (template,) = check(build, [image, weights], expected, 1e-3)
    assert template in ("contraction", "coopmat_gemm")
