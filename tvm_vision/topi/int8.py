"""TE computations on bytes: convolutions and products that sum products of int8 in int32.

No zero point is taken off inside: the sum is of ``byte * weight``, so that four products of
neighbours are one instruction. What is outside the image is its zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx

WIDE = "int32"


@dataclass(frozen=True)
class Int8Window:
    """How the window of a convolution moves, and what it sees outside the image.

    Attributes:
        kernel, stride, dilation: of rows and columns.
        padding: rows above, columns left, rows below, columns right.
        groups: of channels.
        last: whether channels are the image's last axis; they are its second otherwise.
        zero: the byte outside the image.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int
    last: bool
    zero_point: int


def convolution_of_bytes(x: te.Tensor, w: te.Tensor, window: Int8Window) -> te.Tensor:
    """int32 sums of an image (n, c, h, w) with weights (o, c/groups, kh, kw), or of (n, h, w, c).

    With channels last the weights are (o, kh, kw, c/groups), or (kh, kw, 1, o) where each group has
    one channel, or as ``pack_dp4a`` makes them: (kh, kw, c/word, o, word). Weights of more channels
    than the image has find the zero point there.
    """
    n, c, h, width = (_sizes(x)[axis] for axis in ((0, 3, 1, 2) if window.last else (0, 1, 2, 3)))
    alone = window.last and 1 < window.groups == c
    sizes = _sizes(w)
    word = sizes[4] if len(sizes) == 5 else 0
    if word:
        outputs, depth = sizes[3], sizes[2] * word
    else:
        outputs, depth = (sizes[axis] for axis in _weight_axes(window.last, alone))
    top, left, bottom, right = window.padding
    (kh, kw), (dh, dw), (sh, sw) = window.kernel, window.dilation, window.stride
    before = _placed((0, 0, top, left), window.last)
    padded = (n, depth * window.groups, h + top + bottom, width + left + right)
    image = _surrounded(x, _placed(padded, window.last), before, window.zero_point)
    ry, rx = te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    rc = te.reduce_axis((0, depth), "rc")
    of_group = outputs // window.groups

    def products(*indices: Any) -> Any:
        nn, ff, yy, xx = _canonical(indices, window.last)
        channel = rc if window.groups == 1 else ff // of_group * depth + rc
        place = (nn, channel, yy * sh + ry * dh, xx * sw + rx * dw)
        pixel = image(*_placed(place, window.last))
        if word:
            weight = w(ry, rx, rc // word, ff, rc % word)
        else:
            weight = w(*((ry, rx, rc, ff) if alone else _placed((ff, rc, ry, rx), window.last)))
        axes = [ry, rx, rc] if window.last else [rc, ry, rx]
        return te.sum(pixel.astype(WIDE) * weight.astype(WIDE), axis=axes)

    rows = (padded[2] - (kh - 1) * dh - 1) // sh + 1
    columns = (padded[3] - (kw - 1) * dw - 1) // sw + 1
    layout = "nhwc" if window.last else "nchw"
    return te.compute(
        _placed((n, outputs, rows, columns), window.last), products, name=f"conv2d_{layout}"
    )


def pack_dp4a(weights: np.ndarray, word: int) -> np.ndarray:
    """Weights (o, c, kh, kw) as (kh, kw, c/word, o, word): what threads side by side read, outputs
    side by side, lies together."""
    o, c, kh, kw = weights.shape
    return weights.reshape(o, c // word, word, kh, kw).transpose(3, 4, 1, 0, 2)


def product_of_bytes(x: te.Tensor, w: te.Tensor, zero_point: int) -> te.Tensor:
    """int32 sums of rows (…, k) with the rows of weights (n, k), which may be longer."""
    *rows, _ = _sizes(x)
    outputs, depth = _sizes(w)
    data = _surrounded(x, (*rows, depth), (0,) * len(x.shape), zero_point)
    k = te.reduce_axis((0, depth), "k")

    def products(*indices: Any) -> Any:
        *row, column = indices
        return te.sum(data(*row, k).astype(WIDE) * w(column, k).astype(WIDE), axis=k)

    return te.compute((*rows, outputs), products, name="matmul")


def numbers_of_bytes(x: te.Tensor, zero_point: int, scale: float) -> te.Tensor:
    """The real numbers ``(byte - zero) * scale``."""

    def number(*indices: Any) -> Any:
        centred = x(*indices).astype("float32") - tirx.const(zero_point, "float32")
        return centred * tirx.const(scale, "float32")

    return te.compute(x.shape, number, name="numbers")


def _surrounded(
    x: te.Tensor, shape: Sequence[int], before: Sequence[int], zero_point: int
) -> te.Tensor:
    """``x`` with bytes of ``zero_point`` around it up to ``shape``; itself where there are none."""
    sizes = _sizes(x)
    if tuple(shape) == sizes:
        return x

    def pixel(*indices: Any) -> Any:
        places = [i - b if b else i for i, b in zip(indices, before, strict=True)]
        inside: list[Any] = []
        for index, b, size, whole in zip(indices, before, sizes, shape, strict=True):
            inside += [index >= b] if b else []
            inside += [index < b + size] if whole > b + size else []
        return tirx.if_then_else(tirx.all(*inside), x(*places), tirx.const(zero_point, "int8"))

    return te.compute(tuple(shape), pixel, name="pad_temp")


def _weight_axes(last: bool, alone: bool) -> tuple[int, int]:
    if alone:
        return 3, 2
    return (0, 3) if last else (0, 1)


def _placed(values: Sequence[Any], last: bool) -> tuple[Any, ...]:
    """What belongs to (n, c, h, w) in the order of memory."""
    n, c, h, w = values
    return (n, h, w, c) if last else (n, c, h, w)


def _canonical(values: Sequence[Any], last: bool) -> tuple[Any, ...]:
    return (values[0], values[3], values[1], values[2]) if last else tuple(values)


def _sizes(x: te.Tensor) -> tuple[int, ...]:
    return tuple(int(size) for size in x.shape)
