"""Operators on tensors whose channels lie in blocks, as TensorIR computations.

An image tensor (n, c, h, w) in blocks of b channels is (n, ceil(c / b), h, w, b): what one vector
of a processor holds lies side by side. Lanes past the last channel hold anything; nothing here
reads them. Blocks of the computations carry what they compute as annotations, from which the
schedules for processors write their loops (``schedules/cpu/windows.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx

Array = np.ndarray

# Annotations of blocks, each a list of integers.
CONVOLUTION = "tvm_vision.convolution"
DEPTHWISE = "tvm_vision.depthwise"
MAX_POOL = "tvm_vision.max_pool"
PRODUCT = "tvm_vision.product"
GATHER = "tvm_vision.gather"


@dataclass(frozen=True)
class SlidingWindow:
    """How a window of (height, width) moves over an image, in pixels."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    top: int
    left: int
    dilation: tuple[int, int]

    def to_list(self) -> list[int]:
        return [*self.kernel, *self.strides, self.top, self.left, *self.dilation]

    @classmethod
    def of_list(cls, numbers: Sequence[int]) -> SlidingWindow:
        """From ``to_list``."""
        kh, kw, sh, sw, top, left, dh, dw = (int(number) for number in numbers)
        return cls((kh, kw), (sh, sw), top, left, (dh, dw))


def blocks_of(channels: int, block: int) -> int:
    """Blocks that hold so many channels."""
    return -(-channels // block)


def pack(x: Any, block: int) -> Any:
    """(n, c, h, w) to blocks; lanes past the last channel repeat it."""
    n, channels, h, w = _sizes(x)

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        return x(i, tirx.min(o * block + lane, channels - 1), y, z)

    return te.compute((n, blocks_of(channels, block), h, w, block), compute, name="packed")


def unpack(x: Any, channels: int) -> Any:
    """Blocks to (n, channels, h, w)."""
    n, _, h, w, block = _sizes(x)
    return te.compute(
        (n, channels, h, w),
        lambda i, c, y, z: x(i, c // block, y, z, c % block),
        name="unpacked",
    )


def gather(sources: Sequence[Any], table: Any, channels: Sequence[int]) -> Any:
    """Channels of tensors in blocks, in any order.

    channels: for each channel of the result, channel + index of the source * ``gather_stride``.
    table: the same as an int32 tensor, as long as the result has lanes (the rest repeats the last).
    """
    n, _, h, w, block = _sizes(sources[0])
    stride = gather_stride(sources)

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        wanted = table(o * block + lane)
        value = _channel(sources[-1], i, wanted - stride * (len(sources) - 1), y, z, block)
        for index in reversed(range(len(sources) - 1)):
            inside = _channel(sources[index], i, wanted - stride * index, y, z, block)
            value = tirx.if_then_else(wanted < stride * (index + 1), inside, value)
        return value

    return te.compute(
        (n, blocks_of(len(channels), block), h, w, block),
        compute,
        name="gathered",
        attrs={GATHER: [stride, *channels]},
    )


def gather_stride(sources: Sequence[Any]) -> int:
    """Lanes of the largest source: what tells the sources of ``gather`` apart."""
    return max(shape[1] * shape[4] for shape in map(_sizes, sources))


def convolution(
    x: Any, weights: Any, window: SlidingWindow, size: Sequence[int], groups: int = 1
) -> Any:
    """A convolution with ``groups`` groups of whole blocks, or one.

    x: in blocks, or plain (n, c, h, w) for one group. weights: see ``pack_weights``.
    size: (channels in, height, width) of the result, channels those of one group.
    """
    depth, height, width = size
    outer, _, _, _, inner, block = _sizes(weights)
    plain = len(x.shape) == 4
    k, kh, kw = _reduced(depth, *window.kernel)

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        channel = k if groups == 1 else o // (outer // groups) * depth + k
        row, column, inside = _place(window, x, y, z, kh, kw)
        at = (i, channel, row, column) if plain else _blocked(channel, inner, i, row, column)
        value = _where(inside, x(*at), 0.0)
        return te.sum(value * weights(o, k // inner, kh, kw, k % inner, lane), axis=[k, kh, kw])

    return te.compute(
        (_sizes(x)[0], outer, height, width, block),
        compute,
        name="convolved",
        attrs={CONVOLUTION: [*window.to_list(), depth, groups]},
    )


def product(x: Any, weights: Any, depth: int, outer: Sequence[int]) -> Any:
    """Rows times weights, for each row its results beside each other.

    x: (1, 1, 1, rows, depth). weights: see ``pack_weights``, of one block of ``depth`` channels.
    outer: the axes of the rows, which come before that of the results.
    """
    blocks, block = _sizes(weights)[0], _sizes(weights)[-1]
    zero = tirx.const(0, "int32")
    (k,) = _reduced(depth)

    def compute(*place: Any) -> Any:
        *along, lane = place
        row = zero
        for size, index in zip(outer, along, strict=True):
            row = row * size + index
        weight = weights(lane // block, 0, 0, 0, k, lane % block)
        return te.sum(x(0, 0, 0, row, k) * weight, axis=[k])

    shape = (*outer, blocks * block)
    return te.compute(shape, compute, name="multiplied", attrs={PRODUCT: [depth]})


def sum_of_taps(
    x: Any, kernel: Sequence[int], spacing: Sequence[int], strides: Sequence[int],
    first: Sequence[int], shape: Sequence[int],
) -> Any:  # fmt: skip
    """For each result the sum of one channel for each of its taps, of pixels beside each other.

    x: in blocks, channels (o kh kw). Result (y, z), counted from ``first``, is between the pixels
    (y // sh, z // sw); every stride-th number of the kernel, from (y % sh, z % sw) on, is a tap of
    it, the last one at that pixel and each one before ``spacing`` pixels further.
    shape: (o, h, w) of the result, which is plain.
    """
    n, _, _, _, block = _sizes(x)
    counts = [-(-size // stride) for size, stride in zip(kernel, strides, strict=True)]
    taps = _reduced(*counts)

    def compute(image: Any, o: Any, *places: Any) -> Any:
        channel, pixel, missing = o, [], []
        for axis, place in enumerate(places):
            at, step, size = place + first[axis], strides[axis], kernel[axis]
            number = (counts[axis] - 1 - taps[axis]) * step + at % step
            channel = channel * size + number
            pixel.append(at // step + taps[axis] * spacing[axis])
            if size % step:
                missing.append(number < size)
        value = x(*_blocked(channel, block, image, *pixel))
        return te.sum(_where(missing, value, 0.0) if missing else value, axis=taps)

    return te.compute((n, *shape), compute, name="taps_added")


def interleave(x: Any, strides: Sequence[int], before: Sequence[int], shape: Sequence[int]) -> Any:
    """Pixels that lie apart by where they are between strides, put to their places.

    x: (n, sh sw blocks, h, w, block), of the pixels y sh + remainder in turn; before: (top, left),
    how many of them to leave out; shape: (channels, h, w) of the result.
    """
    n, _, _, _, block = _sizes(x)
    channels, height, width = shape
    outer = blocks_of(channels, block)

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        row, column = y + before[0], z + before[1]
        part = row % strides[0] * strides[1] + column % strides[1]
        return x(i, part * outer + o, row // strides[0], column // strides[1], lane)

    return te.compute((n, outer, height, width, block), compute, name="interleave")


def spread(x: Any, strides: Sequence[int], outputs: int) -> Any:
    """Pixels that are channels of those before a stride, in the model's order: (n, outputs, h, sh,
    w, sw). x: in blocks, channels (outputs, sh, ``pitch_of(sw)``)."""
    n, _, h, w, block = _sizes(x)
    pitch = pitch_of(strides[1])

    def compute(i: Any, o: Any, y: Any, row: Any, z: Any, column: Any) -> Any:
        first = (o * strides[0] + row) * pitch
        return x(i, first // block, y, z, first % block + column)

    return te.compute((n, outputs, h, strides[0], w, strides[1]), compute, name="spread")


def pitch_of(columns: int) -> int:
    """Channels that ``spread`` wants for a row of so many: those of one row are in one block."""
    return 1 << (columns - 1).bit_length()


def depthwise(x: Any, weights: Any, window: SlidingWindow, size: Sequence[int]) -> Any:
    """Each channel with a kernel of its own. weights: (blocks, kh, kw, block); size: (h, w)."""
    n, outer, _, _, block = _sizes(x)
    kh, kw = _reduced(*window.kernel)

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        row, column, inside = _place(window, x, y, z, kh, kw)
        value = _where(inside, x(i, o, row, column, lane), 0.0)
        return te.sum(value * weights(o, kh, kw, lane), axis=[kh, kw])

    return te.compute(
        (n, outer, *size, block), compute, name="convolved", attrs={DEPTHWISE: window.to_list()}
    )


def max_pool(x: Any, window: SlidingWindow, size: Sequence[int]) -> Any:
    """The largest value of each window; size: (height, width) of the result."""
    n, outer, _, _, block = _sizes(x)
    kh, kw = _reduced(*window.kernel)

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        row, column, inside = _place(window, x, y, z, kh, kw)
        value = _where(inside, x(i, o, row, column, lane), float("-inf"))
        return te.max(value, axis=[kh, kw])

    return te.compute(
        (n, outer, *size, block), compute, name="pooled", attrs={MAX_POOL: window.to_list()}
    )


def pack_weights(weights: Array, block: int, inner: int) -> Array:
    """Weights (out, in of a group, kh, kw) as (out blocks, in blocks, kh, kw, inner, block).

    inner: channels of a block of the input. Of several groups each has whole blocks of channels;
    missing channels are zeros.
    """
    out, depth, kh, kw = weights.shape
    outer, parts = blocks_of(out, block), blocks_of(depth, inner)
    padded = np.zeros((outer * block, parts * inner, kh, kw), weights.dtype)
    padded[:out, :depth] = weights
    split = padded.reshape(outer, block, parts, inner, kh, kw)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 3, 1))


def packed_weights(weights: Any, block: int, inner: int) -> Any:
    """As ``pack_weights``, of weights that are computed, for one group; missing channels repeat the
    last one: nothing reads those of the input."""
    out, depth, kh, kw = _sizes(weights)

    def compute(o: Any, k: Any, y: Any, z: Any, i: Any, lane: Any) -> Any:
        ends = tirx.min(o * block + lane, out - 1), tirx.min(k * inner + i, depth - 1)
        return weights(*ends, y, z)

    shape = (blocks_of(out, block), blocks_of(depth, inner), kh, kw, inner, block)
    return te.compute(shape, compute, name="packed")


def pack_depthwise(weights: Array, block: int) -> Array:
    """Weights (channels, 1, kh, kw) as (blocks, kh, kw, block)."""
    channels, _, kh, kw = weights.shape
    outer = blocks_of(channels, block)
    padded = np.zeros((outer * block, kh, kw), weights.dtype)
    padded[:channels] = weights[:, 0]
    return np.ascontiguousarray(padded.reshape(outer, block, kh, kw).transpose(0, 2, 3, 1))


def merge_groups(weights: Array, groups: int, together: int) -> Array:
    """Weights of groups that are so many of ``groups`` each, with zeros between them; the last is
    filled up with groups of zeros."""
    out, depth, kh, kw = weights.shape
    rows, merged = out // groups, -(-groups // together)
    wide = np.zeros((merged * together * rows, depth * together, kh, kw), weights.dtype)
    for group in range(groups):
        of_group = slice(group * rows, (group + 1) * rows)
        first = group % together * depth
        wide[of_group, first : first + depth] = weights[of_group]
    return wide


def _sizes(tensor: Any) -> list[int]:
    return [int(size) for size in tensor.shape]


def _reduced(*extents: int) -> list[Any]:
    return [te.reduce_axis((0, extent), name=f"r{i}") for i, extent in enumerate(extents)]


def _blocked(channel: Any, block: int, i: Any, row: Any, column: Any) -> tuple[Any, ...]:
    return i, channel // block, row, column, channel % block


def _channel(x: Any, i: Any, channel: Any, y: Any, z: Any, block: int) -> Any:
    return x(*_blocked(channel, block, i, y, z))


def _place(
    window: SlidingWindow, x: Any, y: Any, z: Any, kh: Any, kw: Any
) -> tuple[Any, Any, list[Any]]:
    """Row and column that a window reads, and the conditions for them to be in the image."""
    height, width = _sizes(x)[2:4]
    row = y * window.strides[0] + kh * window.dilation[0] - window.top
    column = z * window.strides[1] + kw * window.dilation[1] - window.left
    return row, column, [row >= 0, row < height, column >= 0, column < width]


def _where(conditions: list[Any], value: Any, other: float) -> Any:
    return tirx.if_then_else(tirx.all(*conditions), value, tirx.const(other, value.ty.dtype))
