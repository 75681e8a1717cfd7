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
SIGN = 1 << 31
_LOW_BITS = SIGN - 1  # of a negative number they count down


def keys_of(x: te.Tensor, largest: bool) -> te.Tensor:
    """Numbers that stand for those of x, the first to come the largest.

    x: of any shape, of WHOLE or FLOATS.
    """

    return te.compute(x.shape, lambda *at: key_of(x(*at), largest), name="keys")


def key_of(value: Any, largest: bool) -> Any:
    """The key of a number of WHOLE or FLOATS: int32."""
    if str(value.ty.dtype) in FLOATS:
        value = value.astype("float32")
        # Both zeros are one number.
        value = _folded(tirx.reinterpret("int32", tirx.Select(value == 0, tirx.const(0.0), value)))
    value = value.astype("int32")
    return value if largest else -1 - value


def unsigned(key: Any) -> Any:
    """A key as a number without a sign, uint32, in the same order."""
    return key.astype("uint32") ^ tirx.const(SIGN, "uint32")


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


def gathered(source: te.Tensor, places: te.Tensor) -> te.Tensor:
    """source (rows, n) at places (rows, k)."""
    return te.compute(places.shape, lambda row, i: source[row, places[row, i]], name="gathered")


def _folded(bits: Any) -> Any:
    """The bits of a float32 as a number in the order of its values."""
    return tirx.Select(bits >= 0, bits, bits ^ tirx.const(_LOW_BITS, "int32"))
