"""Parts of one tensor side by side, read at a place that is chosen instead of by a choice of reads.

Circular padding is slices and the whole tensor joined, a roll is two slices. Within what reads it
such a concatenation is a choice between its parts, each of which is read by itself, and compilers
wait for a read in its branch before the next begins. All parts are of one tensor here, so that the
place alone is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx

from .operators import fixed_shape, operator_of
from .rewriting import Lookup, calls_any, resolve, rewritten, value_of
from .views import numbers

NAME = "parts_of_one"
# A choice between more is as long as the reads that it saves.
MOST_PARTS = 8
# Neighbours along the last axis that are read together, where parts are whole numbers of them.
VECTOR = 4


def parts_of_one(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with one read for concatenations of parts of one tensor."""
    if not calls_any(mod, {"relax.concat"}):
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Concatenations(mod)))


@dataclass(frozen=True)
class _Part:
    """Elements ``begin`` to ``end`` along an axis of ``source``."""

    source: Any
    begin: int
    end: int

    @classmethod
    def of(cls, expr: Any, axis: int, lookup: Lookup) -> _Part | None:
        """A whole tensor where an expression is no slice along that axis alone; None where its
        shape is not known."""
        shape, made = fixed_shape(expr), value_of(expr, lookup)
        if shape is None:
            return None
        whole = cls(resolve(expr, lookup), 0, shape[axis])
        if operator_of(made) != "relax.strided_slice":
            return whole
        extents = fixed_shape(made.args[0])
        try:
            axes, begins, ends, *steps = (numbers(given, lookup) for given in made.args[1:])
        except ValueError:
            return whole
        along = {each % len(shape) for each in axes}
        if extents is None or along != {axis} or (steps and steps[0] != [1]):
            return whole
        begin, end, _ = slice(begins[0], ends[0]).indices(extents[axis])
        return cls(resolve(made.args[0], lookup), begin, end)


@relax.expr_functor.mutator
class _Concatenations(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        shape = fixed_shape(call) if operator_of(call) == "relax.concat" else None
        given = value_of(call.args[0], self.lookup_binding) if shape else None
        fields = list(getattr(given, "fields", []))
        if shape is None or not 2 <= len(fields) <= MOST_PARTS:
            return call
        axis = int(call.attrs.axis or 0) % len(shape)
        found = [_Part.of(field, axis, self.lookup_binding) for field in fields]
        parts = [part for part in found if part is not None]
        alike = all(part.source.same_as(parts[0].source) for part in parts[1:])
        if len(parts) < len(found) or not alike or _in_vectors(parts, axis == len(shape) - 1):
            return call
        ends = [(part.begin, part.end) for part in parts]
        return self.builder_.call_te(joined, parts[0].source, ends, axis, primfunc_name_hint=NAME)


def _in_vectors(parts: Sequence[_Part], is_last: bool) -> bool:
    """Whether neighbours that are read together are all of one part."""
    return is_last and all(part.begin % VECTOR == 0 and part.end % VECTOR == 0 for part in parts)


def joined(x: te.Tensor, parts: Sequence[tuple[int, int]], axis: int) -> te.Tensor:
    """x: of any shape and type. The result has the parts, each from a place to another, one after
    the other along the axis."""
    length = sum(end - begin for begin, end in parts)

    def value(*at: Any) -> Any:
        here, after, place = at[axis], length, None
        for begin, end in reversed(parts):
            own = here + (end - after)
            place = own if place is None else tirx.Select(here < after, own, place)
            after -= end - begin
        return x(*at[:axis], place, *at[axis + 1 :])

    return te.compute([*x.shape[:axis], length, *x.shape[axis + 1 :]], value, name=NAME)
