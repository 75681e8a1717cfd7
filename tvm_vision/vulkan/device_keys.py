"""Keys that a device's target gets from what the device reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..target_keys import COMPUTE_UNITS, FLOAT16_MATRICES, INT8_MATRICES, matrix_key, number_key

# Types of A, B, C and result, as the backend names them.
_MATRICES: dict[tuple[str, ...], str] = {
    ("float16", "float16", "float32", "float32"): FLOAT16_MATRICES,
    ("int8", "int8", "int32", "int32"): INT8_MATRICES,
}


def keys_of(device: Mapping[str, Any]) -> list[str]:
    """The keys, see ``tvm_vision.target_keys``, of a device as the backend describes it."""
    units = int(device["compute_units"])
    return [*([number_key(COMPUTE_UNITS, units)] if units else []), *_matrix_keys(device)]


def _matrix_keys(device: Mapping[str, Any]) -> list[str]:
    found: dict[str, None] = {}  # each once: shapes are told again for what saturates
    for m, n, k, *types in (tuple(shape) for shape in device["cooperative_matrix_shapes"]):
        of = _MATRICES.get(tuple(map(str, types)))
        if of is not None:
            found[matrix_key(of, int(m), int(n), int(k))] = None
    return list(found)
