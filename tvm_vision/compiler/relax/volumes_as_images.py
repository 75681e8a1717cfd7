"""Networks over volumes (clips, scans, volumes of costs) as networks over as many images, where
images have kernels of their own and volumes have none.

A volume (1, c, d, h, w) is d images (d, c, h, w). A convolution of three axes adds up, for each
image of its result, as many convolutions of two axes as its window has images: those images are put
one behind the other as channels of one, for one convolution of two axes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from .as_images import AsImages, Rule, in_images, shared_rules
from .operators import fixed_shape
from .rewriting import constant_like, constant_of

OP = relax.op
_VOLUME, _IMAGE = "NCDHW", "NCHW"
_CONVOLUTION = "relax.nn.conv3d"


def volumes_as_images(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with two-dimensional convolutions and pools for those of three axes of one volume;
    the module itself where it has none."""
    return in_images(mod, _Rewriter, {_CONVOLUTION})


@mutator
class _Rewriter(AsImages):
    """(1, c, d, h, w) as (d, c, h, w)."""

    axes = 5

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.rules = _RULES

    def is_one(self, expr: Any) -> bool:
        shape = fixed_shape(expr) or ()
        return len(shape) == self.axes and shape[0] == 1

    def made(self, expr: Any) -> Any:
        shape = fixed_shape(expr)
        assert shape is not None
        _, channels, *image = shape
        turned = self.builder_.emit(OP.permute_dims(expr, [0, 2, 1, 3, 4]))
        return self.builder_.emit(OP.reshape(turned, (image[0], channels, *image[1:])))

    def back(self, image: Any, type_: Any) -> Any:
        _, channels, *sizes = (int(size) for size in type_.shape)
        volume = OP.reshape(image, (1, sizes[0], channels, *sizes[1:]))
        return OP.permute_dims(self.builder_.emit(volume), [0, 2, 1, 3, 4])

    def axis(self, number: int) -> int:
        return (0, 1, 0, 2, 3)[number % 5]

    def places(self, image: Any, window: _Depth) -> list[Any]:
        """For each place of a window its images, as many as the result has."""
        if window.around != (0, 0):
            around = [*window.around, *[0] * 6]
            image = self.builder_.emit(OP.nn.pad(image, around, "constant", window.filled))
        count = int(image.ty.shape[0])
        if (window.size, window.stride) == (1, 1):
            return [image]
        last = window.stride * (window.images(count) - 1) + 1
        starts = [window.dilation * place for place in range(window.size)]
        return [
            self.builder_.emit(
                OP.strided_slice(image, [0], [start], [start + last], [window.stride])
            )
            for start in starts
        ]


class _Depth:
    """A window along the images.

    Attributes:
        size, stride, dilation: in images.
        around: images before the first and behind the last.
        filled: what those hold.
    """

    def __init__(self, attrs: Any, size: int, filled: float = 0.0) -> None:
        padding = [int(n) for n in attrs.padding]
        self.size, self.filled = size, filled
        self.stride, self.dilation = int(attrs.strides[0]), int(attrs.dilation[0])
        self.around = (padding[0], padding[3])

    def images(self, count: int) -> int:
        """Of the result, where ``count`` are read, those around included."""
        return (count - self.dilation * (self.size - 1) - 1) // self.stride + 1


def _convolution(volumes: _Rewriter, call: Any) -> Any:
    attrs, weights = call.attrs, _weights_of(volumes, call)
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or _VOLUME))
    if weights is None or layouts != (_VOLUME, "OIDHW", _VOLUME):
        return None
    if not volumes.is_one(call.args[0]) or not volumes.is_one(call):
        return None
    groups, size = int(attrs.groups), weights.shape[2]
    places = volumes.places(volumes.image(call.args[0]), _Depth(attrs, size))

    def convolved(image: Any, values: np.ndarray) -> Any:
        padding = [int(attrs.padding[axis]) for axis in (1, 2, 4, 5)]
        return OP.nn.conv2d(
            image, constant_like(values), strides=list(attrs.strides)[1:],
            padding=padding, dilation=list(attrs.dilation)[1:], groups=groups,
            data_layout=_IMAGE, kernel_layout="OIHW", out_layout=_IMAGE,
            out_dtype=attrs.out_dtype or None,
        )  # fmt: skip

    if groups == 1 and size > 1:
        one = volumes.builder_.emit(OP.concat(places, 1))
        return convolved(one, np.concatenate([weights[:, :, place] for place in range(size)], 1))
    # Channels of several images would not be those of a group.
    terms = [convolved(image, weights[:, :, place]) for place, image in enumerate(places)]
    return functools.reduce(lambda a, b: OP.add(*map(volumes.builder_.emit, (a, b))), terms)


def _weights_of(volumes: _Rewriter, call: Any) -> np.ndarray | None:
    return constant_of(volumes.visit_expr(call.args[1]), volumes.lookup_binding)


def _pool(pool: Any, joined: Any, around: bool) -> Rule:
    """``joined``: what the images of a window come to. ``around``: whether images around the volume
    may be such that change nothing."""

    def rule(volumes: _Rewriter, call: Any) -> Any:
        image, attrs = volumes.known(call.args[0]), call.attrs
        layouts = (str(attrs.layout), str(attrs.out_layout or _VOLUME))
        if image is None or layouts != (_VOLUME, _VOLUME):
            return None
        depth = _Depth(attrs, int(attrs.pool_size[0]), _lowest(image) if around else 0.0)
        whole = fixed_shape(call)
        made = depth.images(int(image.ty.shape[0]) + sum(depth.around))
        if whole is None or whole[2] != made or (any(depth.around) and not around):
            return None
        padding = [int(attrs.padding[axis]) for axis in (1, 2, 4, 5)]
        sizes = (list(numbers)[1:] for numbers in (attrs.pool_size, attrs.strides))
        pooled = volumes.builder_.emit(
            pool(
                image, *sizes, padding, list(attrs.dilation)[1:], attrs.ceil_mode,
                attrs.count_include_pad, _IMAGE, _IMAGE,
            )
        )  # fmt: skip
        return joined(volumes, volumes.places(pooled, depth))

    return rule


def _lowest(image: Any) -> float:
    """The least number of a tensor's type."""
    dtype = np.dtype(str(image.ty.dtype))
    return float(np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min)


def _largest(volumes: _Rewriter, images: Sequence[Any]) -> Any:
    return functools.reduce(lambda a, b: volumes.builder_.emit(OP.maximum(a, b)), images)


def _average(volumes: _Rewriter, images: Sequence[Any]) -> Any:
    total = functools.reduce(lambda a, b: volumes.builder_.emit(OP.add(a, b)), images)
    return OP.multiply(total, constant_like(np.array(1 / len(images), str(images[0].ty.dtype))))


def _binary(volumes: _Rewriter, call: Any) -> Any:
    """Of volumes of the result's size, at least one of which is known, and of what is the same for
    all of their images."""
    size = fixed_shape(call)
    operands = []
    for argument in call.args:
        shape = fixed_shape(argument)
        known = volumes.known(argument)
        if shape == size and known is not None:
            operands.append(known)
        elif shape is None:
            return None
        elif known is not None and shape[2] == 1:
            operands.append(known)
        elif all(extent == 1 for extent in shape[-3:-2] + shape[-5:-4]) and len(shape) <= 5:
            images = shape[:-5] + shape[-4:-3] + shape[-2:]
            value = volumes.visit_expr(argument)
            operands.append(
                value if len(shape) < 3 else volumes.builder_.emit(OP.reshape(value, images))
            )
        else:
            return None
    if all(volumes.known(a) is None or fixed_shape(a) != size for a in call.args):
        return None
    return relax.Call(call.op, operands, call.attrs)


def _mean(volumes: _Rewriter, call: Any) -> Any:
    image = _whole(volumes, call)
    return None if image is None else _mean_of(volumes, image)


def _variance(volumes: _Rewriter, call: Any) -> Any:
    image = _whole(volumes, call)
    if image is None:
        return None
    mean = volumes.builder_.emit(_mean_of(volumes, image))
    apart = volumes.builder_.emit(OP.subtract(image, mean))
    return _mean_of(volumes, volumes.builder_.emit(OP.multiply(apart, apart)))


def _whole(volumes: _Rewriter, call: Any) -> Any:
    """The image of a volume that a call makes one number of for each channel, in its place."""
    axes = sorted(int(axis) % 5 for axis in call.attrs.axis or ())
    return volumes.known(call.args[0]) if axes == [2, 3, 4] and call.attrs.keepdims else None


def _mean_of(volumes: _Rewriter, image: Any) -> Any:
    """As that of the means of its images."""
    return OP.mean(volumes.builder_.emit(OP.mean(image, [2, 3], True)), [0], True)


_RULES: dict[str, Rule] = {
    **shared_rules(_binary),
    _CONVOLUTION: _convolution,
    "relax.nn.max_pool3d": _pool(OP.nn.max_pool2d, _largest, around=True),
    "relax.nn.avg_pool3d": _pool(OP.nn.avg_pool2d, _average, around=False),
    "relax.mean": _mean,
    "relax.variance": _variance,
}
