"""How each operator goes on in blocks of channels: a table of rules for ``rewriter``.

A rule gets the pass and the call. It returns a value in blocks, an expression in the model's order,
or None where the operator has to stay as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tvm import relax, topi

from tvm_vision.topi import nchwc as blocked
from tvm_vision.topi.nchwc import SlidingWindow
from tvm_vision.topi.winograd import (
    Tiling,
    transform_image_in_blocks,
    transform_output_in_blocks,
    transform_weights,
)

from ..kernel_calls import INJECTIVE, OPAQUE, OUT_FUSABLE
from ..operators import BINARY, UNARY, operator_of, resized
from ..winograd_cost import ConvShape
from .moved_pixels import moved_pixels
from .rewriter import NchwcRewriter
from .sampling import grid_sample
from .tap_products import TapProducts, as_transposed, of_single_pixels
from .values import NchwcTensor, Picked

OP = relax.op
Rule = Callable[[NchwcRewriter, Any], Any]

# Groups of fewer channels than a block are merged, with zeros between them: at most so many.
MOST_MERGED = 16
# Rows of a product up to which it is a convolution of images of one pixel, beyond of one image.
FEW_ROWS = 4
# By the names that calls have for them; any other is a number.
PADS = {
    "reflect": topi.nn.reflect_pad,
    "replicate": topi.nn.replicate_pad,
    "circular": topi.nn.circular_pad,
}
# A selection of channels reads so many tensors at most, as code for each of them is generated.
MOST_SOURCES = 3


def convolution(blocks: NchwcRewriter, call: Any) -> Any:
    """Constant weights are packed; depthwise ones have a kernel of their own."""
    weights, shape, attrs = blocks.constant(call.args[1]), blocks.shape(call.args[0]), call.attrs
    result = blocks.shape(call)
    usual = _has_layout(attrs, "NCHW", "OIHW")
    if weights is None or shape is None or result is None or not usual:
        return None
    window = _window(attrs, weights.shape[2:])
    if int(attrs.groups) == 1 and window.strides == (1, 1):
        few = _few_results(
            blocks, call, TapProducts.of_windows(window, result[2:]), as_transposed(weights)
        )
        if few is not None:
            return few
    transformed = _winograd(blocks, call, weights, window, result)
    if transformed is not None:
        return transformed
    return _windows(blocks, call.args[0], weights, window, result, int(attrs.groups))


def _few_results(blocks: NchwcRewriter, call: Any, how: TapProducts, weights: np.ndarray) -> Any:
    """A product for all taps and their sum, in the model's order, where that is less work; None
    where it is not. weights: (i, o, kh, kw), of a transposed convolution."""
    inputs, outputs, *_ = weights.shape
    if weights.dtype != np.float32 or not how.pays(inputs, outputs, blocks.block):
        return None
    top, left = how.before
    window = SlidingWindow((1, 1), (1, 1), top, left, (1, 1))
    of_product = of_single_pixels(weights)
    result = (blocks.shape(call)[0], len(of_product), *how.pixels)  # type: ignore[index]
    products = _dense(blocks, call.args[0], of_product, window, result, 1)
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
    product = _convolved(blocks, image, packed, one, size, tiling.edge**2, "winograd_product")
    called = blocks.compute(
        lambda x: transform_output_in_blocks(x, tiling), [product], "winograd_output", OUT_FUSABLE
    )
    return NchwcTensor(blocks.emit(called), tuple(result))


def transposed_convolution(blocks: NchwcRewriter, call: Any) -> Any:
    """One convolution for the pixels of all places between strides, as channels, which are moved
    to their places.

    Pixel o of the result is the sum over x[i] w[k] with o + top = i stride + k: of one remainder of
    o + top, every stride-th k.
    """
    weights, attrs, result = blocks.constant(call.args[1]), call.attrs, blocks.shape(call)
    usual = _has_layout(attrs, "NCHW", "IOHW") and int(attrs.groups) == 1
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
    few = _few_results(blocks, call, how, weights)
    if few is not None:
        return few
    lanes = blocked.blocks_of(outputs, blocks.block) * blocks.block
    apart = np.moveaxis(_by_remainder(weights, how, lanes), 0, 2)
    sums = _of_remainders(blocks, source, apart, how)
    moved = blocks.compute(
        lambda x: blocked.interleave(x, strides, before, result[1:]), [sums], "interleave",
        INJECTIVE,
    )  # fmt: skip
    return _result(blocks, moved, result)


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
    return _convolved(blocks, source.var, packed, window, (weights.shape[1], *how.places))


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
    channels = blocks.shape(source)[1]  # type: ignore[index]
    direct = blocks.value(source) is None and groups == 1 and channels < blocks.block
    if direct:
        data, inner = blocks.plain(source), channels
    else:
        value = blocks.blocked(source)
        if value is None:
            return None
        data, inner = value.var, blocks.block
    packed = blocked.pack_weights(weights, blocks.block, inner)
    size = (weights.shape[1], *result[2:])
    called = _convolved(blocks, data, packed, window, size, groups)
    return NchwcTensor(called, tuple(result))


def _convolved(
    blocks: NchwcRewriter, data: Any, packed: np.ndarray, window: SlidingWindow, size: Any,
    groups: int = 1, name: str = "conv2d",
) -> Any:  # fmt: skip
    """The variable of a convolution as ``topi.nchwc.convolution`` computes it."""
    call = blocks.compute(
        lambda x, w: blocked.convolution(x, w, window, size, groups),
        [data, relax.const(packed)], name, OUT_FUSABLE,
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


def _has_layout(attrs: Any, data: str, kernel: str) -> bool:
    """Whether a convolution's axes are in the order of ``data``, its weights' in that of
    ``kernel``."""
    found = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or data)
    return found == (data, kernel, data)


def _window(attrs: Any, kernel: Any) -> SlidingWindow:
    kh, kw = kernel
    numbers = [*attrs.strides, *attrs.padding[:2], *attrs.dilation]
    return SlidingWindow.of_list([kh, kw, *numbers])


def product(blocks: NchwcRewriter, call: Any) -> Any:
    """Rows times constant weights. Few rows are images of one pixel; many are the pixels of one
    image, whose channels are one block: so they lie."""
    weights, shape = blocks.constant(call.args[1]), blocks.shape(call.args[0])
    result = blocks.shape(call)
    if result is None or shape is None or len(shape) < 2 or weights is None or weights.ndim != 2:
        return None
    *outer, depth = shape
    rows, out = math.prod(outer), weights.shape[1]
    few = rows <= FEW_ROWS
    if rows == 0 or out < blocks.block or weights.dtype != np.float32 or (few and len(outer) > 1):
        return None
    lies = (rows, depth, 1, 1) if few else (1, 1, 1, rows, depth)
    image = blocks.builder_.emit(OP.reshape(blocks.plain(call.args[0]), lies))
    packed = blocked.pack_weights(weights.T[:, :, None, None], blocks.block, depth)
    lanes = blocked.blocks_of(out, blocks.block) * blocks.block
    if few:
        window = SlidingWindow((1, 1), (1, 1), 0, 0, (1, 1))
        called = _convolved(blocks, image, packed, window, (depth, 1, 1), name="dense")
        called = OP.reshape(called, (rows, lanes))
    else:
        called = blocks.compute(
            lambda x, w: blocked.product(x, w, depth, outer),
            [image, relax.const(packed)], "dense", OUT_FUSABLE,
        )  # fmt: skip
    if lanes == out:
        return called
    return OP.strided_slice(blocks.emit(called), [len(outer)], [0], [out])


def of_pixels(blocks: NchwcRewriter, call: Any) -> Any:
    """A selection of images, rows or columns in any order, or more around those that there are.
    Slices of rows and columns are vectors in the model's order, as correlations read them."""
    value, result = blocks.blocked(call.args[0], pack=False), blocks.shape(call)
    if value is None or result is None or len(result) != 4 or result[1] != value.shape[1]:
        return None
    if operator_of(call) == "relax.nn.pad":
        widths, added = [int(width) for width in call.attrs.pad_width], str(call.attrs.pad_mode)
        if any(widths[2:4]) or min(widths) < 0:
            return None
        before, after = [*widths[::2], 0], [*widths[1::2], 0]
        pad = PADS.get(added) or partial(topi.nn.pad, pad_value=float(call.attrs.pad_value))
        # By itself: each place of a window reads it, and would make it anew.
        around = blocks.compute(
            lambda x: pad(x, pad_before=before, pad_after=after), [value.var], "pad", OPAQUE
        )
        return _result(blocks, around, result)
    if operator_of(call) == "relax.take":
        if int(call.attrs.axis) not in (2, 3) or blocks.constant(call.args[1]) is None:
            return None
    elif [int(axis) for axis in call.args[1].fields] != [0]:
        return None
    return _result(blocks, relax.Call(call.op, [value.var, *call.args[1:]], call.attrs), result)


def unary(blocks: NchwcRewriter, call: Any) -> Any:
    """The operator itself, on blocks."""
    value = blocks.blocked(call.args[0], pack=False)
    if value is None or blocks.shape(call) != value.shape:
        return None
    same = relax.Call(call.op, [value.var, *call.args[1:]], call.attrs, call.ty_args)
    return _result(blocks, same, value.shape)


def binary(blocks: NchwcRewriter, call: Any) -> Any:
    """Two tensors in blocks, or one and a constant."""
    result = blocks.shape(call)
    name = blocks.operator(call)
    args = list(call.args if name == str(call.op.name) else call.args[1].fields)
    known = any(blocks.value(arg) is not None for arg in args)
    if result is None or len(result) != 4 or not known:
        return None
    operands = [_operand(blocks, arg, result[1]) for arg in args]
    if any(operand is None for operand in operands):
        return None
    return _result(blocks, _BINARY[name](*operands), result)


def _operand(blocks: NchwcRewriter, expr: Any, channels: int) -> Any:
    constant = blocks.constant(expr)
    if constant is not None:
        packed = _packed_constant(constant, channels, blocks.block)
        return None if packed is None else relax.const(packed)
    shape = blocks.shape(expr)
    if shape is None or len(shape) != 4 or shape[1] != channels:
        return None
    value = blocks.blocked(expr)
    return None if value is None else value.var


def _packed_constant(value: np.ndarray, channels: int, block: int) -> np.ndarray | None:
    """A constant that is broadcast to (n, channels, h, w), for blocks; missing lanes are ones."""
    if value.ndim > 4 or value.dtype != np.float32:
        return None
    wide = value.reshape((1,) * (4 - value.ndim) + value.shape)
    if wide.shape[1] == 1:
        return wide.reshape(()) if wide.size == 1 else wide[..., None]
    n, found, h, w = wide.shape
    if found != channels:
        return None
    outer = blocked.blocks_of(channels, block)
    filled = np.ones((n, outer * block, h, w), np.float32)
    filled[:, :channels] = wide
    split = filled.reshape(n, outer, block, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(split)


def quantization(blocks: NchwcRewriter, call: Any) -> Any:
    """To bytes and back, by a scale and a zero point for all channels."""
    value = blocks.blocked(call.args[0], pack=False)
    numbers = [blocks.constant(arg) for arg in call.args[1:]]
    if value is None or any(number is None or number.size != 1 for number in numbers):
        return None
    scalars = [relax.const(number.reshape(())) for number in numbers if number is not None]
    same = relax.Call(call.op, [value.var, *scalars], call.attrs, call.ty_args)
    return _result(blocks, same, value.shape)


def max_pool(blocks: NchwcRewriter, call: Any) -> Any:
    value, result = blocks.blocked(call.args[0], pack=False), blocks.shape(call)
    if value is None or result is None or not _is_plain_image(call.attrs):
        return None
    window = _window(call.attrs, [int(size) for size in call.attrs.pool_size])
    called = blocks.compute(
        lambda x: blocked.max_pool(x, window, result[2:]), [value.var], "max_pool2d", OUT_FUSABLE
    )  # fmt: skip
    return _result(blocks, called, result)


def average_pool(blocks: NchwcRewriter, call: Any) -> Any:
    value, result, attrs = blocks.blocked(call.args[0], pack=False), blocks.shape(call), call.attrs
    if value is None or result is None or not _is_plain_image(attrs):
        return None
    layout = f"NCHW{blocks.block}c"
    pooled = OP.nn.avg_pool2d(
        value.var, list(attrs.pool_size), list(attrs.strides), list(attrs.padding),
        list(attrs.dilation), bool(attrs.ceil_mode), bool(attrs.count_include_pad),
        layout, layout,
    )  # fmt: skip
    return _result(blocks, pooled, result)


def adaptive_pool(blocks: NchwcRewriter, call: Any) -> Any:
    value, result = blocks.blocked(call.args[0], pack=False), blocks.shape(call)
    if value is None or result is None or not _is_plain_image(call.attrs):
        return None
    if tuple(result[2:]) != (1, 1):
        return None
    return _result(blocks, OP.mean(value.var, [2, 3], True), result)


def reduction(blocks: NchwcRewriter, call: Any) -> Any:
    """Over whole images, which are kept as one pixel."""
    value, result, attrs = blocks.blocked(call.args[0], pack=False), blocks.shape(call), call.attrs
    axes = {int(axis) % 4 for axis in attrs.axis or ()}
    if value is None or result is None or axes != {2, 3} or not attrs.keepdims:
        return None
    # Axes may be counted from the end, where blocks have one more.
    reduce = getattr(OP, operator_of(call).removeprefix("relax."))
    return _result(blocks, reduce(value.var, [2, 3], True), result)


def resize(blocks: NchwcRewriter, call: Any) -> Any:
    value, result = blocks.blocked(call.args[0], pack=False), blocks.shape(call)
    if value is None or result is None or str(call.attrs.layout) != "NCHW":
        return None
    return _result(blocks, resized(call, value.var, f"NCHW{blocks.block}c"), result)


def concatenation(blocks: NchwcRewriter, call: Any) -> Any:
    """Of channels: of whole blocks where they end with a block, else noted for a gather."""
    result = blocks.shape(call)
    if result is None or len(result) != 4 or int(call.attrs.axis) % 4 != 1:
        return None
    if not isinstance(call.args[0], relax.Tuple):
        return None
    parts = list(call.args[0].fields)
    values = [blocks.value(part) for part in parts]
    if all(value is None for value in values) or any(isinstance(v, list) for v in values):
        return None
    picked = any(isinstance(value, Picked) for value in values)
    counts = [blocks.shape(part)[1] for part in parts]  # type: ignore[index]
    if not picked and all(count % blocks.block == 0 for count in counts[:-1]):
        tensors = [blocks.blocked(part) for part in parts]
        if any(tensor is None for tensor in tensors):
            return None
        return _result(blocks, OP.concat([t.var for t in tensors], 1), result)  # type: ignore[union-attr]
    sources: list[NchwcTensor] = []
    rows = []
    for part in parts:
        value = blocks.value(part)
        if isinstance(value, Picked) and len(value.sources) >= MOST_SOURCES:
            value = blocks.blocked(part)
        value = value or blocks.blocked(part)
        if value is None:
            return None
        rows.append(_rows_in(sources, value))
    if len(sources) > 2 * MOST_SOURCES:
        return None
    return Picked(tuple(sources), np.concatenate(rows), result)


def _rows_in(sources: list[Any], value: Any) -> np.ndarray:
    """The channels of ``value`` as rows of a ``Picked`` of ``sources``, which may grow."""
    if isinstance(value, NchwcTensor):
        channels = np.arange(value.shape[1])
        value_sources, rows = (value,), np.stack([np.zeros_like(channels), channels], axis=1)
    else:
        value_sources, rows = value.sources, value.channels.copy()
    places = []
    for source in value_sources:
        if source not in sources:
            sources.append(source)
        places.append(sources.index(source))
    return np.stack([np.array(places)[rows[:, 0]], rows[:, 1]], axis=1)


def split(blocks: NchwcRewriter, call: Any) -> Any:
    value = _picked(blocks, call.args[0])
    if value is None or len(value.shape) != 4 or int(call.attrs.axis) % 4 != 1:
        return None
    shapes = [tuple(int(size.value) for size in field.shape) for field in call.ty.fields]
    ends = np.cumsum([shape[1] for shape in shapes])
    parts = np.split(value.channels, ends[:-1])
    return [Picked(value.sources, part, shape) for part, shape in zip(parts, shapes, strict=True)]


def tuple_item(blocks: NchwcRewriter, item: Any) -> Any:
    value = blocks.value(item.tuple_value)
    return value[item.index] if isinstance(value, list) else None


def reshape(blocks: NchwcRewriter, call: Any) -> Any:
    """(n, c, h, w) to (n, a, b, h, w) and back: the ends of a shuffle of channels."""
    before, after = blocks.shape(call.args[0]), blocks.shape(call)
    if before is None or after is None or {len(before), len(after)} != {4, 5}:
        return None
    if (before[0], *before[-2:]) != (after[0], *after[-2:]):
        return None
    value = _picked(blocks, call.args[0])
    return None if value is None else Picked(value.sources, value.channels, after)


def transposition(blocks: NchwcRewriter, call: Any) -> Any:
    """The middle of a shuffle of channels, or an image as rows of its pixels' channels."""
    value, result = blocks.value(call.args[0]), blocks.shape(call)
    axes = [int(axis) for axis in call.attrs.axes or ()]
    if result is not None and axes in ([0, 2, 1], [0, 2, 3, 1]):
        return _as_rows(blocks, call.args[0], result)
    if not isinstance(value, Picked) or result is None or axes != [0, 2, 1, 3, 4]:
        return None
    table = value.channels.reshape(*value.shape[1:3], 2)
    return Picked(value.sources, table.transpose(1, 0, 2).reshape(-1, 2), result)


def _as_rows(blocks: NchwcRewriter, image: Any, result: tuple[int, ...]) -> Any:
    """An image in blocks, or its pixels side by side, turned to rows; None where it is neither."""
    joined = blocks.binding(image)
    if len(result) == 3:
        if operator_of(joined) != "relax.reshape":
            return None
        image = joined.args[0]
    value = blocks.blocked(image, pack=False)
    n, *rows, channels = result
    if value is None or value.shape[:2] != (n, channels) or len(value.shape) != 4:
        return None
    turned = blocks.in_rows(value)
    return turned if turned is None or len(rows) == 2 else OP.reshape(blocks.emit(turned), result)


def _picked(blocks: NchwcRewriter, expr: Any) -> Any:
    """``expr`` as a selection of channels; None where it is not in blocks."""
    value = blocks.value(expr)
    if not isinstance(value, NchwcTensor):
        return value if isinstance(value, Picked) else None
    sources: list[Any] = []
    return Picked((value,), _rows_in(sources, value), value.shape)


def _is_plain_image(attrs: Any) -> bool:
    return str(attrs.layout) == "NCHW" and str(attrs.out_layout or "NCHW") == "NCHW"


def _result(blocks: NchwcRewriter, expr: Any, shape: Any) -> Any:
    return NchwcTensor(blocks.emit(expr), tuple(shape))


_BINARY = {f"relax.{name}": getattr(OP, name) for name in BINARY}

RULES: dict[str, Rule] = {
    **{f"relax.{name}": unary for name in UNARY},
    **dict.fromkeys(_BINARY, binary),
    **dict.fromkeys(("relax.quantize", "relax.dequantize"), quantization),
    "relax.nn.conv2d": convolution,
    "relax.nn.conv2d_transpose": transposed_convolution,
    "relax.matmul": product,
    "relax.nn.max_pool2d": max_pool,
    "relax.nn.avg_pool2d": average_pool,
    "relax.nn.adaptive_avg_pool2d": adaptive_pool,
    **{f"relax.{name}": reduction for name in ("mean", "max", "min", "sum")},
    "relax.call_tir": moved_pixels,
    "relax.image.grid_sample": grid_sample,
    "relax.image.resize2d": resize,
    "relax.concat": concatenation,
    **dict.fromkeys(("relax.strided_slice", "relax.nn.pad", "relax.take"), of_pixels),
    "relax.split": split,
    "tuple_item": tuple_item,
    "relax.reshape": reshape,
    "relax.permute_dims": transposition,
}
