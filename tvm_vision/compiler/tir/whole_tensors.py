"""Tensors of a kernel begin where their memory does.

What TE calls extern, recurrences, sorts and scans for example, takes tensors that may begin
anywhere: the place is a number that each launch gives, and no vector can be loaded from a place
that nobody knows. A network's tensors are whole, so that it is always 0.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import prim

from .cast_buffers import Uses, with_buffers


def whole_tensors(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """``func`` with parameters that begin at 0, but for those whose addresses it takes."""
    anywhere = [param for param in func.params if _begins_anywhere(param)]
    if not anywhere:
        return func
    uses = Uses(func.body)
    new = {
        param: tirx.decl_buffer(param.ty.shape, str(param.ty.dtype), name=param.name)
        for param in anywhere
        if uses.are_ordinary(param)
    }
    params = [new.get(param, param) for param in func.params]
    return tirx.PrimFunc(params, with_buffers(func.body, new), func.ret_type, func.attrs, func.span)


def _begins_anywhere(param: Any) -> bool:
    if not tirx.buffer.is_buffer_var(param) or param.ty.strides:
        return False
    return not isinstance(param.ty.elem_offset, prim.IntImm)
