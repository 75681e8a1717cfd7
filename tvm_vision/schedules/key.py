"""Names kernels by what they compute, so that what was learned of one serves its equals."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import prim

# Attributes that say what a function is called or what may be fused with it, not what it computes.
NAMES = ("global_symbol", "op_pattern")


def kernel_key(function: tirx.PrimFunc) -> str:
    """16 hexadecimal digits that functions of the same structure, shapes and types share.

    TVM's structural hash: names of variables and of the function do not count. Nor do scales and
    zero points of kernels that read bytes: they are other numbers each time that a network is
    quantized, and a schedule does not depend on them.
    """
    for name in NAMES:
        if name in (function.attrs or {}):
            function = function.without_attr(name)
    if any(str(getattr(p.ty, "dtype", "")) == "int8" for p in function.params):
        function = function.with_body(_without_numbers(function.body))
    return f"{tvm_ffi.structural_hash(function, map_free_vars=True) & (2**64 - 1):016x}"


def _without_numbers(body: Any) -> Any:
    """``body`` with the same number in place of every constant of float32 or int8."""

    def real(node: Any) -> Any:
        return prim.FloatImm(str(node.ty.dtype), 1.0)

    def whole(node: Any) -> Any:
        return prim.IntImm("int8", 1) if str(node.ty.dtype) == "int8" else node

    return tvm_ffi.structural_map(body, [(prim.FloatImm, real), (prim.IntImm, whole)], order="post")
