"""Layout choice: which tensors keep their channels in blocks, and where that changes.

A convolution takes and gives blocks (n, c / b, h, w, b), its constant weights packed here, and
everything that can follow in blocks does: elementwise operators, pools, resizing, concatenation.
What cannot gets the tensor in the model's order, unpacked once. Selections of channels
(concatenations inside a block, splits, channel shuffles) are only noted, until an operator needs
the values: then one gather does all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_vision.topi import nchwc as blocked

from ..kernel_calls import INJECTIVE, OPAQUE, bindings_of
from ..operators import RESIZE, operator_of, resized
from ..rewriting import constant_of, rebind, resolve, value_of
from ..winograd_cost import Choice
from .values import NchwcTensor, Picked

Value = NchwcTensor | Picked | list[Picked]
# How many times as large an image is, at the least, that is enlarged in the model's order.
LEAST_ENLARGED = 2


@dataclass
class _Known:
    """What is known of the variables of the function: their values in blocks, their bindings."""

    values: dict[Any, Value] = field(default_factory=dict)
    plain: dict[Any, Any] = field(default_factory=dict)
    bindings: dict[Any, Any] = field(default_factory=dict)
    shared: dict[Any, Any] = field(default_factory=dict)


@mutator
class NchwcRewriter(PyExprMutator):
    """Rewrites a function; the rules of ``rules`` ask it for values and emit through it."""

    block: int
    # By an operator's name; see ``rules``.
    rules: Mapping[str, Callable[[NchwcRewriter, Any], Any]]
    # For convolutions that can be Winograd's.
    winograd: Choice

    def rewrite(self, main: relax.Function) -> relax.Function:
        self.known = _Known()
        self.known.bindings = dict(bindings_of(main))
        return self.visit_expr(main)

    # What rules use.

    def shape(self, expr: Any) -> tuple[int, ...] | None:
        """The shape of a float32 tensor of fixed sizes; None for anything else."""
        kind = getattr(expr, "ty", None)
        if not isinstance(kind, relax.TensorType) or str(kind.dtype) != "float32":
            return None
        sizes = [getattr(size, "value", None) for size in kind.shape or [None]]
        fixed = tuple(int(size) for size in sizes if size is not None)
        return fixed if len(fixed) == len(sizes) else None

    def constant(self, expr: Any) -> np.ndarray | None:
        """The numbers of a constant, seen through names and turned axes."""
        return constant_of(expr, self.known.bindings.get)

    def value(self, expr: Any) -> Value | None:
        """What ``expr`` is in blocks; None where it is in the model's order."""
        return self.known.values.get(expr) if isinstance(expr, relax.Var) else None

    def blocked(self, expr: Any, *, pack: bool = True) -> NchwcTensor | None:
        """``expr`` in blocks, gathered or (with ``pack``) packed where it is not; None where it
        cannot be."""
        value = self.value(expr)
        if isinstance(value, NchwcTensor):
            return value
        if isinstance(value, Picked) and len(value.shape) == 4:
            self.known.values[expr] = gathered = self.gather(value)
            return gathered
        shape = self.shape(expr)
        if value is not None or not pack or shape is None or len(shape) != 4:
            return None
        if self.constant(expr) is not None:
            return None
        return NchwcTensor(self.shared(("packed", expr), lambda: self._packed(expr, shape)), shape)

    def _packed(self, expr: Any, shape: tuple[int, ...]) -> Any:
        """A tensor in the model's order, in blocks. Those of rows lie side by side in each."""
        n, channels, h, w = shape
        rows = None if channels % self.block else self._rows_of(expr, shape)
        if rows is None:
            return self.compute(
                lambda x: blocked.pack(x, self.block), [self.visit_expr(expr)], "pack", INJECTIVE
            )
        parts = (n, h, w, channels // self.block, self.block)
        view = self.builder_.emit(relax.op.reshape(self.visit_expr(rows), parts))
        return relax.op.permute_dims(view, (0, 3, 1, 2, 4))

    def _rows_of(self, expr: Any, shape: tuple[int, ...]) -> Any:
        """What is turned for an image of that shape, of which each row has a pixel's channels; None
        where there is none."""
        n, channels, h, w = shape
        turned, axes = self.binding(expr), [0, 3, 1, 2]
        rows: tuple[int, ...] = (n, h, w, channels)
        if operator_of(turned) == "relax.reshape":
            turned, axes, rows = self.binding(turned.args[0]), [0, 2, 1], (n, h * w, channels)
        if operator_of(turned) != "relax.permute_dims" or self.shape(turned.args[0]) != rows:
            return None
        return turned.args[0] if [int(a) for a in turned.attrs.axes or ()] == axes else None

    def in_rows(self, value: NchwcTensor) -> Any:
        """A tensor of whole blocks as (n, h, w, channels); None for others."""
        n, channels, h, w = value.shape
        if channels % self.block:
            return None
        turned = self.emit(relax.op.permute_dims(value.var, (0, 2, 3, 1, 4)))
        return relax.op.reshape(turned, (n, h, w, channels))

    def binding(self, expr: Any) -> Any:
        """What computes an expression of the function, seen through names."""
        return value_of(expr, self.known.bindings.get)

    def gather(self, picked: Picked) -> NchwcTensor:
        """The channels of ``picked`` as a tensor, by one kernel for all of them."""
        n, h, w = picked.shape[0], *picked.shape[-2:]
        count = len(picked.channels)
        if picked.is_whole:
            return picked.sources[0]
        stride = max(blocked.blocks_of(s.shape[1], self.block) for s in picked.sources) * self.block
        chosen = [int(source * stride + channel) for source, channel in picked.channels]
        lanes = blocked.blocks_of(count, self.block) * self.block
        table = np.array(chosen + chosen[-1:] * (lanes - count), "int32")
        call = self.compute(
            lambda *args: blocked.gather(args[:-1], args[-1], chosen),
            [*(source.var for source in picked.sources), relax.const(table)],
            "gather", OPAQUE,
        )  # fmt: skip
        return NchwcTensor(self.builder_.emit(call, "gathered"), (n, count, h, w))

    def plain(self, expr: Any) -> Any:
        """``expr`` in the model's order."""
        return self.visit_expr(expr)

    def compute(self, function: Any, args: list[Any], name: str, pattern: int) -> Any:
        """A call of a TensorIR function made of ``function``, a TE computation."""
        return self.builder_.call_te(
            function, *args, primfunc_name_hint=f"{name}_c{self.block}",
            primfunc_attrs={"op_pattern": pattern},
        )  # fmt: skip

    def shared(self, key: Any, made: Callable[[], Any]) -> Any:
        """The variable of what ``made`` gives, once for each key."""
        if key not in self.known.shared:
            self.known.shared[key] = self.emit(made())
        return self.known.shared[key]

    def unpacked(self, value: Any) -> Any:
        """A value in the model's order."""
        if isinstance(value, list):
            return relax.Tuple([self.builder_.emit(self.unpacked(item)) for item in value])
        if isinstance(value, Picked):
            whole = self.unpacked(self.gather(value))
            return relax.op.reshape(self.builder_.emit(whole, "unpacked"), value.shape)
        n, channels, h, w = value.shape
        if (h, w) == (1, 1):
            row = self.builder_.emit(relax.op.reshape(value.var, (n, -1)))
            if channels % self.block:
                row = self.builder_.emit(relax.op.strided_slice(row, [1], [0], [channels]))
            return relax.op.reshape(row, value.shape)
        enlarged = self._enlarged(value)
        if enlarged is not None:
            return enlarged
        return self.compute(
            lambda x: blocked.unpack(x, channels), [value.var], "unpack", INJECTIVE
        )  # fmt: skip

    def _enlarged(self, value: NchwcTensor) -> Any:
        """A value in the model's order that is another one enlarged: that is unpacked, which is
        smaller. None for others."""
        resize = value_of(value.var, self.lookup_binding)
        before = self.shape(resize.args[0]) if operator_of(resize) == RESIZE else None
        if before is None:
            return None
        n, channels, *size = value.shape
        if LEAST_ENLARGED * math.prod(before[2:4]) > math.prod(size):
            return None
        small = NchwcTensor(resize.args[0], (n, channels, *before[2:4]))
        return resized(resize, self.builder_.emit(self.unpacked(small), "unpacked"), "NCHW")

    # The walk.

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        self._hint = str(var.name)
        # Another name, or an item of a tuple that is written out, as behind a normalization.
        source = resolve(value, self.known.bindings.get)
        if isinstance(source, relax.Var) and source in self.known.values:
            result: Any = self.known.values[source]
        else:
            rule = self.rules.get(self.operator(value))
            result = rule(self, value) if rule is not None else None
        if result is None:
            super().visit_var_binding_(binding)
        elif not isinstance(result, (NchwcTensor, Picked, list)):
            rebind(self, var, result)
        elif isinstance(var, relax.DataflowVar):
            self.known.values[var] = result
        else:
            rebind(self, var, self.unpacked(result))

    def emit(self, expr: Any) -> Any:
        """Bind ``expr`` to a variable named after the binding that is being rewritten."""
        return self.builder_.emit(expr, self._hint)

    def operator(self, expr: Any) -> str:
        """The name of the operator that ``expr`` calls, "" for anything else.

        The ONNX importer has the bounds of Clip as TensorIR functions; they count as operators.
        """
        if operator_of(expr) == "relax.call_tir":
            return _CHOICES.get(self._body_of(expr), "relax.call_tir")
        return operator_of(expr) or ("tuple_item" if isinstance(expr, relax.TupleGetItem) else "")

    def visit_var_(self, op: Any) -> Any:
        return self._resolved(op) if op in self.known.values else super().visit_var_(op)

    def visit_dataflow_var_(self, op: Any) -> Any:
        return self._resolved(op) if op in self.known.values else super().visit_dataflow_var_(op)

    def _resolved(self, var: Any) -> Any:
        """The model's order of a variable that is in blocks, unpacked once."""
        if var not in self.known.plain:
            value = self.blocked(var) or self.known.values[var]
            self.known.plain[var] = self.builder_.emit(self.unpacked(value), "unpacked")
        return self.known.plain[var]

    def _body_of(self, call: Any) -> str:
        """What the one block of a function computes of its two arguments: "Max", "Min" or ""."""
        function = self.builder_.get()[call.args[0]]
        body: Any = getattr(getattr(function, "body", None), "block", None)
        while body is not None and not isinstance(body, tvm.tirx.BufferStore):
            body = getattr(body, "block", None) or getattr(body, "body", None)
        value = getattr(body, "value", None)
        loads: list[Any] = [getattr(value, side, None) for side in ("a", "b")]
        if len(call.args[1].fields) != 2 or not all(
            isinstance(x, tvm.ir.TensorLoad) for x in loads
        ):
            return ""
        in_order = [x.source.same_as(p) for x, p in zip(loads, function.params[:2], strict=True)]
        return type(value).__name__ if all(in_order) else ""


_CHOICES = {"Max": "relax.maximum", "Min": "relax.minimum"}
