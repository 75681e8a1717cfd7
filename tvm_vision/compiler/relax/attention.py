"""Attention as one operator: softmax of a product's scores, and the product with it.

Queries, keys and values are read where they lie: turned axes, reshapes and parts of one tensor
become strides, as views of arrays have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ...topi.attention import FORM, AttentionForm, View, attention
from .operators import fixed_shape, operator_of
from .rewriting import constant_of, resolve, rewritten, value_of

MOST = 1 << 30  # elements of a tensor: indices are of 32 bits


def fused_attention(mod: tvm.IRModule, fits: Any) -> tvm.IRModule:
    """``main`` with attention as one function each; fits: whether an AttentionForm shall be."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod, fits)))


@dataclass
class _Place:
    """A tensor that is kept, and an array of no bytes of its own whose strides are a view of it."""

    source: Any
    array: Any
    first: int

    def of(self, array: Any) -> _Place:
        return _Place(self.source, array, self.first)

    def view(self, number: int, shape: tuple[int, ...]) -> View:
        array = np.broadcast_to(self.array, shape)
        offset = array.__array_interface__["data"][0] - self.first
        steps = zip(array.strides, shape, strict=True)
        return View(number, offset, tuple(step if n > 1 else 0 for step, n in steps))


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
        """What is multiplied by, or divided by, one number; and by which."""
        if operator_of(found) not in ("relax.multiply", "relax.divide"):
            return None
        for place in (1, 0) if operator_of(found) == "relax.multiply" else (1,):
            value = constant_of(found.args[place], self.lookup_binding)
            if value is None or value.size != 1 or value.dtype != np.float32:
                continue
            number = float(value.reshape(()))
            if operator_of(found) == "relax.divide":
                number = 1 / number if number else 0.0
            other = found.args[1 - place]
            if number and np.isfinite(number) and fixed_shape(other) == fixed_shape(found):
                return other, number
        return None

    def _unscaled(self, expr: Any) -> tuple[Any, float]:
        found = self._factor(self._value(expr))
        return (expr, 1.0) if found is None else found

    def _made(
        self, call: Any, whole: tuple[int, ...], factors: Any, scale: float, added: Any
    ) -> relax.Expr:
        batch, (queries, keys) = whole[:-2], whole[-2:]
        places = []
        for expr in factors:
            place, shape = self._place(expr), fixed_shape(expr)
            if place is None or shape is None or self._is_input(place.source):
                return call
            places.append((place, shape[-2:]))
        places[1] = (places[1][0].of(places[1][0].array.swapaxes(-1, -2)), (keys, places[1][1][0]))
        width, value_width = places[0][1][1], places[2][1][1]
        sources: list[Any] = []
        views = []
        try:
            for place, size in places:
                views.append(self._view(place, (*batch, *size), sources))
            for expr, shape in added:
                place = self._place(expr)
                if place is None:
                    return call
                array = np.broadcast_to(place.array, shape)
                views.append(self._view(place.of(array), whole, sources))
        except ValueError:  # no view of that shape
            return call
        q, k, v, *more = views
        form = AttentionForm(batch, queries, keys, width, value_width, scale, q, k, v, tuple(more))
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

    def _view(self, place: _Place, shape: tuple[int, ...], sources: list[Any]) -> View:
        array = place.array
        if array.size == int(np.prod(shape)):
            array = array.reshape(shape, copy=False)
        numbers = [i for i, s in enumerate(sources) if s.same_as(place.source)]
        if not numbers:
            numbers = [len(sources)]
            sources.append(place.source)
        return place.of(array).view(numbers[0], shape)

    def _is_input(self, source: Any) -> bool:
        """Whether a tensor is the network's own, which keeps float32."""
        return isinstance(self._value(source), relax.Var)

    def _size(self, expr: Any) -> int:
        return int(np.prod(fixed_shape(expr) or ()))

    def _place(self, expr: Any) -> _Place | None:
        """Where a tensor lies: in one further up, if all between only says how it is read."""
        shape = fixed_shape(expr)
        if shape is None or str(expr.ty.dtype) != "float32":
            return None
        found = self._value(expr)
        name = operator_of(found)
        inner = self._place(found.args[0]) if name in _VIEWS else None
        if isinstance(expr, relax.TupleGetItem) or name == "relax.split":
            return self._own(expr, shape)
        if inner is not None:
            try:
                return inner.of(_VIEWS[name](self, inner.array, found, shape))
            except (ValueError, LookupError):
                pass
        return self._own(expr, shape)

    def _own(self, expr: Any, shape: tuple[int, ...]) -> _Place:
        source = resolve(expr, self.lookup_binding)
        steps = np.cumprod([1, *shape[:0:-1]])[::-1]
        array = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, tuple(steps))
        return _Place(source, array, array.__array_interface__["data"][0])

    def _number(self, expr: Any) -> np.ndarray:
        value = constant_of(expr, self.lookup_binding)
        if value is None:
            raise ValueError
        return value


def _taken(self: Any, array: Any, call: Any, shape: Any) -> Any:
    place, axis = self._number(call.args[1]), call.attrs.axis
    if place.size != 1 or axis is None:
        raise ValueError
    index: list[Any] = [slice(None)] * array.ndim
    index[int(axis)] = int(place.reshape(()))
    return array[tuple(index)].reshape(shape, copy=False)


def _turned(self: Any, array: Any, call: Any, shape: Any) -> Any:
    axes = call.attrs.axes
    return array.transpose(None if axes is None else [int(axis) for axis in axes])


def _reshaped(self: Any, array: Any, call: Any, shape: Any) -> Any:
    return array.reshape(shape, copy=False)


_VIEWS: dict[str, Any] = {
    "relax.permute_dims": _turned,
    "relax.reshape": _reshaped,
    "relax.squeeze": _reshaped,
    "relax.expand_dims": _reshaped,
    "relax.take": _taken,
}
