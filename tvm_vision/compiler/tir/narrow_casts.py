"""Places that are made of real numbers, as where an image is enlarged or sampled, in 32 bits.

TVM has them in int64, as shapes are. A GPU puts the conversion, and what follows, together from
several instructions each, and a processor has vectors for it from AVX-512 on only. Bounds of a
place are bounds of the number, too, and a number can be compared before it is converted: both are
exact for all numbers. What NaN is converted to, nobody says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from .fp16_sums import function_name
from .functions import in_each_function

# Below these a type of real numbers has every whole one, and int32 has it, too.
_EXACT = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 30}
_WHOLE = ("floor", "ceil", "round", "trunc", "nearbyint")
_BOUNDS = (prim.Min, prim.Max)
_COMPARISONS = (prim.LT, prim.LE, prim.GT, prim.GE)


@tvm.transform.module_pass(opt_level=0, name="tvm_vision.NarrowCasts")
def narrow_casts(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """The functions with such places in 32 bits."""
    return in_each_function(mod, narrowed)


def narrowed(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function in which no real number that is bounded on both sides, or compared with a
    constant, becomes an int64 for it. Raises nothing."""
    changes = [(_BOUNDS, _bounded), (_COMPARISONS, _compared)]
    return function.with_body(tvm_ffi.structural_map(function.body, changes, order="post"))


@dataclass
class _Place:
    """``int64(number) + offset``."""

    number: Any
    offset: int

    @classmethod
    def of(cls, expression: Any) -> _Place | None:
        """None of what has another form."""
        offset = 0
        if isinstance(expression, (prim.Add, prim.Sub)) and isinstance(expression.b, prim.IntImm):
            offset = int(expression.b.value) * (1 if isinstance(expression, prim.Add) else -1)
            expression = expression.a
        if not isinstance(expression, prim.Cast) or str(expression.ty.dtype) != "int64":
            return None
        number = expression.value
        return cls(number, offset) if str(number.ty.dtype) in _EXACT else None

    def reaches(self, bound: int) -> bool:
        """Whether the number's type and int32 have what the number is where the place is this."""
        return abs(bound - self.offset) < _EXACT[str(self.number.ty.dtype)]

    def at(self, bound: int) -> Any:
        """What the number is where the place is this."""
        return tirx.const(float(bound - self.offset), str(self.number.ty.dtype))


def _bounded(node: Any) -> Any:
    """max(min(int64(x) + a, b), c), and min(max(…))."""
    inner = node.a
    if str(node.ty.dtype) != "int64" or not isinstance(inner, _BOUNDS):
        return node
    bounds, place = (node.b, inner.b), _Place.of(inner.a)
    if place is None or not all(isinstance(bound, prim.IntImm) for bound in bounds):
        return node
    low, high = sorted(int(bound.value) for bound in bounds)
    is_upper = isinstance(inner, prim.Min)
    in_order = int(inner.b.value) == (high if is_upper else low)
    if isinstance(node, type(inner)) or not in_order or not all(map(place.reaches, (low, high))):
        return node
    number = tirx.max(tirx.min(place.number, place.at(high)), place.at(low))
    bounded = prim.Cast("int64", prim.Cast("int32", number))
    return bounded + tirx.const(place.offset, "int64") if place.offset else bounded


def _compared(node: Any) -> Any:
    """int64(x) + a < b, and the like."""
    for place, bound, is_right in _sides(node):
        if place.reaches(bound):
            whole = place.number
            if not isinstance(whole, ir.Call) or function_name(whole) not in _WHOLE:
                whole = tirx.trunc(whole)
            sides = whole, place.at(bound)
            return type(node)(*(sides[::-1] if is_right else sides))
    return node


def _sides(node: Any) -> Iterator[tuple[_Place, int, bool]]:
    """A place that is compared with a constant, the constant, and whether the place is the right
    side."""
    for side, other, is_right in ((node.a, node.b, False), (node.b, node.a, True)):
        place = _Place.of(side)
        if place is not None and isinstance(other, prim.IntImm):
            yield place, int(other.value), is_right
