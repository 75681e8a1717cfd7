"""The shared memory that a shader declares."""

from __future__ import annotations

import re

SHARED = re.compile(r"^shared (\w+) \w+(?:\[(\d+)\])?;$", re.M)
BYTES = {"float": 4, "int": 4, "uint": 4, "bool": 4, "float16_t": 2, "int8_t": 1}
VECTORS = {"vec": 4, "ivec": 4, "uvec": 4, "f16vec": 2, "i8vec": 1}


def shared_bytes(source: str) -> int:
    """Of the text of a shader in GLSL."""
    return sum(_bytes_of(typed) * int(count or 1) for typed, count in SHARED.findall(source))


def _bytes_of(typed: str) -> int:
    return BYTES.get(typed) or VECTORS[typed[:-1]] * int(typed[-1])
