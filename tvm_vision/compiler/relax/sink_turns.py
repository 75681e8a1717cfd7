"""Turned axes moved behind what is computed element by element, where fewer turns are left then.

Where convolutions have channels last, a residual that the model adds with channels first is turned
there and back, although both of its terms lie as the next convolution reads them: blocks end so
whose products have channels last in the model, too, as ConvNeXt's, and those whose tokens are
images for one convolution. Behind the sum one turn is left of two, and none where the next one
takes it back; the sum is then a part of the product's kernel. So are products of tokens, between
two turns in MLP-Mixer and gMLP: (x' W)' is W' x. A pool has a form for channels last, and a sum
over all axes that a turn moves knows none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import ELEMENTWISE_OPERATORS, fixed_shape, operator_of
from .rewriting import (
    Lookup,
    bind,
    calls_any,
    constant_like,
    constant_of,
    is_constant,
    is_of_two_tensors,
    resolve,
    rewritten,
)
from .views import VIEWS, Place, join, place_of, view_of

_SINGLE = ELEMENTWISE_OPERATORS | {"relax.astype", "relax.clip", "relax.where"}
_SUMS = {
    f"relax.{op.__name__}": op
    for op in (relax.op.sum, relax.op.mean, relax.op.variance, relax.op.max, relax.op.min)
}
_POOLS = {
    "relax.nn.avg_pool2d": relax.op.nn.avg_pool2d,
    "relax.nn.max_pool2d": relax.op.nn.max_pool2d,
}
_CHANGED = {"relax.permute_dims", "relax.matmul", *_SINGLE, *_SUMS, *_POOLS}
# Axes of a tensor, those of one element left out, the slowest in memory first.
Order = tuple[int, ...]
CHANNELS_LAST = (0, 2, 3, 1)


def sink_turns(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with turns behind the elementwise operators all of whose operands are turned so,
    where one of two is left, or one that is taken back later."""
    if not calls_any(mod, ["relax.permute_dims"]):
        return mod
    rewriter = _Rewriter(mod)
    bound = list(bindings_of(mod["main"]))
    rewriter.before = dict(bound).get
    rewriter.reads = _Reads.of(bound, mod["main"].body.body, rewriter.before)
    # What is turned for a window and for a sum is so once.
    passes = [relax.transform.EliminateCommonSubexpr(), relax.transform.DeadCodeElimination()]
    return tvm.transform.Sequential(passes)(rewritten(mod, rewriter))


def _turned_product(value: Any, orders: Collection[Order], lookup: Lookup) -> Order | None:
    """The order with the last two axes in each other's place, where it is one of those that a
    product by constant weights is read in; None for any other. Its operand may be read so, too:
    (x' W)' is W' x."""
    if operator_of(value) != "relax.matmul":
        return None
    left, right = map(fixed_shape, value.args)
    if left is None or right is None or len(left) < 2 or len(right) != 2:
        return None
    *others, rows, columns = range(len(left))
    order = (*(axis for axis in others if left[axis] > 1), columns, rows)
    if min(left[-2:]) == 1 or order not in orders or not is_constant(value.args[1], lookup):
        return None
    return order


def _channels_last(call: Any) -> Order | None:
    """The order of channels last in what a pool of channels first reads and makes; None for any
    other operator, and where one of both has no pixels."""
    if operator_of(call) not in _POOLS or str(call.attrs.layout) != "NCHW":
        return None
    found = {_order_of(CHANNELS_LAST, fixed_shape(of)) for of in (call.args[0], call)}
    return found.pop() if len(found) == 1 else None


def _order_of(axes: Sequence[int], shape: Sequence[int] | None) -> Order | None:
    """Axes in an order as ``Order`` has it; None where extents are not known."""
    return None if shape is None else tuple(axis for axis in axes if shape[axis] > 1)


@dataclass(frozen=True)
class _Reads:
    """In which orders the variables of a function are read, by those; none for being read as they
    are.

    Attributes:
        views: by what reads a view of them, but for products of two tensors: attention reads turned
            keys, and has kernels that know of it.
        later: so, or with nothing between but elementwise operators, and products that may be
            of turned operands.
    """

    views: dict[Any, set[Order]]
    later: dict[Any, set[Order]]

    @classmethod
    def of(cls, bound: Sequence[tuple[Any, Any]], result: Any, lookup: Lookup) -> _Reads:
        views: dict[Any, set[Order]] = {}
        later: dict[Any, set[Order]] = {}
        for var, value in [*bound, (None, resolve(result, lookup))][::-1]:
            if var is None:
                operands = value.fields if isinstance(value, relax.Tuple) else [value]
            elif operator_of(value) not in ("", *VIEWS) and not is_of_two_tensors(value, lookup):
                operands = value.args
            else:
                continue
            own = later.get(var, set())
            product = _turned_product(value, own, lookup)
            pooled = _channels_last(value)
            for n, operand in enumerate(operands):
                place = place_of(operand, lookup)
                if place is None:
                    continue
                if not place.source.same_as(resolve(operand, lookup)):
                    order = _order_read(place)
                    if order is not None:
                        for orders in (views, later):
                            orders.setdefault(place.source, set()).add(order)
                elif product is not None and n == 0:
                    later.setdefault(place.source, set()).add(product)
                elif pooled is not None:
                    later.setdefault(place.source, set()).update(own & {pooled})
                elif operator_of(value) in _SINGLE and fixed_shape(operand) == fixed_shape(value):
                    later.setdefault(place.source, set()).update(own)
        return cls(views, later)


def _order_read(place: Place) -> Order | None:
    """In which order a view goes through the axes of its source; None where it does not go through
    all of them, each as a whole."""
    shape = fixed_shape(place.source)
    if shape is None:
        return None
    steps = Place.whole(None, shape).strides
    of_step = {step: axis for axis, step in enumerate(steps) if step}
    order: list[int] = []
    for count, step in join([digit for axis in place.axes for digit in axis]):
        axes: list[int] = []  # which lie side by side, the fastest first
        while count > 1:
            axis = of_step.get(step)
            if axis is None or count % shape[axis]:
                return None
            axes.append(axis)
            count, step = count // shape[axis], step * shape[axis]
        order += reversed(axes)
    return tuple(order) if sorted(order) == sorted(of_step.values()) else None


def _order_kept(place: Place | None, shape: Sequence[int]) -> Order | None:
    """In which order the axes of a view of this shape lie in memory, where it is all that its
    source has; else None."""
    if place is None or place.offset or fixed_shape(place.source) is None:
        return None
    try:
        strides = place.strides
    except ValueError:
        return None
    order = sorted((axis for axis, step in enumerate(strides) if step), key=lambda a: -strides[a])
    dense = [shape[axis] for axis in order]
    if [strides[axis] for axis in order] != [math.prod(dense[n + 1 :]) for n in range(len(dense))]:
        return None
    return tuple(order) if math.prod(dense) == math.prod(fixed_shape(place.source) or ()) else None


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    before: Lookup
    reads: _Reads

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._var = binding.var
        # By which is known how they are read: those of the call are new.
        self._given = getattr(binding.value, "args", ())
        if not operator_of(binding.value):
            super().visit_var_binding_(binding)
            return
        value = self.visit_expr(binding.value)
        bind(self, binding.var, value)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        if name not in _CHANGED:
            return call
        call = self.builder_.normalize(call)
        shape = fixed_shape(call)
        if shape is None:
            return call
        if name == "relax.matmul":
            return self._product(call)
        if name in _POOLS:
            return self._pool(call)
        if name in _SUMS:
            return self._sum(call, shape)
        return self._sunk(call, shape) if name in _SINGLE else self._taken_back(call, shape)

    def _taken_back(self, turn: relax.Call, shape: tuple[int, ...]) -> relax.Expr:
        """What is turned, where the turn takes back what earlier ones did, or says each axis's own
        place, as turns of the model do between operators that TVM has turned."""
        place = place_of(turn.args[0], self.lookup_binding)
        if place is None:
            return turn
        if place.source.same_as(resolve(turn.args[0], self.lookup_binding)):
            axes = [int(axis) for axis in turn.attrs.axes or ()]
            return turn.args[0] if axes == list(range(len(shape))) else turn
        place = view_of(turn, place, self.lookup_binding)
        order = _order_kept(place, shape)
        if order is None or list(order) != sorted(order):
            return turn
        return self._shaped(place.source, shape)

    def _sunk(self, call: relax.Call, shape: tuple[int, ...]) -> relax.Expr:
        lookup = self.lookup_binding
        places = [place_of(a, lookup) if fixed_shape(a) == shape else None for a in call.args]
        orders = [_order_kept(place, shape) for place in places]
        turned = [order for order in orders if order is not None and list(order) != sorted(order)]
        if not turned:
            return call
        chosen = turned[0]
        if len(turned) == 1 and chosen not in self.reads.later.get(self._var, ()):
            return call
        ones = [axis for axis, extent in enumerate(shape) if extent == 1]
        axes = [*ones, *chosen]
        operands: list[Any] = []
        for n, (operand, place, order) in enumerate(zip(call.args, places, orders, strict=True)):
            if place is not None and order == chosen:
                operands.append(self._shaped(place.source, tuple(shape[axis] for axis in axes)))
            elif place is not None and chosen in self._views_of(self._given[n]):
                operands.append(self.builder_.emit(relax.op.permute_dims(operand, axes)))
            else:
                operands.append(self._turned(operand, axes))
        if any(operand is None for operand in operands):
            return call
        inner = relax.Call(call.op, operands, call.attrs)
        inner = self.builder_.emit(inner, str(self._var.name))
        return relax.op.permute_dims(inner, sorted(range(len(axes)), key=axes.__getitem__))

    def _product(self, call: relax.Call) -> relax.Expr:
        """W' x for (x' W)', where the turn behind it is taken back later."""
        lookup = self.lookup_binding
        order = _turned_product(call, self.reads.later.get(self._var, set()), lookup)
        shape, weights = fixed_shape(call.args[0]), constant_of(call.args[1], lookup)
        if order is None or shape is None or weights is None:
            return call
        place = place_of(call.args[0], lookup)
        if place is None or _order_kept(place, shape) != order:
            return call
        axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        source = self._shaped(place.source, tuple(shape[axis] for axis in axes))
        dtype = str(call.ty.dtype)
        inner = relax.op.matmul(constant_like(weights.T), source, dtype)
        return relax.op.permute_dims(self.builder_.emit(inner, str(self._var.name)), axes)

    def _pool(self, pool: relax.Call) -> relax.Expr:
        """Of what has channels last, where the turn behind it is taken back later."""
        order = _channels_last(pool)
        turned = self._turned_operand(pool)
        if order is None or turned is None or turned[1] != order:
            return pool
        if order not in self.reads.later.get(self._var, ()):
            return pool
        shape, attrs = fixed_shape(pool.args[0]), pool.attrs
        source = self._shaped(turned[0], tuple(shape[axis] for axis in CHANNELS_LAST))  # type: ignore[index]
        inner = _POOLS[operator_of(pool)](
            source, attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation,
            attrs.ceil_mode, attrs.count_include_pad, "NHWC", "NHWC",
        )  # fmt: skip
        return relax.op.permute_dims(self.builder_.emit(inner, str(self._var.name)), [0, 3, 1, 2])

    def _sum(self, call: relax.Call, shape: tuple[int, ...]) -> relax.Expr:
        """Over what is turned, where no axes that the turn moves past each other are kept."""
        turned = self._turned_operand(call)
        whole = fixed_shape(call.args[0])
        if turned is None or whole is None:
            return call
        source, order = turned
        axes = range(len(whole)) if call.attrs.axis is None else call.attrs.axis
        gone = {int(axis) % len(whole) for axis in axes}
        kept = [axis for axis in order if axis not in gone]
        if kept != sorted(kept):
            return call
        lying = [*(axis for axis, extent in enumerate(whole) if extent == 1), *order]
        source = self._shaped(source, tuple(whole[axis] for axis in lying))
        places = [place for place, axis in enumerate(lying) if axis in gone]
        operator, name = _SUMS[operator_of(call)], str(self._var.name)
        # With its axes, whose shape may be the one that is wanted: no reshape ends its kernel then.
        return self._shaped(self.builder_.emit(operator(source, places, True), name), shape)

    def _turned_operand(self, call: relax.Call) -> tuple[Any, Order] | None:
        """What the operand of a call is turned of, and the order that its axes lie in; None where
        it is not turned."""
        whole = fixed_shape(call.args[0])
        place = place_of(call.args[0], self.lookup_binding)
        order = None if whole is None else _order_kept(place, whole)
        if place is None or order is None or list(order) == sorted(order):
            return None
        return place.source, order

    def _views_of(self, given: Any) -> set[Order]:
        """In which orders an operand, as it was, is turned for others."""
        return self.reads.views.get(resolve(given, self.before), set())

    def _shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        if fixed_shape(tensor) == shape:
            return tensor
        return self.builder_.emit(relax.op.reshape(tensor, shape))

    def _turned(self, operand: Any, axes: Sequence[int]) -> Any:
        """An operand with its axes in another order: a constant, or a tensor that stays as it lies
        in memory. None for any other."""
        if not isinstance(operand.ty, relax.TensorType) or operand.ty.ndim == 0:
            return operand
        shape = fixed_shape(operand)
        if shape is None:
            return None
        whole = (1,) * (len(axes) - len(shape)) + shape
        if is_constant(operand, self.lookup_binding):
            values = constant_of(operand, self.lookup_binding)
            assert values is not None
            return constant_like(values.reshape(whole).transpose(axes))
        moved = [axis for axis in axes if whole[axis] > 1]
        if moved != sorted(moved):
            return None
        return self._shaped(operand, tuple(whole[axis] for axis in axes))
