"""Conversions that processors have no instruction for, in terms of those that they have."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import prim

_BITS = "uint32"


def cast_by_steps(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with each conversion from float64 to float16 by way of float32.

    LLVM calls a function of the compiler's library for it, which no robot has and a linker of ours
    does not bring. So that it rounds once, the step to float32 rounds to odd (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008): what is not exact is cut off and its last
    bit set, which says to the step to float16, of fewer bits by far, that there was more.
    """
    body = tvm_ffi.structural_map(function.body, (prim.Cast, _by_steps), order="post")
    if body.same_as(function.body):
        return function
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)


def _by_steps(cast: Any) -> Any:
    if (str(cast.ty.dtype), str(cast.value.ty.dtype)) != ("float16", "float64"):
        return cast
    exact = cast.value
    near = prim.Cast("float32", exact)
    again = prim.Cast("float64", near)
    bits = tirx.reinterpret(_BITS, near)
    one, none = tirx.const(1, _BITS), tirx.const(0, _BITS)
    # Further from zero by one step: numbers of one sign are in the order of their bits.
    beyond = tirx.Select(tirx.abs(again) > tirx.abs(exact), one, none)
    odd = tirx.bitwise_or(bits - beyond, one)
    kept = tirx.Select(prim.EQ(again, exact), bits, odd)
    return prim.Cast("float16", tirx.reinterpret("float32", kept))
