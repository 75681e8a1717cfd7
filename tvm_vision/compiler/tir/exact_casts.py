"""Conversions that cancel: a value in a wider type and back, as resizing writes of bytes.

TVM's resizing computes in float32 whatever it picks, and TVM's simplifier leaves such conversions,
as they may round. Those here do not: every value of the type lies in all types on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import prim

from .functions import in_each_function


def cancel_casts(mod: tvm.IRModule) -> tvm.IRModule:
    """The same module, its TensorIR functions without conversions that change no value."""
    return in_each_function(mod, without_exact_casts)


def without_exact_casts(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with each value that goes to wider types and back as it was."""
    body = tvm_ffi.structural_map(function.body, (prim.Cast, _shortened), order="post")
    if body.same_as(function.body):
        return function
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)


def _shortened(cast: Any) -> Any:
    wanted, source = str(cast.ty.dtype), cast.value
    between: list[str] = []
    while isinstance(source, prim.Cast):
        between.append(str(source.ty.dtype))
        source = source.value
        if str(source.ty.dtype) == wanted and all(_holds(each, wanted) for each in between):
            return source
    return cast


def _holds(wide: str, narrow: str) -> bool:
    """Whether a type has every value of another; no for those that numpy does not know."""
    try:
        return bool(np.can_cast(narrow, wide, "safe"))
    except TypeError:
        return False
