"""Names kernels by what they compute, so that what was learned of one serves its equals."""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

# Attributes that say what a function is called or what may be fused with it, not what it computes.
NAMES = ("global_symbol", "op_pattern")


def kernel_key(function: tirx.PrimFunc) -> str:
    """16 hexadecimal digits that functions of the same structure, shapes and types share.

    TVM's structural hash: names of variables and of the function do not count.
    """
    for name in NAMES:
        if name in (function.attrs or {}):
            function = function.without_attr(name)
    return f"{tvm_ffi.structural_hash(function, map_free_vars=True) & (2**64 - 1):016x}"
