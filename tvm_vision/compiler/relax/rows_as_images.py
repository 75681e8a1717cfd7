"""Networks over rows (sound, joints in time, clouds of points) as ones over images of one row.

A convolution of one axis is one of two of which the first is 1: what is known of images, layouts of
channels, matrices, tiles, phases, holds for it then. Tensors (n, c, w) become (n, c, 1, w), a view,
at the first convolution, and stay so through all that can follow in that form; what cannot gets a
view back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .operators import BINARY, UNARY, fixed_shape, operator_of
from .rewriting import constant_of, is_constant, rebind, rewritten, value_of

OP = relax.op
_ROW, _IMAGE = "NCW", "NCHW"


def rows_as_images(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with two-dimensional convolutions and pools for those of one axis; the module itself
    where it has none."""
    main = mod["main"]
    names = {operator_of(binding.value) for block in main.body.blocks for binding in block.bindings}
    if not names & _CONVOLUTIONS:
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod)))


@mutator
class _Rewriter(PyExprMutator):
    """Rewrites a function; rules ask it for images and emit through it."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        # By variables as they were: what they are as images, and as rows again; and normalizations,
        # which give several tensors.
        self._images: dict[Any, Any] = {}
        self._rows: dict[Any, Any] = {}
        self._normalized: dict[Any, Any] = {}

    # What rules use.

    def known(self, expr: Any) -> Any:
        """The image that a row is already; None where it is none."""
        return self._images.get(expr) if isinstance(expr, relax.Var) else None

    def image(self, expr: Any) -> Any:
        """A row, of any batch and channels, as an image."""
        found = self.known(expr)
        return self._with_axis(expr) if found is None else found

    def operand(self, expr: Any) -> Any:
        """A tensor of up to three axes that is broadcast against rows, as one against images."""
        found = self.known(expr)
        if found is None and len(fixed_shape(expr) or ()) > 1:
            found = self._with_axis(expr)
        return self.visit_expr(expr) if found is None else found

    def _with_axis(self, expr: Any) -> Any:
        shape = fixed_shape(expr)
        assert shape is not None
        wider = (*shape[:-1], 1, shape[-1])
        expr = self.visit_expr(expr)
        value = constant_of(expr, self.lookup_binding)
        if value is not None:
            return relax.const(np.ascontiguousarray(value.reshape(wider)))
        made = value_of(expr, self.lookup_binding)
        name = operator_of(made)
        if name == "relax.reshape":
            expr = made.args[0]
        elif name in _QUANTIZATION and is_constant(made.args[0], self.lookup_binding):
            return self.builder_.emit(_quantized(made, self._with_axis(made.args[0])))
        return self.builder_.emit(OP.reshape(expr, wider))

    # The walk.

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        if operator_of(value) == "relax.nn.batch_norm" and self.known(value.args[0]) is not None:
            self._normalized[var] = self.builder_.emit(_normalized(self, value))
        found = self._first_of(value)
        rule = _RULES.get(operator_of(value))
        if rule is not None:
            found = rule(self, value)
        if found is None:
            super().visit_var_binding_(binding)
            return
        image = self.builder_.emit(found, str(var.name))
        if isinstance(var, relax.DataflowVar) and _is_row(value):
            self._images[var] = image
        else:
            rebind(self, var, OP.reshape(image, var.ty.shape))

    def _first_of(self, value: Any) -> Any:
        """Of a normalization the tensor itself; None for anything else."""
        if not isinstance(value, relax.TupleGetItem) or value.index != 0:
            return None
        whole = self._normalized.get(value.tuple_value)
        return None if whole is None else relax.TupleGetItem(whole, 0)

    def visit_var_(self, op: Any) -> Any:
        return self._row(op) if op in self._images else super().visit_var_(op)

    def visit_dataflow_var_(self, op: Any) -> Any:
        return self._row(op) if op in self._images else super().visit_dataflow_var_(op)

    def _row(self, var: Any) -> Any:
        if var not in self._rows:
            self._rows[var] = self.builder_.emit(OP.reshape(self._images[var], var.ty.shape))
        return self._rows[var]


def _is_row(expr: Any) -> bool:
    """Whether an expression is (n, c, w) of fixed sizes."""
    return len(fixed_shape(expr) or ()) == 3


Rule = Callable[[_Rewriter, Any], Any]


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
    return layouts == (_ROW, kernel, _ROW) and all(map(_is_row, (call, *call.args)))


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


def _unary(rows: _Rewriter, call: Any) -> Any:
    image = rows.known(call.args[0])
    if image is None:
        return None
    return relax.Call(call.op, [image, *call.args[1:]], call.attrs, call.ty_args)


def _wider(axis: int) -> int:
    """The axis of an image that one of a row becomes."""
    return axis % 3 + (axis % 3 == 2)


def _quantization(rows: _Rewriter, call: Any) -> Any:
    image = rows.known(call.args[0])
    return None if image is None else _quantized(call, image)


def _quantized(call: Any, image: Any) -> Any:
    """Of an image what a call makes of a row; its scales are numbers or of one axis."""
    attrs = call.attrs
    make = _QUANTIZATION[operator_of(call)]
    return make(image, *call.args[1:], _wider(int(attrs.axis)), str(attrs.out_dtype))


def _normalized(rows: _Rewriter, call: Any) -> Any:
    attrs = call.attrs
    return OP.nn.batch_norm(
        rows.image(call.args[0]), *map(rows.visit_expr, call.args[1:]), _wider(int(attrs.axis)),
        float(attrs.epsilon), bool(attrs.center), bool(attrs.scale), float(attrs.momentum),
        bool(attrs.training),
    )  # fmt: skip


def _binary(rows: _Rewriter, call: Any) -> Any:
    """Of images of the result's size, at least one of which is known, and what is broadcast."""
    size = fixed_shape(call)
    shapes = [fixed_shape(argument) for argument in call.args]
    known = [rows.known(argument) is not None for argument in call.args]
    whole = any(k and shape == size for k, shape in zip(known, shapes, strict=True))
    if not whole or any(shape is None or len(shape) > 3 for shape in shapes):
        return None
    return relax.Call(call.op, [rows.operand(argument) for argument in call.args], call.attrs)


def _concatenation(rows: _Rewriter, call: Any) -> Any:
    if not isinstance(call.args[0], relax.Tuple):
        return None
    parts, axis = list(call.args[0].fields), int(call.attrs.axis)
    if all(rows.known(part) is None for part in parts) or not all(map(fixed_shape, parts)):
        return None
    return OP.concat([rows.image(part) for part in parts], _wider(axis))


def _padding(rows: _Rewriter, call: Any) -> Any:
    image, attrs = rows.known(call.args[0]), call.attrs
    if image is None:
        return None
    widths = [int(width) for width in attrs.pad_width]
    widths[4:4] = [0, 0]
    return OP.nn.pad(image, widths, str(attrs.pad_mode), float(attrs.pad_value))


def _reduction(reduction: Any) -> Rule:
    """Of all places of a row, to one; whether that keeps its axis says the shape of the result."""

    def rule(rows: _Rewriter, call: Any) -> Any:
        image, attrs = rows.known(call.args[0]), call.attrs
        axes = [int(axis) % 3 for axis in attrs.axis or ()]
        if image is None or axes != [2]:
            return None
        return reduction(image, [2, 3], True)

    return rule


_QUANTIZATION = {"relax.quantize": OP.quantize, "relax.dequantize": OP.dequantize}
_CONVOLUTIONS = {"relax.nn.conv1d", "relax.nn.conv1d_transpose"}
_RULES: dict[str, Rule] = {
    "relax.nn.conv1d": _convolution(OP.nn.conv2d, "OI"),
    "relax.nn.conv1d_transpose": _convolution(OP.nn.conv2d_transpose, "IO"),
    "relax.nn.max_pool1d": _pool(OP.nn.max_pool2d),
    "relax.nn.avg_pool1d": _pool(OP.nn.avg_pool2d),
    **dict.fromkeys(_QUANTIZATION, _quantization),
    "relax.nn.pad": _padding,
    "relax.concat": _concatenation,
    **{f"relax.{name}": _unary for name in UNARY},
    **{f"relax.{name}": _binary for name in BINARY},
    **{f"relax.{name}": _reduction(getattr(OP, name)) for name in ("mean", "max", "min", "sum")},
}
