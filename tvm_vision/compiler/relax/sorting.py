"""Stable sorts of rows on a GPU, by kernels of our own (topi/radix_sort.py)."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from ...topi import radix_sort


def sorted_rows(builder: tvm.relax.BlockBuilder, keys: Any, bits: int) -> tuple[Any, Any]:
    """Rows in ascending order: the keys, and int32 where in its row each was. Of equal ones the
    first comes first.

    keys: uint32 (rows, n). bits: by how many of a key, its lowest ones, they are sorted.
    """

    def te(function: Any, *given: Any) -> Any:
        return builder.emit_te(function, *given, primfunc_name_hint=f"sort_{function.__name__}")

    def both(pair: Any) -> tuple[Any, Any]:
        return tuple(builder.emit(relax.TupleGetItem(pair, i)) for i in range(2))

    if int(keys.ty.shape[1]) <= radix_sort.BLOCK:
        return both(te(radix_sort.sorted_in_block, keys, bits))
    places: list[Any] = []
    passes = radix_sort.passes_of(bits)
    for number in range(passes):
        counts = te(radix_sort.counts_of_digits, keys)
        turn = radix_sort.turn_of(number, passes)
        keys, where = both(te(radix_sort.sorted_by_digit, keys, counts, places, turn))
        places = [where]
    return keys, places[0]
