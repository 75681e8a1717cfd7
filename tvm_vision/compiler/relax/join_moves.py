"""Turned axes, reshapes and parts between two computations become one reshape, part, turn, reshape.

Exporters take queries, keys and values from one product by way of several turns, the first of
which all three read: a kernel of its own that only moves. Said as one move from where the values
lie, each is a part of what reads it, and the first has no reader left. Turns that take each other
back go, across reshapes too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import rewritten, value_of
from .views import VIEWS, Place, join, place_of, view_of

_TURNS = ("relax.permute_dims", "relax.take")
_SPLIT = "relax.split"


def join_moves(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` where no turn reads what another has moved."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod)))


@dataclass(frozen=True)
class Move:
    """One move of a contiguous tensor: reshaped to ``digits``, cut along them, turned.

    Attributes:
        digits: extents of the source's axes before it is cut.
        begins, ends: the part that is taken along each.
        axes: places of the result's axes; those of one element come last.
    """

    digits: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, place: Place, size: int) -> Move | None:
        """What a view of a tensor of ``size`` elements is; None where its strides are no digits of
        one number, as those of a part that leaves out every other element."""
        read = join([digit for axis in place.axes for digit in axis])
        order = sorted(range(len(read)), key=lambda n: -read[n][1])
        digits, begins, ends, unit, rest = [], [], [], size, place.offset
        for count, step in (read[n] for n in order):
            if unit % step:
                return None
            digits.append(unit // step)
            begins.append(rest // step)
            ends.append(begins[-1] + count)
            unit, rest = step, rest % step
            if ends[-1] > digits[-1]:
                return None
        if unit > 1:
            digits.append(unit)
            begins.append(rest)
            ends.append(rest + 1)
        axes = sorted(range(len(order)), key=order.__getitem__)
        axes += range(len(order), len(digits))
        return cls(tuple(digits), tuple(begins), tuple(ends), tuple(axes))


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) not in VIEWS or not self._moves(call):
            return call
        joined = self._joined(call)
        return call if joined is None else joined

    def _moves(self, call: Any) -> bool:
        """Whether two moves or more, one of them a turn, lie between a tensor and what computes
        its values. A split is one: all its parts are there before any of them is turned."""
        found, turns, splits = call, 0, 0
        while (name := operator_of(found)) in VIEWS or name == _SPLIT:
            turns += name in _TURNS
            splits += name == _SPLIT
            found = value_of(found.args[0], self.lookup_binding)
            if isinstance(found, relax.TupleGetItem):
                found = value_of(found.tuple_value, self.lookup_binding)
        return turns > 0 and turns + splits > 1

    def _joined(self, call: relax.Call) -> relax.Expr | None:
        # The call has no name yet, by which it would be looked up: its operand has.
        place = place_of(call.args[0], self.lookup_binding)
        call = self.builder_.normalize(call)
        shape = fixed_shape(call)
        if place is None or shape is None:
            return None
        try:
            view = view_of(call, place, self.lookup_binding)
        except (ValueError, LookupError):
            return None
        source = fixed_shape(place.source)
        move = None if source is None else Move.of(view, math.prod(source))
        return None if move is None else self._moved(place.source, source, move, shape)

    def _moved(self, tensor: Any, given: Any, move: Move, shape: tuple[int, ...]) -> relax.Expr:
        emit, op = self.builder_.emit, relax.op
        if given != move.digits:
            tensor = emit(op.reshape(tensor, move.digits))
        cut = [a for a, extent in enumerate(move.digits) if move.ends[a] - move.begins[a] < extent]
        if cut:
            begins, ends = ([numbers[a] for a in cut] for numbers in (move.begins, move.ends))
            tensor = emit(op.strided_slice(tensor, cut, begins, ends))
        if move.axes != tuple(sorted(move.axes)):
            tensor = emit(op.permute_dims(tensor, move.axes))
        return op.reshape(tensor, shape)
