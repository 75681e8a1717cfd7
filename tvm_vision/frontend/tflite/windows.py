"""Operators that look at windows of an image, and those that resize it: channels first."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..onnx.graph import Unsupported
from .network import EXPORT
from .step import Converter, Step
from .values import FIRST

SAME, VALID = 0, 1


# Along the axes of an image, and of a volume.
PLANE, VOLUME = "HW", "DHW"


def conv_2d(step: Step) -> None:
    _convolution(step, step.weights(1, [0, 3, 1, 2]), step.shape(1)[1:3], PLANE)


def depthwise_conv_2d(step: Step) -> None:
    _convolution(step, step.weights(1, [3, 0, 1, 2]), step.shape(1)[1:3], PLANE)


def conv_3d(step: Step) -> None:
    _convolution(step, step.weights(1, [4, 3, 0, 1, 2]), step.shape(1)[:3], VOLUME)


def _strides(options: Any, axes: str) -> list[int]:
    return _positive(*(getattr(options, f"Stride{axis}")() for axis in axes))


def _dilations(options: Any, axes: str) -> list[int]:
    return _positive(*(getattr(options, f"Dilation{axis}Factor")() for axis in axes))


def _convolution(step: Step, weights: str, kernel: Sequence[int], axes: str) -> None:
    options = step.options
    x = step.real(0, FIRST)
    channels, taken = step.network.shape(x)[1], step.network.shape(weights)[1]
    if not taken or channels % taken:
        raise Unsupported(f"it has {channels} channels and weights for {taken}", EXPORT)
    strides, dilations = _strides(options, axes), _dilations(options, axes)
    result = step.emit(
        "Conv", x, weights, step.bias(2),
        kernel_shape=_positive(*kernel), strides=strides, dilations=dilations,
        pads=_pads(step.network.shape(x)[2:], kernel, strides, dilations, options.Padding()),
        group=channels // taken,
    )  # fmt: skip
    step.give(result, FIRST, activation=options.FusedActivationFunction())


def transpose_conv(step: Step) -> None:
    options = step.options
    activation = getattr(options, "FusedActivationFunction", int)()
    _transposed(
        step, step.weights(1, [3, 0, 1, 2]), step.shape(1)[1:3], x=2, bias=3,
        strides=_strides(options, PLANE), padding=options.Padding(),
        sizes=step.numbers(0, "the sizes of its result")[1:-1], activation=activation,
    )  # fmt: skip


def conv_3d_transpose(step: Step) -> None:
    options = step.options
    if max(_dilations(options, VOLUME)) > 1:
        raise Unsupported("its window is dilated", EXPORT)
    _transposed(
        step, step.weights(1, [4, 3, 0, 1, 2]), step.shape(1)[:3], x=2, bias=3,
        strides=_strides(options, VOLUME), padding=options.Padding(),
        sizes=step.numbers(0, "the sizes of its result")[1:-1],
        activation=options.FusedActivationFunction(),
    )  # fmt: skip


def convolution_2d_transpose_bias(step: Step) -> None:
    """MediaPipe's: the sizes follow from the input, and the attributes are three integers."""
    if len(step.operator.custom_options) < 12:
        raise Unsupported("its attributes are missing", EXPORT)
    padding, width, height = struct.unpack_from("<3i", step.operator.custom_options)
    # The enumeration of TFLite's C interface begins with unknown.
    padding -= 1
    extents, kernel = step.shape(0)[1:3], step.shape(1)[1:3]
    sizes = [
        extent * stride if padding == SAME else (extent - 1) * stride + size
        for extent, stride, size in zip(extents, (height, width), kernel, strict=True)
    ]
    _transposed(
        step, step.weights(1, [3, 0, 1, 2]), kernel, x=0, bias=2,
        strides=_positive(height, width), padding=padding, sizes=sizes, activation=0,
    )  # fmt: skip


def _transposed(
    step: Step, weights: str, kernel: Sequence[int], *, x: int, bias: int, strides: Sequence[int],
    padding: int, sizes: Sequence[int], activation: int,
) -> None:  # fmt: skip
    value = step.real(x, FIRST)
    pads = _pads(sizes, kernel, strides, [1] * len(kernel), padding)
    extents = step.network.shape(value)[2:]
    spread = [s * (e - 1) + k for s, e, k in zip(strides, extents, kernel, strict=True)]
    beyond = [
        size - (full - pads[axis] - pads[axis + len(sizes)])
        for axis, (size, full) in enumerate(zip(sizes, spread, strict=True))
    ]
    if min(beyond) < 0 or any(b >= s for b, s in zip(beyond, strides, strict=True)):
        raise Unsupported(f"a result of {list(sizes)} does not follow from {list(extents)}", EXPORT)
    result = step.emit(
        "ConvTranspose", value, weights, step.bias(bias), kernel_shape=list(kernel),
        strides=strides, pads=pads, output_padding=beyond,
    )  # fmt: skip
    step.give(result, FIRST, activation=activation)


def average_pool_2d(step: Step) -> None:
    _pool(step, step.real(0, FIRST), "AveragePool", count_include_pad=0)


def max_pool_2d(step: Step) -> None:
    _pool(step, step.real(0, FIRST), "MaxPool")


def l2_pool_2d(step: Step) -> None:
    """The root of the mean of squares."""
    x = step.real(0, FIRST)
    mean = _pooled(step, step.emit("Mul", x, x), "AveragePool", count_include_pad=0)
    step.give(step.emit("Sqrt", mean), FIRST, activation=step.options.FusedActivationFunction())


def _pool(step: Step, x: str, kind: str, **attributes: Any) -> None:
    result = _pooled(step, x, kind, **attributes)
    step.give(result, FIRST, activation=step.options.FusedActivationFunction())


def _pooled(step: Step, x: str, kind: str, **attributes: Any) -> str:
    options = step.options
    kernel = _positive(options.FilterHeight(), options.FilterWidth())
    strides = _positive(options.StrideH(), options.StrideW())
    pads = _pads(step.network.shape(x)[2:], kernel, strides, [1, 1], options.Padding())
    return step.emit(kind, x, kernel_shape=kernel, strides=strides, pads=pads, **attributes)


def resize_bilinear(step: Step) -> None:
    options = step.options
    mode = "asymmetric"
    if options.AlignCorners():
        mode = "align_corners"
    elif options.HalfPixelCenters():
        mode = "half_pixel"
    step.give(_resized(step, step.real(0, FIRST), "linear", mode), FIRST)


def resize_nearest_neighbor(step: Step) -> None:
    options = step.options
    mode, nearest = "asymmetric", "floor"
    if options.AlignCorners():
        mode, nearest = "align_corners", "round_prefer_ceil"
    elif options.HalfPixelCenters():
        mode, nearest = "half_pixel", "round_prefer_ceil"
    x = step.real(0, FIRST)
    step.give(_resized(step, x, "nearest", mode, nearest_mode=nearest), FIRST)


def _resized(step: Step, x: str, mode: str, places: str, **attributes: Any) -> str:
    sizes = step.numbers(1, "the sizes of its result")
    shape = np.array([*step.network.shape(x)[:2], *_positive(*sizes)], np.int64)
    return step.emit(
        "Resize", x, None, None, shape, mode=mode, coordinate_transformation_mode=places,
        **attributes,
    )  # fmt: skip


def depth_to_space(step: Step) -> None:
    (block,) = _positive(step.options.BlockSize())
    step.give(step.emit("DepthToSpace", step.real(0, FIRST), blocksize=block, mode="DCR"), FIRST)


def space_to_depth(step: Step) -> None:
    (block,) = _positive(step.options.BlockSize())
    step.give(step.emit("SpaceToDepth", step.real(0, FIRST), blocksize=block), FIRST)


def _pads(
    extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    padding: int,
) -> list[int]:  # fmt: skip
    """Begins, then ends: SAME gives ⌈extent / stride⌉ places, with the odd one of what is added at
    the end."""
    if padding == VALID:
        return [0] * (2 * len(kernel))
    if padding != SAME:
        raise Unsupported(f"padding {padding} is neither SAME nor VALID", EXPORT)
    totals = [
        max((-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        for extent, size, stride, dilation in zip(extents, kernel, strides, dilations, strict=True)
    ]
    begins = [total // 2 for total in totals]
    return begins + [total - begin for total, begin in zip(totals, begins, strict=True)]


def _positive(*sizes: int) -> list[int]:
    """Sizes, strides or the like. Raises Unsupported for any below 1."""
    if min(sizes) < 1:
        raise Unsupported(f"sizes and strides of at least 1 are needed, found {sizes}", EXPORT)
    return list(sizes)


WINDOWS: dict[str, Converter] = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "TRANSPOSE_CONV": transpose_conv,
    "CONV_3D": conv_3d,
    "CONV_3D_TRANSPOSE": conv_3d_transpose,
    "AVERAGE_POOL_2D": average_pool_2d,
    "MAX_POOL_2D": max_pool_2d,
    "L2_POOL_2D": l2_pool_2d,
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest_neighbor,
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_DEPTH": space_to_depth,
}
CUSTOM_WINDOWS: dict[str, Converter] = {
    "Convolution2DTransposeBias": convolution_2d_transpose_bias,
}
