"""Kernels of windows over blocks of channels, as compiled networks have them on processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te

from tvm_vision.topi import nchwc

Pair = tuple[int, int]


def _nothing(y: Any) -> list[Any]:
    return [y]


def convolution(
    size: Pair, channels: Pair, kernel: Pair = (1, 1), stride: int = 1, pads: Pair = (0, 0),
    dilation: int = 1, groups: int = 1, images: int = 1, *, lanes: int,
    behind: Callable[[Any], list[Any]] = _nothing,
) -> Any:  # fmt: skip
    """A function of a convolution.

    Args:
        size: of the image.
        channels: in (of a group), out.
        pads: above and below, left and right.
        lanes: of a block.
        behind: what goes on from its result, as further inputs and the last result.
    """
    depth, out = channels
    window = nchwc.SlidingWindow(kernel, (stride, stride), *pads, (dilation, dilation))
    after = _size_after(size, window, pads)
    parts = nchwc.blocks_of(depth, lanes)
    x = te.placeholder((images, groups * parts, *size, lanes), "float32", "x")
    blocks = nchwc.blocks_of(out, lanes)
    w = te.placeholder((blocks, parts, *kernel, lanes, lanes), "float32", "w")
    y = nchwc.convolution(x, w, window, (depth, *after), groups)
    return te.create_prim_func([x, w, *behind(y)])


def depthwise(
    size: Pair, channels: int, kernel: Pair, stride: int, *, lanes: int,
    behind: Callable[[Any], list[Any]] = _nothing,
) -> Any:  # fmt: skip
    """The same of each channel by itself, with half a kernel of padding."""
    pads = (kernel[0] // 2, kernel[1] // 2)
    window = nchwc.SlidingWindow(kernel, (stride, stride), *pads, (1, 1))
    blocks = nchwc.blocks_of(channels, lanes)
    x = te.placeholder((1, blocks, *size, lanes), "float32", "x")
    w = te.placeholder((blocks, *kernel, lanes), "float32", "w")
    y = nchwc.depthwise(x, w, window, _size_after(size, window, pads))
    return te.create_prim_func([x, w, *behind(y)])


def _size_after(size: Pair, window: nchwc.SlidingWindow, pads: Pair) -> Pair:
    height, width = (
        (extent + 2 * pad - (k - 1) * apart - 1) // stride + 1
        for extent, pad, k, apart, stride in zip(
            size, pads, window.kernel, window.dilation, window.strides, strict=True
        )
    )
    return height, width
