"""Convolutions in blocks of channels, as ``rules`` has them, and what is computed as one."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from tvm_vision.topi import nchwc as blocked
from tvm_vision.topi.nchwc import SlidingWindow
from tvm_vision.topi.winograd import (
    Tiling,
    transform_image_in_blocks,
    transform_output_in_blocks,
    transform_weights,
)

from ..kernel_calls import OPAQUE, OUT_FUSABLE
from ..winograd_cost import ConvShape
from .rewriter import NchwcRewriter
from .tap_products import TapProducts, as_transposed
from .values import NchwcTensor, Picked

# Groups of fewer channels than a block are merged, with zeros between them: at most so many.
MOST_MERGED = 16


def convolution(blocks: NchwcRewriter, call: Any) -> Any:
    """Constant weights are packed, computed ones by a kernel; depthwise ones have a kernel of their
    own."""
    weights, shape, attrs = blocks.constant(call.args[1]), blocks.shape(call.args[0]), call.attrs
    result = blocks.shape(call)
    if shape is None or result is None or not has_layout(attrs, "NCHW", "OIHW"):
        return None
    if weights is None:
        return _of_computed_weights(blocks, call, result)
    window = window_of(attrs, weights.shape[2:])
    ways = list(TapProducts.of_windows(window, result[2:])) if int(attrs.groups) == 1 else []
    if ways:
        outputs, inputs, *_ = weights.shape
        how = min(ways, key=lambda way: way.cost(inputs, outputs, blocks.block))
        few = few_results(blocks, call, how, as_transposed(weights))
        if few is not None:
            return few
    transformed = _winograd(blocks, call, weights, window, result)
    if transformed is not None:
        return transformed
    return _windows(blocks, call.args[0], weights, window, result, int(attrs.groups))


def _of_computed_weights(blocks: NchwcRewriter, call: Any, result: Any) -> Any:
    """Of one group, as where what was seen is a window for an image."""
    source, weights = call.args[:2]
    shape = blocks.shape(weights)
    if int(call.attrs.groups) > 1 or shape is None or 0 in (*shape, *result):
        return None
    data, inner = _source(blocks, source, 1)
    if data is None:
        return None
    packed = blocks.emit(
        blocks.compute(
            lambda w: blocked.packed_weights(w, blocks.block, inner), [blocks.plain(weights)],
            "pack_weights", OPAQUE,
        )
    )  # fmt: skip
    window = window_of(call.attrs, shape[2:])
    return NchwcTensor(
        convolved(blocks, data, packed, window, (shape[1], *result[2:])), tuple(result)
    )


def few_results(blocks: NchwcRewriter, call: Any, how: TapProducts, weights: np.ndarray) -> Any:
    """A product for all taps and their sum, in the model's order, where that is less work; None
    where it is not. weights: (i, o, kh, kw), of a transposed convolution."""
    inputs, outputs, *_ = weights.shape
    if weights.dtype != np.float32 or not how.pays(inputs, outputs, blocks.block):
        return None
    of_product = how.of_product(weights)
    result = (blocks.shape(call)[0], len(of_product), *how.pixels)  # type: ignore[index]
    products = _dense(blocks, call.args[0], of_product, how.window, result, 1)
    if products is None:
        return None
    return blocks.compute(
        lambda x: how.added(x, outputs), [products.var], "sum_of_taps", OUT_FUSABLE
    )  # fmt: skip


def _winograd(
    blocks: NchwcRewriter, call: Any, weights: Any, window: SlidingWindow, result: Any
) -> NchwcTensor | None:
    """Winograd's convolution where it is asked for or estimated to be faster: the image
    transformed, a convolution of single pixels in a group for each number of a tile, and the
    result transformed back."""
    one = SlidingWindow((1, 1), (1, 1), 0, 0, (1, 1))
    plain = SlidingWindow((3, 3), (1, 1), window.top, window.left, (1, 1))
    outputs, inputs = weights.shape[:2]
    usual = window == plain and int(call.attrs.groups) == 1 and weights.dtype == np.float32
    if not usual or inputs % blocks.block:
        return None
    n, _, height, width = result
    m = blocks.winograd(ConvShape(n, inputs, outputs, height, width))
    source = blocks.blocked(call.args[0]) if m is not None else None
    if m is None or source is None:
        return None
    tiling = Tiling(m, n, height, width, window.top, window.left)
    image = blocks.shared(
        (source.var, tiling),
        lambda: blocks.compute(
            lambda x: transform_image_in_blocks(x, tiling), [source.var], "winograd_image", OPAQUE
        ),
    )
    lanes = blocked.blocks_of(outputs, blocks.block) * blocks.block
    filled = np.zeros((tiling.edge**2, lanes, inputs), np.float32)
    filled[:, :outputs] = transform_weights(weights, m)
    packed = blocked.pack_weights(filled.reshape(-1, inputs, 1, 1), blocks.block, blocks.block)
    size = (inputs, 1, tiling.tiles)
    product = convolved(blocks, image, packed, one, size, tiling.edge**2, "winograd_product")
    called = blocks.compute(
        lambda x: transform_output_in_blocks(x, tiling), [product], "winograd_output", OUT_FUSABLE
    )
    return NchwcTensor(blocks.emit(called), tuple(result))


def _windows(
    blocks: NchwcRewriter, source: Any, weights: Any, window: SlidingWindow, result: Any,
    groups: int,
) -> Any:  # fmt: skip
    """A convolution in blocks, of whatever groups."""
    channels = blocks.shape(source)[1]  # type: ignore[index]
    if groups > 1 and groups == channels:
        return _depthwise(blocks, source, weights, window, result)
    together = _together(groups, channels, result[1], blocks.block)
    if together > MOST_MERGED:
        return None
    if together > 1:
        weights = blocked.merge_groups(weights, groups, together)
    return _dense(blocks, source, weights, window, result, -(-groups // together))


def _dense(
    blocks: NchwcRewriter,
    source: Any,
    weights: Any,
    window: SlidingWindow,
    result: Any,
    groups: int,
) -> Any:
    """A convolution whose groups are whole blocks. Few channels are read as the model has them."""
    data, inner = _source(blocks, source, groups)
    if data is None:
        return None
    packed = blocked.pack_weights(weights, blocks.block, inner)
    size = (weights.shape[1], *result[2:])
    called = convolved(blocks, data, packed, window, size, groups)
    return NchwcTensor(called, tuple(result))


def _source(blocks: NchwcRewriter, source: Any, groups: int) -> tuple[Any, int]:
    """What a convolution reads, and how many channels of it are a block; None where it has none."""
    channels = blocks.shape(source)[1]  # type: ignore[index]
    if blocks.value(source) is None and groups == 1 and channels < blocks.block:
        return blocks.plain(source), channels
    value = blocks.blocked(source)
    return None if value is None else value.var, blocks.block


def convolved(
    blocks: NchwcRewriter, data: Any, packed: Any, window: SlidingWindow, size: Any,
    groups: int = 1, name: str = "conv2d",
) -> Any:  # fmt: skip
    """The variable of a convolution as ``topi.nchwc.convolution`` computes it. packed: weights as
    an array, or a variable."""
    weights = relax.const(packed) if isinstance(packed, np.ndarray) else packed
    call = blocks.compute(
        lambda x, w: blocked.convolution(x, w, window, size, groups),
        [data, weights], name, OUT_FUSABLE,
    )  # fmt: skip
    return blocks.emit(call)


def _depthwise(
    blocks: NchwcRewriter, image: Any, weights: Any, window: SlidingWindow, result: Any
) -> Any:
    source = blocks.blocked(image)
    if source is None:
        return None
    repeated = result[1] // source.shape[1]
    if repeated > 1:
        channels = np.arange(result[1]) // repeated
        rows = np.stack([np.zeros_like(channels), channels], axis=1)
        n, _, h, w = source.shape
        source = blocks.gather(Picked((source,), rows, (n, result[1], h, w)))
    packed = relax.const(blocked.pack_depthwise(weights, blocks.block))
    called = blocks.compute(
        lambda x, w: blocked.depthwise(x, w, window, result[2:]),
        [source.var, packed], "depthwise_conv2d", OUT_FUSABLE,
    )  # fmt: skip
    return NchwcTensor(blocks.emit(called), tuple(result))


def _together(groups: int, channels: int, out: int, block: int) -> int:
    """How many groups are whole blocks on both sides, as few as can be; all of them where fewer
    leave a rest that is more than what fills up the last block."""
    for together in range(1, groups):
        merged = -(-groups // together)
        sides = [together * side // groups for side in (channels, out)]
        whole = all(side % block == 0 for side in sides)
        blocks = [merged * side // block for side in sides]
        if whole and blocks == [blocked.blocks_of(side, block) for side in (channels, out)]:
            return together
    return groups


def has_layout(attrs: Any, data: str, kernel: str) -> bool:
    """Whether a convolution's axes are in the order of ``data``, its weights' in that of
    ``kernel``."""
    found = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or data)
    return found == (data, kernel, data)


def window_of(attrs: Any, kernel: Any) -> SlidingWindow:
    kh, kw = kernel
    numbers = [*attrs.strides, *attrs.padding[:2], *attrs.dilation]
    return SlidingWindow.of_list([kh, kw, *numbers])
