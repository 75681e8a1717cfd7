"""Whole numbers of four bits, which TVM has no tensors of: bytes hold the same numbers."""

from __future__ import annotations

import numpy as np

from .graph import GraphEditor

# The type that holds them, the least of them, and the largest.
FEW_BITS = {"int4": (np.dtype(np.int8), -8, 7), "uint4": (np.dtype(np.uint8), 0, 15)}


def in_bytes(name: str, graph: GraphEditor) -> str:
    """A value; of a constant of four bits, one of bytes."""
    value = graph.constant(name) if name else None
    if value is None or value.dtype.name not in FEW_BITS:
        return name
    return graph.make_constant(value.astype(FEW_BITS[value.dtype.name][0]), name)


def held_and_ends(dtype: np.dtype) -> tuple[np.dtype, int, int]:
    """The type that holds whole numbers, the least of them, and the largest."""
    if dtype.name in FEW_BITS:
        return FEW_BITS[dtype.name]
    return dtype, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
