"""Attention as one operator: softmax of a product's scores, and the product with it.

Queries, keys and values are read where they lie: turned axes, reshapes and parts of one tensor
become strides, as views of arrays have them.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from ...topi.attention import FORM, AttentionForm, View, attention
from .operators import fixed_shape, operator_of
from .rewriting import constant_of, rewritten, value_of
from .scale_products import factor_of
from .views import Place, place_of

MOST = 1 << 30  # elements of a tensor: indices are of 32 bits


def fused_attention(mod: tvm.IRModule, fits: Any) -> tvm.IRModule:
    """``main`` with attention as one function each; fits: whether an AttentionForm shall be."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod, fits)))


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, fits: Any) -> None:
        super().__init__(mod)
        self._fits = fits

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        if name == "relax.permute_dims":
            return self._turned(call)
        return self._attention(call) if name == "relax.matmul" else call

    def _value(self, expr: Any) -> Any:
        return value_of(expr, self.lookup_binding)

    def _turned(self, call: relax.Call) -> relax.Expr:
        """Two turns as one, or none."""
        before = self._value(call.args[0])
        both = operator_of(before) == "relax.permute_dims" and before.attrs.axes
        if not (both and call.attrs.axes):
            return call
        inner = [int(axis) for axis in before.attrs.axes]
        axes = [inner[int(axis)] for axis in call.attrs.axes]
        if axes == sorted(axes):
            return before.args[0]
        return relax.op.permute_dims(before.args[0], axes)

    def _attention(self, call: relax.Call) -> relax.Expr:
        soft, shape = call.args[0], fixed_shape(call)
        while operator_of(self._value(soft)) == "relax.reshape":
            soft = self._value(soft).args[0]
        soft = self._value(soft)
        given = fixed_shape(call.args[0])
        if operator_of(soft) != "relax.nn.softmax" or shape is None or given is None:
            return call
        whole = fixed_shape(soft)
        axis = int(soft.attrs.axis)
        if whole is None or len(whole) < 3 or axis not in (-1, len(whole) - 1):
            return call
        if str(call.ty.dtype) != "float32" or whole[-2:] != given[-2:]:
            return call
        scale, added, expr = 1.0, [], soft.args[0]
        while operator_of(found := self._value(expr)) != "relax.matmul":
            name = operator_of(found)
            if name == "relax.reshape":
                if (inside := fixed_shape(found.args[0])) is None or inside[-2:] != whole[-2:]:
                    return call
                expr = found.args[0]
                continue
            number = self._factor(found)
            if number is not None:
                scale, expr = scale * number[1], number[0]
            elif name == "relax.add" and scale == 1:  # a scale behind it is of what is added, too
                both = [self._is_scores(a) for a in found.args]
                if both.count(True) != 1 or fixed_shape(found) is None:
                    return call
                expr = found.args[both.index(True)]
                added.append((found.args[both.index(False)], fixed_shape(found)))
            else:
                return call
        q, k, v = found.args[0], found.args[1], call.args[1]
        q, of_q = self._unscaled(q)
        k, of_k = self._unscaled(k)
        return self._made(call, whole, (q, k, v), scale * of_q * of_k, added)

    def _is_scores(self, expr: Any) -> bool:
        """Whether a product of two tensors that are no weights lies behind an operand."""
        found = self._value(expr)
        while True:
            name = operator_of(found)
            if name == "relax.matmul":
                return constant_of(found.args[1], self.lookup_binding) is None
            number = self._factor(found)
            if name == "relax.reshape":
                found = self._value(found.args[0])
            elif number is not None:
                found = self._value(number[0])
            elif name == "relax.add":
                return any(self._is_scores(a) for a in found.args)
            else:
                return False

    def _factor(self, found: Any) -> tuple[Any, float] | None:
        return factor_of(found, self.lookup_binding)

    def _unscaled(self, expr: Any) -> tuple[Any, float]:
        found = self._factor(self._value(expr))
        return (expr, 1.0) if found is None else found

    def _made(
        self, call: Any, whole: tuple[int, ...], factors: Any, scale: float, added: Any
    ) -> relax.Expr:
        batch, (queries, keys) = whole[:-2], whole[-2:]
        places = []
        for expr in factors:
            place, shape = self._float_place(expr), fixed_shape(expr)
            if place is None or shape is None or self._is_input(place.source):
                return call
            places.append((place, shape[-2:]))
        k, (depth, _) = places[1]
        last = len(k.axes) - 1
        places[1] = (k.turned([*range(last - 1), last, last - 1]), (keys, depth))
        width, value_width = places[0][1][1], places[2][1][1]
        sources: list[Any] = []
        views = []
        try:
            for place, size in places:
                views.append(self._view(place, (*batch, *size), sources))
            for expr, shape in added:
                place = self._float_place(expr)
                if place is None:
                    return call
                views.append(self._view(place.broadcast(shape), whole, sources))
        except ValueError:  # no view of that shape
            return call
        of_q, of_k, of_v, *more = views
        form = AttentionForm(
            batch, queries, keys, width, value_width, scale, of_q, of_k, of_v, tuple(more)
        )
        if not self._fits(form) or any(self._size(s) >= MOST for s in sources):
            return call
        emit, op = self.builder_.emit, relax.op
        flat = [emit(op.reshape(s, [self._size(s)])) for s in sources]
        made = emit(
            self.builder_.call_te(
                lambda *given: attention(given, form),
                *flat,
                primfunc_name_hint="attention",
                primfunc_attrs={FORM: form.to_json()},
            )
        )
        lead = len(batch)
        axes = [*range(lead - 1), lead, lead - 1, lead + 1]
        turned = op.permute_dims(made, axes)
        if (*batch, queries, value_width) == fixed_shape(call):
            return turned
        return op.reshape(emit(turned), call.ty.shape)

    def _view(self, place: Place, shape: tuple[int, ...], sources: list[Any]) -> View:
        if place.size == math.prod(shape):
            place = place.reshaped(shape)
        read = place.broadcast(shape)
        numbers = [i for i, s in enumerate(sources) if s.same_as(place.source)]
        if not numbers:
            numbers = [len(sources)]
            sources.append(place.source)
        return View(numbers[0], read.offset, read.strides)

    def _is_input(self, source: Any) -> bool:
        """Whether a tensor is the network's own, which keeps float32."""
        return isinstance(self._value(source), relax.Var)

    def _size(self, expr: Any) -> int:
        return math.prod(fixed_shape(expr) or ())

    def _float_place(self, expr: Any) -> Place | None:
        place = place_of(expr, self.lookup_binding)
        return place if place is not None and str(expr.ty.dtype) == "float32" else None
