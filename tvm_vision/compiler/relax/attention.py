"""Attention as one operator: softmax of a product's scores, and the product with it.

Queries, keys and values are read where they lie: turned axes, reshapes and parts of one tensor
become strides, as views of arrays have them. Behind a convolution whose channels come first a
network has them with their numbers first, and the result, too: values times turned shares, or a
result that is turned afterwards. The kernel writes it so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import tvm
from tvm import relax

from ...topi.attention import FORM, AttentionForm, View, attention
from .operators import fixed_shape, operator_of
from .rewriting import Names, constant_of, is_constant, rewritten, value_of
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
        self._names = Names(mod["main"])
        # Of results that are not turned, by their variables: the forms, and the tensors they read.
        self._made_of: dict[Any, tuple[AttentionForm, list[Any]]] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        name = operator_of(call)
        if name not in ("relax.permute_dims", "relax.matmul"):
            return self.visit_expr_post_order(call)
        alone = self._is_alone(call.args[0])
        call = self.visit_expr_post_order(call)
        if name == "relax.matmul":
            return self._attention(call)
        written = self._written_turned(call) if alone else None
        return self._turned(call) if written is None else written

    def _is_alone(self, expr: Any) -> bool:
        """Whether nothing else uses a tensor of the given network, nor what it is a shape of."""
        found = self._names.lookup(expr)
        shaped = operator_of(found) == "relax.reshape" and not self._is_alone(found.args[0])
        return self._names.uses(expr) == 1 and not shaped

    def _written_turned(self, call: relax.Call) -> relax.Expr | None:
        """Attention whose result is turned to have its queries last, as channels before places,
        where its values lie so, too."""
        place, shape = place_of(call, self.lookup_binding), fixed_shape(call)
        if place is None or shape is None or place.source not in self._made_of:
            return None
        form, flat = self._made_of[place.source]
        lead = len(form.batch)
        own = Place.whole(place.source, form.shape)
        own = own.turned([*range(lead - 1), lead, lead + 1, lead - 1])
        turned = replace(form, turned=True)
        try:
            same = own.reshaped(shape).strides == place.strides
        except ValueError:  # digits of other axes
            return None
        if not same or form.v.strides[-2] != 1 or not self._fits(turned):
            return None
        return relax.op.reshape(self._emitted(turned, flat), shape)

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

    def _unshaped(self, expr: Any) -> Any:
        """What is behind an operand, seen through shapes."""
        while operator_of(found := self._value(expr)) == "relax.reshape":
            expr = found.args[0]
        return found

    def _unturned(self, expr: Any) -> tuple[Any, tuple[int, ...] | None]:
        """What is behind an operand whose last two axes are turned, and its shape before that;
        None for each where they are not."""
        found = self._unshaped(expr)
        shape, turned = fixed_shape(found), fixed_shape(expr)
        if operator_of(found) != "relax.permute_dims" or shape is None or turned is None:
            return None, None
        last, axes = len(shape) - 1, found.attrs.axes
        if axes is None or [int(axis) for axis in axes] != [*range(last - 1), last, last - 1]:
            return None, None
        if shape[-2:] != turned[-2:]:
            return None, None
        return self._unshaped(found.args[0]), fixed_shape(found.args[0])

    def _attention(self, call: relax.Call) -> relax.Expr:
        shape, (shares, v), turned = fixed_shape(call), call.args[:2], False
        soft, given = self._unshaped(shares), fixed_shape(shares)
        if operator_of(soft) != "relax.nn.softmax":
            shares, v, turned = v, shares, True
            soft, given = self._unturned(shares)
        if operator_of(soft) != "relax.nn.softmax" or shape is None or given is None:
            return call
        whole = fixed_shape(soft)
        axis = int(soft.attrs.axis)
        if whole is None or len(whole) < 3 or axis not in (-1, len(whole) - 1):
            return call
        if str(call.ty.dtype) != "float32" or whole[-2:] != given[-2:]:
            return call
        scale, by_row, added, expr = 1.0, [], [], soft.args[0]
        while operator_of(found := self._value(expr)) != "relax.matmul":
            name = operator_of(found)
            if name == "relax.reshape":
                if (inside := fixed_shape(found.args[0])) is None or inside[-2:] != whole[-2:]:
                    return call
                expr = found.args[0]
                continue
            number, rows = self._factor(found), self._by_row(found)
            if number is not None:
                scale, expr = scale * number[1], number[0]
            elif rows is not None:
                expr = rows[0]
                by_row.append((rows[1], fixed_shape(found) or ()))
            # A scale behind it is of what is added, too.
            elif name == "relax.add" and scale == 1 and not by_row:
                both = [self._is_scores(a) for a in found.args]
                if both.count(True) != 1 or fixed_shape(found) is None:
                    return call
                expr = found.args[both.index(True)]
                added.append((found.args[both.index(False)], fixed_shape(found)))
            else:
                return call
        q, k = found.args[0], found.args[1]
        q, of_q = self._unscaled(q)
        k, of_k = self._unscaled(k)
        for numbers, scores in by_row:
            if (fixed_shape(q) or ())[:-1] != scores[:-1]:
                return call
            q = self.builder_.emit(relax.op.multiply(q, numbers))
        return self._made(call, whole, (q, k, v), scale * of_q * of_k, added, turned)

    def _is_scores(self, expr: Any) -> bool:
        """Whether a product of two tensors that are no weights lies behind an operand."""
        found = self._value(expr)
        while True:
            name = operator_of(found)
            if name == "relax.matmul":
                return constant_of(found.args[1], self.lookup_binding) is None
            number = self._factor(found) or self._by_row(found)
            if name == "relax.reshape":
                found = self._value(found.args[0])
            elif number is not None:
                found = self._value(number[0])
            elif name == "relax.add":
                return any(self._is_scores(a) for a in found.args)
            else:
                return False

    def _by_row(self, found: Any) -> tuple[Any, Any] | None:
        """Scores and a constant that they are multiplied by, one number for each row at most, as
        cosine attention has one for a head (Liu et al. 2022, Swin Transformer V2); queries can be
        multiplied by it in their place."""
        if operator_of(found) != "relax.multiply":
            return None
        for scores, numbers in (found.args, found.args[::-1]):
            shape = fixed_shape(numbers)
            if shape is None or not shape or shape[-1] != 1:
                continue
            known = is_constant(numbers, self.lookup_binding)
            if known and fixed_shape(scores) == fixed_shape(found):
                return scores, numbers
        return None

    def _factor(self, found: Any) -> tuple[Any, float] | None:
        return factor_of(found, self.lookup_binding)

    def _unscaled(self, expr: Any) -> tuple[Any, float]:
        """An operand without the number that it is multiplied by, perhaps before its axes were
        turned, and that number."""
        found = self._value(expr)
        factor = self._factor(found)
        if factor is not None:
            return factor
        if operator_of(found) not in ("relax.permute_dims", "relax.reshape"):
            return expr, 1.0
        inner, number = self._unscaled(found.args[0])
        if number == 1:
            return expr, 1.0
        moved = relax.Call(found.op, [inner, *found.args[1:]], found.attrs)
        return self.builder_.emit(moved), number

    def _made(
        self, call: Any, whole: tuple[int, ...], factors: Any, scale: float, added: Any,
        turned: bool,
    ) -> relax.Expr:  # fmt: skip
        """Attention in place of a product; turned: whether it is values times turned shares."""
        batch, (queries, keys) = whole[:-2], whole[-2:]
        places = []
        for expr in factors:
            place, shape = self._float_place(expr), fixed_shape(expr)
            if place is None or shape is None or self._is_input(place.source):
                return call
            places.append((place, shape[-2:]))
        for number in (1, 2)[: 1 + turned]:
            place, (rows, columns) = places[number]
            last = len(place.axes) - 1
            places[number] = (place.turned([*range(last - 1), last, last - 1]), (columns, rows))
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
        if any(self._size(s) >= MOST for s in sources):
            return call
        emit, op = self.builder_.emit, relax.op
        as_written = replace(form, turned=True)
        if turned and of_v.strides[-2] == 1 and self._fits(as_written):
            return op.reshape(self._emitted(as_written, self._flat(sources)), call.ty.shape)
        if not self._fits(form):
            return call
        flat = self._flat(sources)
        made = self._emitted(form, flat)
        self._made_of[made] = (form, flat)
        lead = len(batch)
        ends = (lead + 1, lead - 1) if turned else (lead - 1, lead + 1)
        found = op.permute_dims(made, [*range(lead - 1), lead, *ends])
        size = (value_width, queries) if turned else (queries, value_width)
        if (*batch, *size) == fixed_shape(call):
            return found
        return op.reshape(emit(found), call.ty.shape)

    def _flat(self, sources: Any) -> list[Any]:
        """Tensors of one axis."""
        return [self.builder_.emit(relax.op.reshape(s, [self._size(s)])) for s in sources]

    def _emitted(self, form: AttentionForm, flat: list[Any]) -> Any:
        """The variable of a result."""
        return self.builder_.emit(
            self.builder_.call_te(
                lambda *given: attention(given, form),
                *flat,
                primfunc_name_hint="attention",
                primfunc_attrs={FORM: form.to_json()},
            )
        )

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
