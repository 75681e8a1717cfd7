"""Operators of vision networks in numpy, in float64: slow, plain, nobody else's code."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray


def sliding_windows(x: Array, extents: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Every window of an array; the axes within one come last."""
    # numpy's types know of one axis alone.
    found: Array = sliding_window_view(x, extents, axes)  # type: ignore[call-overload]
    return found


def conv2d(
    x: Array,
    w: Array,
    stride: int = 1,
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: int = 1,
    groups: int = 1,
) -> Array:
    """x [N, C, H, W], w [O, C / groups, KH, KW], pad (top, left, bottom, right)."""
    x, w = x.astype("float64"), w.astype("float64")
    top, left, bottom, right = pad
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    height, width = w.shape[2:]
    rows = (x.shape[2] - dilation * (height - 1) - 1) // stride + 1
    columns = (x.shape[3] - dilation * (width - 1) - 1) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], rows, columns))
    inside, outside = w.shape[1], w.shape[0] // groups
    for g in range(groups):
        part = slice(g * outside, (g + 1) * outside)
        image = x[:, g * inside : (g + 1) * inside]
        for i in range(height):
            for j in range(width):
                y0, x0 = i * dilation, j * dilation
                seen = image[
                    :, :, y0 : y0 + stride * rows : stride, x0 : x0 + stride * columns : stride
                ][:, :, :rows, :columns]
                out[:, part] += np.einsum("nchw,oc->nohw", seen, w[part, :, i, j])
    return out


def conv2d_transpose(x: Array, w: Array, stride: int, pad: int, extra: int) -> Array:
    """x [N, C, H, W], w [C, O, KH, KW]; extra: rows and columns added below and to the right."""
    batch, _, rows, columns = x.shape
    _, outputs, height, width = w.shape
    full = np.zeros(
        (
            batch,
            outputs,
            (rows - 1) * stride + height + extra,
            (columns - 1) * stride + width + extra,
        )
    )
    for i in range(rows):
        for j in range(columns):
            part = np.einsum("nc,cohw->nohw", x[:, :, i, j].astype("float64"), w)
            full[:, :, i * stride : i * stride + height, j * stride : j * stride + width] += part
    return full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad]


def max_pool(x: Array, size: int, stride: int, pad: int) -> Array:
    """x [N, C, H, W], floor mode."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
    windows = sliding_windows(x, (size, size), (2, 3))
    return windows[:, :, ::stride, ::stride].max(axis=(4, 5))


def average_pool(x: Array, size: int, stride: int) -> Array:
    """x [N, C, H, W], no padding."""
    windows = sliding_windows(x, (size, size), (2, 3))
    return windows[:, :, ::stride, ::stride].mean(axis=(4, 5), dtype="float64")


def softmax(x: Array, axis: int) -> Array:
    """Shifted by the maximum, as every implementation does."""
    powers = np.exp((x - x.max(axis=axis, keepdims=True)).astype("float64"))
    return powers / powers.sum(axis=axis, keepdims=True)
