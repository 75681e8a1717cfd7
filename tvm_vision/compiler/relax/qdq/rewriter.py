"""Quantized networks in bytes: int8 in memory, sums of products in int32.

A quantized ONNX model has operators on real numbers between DequantizeLinear and QuantizeLinear.
Here a tensor that was quantized stays int8 (uint8 moved by 128) until an operator needs its real
numbers:

- convolutions and products with constant symmetric weights sum ``(x - zero) * w`` in int32, and
  multiply the sums by both scales afterwards; ``legalize_int8`` makes kernels of these;
- what only moves numbers, or picks the largest, does so with bytes: QuantizeLinear after it gives
  the same bytes as QuantizeLinear before it;
- everything else reads ``(byte - zero) * scale``, computed in the kernel that needs it.

``TVM_VISION_INT8`` chooses: ``auto`` (the default) does so on GPUs that have an instruction for
products of bytes, ``1`` everywhere, ``0`` nowhere: the network is computed in float32 then, with
what quantization does to its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..operators import operator_of
from ..rewriting import constant_of, rebind
from .values import BYTE, Joined, QuantizedTensor, Sums, Weights, along

Value = QuantizedTensor | Joined | Sums | Weights | list[QuantizedTensor]
OP = relax.op


@mutator
class QdqRewriter(PyExprMutator):
    """Rewrites a function; ``rules`` ask it for values and emit through it."""

    # By an operator's name; see ``rules``.
    rules: Mapping[str, Callable[[QdqRewriter, Any], Any]]

    def rewrite(self, main: relax.Function) -> relax.Function:
        self._values: dict[Any, Value] = {}
        self._real: dict[Any, Any] = {}
        return self.visit_expr(main)

    # What rules use.

    def value(self, expr: Any) -> Value | None:
        """What ``expr`` is in bytes; None where it is real numbers, or none at all."""
        return self._values.get(expr) if isinstance(expr, relax.Var) else None

    def bytes_of(self, expr: Any) -> QuantizedTensor | None:
        """``expr`` in bytes, where it is that or a tensor of int8 or uint8 that is no constant."""
        value = self.value(expr)
        dtype = str(getattr(expr.ty, "dtype", ""))
        if value is not None or not isinstance(expr, relax.Var) or dtype not in ("int8", "uint8"):
            return value if isinstance(value, QuantizedTensor) else None
        var = self.visit_expr(expr)
        if isinstance(var, GenericConst):
            return None
        value = QuantizedTensor(var, 0, np.float32(1), dtype)
        if dtype == "uint8":
            moved = OP.subtract(OP.astype(var, "int32"), relax.const(128, "int32"))
            value = QuantizedTensor(self.emit(OP.astype(moved, "int8")), -128, np.float32(1), dtype)
        self._values[expr] = value
        return value

    def constant(self, expr: Any) -> np.ndarray | None:
        """The numbers of a constant; None for anything else."""
        if isinstance(expr, relax.Var):
            if expr in self._values:
                return None
            expr = self.visit_expr(expr)
        return constant_of(expr, self.lookup_binding)

    def number(self, expr: Any) -> Any:
        """The one number of a constant; None for anything else."""
        value = self.constant(expr)
        return value.reshape(-1)[0] if value is not None and value.size == 1 else None

    def emit(self, expr: Any) -> Any:
        """Bind ``expr`` and what it is made of to variables named after the binding that is being
        rewritten."""
        return self.builder_.emit(with_parts(expr, self.emit), self._hint)

    def whole(self, value: QuantizedTensor) -> Any:
        """The int32 of ``byte - zero_point``."""
        wide = OP.astype(value.var, "int32")
        return (
            OP.subtract(wide, relax.const(value.zero_point, "int32")) if value.zero_point else wide
        )

    def real(self, value: QuantizedTensor) -> Any:
        """The numbers of a tensor, in the type that the network gives it."""
        if value.dtype == "int32":
            return self.whole(value)
        if value.dtype != "float32":
            same = value.dtype == "int8" and value.zero_point == 0
            return value.var if same else OP.astype(self.whole(value), value.dtype)
        centred = OP.astype(value.var, "float32")
        if value.zero_point:
            centred = OP.subtract(centred, relax.const(np.float32(value.zero_point)))
        return OP.multiply(centred, relax.const(value.scale))

    def scaled(self, sums: Sums, divisor: np.float32 | float = 1.0) -> Any:
        """The real numbers of sums, divided by ``divisor``."""
        scale = along(sums.scale / np.float32(divisor), sums.var.ty.ndim, sums.axis)
        return OP.multiply(OP.astype(sums.var, "float32"), relax.const(scale))

    def quantized(self, value: Any, scale: np.float32, zero_point: int) -> Any:
        """The int8 variable of ``round(value / scale) + zero``, kept within int8.

        value: an expression of float32, or what stands for one.
        """
        if isinstance(value, QuantizedTensor):
            # These numbers were whole multiples of the scale: rounding finds the same bytes again.
            if (value.scale, value.zero_point) == (scale, zero_point):
                return value.var
            value = self.real(value)
        elif isinstance(value, Joined):
            parts = [self.quantized(part, scale, zero_point) for part in value.parts]
            return self.emit(OP.concat(parts, value.axis))
        if isinstance(value, Sums):
            scaled = self.scaled(value, scale)
        else:
            scaled = OP.divide(value, relax.const(scale))
        rounded = OP.round(scaled)
        if zero_point:
            rounded = OP.add(rounded, relax.const(np.float32(zero_point)))
        low, high = (relax.const(np.float32(bound)) for bound in (BYTE.min, BYTE.max))
        return self.emit(OP.astype(OP.minimum(OP.maximum(rounded, low), high), "int8"))

    # The walk.

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        self._hint = str(var.name)
        if isinstance(value, relax.Var) and value in self._values:
            result: Any = self._values[value]
        else:
            rule = self.rules.get(_operator(value))
            result = rule(self, value) if rule is not None else None
        if result is None:
            super().visit_var_binding_(binding)
        elif not isinstance(result, (QuantizedTensor, Joined, Sums, Weights, list)):
            self._define(var, result)
        elif isinstance(var, relax.DataflowVar):
            self._values[var] = result
        else:
            self._define(var, self._expression(result))

    def visit_var_(self, op: Any) -> Any:
        return self._resolved(op) if op in self._values else super().visit_var_(op)

    def visit_dataflow_var_(self, op: Any) -> Any:
        return self._resolved(op) if op in self._values else super().visit_dataflow_var_(op)

    def _resolved(self, var: Any) -> Any:
        """The variable of the real numbers of what is in bytes."""
        if isinstance(var, relax.Var) and not isinstance(var, relax.DataflowVar):
            return super().visit_var_(var)  # an input of the network
        if var not in self._real:
            reader, self._hint = self._hint, str(var.name)
            expr = self._expression(self._values[var])
            self._real[var] = expr if isinstance(expr, GenericConst) else self.emit(expr)
            self._hint = reader
        return self._real[var]

    def _expression(self, value: Value) -> Any:
        if isinstance(value, list):
            return relax.Tuple([self.emit(self.real(item)) for item in value])
        if isinstance(value, Weights):
            return relax.const(value.real())
        if isinstance(value, Sums):
            return self.scaled(value)
        if isinstance(value, Joined):
            return OP.concat([self.emit(self.real(part)) for part in value.parts], value.axis)
        return self.real(value)

    def _define(self, var: Any, expr: Any) -> None:
        rebind(self, var, with_parts(expr, self.emit))


def with_parts(expr: Any, emit: Callable[[Any], Any]) -> Any:
    """A call with ``emit`` of each argument that is a call."""
    if not isinstance(expr, relax.Call):
        return expr
    args = [emit(arg) if isinstance(arg, relax.Call) else arg for arg in expr.args]
    if all(new is old for new, old in zip(args, expr.args, strict=True)):
        return expr
    return relax.Call(expr.op, args, expr.attrs, expr.ty_args)


def _operator(expr: Any) -> str:
    if isinstance(expr, relax.TupleGetItem):
        return "tuple_item"
    return operator_of(expr)
