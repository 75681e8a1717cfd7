"""Sums of integers in an order that leaves as little as possible to each thread.

A place in memory is a sum of what a workgroup has in common (its number, loops) and of what each of
its threads adds. Processors with a unit of their own for numbers that are the same in all lanes
(AMD's scalar unit, NVIDIA's uniform datapath) add up the first there, once, where the terms stand
together; compilers do not reorder sums. The same holds for a remainder: where the threads' part
stays below a common divisor of the other part and the modulus, it has no influence on the quotient,

    (4 * k + lane) % 72 = (4 * k) % 72 + lane    for 0 <= lane < 4,

and the division, five instructions, is one of numbers in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tvm import ir
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl.analysis import INT32_RANGE, Analysis, handle, type_of
from tvm_vision.vulkan.codegen.glsl.types import INT32

_QUOTIENTS = (prim.FloorDiv, prim.Div)
_DIVISIONS = (*_QUOTIENTS, prim.FloorMod, prim.Mod)
Term = tuple[int, Any]


@dataclass
class Sum:
    """Terms of an int32 expression, each a factor and what it multiplies, and a constant."""

    common: list[Term] = field(default_factory=list)
    """The same for all threads of a workgroup."""
    own: list[Term] = field(default_factory=list)
    """Different between them."""
    unrolled: list[Term] = field(default_factory=list)
    """Of unrolled loops, constants in each round."""
    constant: int = 0

    @property
    def parts(self) -> tuple[list[Term], list[Term], list[Term]]:
        """In the order in which they are best added: the last ones change most often."""
        return self.own, self.common, self.unrolled

    @property
    def mixed(self) -> bool:
        """Whether there are terms of threads and others."""
        return bool(self.own and (self.common or self.unrolled))


class Sums:
    """Takes a kernel's sums apart, looking through its let-bound variables."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        # Of variables and divisions, which come up again and again.
        self._bound: dict[int, Sum | None] = {}
        self._common: dict[int, bool] = {}
        # With the division itself: where it lives no other comes to have its handle.
        self._divided: dict[int, tuple[Any, Sum | None]] = {}
        self.unrolled: set[int] = set()
        """Variables of the loops around what is taken apart that are unrolled."""

    def of(self, expression: Any) -> Sum | None:
        """The terms of an int32 expression; None for one that depends on loads or calls."""
        found = Sum()
        known = self._collect(expression, 1, found) and _fits(found.constant)
        return found if known else None

    def split_division(self, node: Any) -> Sum | None:
        """The terms of a division by a constant, of which only what threads have in common is
        divided; None where that is not proven to be the same."""
        if type(node) not in _DIVISIONS or not isinstance(node.b, prim.IntImm):
            return None
        if handle(node) not in self._divided:
            self._divided[handle(node)] = node, self._split(node)
        return self._divided[handle(node)][1]

    def _split(self, node: Any) -> Sum | None:
        inner, modulus = self.of(node.a), int(node.b.value)
        if inner is None or not inner.mixed or modulus <= 0:
            return None
        common = _expression([*inner.common, *inner.unrolled], inner.constant)
        own = _expression(inner.own, 0)
        known = self._analysis.analyzer.modular_set(common)
        step = math.gcd(modulus, int(known.coeff), int(known.base))
        low, high = self._analysis.bounds(own)
        if low < 0 or high >= step or not self._analysis.non_negative(common):
            return None
        divided = type(node)(common, node.b)
        found = Sum(own=[] if type(node) in _QUOTIENTS else inner.own)
        (found.common if inner.common else found.unrolled).append((1, divided))
        return found

    def _collect(self, node: Any, factor: int, found: Sum) -> bool:
        """Adds the terms of a part; False where it has none."""
        if type_of(node) != INT32:
            return False
        kind = type(node)
        if kind is prim.IntImm:
            found.constant += factor * int(node.value)
            return True
        if kind is prim.Add or kind is prim.Sub:
            other = factor if kind is prim.Add else -factor
            return self._collect(node.a, factor, found) and self._collect(node.b, other, found)
        if kind is prim.Mul:
            for part, by in ((node.a, node.b), (node.b, node.a)):
                if isinstance(by, prim.IntImm) and _fits(factor * int(by.value)):
                    return self._collect(part, factor * int(by.value), found)
        if kind in _DIVISIONS and (split := self.split_division(node)) is not None:
            return self._add(split, factor, found)
        if kind is ir.Var and (known := self._value(node)) is not None:
            return self._add(known, factor, found)
        variables = [node] if kind is ir.Var else self._analysis.variables_of(node)
        if variables is None:
            return False
        if not all(map(self._is_common, variables)):
            found.own.append((factor, node))
        elif all(handle(variable) in self.unrolled for variable in variables):
            found.unrolled.append((factor, node))
        else:
            found.common.append((factor, node))
        return True

    def _is_common(self, var: Any) -> bool:
        if handle(var) not in self._common:
            self._common[handle(var)] = self._analysis.uniform(var)
        return self._common[handle(var)]

    def _add(self, other: Sum, factor: int, found: Sum) -> bool:
        for terms, more in zip(found.parts, other.parts, strict=True):
            terms += [(factor * by, term) for by, term in more]
        found.constant += factor * other.constant
        return all(_fits(factor * by) for part in other.parts for by, _ in part)

    def _value(self, var: Any) -> Sum | None:
        """The terms of a variable's value, if they are of both kinds."""
        if handle(var) not in self._bound:
            value = self._analysis.values.get(handle(var))
            inner = None if value is None else self.of(value)
            self._bound[handle(var)] = inner if inner is not None and inner.mixed else None
        return self._bound[handle(var)]


def _fits(value: int) -> bool:
    return INT32_RANGE[0] <= value <= INT32_RANGE[1]


def _expression(terms: list[Term], constant: int) -> Any:
    found: Any = None
    for factor, term in terms:
        part = term if factor == 1 else prim.Mul(term, prim.IntImm("int32", factor))
        found = part if found is None else prim.Add(found, part)
    if constant:
        found = prim.Add(found, prim.IntImm("int32", constant))
    return found
