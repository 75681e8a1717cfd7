"""How each operator goes on in blocks of channels: a table of rules for ``rewriter``.

A rule gets the pass and the call. It returns a value in blocks, an expression in the model's order,
or None where the operator has to stay as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tvm_vision.topi import nchwc as blocked
from tvm_vision.topi.borders import borders
from tvm_vision.topi.nchwc import SlidingWindow

from ..kernel_calls import OPAQUE, OUT_FUSABLE
from ..operators import BINARY, UNARY, operator_of, pad_widths, resized
from .convolutions import convolution, convolved, window_of
from .rewriter import NchwcRewriter
from .sampling import grid_sample
from .transposed import transposed_convolution
from .values import NchwcTensor, Picked

OP = relax.op
Rule = Callable[[NchwcRewriter, Any], Any]

# Rows of a product up to which it is a convolution of images of one pixel, beyond of one image.
FEW_ROWS = 4
# A selection of channels reads so many tensors at most, as code for each of them is generated.
MOST_SOURCES = 3


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
        called = convolved(blocks, image, packed, window, (depth, 1, 1), name="dense")
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
        widths, attrs = pad_widths(call.attrs), call.attrs
        if any(widths[1]) or min(map(min, widths)) < 0:
            return None
        form = ([*widths, (0, 0)], str(attrs.pad_mode), float(attrs.pad_value))
        # By itself: each place of a window reads it, and would make it anew.
        around = blocks.compute(lambda x: borders(x, *form), [value.var], "pad", OPAQUE)
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
    window = window_of(call.attrs, [int(size) for size in call.attrs.pool_size])
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
    """Over rows, columns or both: in blocks they are kept as one."""
    value, result, attrs = blocks.blocked(call.args[0], pack=False), blocks.shape(call), call.attrs
    # Axes may be counted from the end, where blocks have one more.
    axes = sorted({int(axis) % 4 for axis in attrs.axis or ()})
    if value is None or result is None or not axes or axes[0] < 2:
        return None
    reduce = getattr(OP, operator_of(call).removeprefix("relax."))
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))
    found = _result(blocks, reduce(value.var, axes, True), kept)
    return found if attrs.keepdims else OP.reshape(blocks.emit(blocks.unpacked(found)), result)


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
    "relax.image.grid_sample": grid_sample,
    "relax.image.resize2d": resize,
    "relax.concat": concatenation,
    **dict.fromkeys(("relax.strided_slice", "relax.nn.pad", "relax.take"), of_pixels),
    "relax.split": split,
    "tuple_item": tuple_item,
    "relax.reshape": reshape,
    "relax.permute_dims": transposition,
}
