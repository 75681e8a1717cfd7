"""Which tensors hold numbers whose last digits decide: where something is read, what becomes an
integer, what is compared for equality.

fp16 has 11 bits. At column 1,000 of an image they are half a pixel, of 3,000 tokens' numbers not
all can be told apart, and of neighbours in a map of scores several become the largest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts

# Sums over so few are of coordinates: homogeneous ones in space have four.
FEW = 4
_PAIRS = (
    prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod, prim.Max,
    prim.Min,
)  # fmt: skip
_SELECTIONS = (prim.Max, prim.Min)
_WIDE_INTEGERS = ("int32", "int64", "uint32", "uint64")


def holds_coordinates(func: tirx.PrimFunc, outputs: Collection[int]) -> list[bool]:
    """For each parameter of ``func`` whether its numbers are such, given those at ``outputs`` are.

    A number is one where it is part of an index, of what is written to integers of 32 bits and
    more, or of a comparison of two tensors for equality; also where such a number is computed from
    it by arithmetic, or by a sum over at most four. What is summed over more is a feature.
    """
    function = _Function(func)
    decisive = {func.params[place] for place in outputs}
    decisive |= {param for param in func.params if _is_wide_integer(param)}
    decisive |= set(function.read_by_indices()) | set(function.compared())
    waiting = list(decisive)
    while waiting:
        buffer = waiting.pop()
        for value, terms in function.stores.get(buffer, ()):
            if terms <= FEW or isinstance(value, _SELECTIONS):
                found = set(function.loaded(value)) - decisive
                decisive |= found
                waiting.extend(found)
    return [param in decisive for param in func.params]


def _is_wide_integer(buffer: Any) -> bool:
    return tirx.buffer.is_buffer_var(buffer) and str(buffer.ty.dtype) in _WIDE_INTEGERS


class _Function:
    """What is written and read in a function.

    Attributes:
        stores: of each buffer the values that are written to it, and over how many the block that
            does it reduces.
    """

    def __init__(self, func: tirx.PrimFunc) -> None:
        self._names: dict[Any, Any] = {}
        self._indices: list[Any] = []
        self.stores: dict[Any, list[tuple[Any, int]]] = {}
        terms: dict[int, int] = {}

        def note_block(block: Any) -> None:
            axes = [a for a in block.iter_vars if a.iter_type == tirx.IterVar.CommReduce]
            number = math.prod(int(getattr(a.dom.extent, "value", FEW + 1)) for a in axes)
            for store in _found(block.body, tirx.BufferStore):
                handle = store.__chandle__()
                terms[handle] = max(number, terms.get(handle, 1))

        tvm_ffi.structural_walk(
            func.body,
            [
                ((tirx.Bind, tirx.LetStmt), lambda let: self._names.update({let.var: let.value})),
                (s_tir.SBlock, note_block),
                (ir.TensorLoad, lambda load: self._indices.extend(load.indices)),
            ],
        )
        for store in _found(func.body, tirx.BufferStore):
            self._indices.extend(store.indices)
            written = store.value, terms.get(store.__chandle__(), 1)
            self.stores.setdefault(store.buffer, []).append(written)

    def read_by_indices(self) -> Iterator[Any]:
        """The buffers whose numbers say where something is read or written."""
        for index in self._indices:
            yield from self.loaded(index)

    def compared(self) -> Iterator[Any]:
        """The buffers whose numbers are compared with those of another for equality.

        An arg max compares, too, to find the first of equal ones: it reduces.
        """
        values = [value for pairs in self.stores.values() for value, terms in pairs if terms == 1]
        for comparison in (c for value in values for c in _found(value, (prim.EQ, prim.NE))):
            sides = comparison.a, comparison.b
            read = [set(self.loaded(side)) for side in sides]
            # A number that is not equal to itself is NaN, in any type.
            if all(read) and not tvm_ffi.structural_equal(*sides):
                yield from read[0] | read[1]

    def loaded(self, value: Any) -> Iterator[Any]:
        """The buffers whose numbers ``value`` is made of, but for what chooses among them."""
        seen: set[int] = set()
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if part.__chandle__() in seen:
                continue
            seen.add(part.__chandle__())
            if isinstance(part, ir.TensorLoad):
                yield part.source
            elif isinstance(part, _PAIRS):
                waiting += [part.a, part.b]
            elif isinstance(part, prim.Cast):
                waiting.append(part.value)
            elif branches := choice_parts(part):
                waiting.extend(branches[1:])
            elif isinstance(part, ir.Call):
                waiting.extend(part.args)
            elif isinstance(part, ir.Var) and part in self._names:
                waiting.append(self._names[part])


def _found(node: Any, kinds: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (kinds, found.append))
    return found
