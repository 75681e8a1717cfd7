"""Networks over rows (sound, joints in time, clouds of points) as ones over images of one row.

A convolution of one axis is one of two of which the first is 1: what is known of images, layouts of
channels, matrices, tiles, phases, holds for it then. Tensors (n, c, w) become (n, c, 1, w), a view,
at the first convolution, and stay so through all that can follow in that form; what cannot gets a
view back.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from .as_images import AsImages, Rule, in_images, of_bytes, shared_rules
from .operators import fixed_shape, operator_of, pad_widths, padded_alike
from .rewriting import constant_like, constant_of, value_of

OP = relax.op
_ROW, _IMAGE = "NCW", "NCHW"


def rows_as_images(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with two-dimensional convolutions and pools for those of one axis; the module itself
    where it has none."""
    return in_images(mod, _Rewriter, _CONVOLUTIONS)


@mutator
class _Rewriter(AsImages):
    """(n, c, w) as (n, c, 1, w)."""

    axes = 3

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.rules = _RULES

    def made(self, expr: Any) -> Any:
        shape = fixed_shape(expr)
        assert shape is not None
        wider = (*shape[:-1], 1, shape[-1])
        value = constant_of(expr, self.lookup_binding)
        if value is not None:
            return constant_like(value.reshape(wider))
        bytes_ = of_bytes(self, expr)
        if bytes_ is not None:
            return bytes_
        before = value_of(expr, self.lookup_binding)
        source = before.args[0] if operator_of(before) == "relax.reshape" else expr
        return self.builder_.emit(OP.reshape(source, wider))

    def back(self, image: Any, type_: Any) -> Any:
        return OP.reshape(image, type_.shape)

    def axis(self, number: int) -> int:
        return number % 3 + (number % 3 == 2)

    def operand(self, expr: Any) -> Any:
        """A tensor of up to three axes that is broadcast against rows, as one against images."""
        one = self.known(expr) is None and len(fixed_shape(expr) or ()) <= 1
        return self.visit_expr(expr) if one else self.image(expr)


def _convolution(convolution: Any, kernel: str) -> Rule:
    """``kernel``: the layout of the weights without the window."""

    def rule(rows: _Rewriter, call: Any) -> Any:
        if not _fits(call, f"{kernel}W"):
            return None
        attrs = call.attrs
        (stride,), (dilation,) = attrs.strides, attrs.dilation
        more = {}
        if hasattr(attrs, "output_padding"):
            more["output_padding"] = [0, *attrs.output_padding]
        return convolution(
            rows.image(call.args[0]), rows.image(call.args[1]), strides=[1, stride],
            padding=_around(attrs.padding), dilation=[1, dilation], groups=int(attrs.groups),
            data_layout=_IMAGE, kernel_layout=f"{kernel}HW", out_layout=_IMAGE,
            out_dtype=attrs.out_dtype or None, **more,
        )  # fmt: skip

    return rule


def _fits(call: Any, kernel: str) -> bool:
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or _ROW))
    return layouts == (_ROW, kernel, _ROW) and all(
        len(fixed_shape(e) or ()) == 3 for e in (call, *call.args)
    )


def _around(padding: Any) -> list[Any]:
    left, right = padding
    return [0, left, 0, right]


def _pool(pool: Any) -> Rule:
    def rule(rows: _Rewriter, call: Any) -> Any:
        image, attrs = rows.known(call.args[0]), call.attrs
        if image is None or (str(attrs.layout), str(attrs.out_layout or _ROW)) != (_ROW, _ROW):
            return None
        (size,), (stride,), (dilation,) = attrs.pool_size, attrs.strides, attrs.dilation
        return pool(
            image, [1, size], [1, stride], _around(attrs.padding), [1, dilation],
            attrs.ceil_mode, attrs.count_include_pad, _IMAGE, _IMAGE,
        )  # fmt: skip

    return rule


def _binary(rows: _Rewriter, call: Any) -> Any:
    """Of images of the result's size, at least one of which is known, and what is broadcast."""
    size = fixed_shape(call)
    shapes = [fixed_shape(argument) for argument in call.args]
    known = [rows.known(argument) is not None for argument in call.args]
    whole = any(k and shape == size for k, shape in zip(known, shapes, strict=True))
    if not whole or any(shape is None or len(shape) > 3 for shape in shapes):
        return None
    return relax.Call(call.op, [rows.operand(argument) for argument in call.args], call.attrs)


def _padding(rows: _Rewriter, call: Any) -> Any:
    image, attrs = rows.known(call.args[0]), call.attrs
    if image is None:
        return None
    *outer, of_row = pad_widths(attrs)
    return padded_alike(attrs, image, [*outer, (0, 0), of_row])


def _reduction(reduction: Any) -> Rule:
    """Of all places of a row, to one; whether that keeps its axis says the shape of the result."""

    def rule(rows: _Rewriter, call: Any) -> Any:
        image, attrs = rows.known(call.args[0]), call.attrs
        axes = [int(axis) % 3 for axis in attrs.axis or ()]
        if image is None or axes != [2]:
            return None
        return reduction(image, [2, 3], True)

    return rule


_CONVOLUTIONS = {"relax.nn.conv1d", "relax.nn.conv1d_transpose"}
_RULES: dict[str, Rule] = {
    **shared_rules(_binary),
    "relax.nn.conv1d": _convolution(OP.nn.conv2d, "OI"),
    "relax.nn.conv1d_transpose": _convolution(OP.nn.conv2d_transpose, "IO"),
    "relax.nn.max_pool1d": _pool(OP.nn.max_pool2d),
    "relax.nn.avg_pool1d": _pool(OP.nn.avg_pool2d),
    "relax.nn.pad": _padding,
    **{f"relax.{name}": _reduction(getattr(OP, name)) for name in ("mean", "max", "min", "sum")},
}
