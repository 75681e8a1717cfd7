"""The k largest or smallest of a row, by their ranks.

A number's rank is how many of its row come before it. Each is counted by itself, with no order
among threads and no turn that waits for another, so that a GPU is done with thousands of numbers
before the first steps of a sort are. Numbers are compared as int32: those of float32 in the order
of their values, a NaN beyond infinity, of equal ones the first before the others.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

# Of these types each number has an int32 of its own in the same order.
WHOLE = ("int8", "uint8", "int16", "uint16", "int32")
FLOATS = ("float16", "float32")
_LOW_BITS = 0x7FFFFFFF  # of a negative number they count down


def keys_of(x: te.Tensor, largest: bool) -> te.Tensor:
    """Numbers that stand for those of x, the first to come the largest.

    x: of any shape, of WHOLE or FLOATS.
    """

    def key(*at: Any) -> Any:
        value = x(*at)
        if x.dtype in FLOATS:
            value = value.astype("float32")
            # Both zeros are one number.
            value = _folded(
                tirx.reinterpret("int32", tirx.Select(value == 0, tirx.const(0.0), value))
            )
        value = value.astype("int32")
        return value if largest else -1 - value

    return te.compute(x.shape, key, name="keys")


def ranks_of(keys: te.Tensor) -> te.Tensor:
    """How many come before each: int32 (rows, n), of keys (rows, n)."""
    rows, count = keys.shape
    j = te.reduce_axis((0, count), "j")

    def rank(row: Any, i: Any) -> Any:
        one, other = keys[row, i], keys[row, j]
        before = tirx.any(other > one, tirx.all(other == one, j < i))
        return te.sum(before.astype("int32"), axis=j)

    return te.compute((rows, count), rank, name="ranks")


def places_of(ranks: te.Tensor, k: int) -> te.Tensor:
    """Where the first k of each row are: int32 (rows, k), of ranks (rows, n)."""
    rows, count = ranks.shape
    i = te.reduce_axis((0, count), "i")

    def place(row: Any, rank: Any) -> Any:
        found = ranks[row, i] == rank.astype("int32")
        return te.sum(tirx.Select(found, i.astype("int32"), tirx.const(0, "int32")), axis=i)

    return te.compute((rows, k), place, name="places")


def values_of(keys: te.Tensor, places: te.Tensor, largest: bool, dtype: str) -> te.Tensor:
    """What lies at places (rows, k), from the keys (rows, n) that stand for it; of type dtype."""

    def value(row: Any, rank: Any) -> Any:
        key = keys[row, places[row, rank]]
        key = key if largest else -1 - key
        return (tirx.reinterpret("float32", _folded(key)) if dtype in FLOATS else key).astype(dtype)

    return te.compute(places.shape, value, name="values")


def _folded(bits: Any) -> Any:
    """The bits of a float32 as a number in the order of its values, and back."""
    return tirx.Select(bits >= 0, bits, bits ^ tirx.const(_LOW_BITS, "int32"))
