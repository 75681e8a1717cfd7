"""Kernels of bytes, out of what ``rewriter`` made of a network and the choice of layout left.

A convolution or product of ``byte - zero_point``, in int32, with constant weights that fit int8
becomes a kernel that reads bytes and sums ``byte * weight``; ``zero_point`` times the weights'
sums, one number for each output channel, is taken off afterwards. Padding is by the zero point,
inside the kernel.

Every operator that reads real numbers of a tensor of bytes computes them itself, from the bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_vision.topi.int8 import (
    Int8Window,
    convolution_of_bytes,
    numbers_of_bytes,
    pack_dp4a,
    product_of_bytes,
)

from ..kernel_calls import ELEMENTWISE, OUT_FUSABLE, bindings_of
from ..operators import operator_of
from ..rewriting import constant_of, value_of
from .rewriter import with_parts
from .values import BYTE

OP = relax.op
# Bytes that are multiplied by one instruction of a GPU: they lie in one word.
WORD = 4
# Layout of weights -> how its axes come to be (o, i, h, w).
_ORDERS = {"OIHW": (0, 1, 2, 3), "HWIO": (3, 2, 0, 1), "OHWI": (0, 3, 1, 2)}


def integer_kernels(mod: tvm.IRModule, word: int, words: bool = False) -> tvm.IRModule:
    """``main`` with kernels of bytes.

    word: input channels are filled up to multiples of it. words: convolutions whose channels are
    the last axis have their weights in words of so many, outputs side by side.
    """
    if not any(map(_widens, (value for _, value in bindings_of(mod["main"])))):
        return relax.transform.DeadCodeElimination()(mod)
    rewriter = _Kernels(mod)
    rewriter.word, rewriter.words, rewriter.transposed = word, words, {}
    rewriter.builder_.update_func(mod.get_global_var("main"), rewriter.visit_expr(mod["main"]))
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


def _widens(value: Any) -> bool:
    """Whether numbers of bytes are taken, without which there is nothing to be computed of them."""
    return operator_of(value) == "relax.astype" and str(value.args[0].ty.dtype) == "int8"


class _Image:
    """A tensor in whole numbers: bytes, minus a zero point, their axes turned."""

    def __init__(self, var: Any, zero_point: int, axes: tuple[int, ...]) -> None:
        self.var, self.zero_point, self.axes = var, zero_point, axes


@mutator
class _Kernels(PyExprMutator):
    word: int
    words: bool
    transposed: dict[Any, Any]

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._hint = str(binding.var.name)
        super().visit_var_binding_(binding)

    def emit(self, expr: Any) -> Any:
        """Bind ``expr`` to a variable named after the binding that is being rewritten."""
        return self.builder_.emit(with_parts(expr, self.emit), self._hint)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        rules = {
            "relax.add": self._addition,
            "relax.matmul": self._product,
            "relax.nn.conv2d": self._convolution,
        }
        rule = rules.get(operator_of(call))
        made = rule(call) if rule is not None and str(call.ty.dtype) == "int32" else None
        if made is None and operator_of(call) == "relax.permute_dims":
            made = self._transpose(call)
        return self._with_own_numbers(call) if made is None else made

    def _convolution(self, call: Any) -> Any:
        attrs = call.attrs
        image, weights = self._image(call.args[0]), self._weights(call.args[1])
        order = _ORDERS.get(str(attrs.kernel_layout))
        layout = str(attrs.data_layout)
        same = str(attrs.out_layout or layout) == layout and layout in ("NCHW", "NHWC")
        if image is None or weights is None or order is None or not same:
            return None
        weights, last, groups = weights.transpose(order), layout == "NHWC", int(attrs.groups)
        corrections = weights.sum((1, 2, 3)) * -image.zero_point
        word = self.word if last and groups == 1 else 1
        weights = _filled(weights, 1, word)
        data = self._bytes(image, 3, word)
        alone = last and 1 < groups == int(data.ty.shape.values[3])
        window = Int8Window(
            weights.shape[2:], _ints(attrs.strides), _ints(attrs.dilation),
            _ints(attrs.padding), groups, last, image.zero_point,
        )  # fmt: skip
        if self.words and last and groups == 1:
            packed = pack_dp4a(weights, word)
        else:
            order = _ORDERS["HWIO" if alone else "OHWI" if last else "OIHW"]
            packed = weights.transpose(np.argsort(order))
        sums = self._call(
            lambda x, w: convolution_of_bytes(x, w, window), data, packed, "conv2d_int8"
        )
        return self._corrected(sums, corrections.reshape((1, 1, 1, -1) if last else (1, -1, 1, 1)))

    def _product(self, call: Any) -> Any:
        image, weights = self._image(call.args[0]), self._weights(call.args[1])
        ndim = call.args[0].ty.ndim
        if image is None or weights is None or weights.ndim != 2 or ndim < 2:
            return None
        corrections = weights.sum(0) * -image.zero_point
        packed = _filled(weights.T, 1, self.word)
        data = self._bytes(image, ndim - 1, 1)
        sums = self._call(
            lambda x, w: product_of_bytes(x, w, image.zero_point), data, packed, "dense_int8"
        )
        return self._corrected(sums, corrections)

    def _transpose(self, call: Any) -> Any:
        """Axes of bytes turn, not those of the numbers that they stand for."""
        chain = self._chain(call.args[0])
        if chain is None:
            return None
        var, zero_point, scale = chain
        transposed = self.emit(OP.permute_dims(var, list(call.attrs.axes or ()) or None))
        return self._numbers(transposed, zero_point, scale)

    def _addition(self, call: Any) -> Any:
        """One constant for what zero points take and a bias adds."""
        before, bias = self._value(call.args[0]), self._constant(call.args[1])
        taken = self._constant(before.args[1]) if operator_of(before) == "relax.add" else None
        if taken is None or bias is None:
            return None
        return OP.add(before.args[0], relax.const(taken + bias))

    def _corrected(self, sums: Any, corrections: np.ndarray) -> Any:
        if not corrections.any():
            return sums
        return OP.add(self.emit(sums), relax.const(corrections.astype(np.int32)))

    def _call(self, function: Any, data: Any, weights: np.ndarray, name: str) -> Any:
        packed = relax.const(np.ascontiguousarray(weights, np.int8))
        return self.builder_.call_te(
            function, data, packed, primfunc_name_hint=name,
            primfunc_attrs={"op_pattern": OUT_FUSABLE},
        )  # fmt: skip

    def _image(self, expr: Any) -> _Image | None:
        """What ``expr`` is in bytes; None where it is not ``byte - zero_point``, with a zero
        point that is a byte."""
        zero_point, axes = 0, tuple(range(expr.ty.ndim))
        while True:
            value = self._value(expr)
            name = operator_of(value)
            if name == "relax.permute_dims":
                turn = [int(a) for a in value.attrs.axes or reversed(range(len(axes)))]
                axes = tuple(turn[axis] for axis in axes)
            elif name == "relax.subtract" and zero_point == 0:
                numbers = self._constant(value.args[1])
                if numbers is None or numbers.size != 1:
                    return None
                zero_point = int(numbers.reshape(-1)[0])
            elif name == "relax.astype" and str(value.args[0].ty.dtype) == "int8":
                fits = BYTE.min <= zero_point <= BYTE.max
                return _Image(value.args[0], zero_point, axes) if fits else None
            else:
                return None
            expr = value.args[0]

    def _bytes(self, image: _Image, axis: int, word: int) -> Any:
        """The tensor of an image's bytes; the kernel that turns it fills ``axis`` up at no cost."""
        axes = image.axes
        if axes == tuple(sorted(axes)):
            return image.var
        key = (image.var, axes, word)
        if key not in self.transposed:
            transposed = self.emit(OP.permute_dims(image.var, list(axes)))
            missing = -int(transposed.ty.shape.values[axis]) % word
            if missing:
                widths = [0] * (2 * len(axes))
                widths[2 * axis + 1] = missing
                transposed = self.emit(OP.nn.pad(transposed, widths))
            self.transposed[key] = transposed
        return self.transposed[key]

    def _weights(self, expr: Any) -> np.ndarray | None:
        """Constant weights that fit int8, as int32."""
        value = self._constant(expr)
        if value is None or value.dtype.kind not in "iu":
            return None
        return value.astype(np.int32) if np.abs(value + 0.5).max() < BYTE.max + 1 else None

    def _constant(self, expr: Any) -> np.ndarray | None:
        return constant_of(expr, self.lookup_binding)

    def _value(self, expr: Any) -> Any:
        return value_of(expr, self.lookup_binding)

    def _with_own_numbers(self, call: Any) -> Any:
        """The same call, with real numbers out of bytes computed for it alone.

        Where several tensors meet or are summed up, one kernel computes them and the result: else
        fusion would leave the real numbers to the kernels that make the bytes, and they would go
        through memory.
        """
        function, pattern = reading(call)
        chains = [self._chain(arg) for arg in call.args]
        if function is not None and any(chains):
            sources = [arg if c is None else c[0] for arg, c in zip(call.args, chains, strict=True)]

            def computed(*tensors: Any) -> Any:
                of = zip(tensors, chains, strict=True)
                return function(*(t if c is None else numbers_of_bytes(t, *c[1:]) for t, c in of))

            hint = operator_of(call).rsplit(".", 1)[-1]
            return self.builder_.call_te(
                computed, *sources, primfunc_name_hint=f"{hint}_int8",
                primfunc_attrs={"op_pattern": pattern},
            )  # fmt: skip
        args = [self._own(arg) for arg in call.args]
        if all(new is old for new, old in zip(args, call.args, strict=True)):
            return call
        return relax.Call(call.op, args, call.attrs, call.ty_args)

    def _own(self, arg: Any) -> Any:
        if isinstance(arg, relax.Tuple):
            fields = [self._own(field) for field in arg.fields]
            changed = any(new is not old for new, old in zip(fields, arg.fields, strict=True))
            return relax.Tuple(fields) if changed else arg
        chain = self._chain(arg)
        if chain is None:
            return arg
        return self.emit(self._numbers(*chain))

    def _numbers(self, var: Any, zero_point: int, scale: float) -> Any:
        wide = self.emit(OP.astype(var, "float32"))
        if zero_point:
            wide = self.emit(OP.subtract(wide, relax.const(np.float32(zero_point))))
        return OP.multiply(wide, relax.const(np.float32(scale)))

    def _chain(self, arg: Any) -> tuple[Any, int, float] | None:
        """Bytes, zero point and scale, where ``arg`` is ``(byte - zero) * scale``."""
        product = self._value(arg)
        scale = (
            self._constant(product.args[1]) if operator_of(product) == "relax.multiply" else None
        )
        if scale is None or scale.size != 1:
            return None
        centred, zero_point = self._value(product.args[0]), np.zeros(())
        if operator_of(centred) == "relax.subtract":
            found = self._constant(centred.args[1])
            if found is None or found.size != 1:
                return None
            centred, zero_point = self._value(centred.args[0]), found
        if operator_of(centred) != "relax.astype" or str(centred.args[0].ty.dtype) != "int8":
            return None
        return centred.args[0], int(zero_point.reshape(())), float(scale.reshape(()))


def reading(call: Any) -> tuple[Any, int]:
    """A function of TE tensors that computes an operator, and how TVM's fusion sees it; None for
    operators that read real numbers out of bytes as they come."""
    name, attrs = operator_of(call), call.attrs
    if name in _BINARY:
        shapes = [list(arg.ty.shape or ()) for arg in call.args]
        alike = all(shape in ([], list(call.ty.shape)) for shape in shapes)
        return (_BINARY[name], ELEMENTWISE) if alike else (None, 0)
    if name == "relax.mean":
        axes = [int(axis) for axis in attrs.axis or range(call.args[0].ty.ndim)]
        count = np.prod([int(call.args[0].ty.shape.values[axis]) for axis in axes])

        def mean(x: Any) -> Any:
            return topi.divide(topi.sum(x, axes, bool(attrs.keepdims)), tirx.const(count, x.dtype))

        return mean, OUT_FUSABLE
    if name == "relax.nn.avg_pool2d":
        same = str(attrs.out_layout or attrs.layout) == str(attrs.layout)

        def pool(x: Any) -> Any:
            sizes = (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
            return topi.nn.pool2d(
                x, *(_ints(s) for s in sizes), "avg", bool(attrs.ceil_mode), str(attrs.layout),
                bool(attrs.count_include_pad),
            )  # fmt: skip

        return (pool, OUT_FUSABLE) if same else (None, 0)
    return None, 0


_BINARY = {
    f"relax.{name}": getattr(topi, name)
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
}


def _filled(weights: np.ndarray, axis: int, word: int) -> np.ndarray:
    """With zeros up to a multiple of ``word`` along an axis."""
    widths = [(0, 0)] * weights.ndim
    widths[axis] = (0, -weights.shape[axis] % word)
    return np.pad(weights, widths)


def _ints(values: Any) -> tuple[Any, ...]:
    return tuple(int(value) for value in values)
