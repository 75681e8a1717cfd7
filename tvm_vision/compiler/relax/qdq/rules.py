"""How each operator goes on in bytes: a table of rules for ``rewriter``.

A rule gets the pass and the call. It returns a value in bytes, an expression of real numbers, or
None where the operator has to stay as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from ..operators import resized
from .rewriter import QdqRewriter
from .values import BYTE, Joined, QuantizedTensor, Sums, Weights, along

OP = relax.op
Rule = Callable[[QdqRewriter, Any], Any]

_INTEGERS = ("int8", "uint8")


def quantize(network: QdqRewriter, call: Any) -> Any:
    """One scale for the whole tensor: bytes from here on. Weights are rounded at once."""
    dtype = str(call.attrs.out_dtype)
    weights = network.constant(call.args[0])
    if weights is not None and dtype in _INTEGERS:
        return _rounded(network, call, weights, dtype)
    scale, zero_point = network.number(call.args[1]), network.number(call.args[2])
    if dtype not in _INTEGERS or scale is None or zero_point is None or not _is_real(call.args[0]):
        return None
    offset = 128 if dtype == "uint8" else 0
    source = network.value(call.args[0])
    if not isinstance(source, (QuantizedTensor, Joined, Sums)):
        source = network.visit_expr(call.args[0])
    var = network.quantized(source, np.float32(scale), int(zero_point) - offset)
    return QuantizedTensor(var, -offset, np.float32(1), dtype)


def _rounded(network: QdqRewriter, call: Any, weights: np.ndarray, dtype: str) -> Any:
    """What a model trained with quantization in mind writes: its weights before they are int8."""
    scale, zero_point = (network.constant(arg) for arg in call.args[1:])
    if scale is None or zero_point is None or weights.dtype != np.float32:
        return None
    axis, limits = int(call.attrs.axis), np.iinfo(dtype)
    steps = np.round(weights / along(scale, weights.ndim, axis))
    whole = np.clip(steps + along(zero_point, weights.ndim, axis), limits.min, limits.max)
    return relax.const(whole.astype(dtype))


def dequantize(network: QdqRewriter, call: Any) -> Any:
    """Of bytes nothing is computed yet; of a constant its numbers and scales are kept."""
    if str(call.attrs.out_dtype) != "float32":
        return None
    numbers = network.constant(call.args[0])
    scale, zero_point = (network.constant(arg) for arg in call.args[1:])
    if scale is None or zero_point is None or scale.dtype != np.float32:
        return None
    if numbers is not None:
        return Weights(numbers, zero_point, scale, int(call.attrs.axis))
    source = network.bytes_of(call.args[0])
    if source is None or scale.size != 1 or zero_point.size != 1:
        return None
    number, point = (
        np.float32(scale.reshape(-1)[0]),
        int(zero_point.reshape(-1)[0]) + source.zero_point,
    )
    return QuantizedTensor(source.var, point, number, "float32")


def widened(network: QdqRewriter, call: Any) -> Any:
    """Whole numbers of int32, before a zero point is taken off."""
    if str(call.ty.dtype) != "int32" or str(call.args[0].ty.dtype) not in _INTEGERS:
        return None
    if network.value(call.args[0]) is None and network.lookup_binding(call.args[0]) is not None:
        return None  # of an operator that is not in bytes, as where scales depend on the image
    source = network.bytes_of(call.args[0])
    return (
        None
        if source is None
        else QuantizedTensor(source.var, source.zero_point, np.float32(1), "int32")
    )


def centred(network: QdqRewriter, call: Any) -> Any:
    """Whole numbers with a zero point taken off."""
    source, zero_point = network.value(call.args[0]), network.number(call.args[1])
    if not isinstance(source, QuantizedTensor) or source.dtype != "int32" or zero_point is None:
        return None
    same = list(call.ty.shape) == list(call.args[0].ty.shape)
    return (
        QuantizedTensor(source.var, source.zero_point + int(zero_point), source.scale, "int32")
        if same
        else None
    )


def convolution(network: QdqRewriter, call: Any) -> Any:
    """Sums of ``(x - zero) * w``, times both scales. Padding by 0 there is by the zero point."""
    source, weights, attrs = network.value(call.args[0]), network.value(call.args[1]), call.attrs
    usual = (str(attrs.data_layout), str(attrs.kernel_layout)) == ("NCHW", "OIHW")
    if not usual or not _summable(source) or not isinstance(weights, Weights):
        return None
    if not weights.symmetric(0):
        return None
    sums = OP.nn.conv2d(
        network.emit(network.whole(source)), relax.const(weights.numbers.astype(np.int32)),
        list(attrs.strides), list(attrs.padding), list(attrs.dilation), int(attrs.groups),
        "NCHW", "OIHW", out_dtype="int32",
    )  # fmt: skip
    return Sums(network.emit(sums), source.scale * weights.scale, 1)


def product(network: QdqRewriter, call: Any) -> Any:
    """As of a convolution, of rows with constant columns."""
    source, weights = network.value(call.args[0]), network.value(call.args[1])
    if not _summable(source) or not isinstance(weights, Weights) or weights.numbers.ndim != 2:
        return None
    ndim = call.ty.ndim
    if not weights.symmetric(1) or call.args[0].ty.ndim != ndim or ndim < 2:
        return None
    sums = OP.matmul(
        network.emit(network.whole(source)), relax.const(weights.numbers.astype(np.int32)), "int32"
    )
    return Sums(network.emit(sums), source.scale * weights.scale, ndim - 1)


def biased(network: QdqRewriter, call: Any) -> Any:
    """A bias of whole numbers in the scale of sums is added to them."""
    for one, other in (call.args, reversed(call.args)):
        sums, bias = network.value(one), network.value(other)
        if isinstance(sums, Sums) and isinstance(bias, Weights) and bias.fits(sums):
            var = network.emit(OP.add(sums.var, relax.const(bias.numbers)))
            return Sums(var, sums.scale, sums.axis)
    return None


def turn(network: QdqRewriter, call: Any) -> Any:
    """Axes in another order, of weights too."""
    source = network.value(call.args[0])
    if isinstance(source, Weights):
        ndim = source.numbers.ndim
        axes = [int(axis) % ndim for axis in call.attrs.axes or reversed(range(ndim))]
        return source.transposed(axes)
    return move(network, call)


def reshaped(network: QdqRewriter, call: Any) -> Any:
    """Of bytes; and of a bias, to lie along the channels."""
    source = network.value(call.args[0])
    if isinstance(source, Weights):
        sizes = [int(size) for size in call.ty.shape]
        places = [axis for axis, size in enumerate(sizes) if size != 1]
        if source.numbers.ndim != 1 or len(places) > 1:
            return None
        return replace(source, numbers=source.numbers.reshape(sizes), axis=(places or [0])[0])
    return move(network, call)


def move(network: QdqRewriter, call: Any) -> Any:
    """What moves numbers or picks some: bytes stand for them."""
    source = network.value(call.args[0])
    if not isinstance(source, QuantizedTensor):
        return None
    args = [network.visit_expr(arg) for arg in call.args[1:]]
    return source.with_var(
        network.emit(relax.Call(call.op, [source.var, *args], call.attrs, call.ty_args))
    )


def place(network: QdqRewriter, call: Any) -> Any:
    """Where the largest or smallest number is."""
    source = network.value(call.args[0])
    if not isinstance(source, QuantizedTensor):
        return None
    return relax.Call(call.op, [source.var], call.attrs, call.ty_args)


def nearest(network: QdqRewriter, call: Any) -> Any:
    """Resizing that picks pixels."""
    attrs = call.attrs
    same = str(attrs.out_dtype or "float32") == "float32" and attrs.extrapolation_value == 0
    if str(attrs.method) != "nearest_neighbor" or not same:
        return None
    if str(attrs.coordinate_transformation_mode) == "tf_crop_and_resize":
        return None
    source = network.value(call.args[0])
    if not isinstance(source, QuantizedTensor):
        return None
    return source.with_var(network.emit(resized(call, source.var, str(attrs.layout), "int8")))


def split(network: QdqRewriter, call: Any) -> Any:
    source = network.value(call.args[0])
    if not isinstance(source, QuantizedTensor):
        return None
    parts = network.emit(relax.Call(call.op, [source.var], call.attrs, call.ty_args))
    return [
        source.with_var(network.emit(relax.TupleGetItem(parts, i)))
        for i in range(len(call.ty.fields))
    ]


def tuple_item(network: QdqRewriter, item: Any) -> Any:
    value = network.value(item.tuple_value)
    return value[item.index] if isinstance(value, list) else None


def concatenation(network: QdqRewriter, call: Any) -> Any:
    """Of bytes where they mean the same; else what they will be is left to who quantizes them."""
    if not isinstance(call.args[0], relax.Tuple):
        return None
    axis = int(call.attrs.axis or 0) if call.attrs.axis is not None else None
    values = [network.value(field) for field in call.args[0].fields]
    parts = tuple(value for value in values if isinstance(value, QuantizedTensor))
    if axis is None or len(parts) < len(values):
        return None
    if all(part.alike(parts[0]) for part in parts):
        return parts[0].with_var(network.emit(OP.concat([part.var for part in parts], axis)))
    floats = all(part.dtype == "float32" for part in parts)
    return Joined(parts, axis) if floats else None


def _summable(value: Any) -> TypeGuard[QuantizedTensor]:
    """Real numbers with a zero point that is a byte, so that padding can be one."""
    if not isinstance(value, QuantizedTensor) or value.dtype != "float32":
        return False
    return BYTE.min <= value.zero_point <= BYTE.max


def _is_real(expr: Any) -> bool:
    return not isinstance(expr, GenericConst) and str(getattr(expr.ty, "dtype", "")) == "float32"


RULES: dict[str, Rule] = {
    "relax.quantize": quantize,
    "relax.dequantize": dequantize,
    "relax.astype": widened,
    "relax.subtract": centred,
    "relax.nn.conv2d": convolution,
    "relax.matmul": product,
    "relax.add": biased,
    "relax.reshape": reshaped,
    "relax.permute_dims": turn,
    **dict.fromkeys(
        ("relax.expand_dims", "relax.nn.max_pool2d", "relax.squeeze", "relax.strided_slice"), move
    ),
    "relax.argmax": place,
    "relax.argmin": place,
    "relax.image.resize2d": nearest,
    "relax.split": split,
    "tuple_item": tuple_item,
    "relax.concat": concatenation,
}  # fmt: skip
