"""Transposed convolutions in blocks of channels: by the places between strides, or by taps."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from tvm_vision.topi import nchwc as blocked
from tvm_vision.topi.nchwc import SlidingWindow

from ..kernel_calls import INJECTIVE, OPAQUE
from .convolutions import convolved, few_results, has_layout
from .rewriter import NchwcRewriter
from .tap_products import TapProducts
from .values import NchwcTensor

OP = relax.op


def transposed_convolution(blocks: NchwcRewriter, call: Any) -> Any:
    """One convolution for the pixels of all places between strides, as channels, which are moved
    to their places.

    Pixel o of the result is the sum over x[i] w[k] with o + top = i stride + k: of one remainder of
    o + top, every stride-th k.
    """
    weights, attrs, result = blocks.constant(call.args[1]), call.attrs, blocks.shape(call)
    usual = has_layout(attrs, "NCHW", "IOHW") and int(attrs.groups) == 1
    if weights is None or result is None or not usual or any(int(d) != 1 for d in attrs.dilation):
        return None
    source = blocks.blocked(call.args[0])
    if source is None or weights.dtype != np.float32:
        return None
    strides = [int(stride) for stride in attrs.strides]
    before = [int(pixels) for pixels in attrs.padding[:2]]
    how = TapProducts.of_transposed(weights.shape[2:], strides, before, result[2:])
    inputs, outputs, *_ = weights.shape
    if how.is_better_by_remainder(inputs, outputs, blocks.block):
        apart = _by_remainder(weights, how, outputs)
        unused = blocked.pitch_of(strides[1]) - strides[1]
        filled = np.pad(apart, [(0, 0), (0, 0), (0, unused), *[(0, 0)] * 3])
        sums = _of_remainders(blocks, source, filled, how)
        return _spread(blocks, sums, how, outputs)
    few = few_results(blocks, call, how, weights)
    if few is not None:
        return few
    lanes = blocked.blocks_of(outputs, blocks.block) * blocks.block
    apart = np.moveaxis(_by_remainder(weights, how, lanes), 0, 2)
    sums = _of_remainders(blocks, source, apart, how)
    moved = blocks.compute(
        lambda x: blocked.interleave(x, strides, before, result[1:]), [sums], "interleave",
        INJECTIVE,
    )  # fmt: skip
    return NchwcTensor(blocks.emit(moved), tuple(result))


def _by_remainder(weights: np.ndarray, how: TapProducts, lanes: int) -> np.ndarray:
    """Weights (i, o, kh, kw) of a transposed convolution as those of one for each remainder: (lanes
    for o, sh, sw, i, *taps), the last tap first."""
    inputs, outputs, *kernel = weights.shape
    apart = np.zeros((lanes, *how.strides, inputs, *how.taps), np.float32)
    for kh, kw in np.ndindex(*kernel):
        (jh, rh), (jw, rw) = divmod(kh, how.strides[0]), divmod(kw, how.strides[1])
        row, column = how.taps[0] - 1 - jh, how.taps[1] - 1 - jw
        apart[:outputs, rh, rw, :, row, column] = weights[:, :, kh, kw].T
    return apart


def _of_remainders(
    blocks: NchwcRewriter, source: NchwcTensor, apart: np.ndarray, how: TapProducts
) -> Any:
    """The variable of a convolution with weights (*channels, i, *taps) at all places."""
    window = SlidingWindow.of_list([*how.taps, 1, 1, how.taps[0] - 1, how.taps[1] - 1, 1, 1])
    weights = apart.reshape(-1, *apart.shape[3:])
    packed = blocked.pack_weights(weights, blocks.block, blocks.block)
    return convolved(blocks, source.var, packed, window, (weights.shape[1], *how.places))


def _spread(blocks: NchwcRewriter, sums: Any, how: TapProducts, outputs: int) -> Any:
    """Channels (outputs, sh, sw) in blocks as an image in the model's order, without what is left
    out of it."""
    n = int(sums.ty.shape[0])
    apart = blocks.compute(
        lambda x: blocked.spread(x, how.strides, outputs), [sums], "spread", OPAQUE
    )
    whole = tuple(p * s for p, s in zip(how.places, how.strides, strict=True))
    image = OP.reshape(blocks.emit(apart), (n, outputs, *whole))
    if whole == how.size:
        return image
    ends = [first + size for first, size in zip(how.first, how.size, strict=True)]
    return OP.strided_slice(blocks.emit(image), [2, 3], list(how.first), ends)
