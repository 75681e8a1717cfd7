"""Operators that give what they are given, left out: a slice of all there is, a pool of one pixel,
a sum over an axis of one element.

Exporters write them where a size happens to be that of another network of the family (GhostNet
slices as many channels as it has). Each would end the convolution before it, or keep a
concatenation from being written in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import fixed_shape, operator_of, pad_widths
from .rewriting import Lookup, bind, constant_of, rewritten, value_of
from .views import numbers


def drop_identities(mod: tvm.IRModule) -> tvm.IRModule:
    """A module without such operators; a reshape is in the place of one that changes the shape
    alone."""
    bound = dict(bindings_of(mod["main"]))
    if all(_given(value, bound.get) is None for value in bound.values()):
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod)))


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        source = _given(binding.value, self.lookup_binding)
        if source is None:
            super().visit_var_binding_(binding)
            return
        value, shape = self.visit_expr(source), fixed_shape(binding.value)
        same = fixed_shape(source) == shape
        bind(self, binding.var, value if same else relax.op.reshape(value, shape))


def _given(call: Any, lookup: Lookup) -> Any:
    """The tensor whose elements a call gives in their order; None where it does anything else."""
    is_identity = _IDENTITIES.get(operator_of(call))
    if is_identity is None:
        return None
    source = call.args[0]
    if operator_of(call) == "relax.concat":
        parts = value_of(source, lookup)
        if not isinstance(parts, relax.Tuple) or len(parts.fields) != 1:
            return None
        source = parts.fields[0]
    shape, result = fixed_shape(source), fixed_shape(call)
    if shape is None or result is None or math.prod(shape) != math.prod(result):
        return None
    same_type = str(source.ty.dtype) == str(call.ty.dtype)
    return source if same_type and is_identity(call, shape, lookup) else None


def _always(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    return True


def _same_shape(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    return fixed_shape(call) == shape


def _turned(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    axes = call.attrs.axes
    order = range(len(shape))[::-1] if axes is None else [int(axis) for axis in axes]
    return list(order) == sorted(order)


def _sliced(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    """As many elements as there are, in their order: a step backwards would turn them."""
    try:
        axes, *_, steps = (numbers(given, lookup) for given in call.args[1:])
    except ValueError:
        return False
    if len(call.args) < 5:
        return True
    return all(step > 0 or shape[axis] == 1 for axis, step in zip(axes, steps, strict=True))


def _not_padded(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    return not any(map(any, pad_widths(call.attrs)))


def _of_one_pixel(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    attrs = call.attrs
    kept = all(int(each) == 1 for each in (*attrs.pool_size, *attrs.strides))
    return kept and not any(int(each) for each in attrs.padding)


def _along_one(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    axis = call.attrs.axis
    return axis is not None and shape[int(axis)] == 1 and fixed_shape(call) == shape


def _running(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    return _along_one(call, shape, lookup) and not call.attrs.exclusive


def _taken(call: Any, shape: tuple[int, ...], lookup: Lookup) -> bool:
    """Every place of an axis, in order."""
    axis = call.attrs.axis
    if axis is None or fixed_shape(call) != shape or fixed_shape(call.args[1]) is None:
        return False
    places = constant_of(call.args[1], lookup)
    return places is not None and np.array_equal(places, np.arange(shape[int(axis)]))


# By operator, whether a call gives its tensor's elements in their order, of a tensor of a shape
# that has as many as the result.
_IDENTITIES: dict[str, Callable[[Any, tuple[int, ...], Lookup], bool]] = {
    "relax.concat": _same_shape,
    "relax.reshape": _same_shape,
    "relax.broadcast_to": _same_shape,
    "relax.tile": _same_shape,
    "relax.repeat": _same_shape,
    "relax.astype": _always,
    "relax.permute_dims": _turned,
    "relax.strided_slice": _sliced,
    "relax.nn.pad": _not_padded,
    "relax.flip": _along_one,
    "relax.cumsum": _running,
    "relax.cumprod": _running,
    "relax.take": _taken,
    **{f"relax.nn.{kind}_pool{n}d": _of_one_pixel for kind in ("max", "avg") for n in (1, 2, 3)},
    # Of as many elements as are left every one is summed up alone.
    **{f"relax.{name}": _always for name in ("sum", "mean", "max", "min", "prod")},
}
