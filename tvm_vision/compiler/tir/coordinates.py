"""Which tensors hold numbers whose last digits decide: where something is read, what becomes an
integer, what is compared for equality, what a remainder or a sine is taken of.

fp16 has 11 bits. At column 1,000 of an image they are half a pixel, of 3,000 tokens' numbers not
all can be told apart, of neighbours in a map of scores several become the largest, and what lies
just below a multiple is one. An angle of three turns is rounded to 1/64.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from .fp16_sums import function_name
from .stores import Stores, all_of

# Sums over so few are of coordinates: homogeneous ones in space have four.
FEW = 4
_SELECTIONS = (prim.Max, prim.Min)
_OF_ANGLES = ("sin", "cos", "tan")
_WIDE_INTEGERS = ("int32", "int64", "uint32", "uint64")


def holds_coordinates(func: tirx.PrimFunc, outputs: Collection[int]) -> list[bool]:
    """For each parameter of ``func`` whether its numbers are such, given those at ``outputs`` are.

    A number is one where it is part of an index, of what is written to integers of 32 bits and
    more, of a remainder, of an angle, or of a comparison of two tensors for equality; also where
    such a number is computed from it by arithmetic, or by a sum over at most four. What is summed
    over more is a feature.
    """
    stores = Stores(func)
    decisive = {func.params[place] for place in outputs}
    decisive |= {param for param in func.params if _is_wide_integer(param)}
    decisive |= {*_read_by_indices(stores), *_compared(stores), *_divided(stores), *_angles(stores)}
    waiting = list(decisive)
    while waiting:
        buffer = waiting.pop()
        for value, terms in stores.written.get(buffer, ()):
            if terms <= FEW or isinstance(value, _SELECTIONS):
                more = set(stores.loaded(value)) - decisive
                decisive |= more
                waiting.extend(more)
    return [param in decisive for param in func.params]


def _is_wide_integer(buffer: Any) -> bool:
    return tirx.buffer.is_buffer_var(buffer) and str(buffer.ty.dtype) in _WIDE_INTEGERS


def _read_by_indices(stores: Stores) -> Iterator[Any]:
    """The buffers whose numbers say where something is read or written."""
    for index in stores.indices:
        yield from stores.loaded(index)


def _divided(stores: Stores) -> Iterator[Any]:
    """The buffers of whose numbers remainders are taken, and what they are divided by."""
    values = (value for pairs in stores.written.values() for value, _ in pairs)
    for remainder in (r for value in values for r in all_of(value, prim.Mod)):
        if str(remainder.ty.dtype).startswith("float"):
            yield from (*stores.loaded(remainder.a), *stores.loaded(remainder.b))


def _angles(stores: Stores) -> Iterator[Any]:
    """The buffers of whose numbers sines, cosines and tangents are taken."""
    values = (value for pairs in stores.written.values() for value, _ in pairs)
    for call in (call for value in values for call in all_of(value, ir.Call)):
        if function_name(call) in _OF_ANGLES:
            yield from stores.loaded(call.args[0])


def _compared(stores: Stores) -> Iterator[Any]:
    """The buffers whose numbers are compared with those of another for equality.

    An arg max compares, too, to find the first of equal ones: it reduces.
    """
    values = [value for pairs in stores.written.values() for value, terms in pairs if terms == 1]
    for comparison in (c for value in values for c in all_of(value, (prim.EQ, prim.NE))):
        sides = comparison.a, comparison.b
        read = [set(stores.loaded(side)) for side in sides]
        # A number that is not equal to itself is NaN, in any type.
        if all(read) and not tvm_ffi.structural_equal(*sides):
            yield from read[0] | read[1]
