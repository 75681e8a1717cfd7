"""What tensors repeat: along which axes all of one is the same, and what makes it once.

A tensor that is expanded, tiled, or enlarged from one pixel is still so behind what turns its axes,
reshapes it or computes element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tvm import relax

from .operators import BINARY, UNARY, fixed_shape, operator_of
from .rewriting import Lookup, resolve

OP = relax.op
Shape = tuple[int, ...]

# What is computed from something that is repeated is followed so far.
MOST_STEPS = 32


@dataclass(frozen=True)
class Once:
    """A tensor without its repetition.

    Attributes:
        shape: as many axes as the tensor has; 1 along those that all is the same along.
        make: the expression of it, given what emits one.
        steps: how many operators make it.
    """

    shape: Shape
    make: Callable[[Callable[[Any], Any]], Any]
    steps: int = 0


class Repeats:
    """What variables repeat, as far as they were added in their order.

    lookup: what a variable is bound to.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._found: dict[Any, Once] = {}
        self._made: dict[Any, Any] = {}

    def add(self, var: relax.Var, value: Any) -> None:
        """Take note of what a variable is bound to."""
        rule, shape = _RULES.get(operator_of(value)), fixed_shape(value)
        if rule is None or shape is None or 0 in shape:
            return
        found = rule(self, value, shape)
        if found is not None and found.shape != shape and found.steps <= MOST_STEPS:
            self._found[var] = found

    def once(self, expr: Any) -> Once | None:
        """A tensor as it was added, or itself; None where its shape is not fixed."""
        var = resolve(expr, self._lookup)
        found = self._found.get(var) if isinstance(var, relax.Var) else None
        if found is not None:
            return Once(found.shape, lambda emit: self._kept(var, found, emit), found.steps)
        shape = fixed_shape(expr)
        return None if shape is None else Once(shape, lambda emit: expr)

    def _kept(self, var: relax.Var, found: Once, emit: Callable[[Any], Any]) -> Any:
        if var not in self._made:
            self._made[var] = found.make(emit)
        return self._made[var]


_Rule = Callable[[Repeats, Any, Shape], "Once | None"]


def _next(before: Once, shape: Sequence[int], change: Callable[[Any], Any] | None) -> Once:
    """What one more operator, ``change``, makes of something; None for one that is not needed."""
    if change is None:
        return Once(tuple(shape), before.make, before.steps)
    return Once(
        tuple(shape), lambda emit: emit(change(before.make(emit))), before.steps + 1
    )  # fmt: skip


def _reshaped(before: Once, shape: Sequence[int]) -> Once:
    """In a shape of the same elements."""
    shape = tuple(shape)
    same = before.shape == shape
    return _next(before, shape, None if same else lambda value: OP.reshape(value, shape))


def _broadcast(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    before = repeats.once(call.args[0])
    if before is None:
        return None
    return _reshaped(before, (1,) * (len(shape) - len(before.shape)) + before.shape)


def _tiled(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    """By a number for each axis, or along one. Only what is the same along an axis is repeated."""
    before, source = repeats.once(call.args[0]), fixed_shape(call.args[0])
    if before is None or source is None:
        return None
    missing = (1,) * (len(shape) - len(source))
    once, source = missing + before.shape, missing + source
    sizes = zip(once, source, shape, strict=False)
    if len(source) != len(shape) or any(own > 1 and of != size for own, of, size in sizes):
        return None
    return _reshaped(before, once)


def _enlarged(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    """An image of one pixel: the weights of what an enlarged pixel is a mean of are 1 together."""
    before, attrs = repeats.once(call.args[0]), call.attrs
    # Beyond the image a cropping one has a number of its own.
    crops = "crop" in str(attrs.coordinate_transformation_mode)
    if before is None or crops or not str(attrs.layout).startswith("NC"):
        return None
    same = str(call.ty.dtype) == str(call.args[0].ty.dtype)
    return before if same and math.prod(before.shape[2:]) == 1 else None


def _in_shape(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    """Reshaped, where what is repeated and what is not are axes of their own."""
    before, source = repeats.once(call.args[0]), fixed_shape(call.args[0])
    if before is None or source is None or before.shape == source:
        return None
    once: list[int] = []
    first, last = 0, 0
    while first < len(source) or last < len(shape):
        begin, start = first, last
        sizes = [1, 1]
        while first == begin or sizes[0] != sizes[1] or last == start:
            if first < len(source) and (first == begin or sizes[0] < sizes[1]):
                sizes[0] *= source[first]
                first += 1
            elif last < len(shape):
                sizes[1] *= shape[last]
                last += 1
            else:
                break
        own = before.shape[begin:first]
        if math.prod(own) == 1:
            once += [1] * (last - start)
        elif own == source[begin:first]:
            once += shape[start:last]
        else:
            return None
    return _reshaped(before, once)


def _turned(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    before = repeats.once(call.args[0])
    if before is None:
        return None
    given = call.attrs.axes
    rank = len(shape)
    axes = [*range(rank)][::-1] if given is None else [int(axis) % rank for axis in given]
    return _next(
        before, [before.shape[axis] for axis in axes], lambda value: OP.permute_dims(value, axes)
    )


def _of_one(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    before = repeats.once(call.args[0])
    if before is None:
        return None
    return _next(
        before, before.shape,
        lambda value: relax.Call(call.op, [value, *call.args[1:]], call.attrs, call.ty_args),
    )  # fmt: skip


def _of_two(repeats: Repeats, call: Any, shape: Shape) -> Once | None:
    """Each axis is as long as in that of the two that is not the same along it."""
    found = [repeats.once(operand) for operand in call.args]
    one, other = found
    if one is None or other is None:
        return None
    sides = zip_longest(one.shape[::-1], other.shape[::-1], fillvalue=1)
    once = tuple(max(pair) for pair in sides)[::-1]

    def make(emit: Callable[[Any], Any]) -> Any:
        operands = [one.make(emit), other.make(emit)]
        return emit(relax.Call(call.op, operands, call.attrs, call.ty_args))

    return Once(once, make, 1 + max(one.steps, other.steps))


_RULES: dict[str, _Rule] = {
    "relax.broadcast_to": _broadcast,
    **dict.fromkeys(("relax.tile", "relax.repeat"), _tiled),
    **dict.fromkeys(("relax.image.resize2d", "relax.image.resize3d"), _enlarged),
    **{f"relax.{name}": _in_shape for name in ("reshape", "expand_dims", "squeeze", "flatten")},
    "relax.permute_dims": _turned,
    **{f"relax.{name}": _of_one for name in (*UNARY, "astype")},
    **{f"relax.{name}": _of_two for name in BINARY},
}
