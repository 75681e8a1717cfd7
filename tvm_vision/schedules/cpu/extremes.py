"""Maxima and minima that a NaN does not spoil for the numbers before it."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim


def new_first(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with what is new compared first, where a maximum or minimum is kept in place.

    LLVM has ``a > b ? a : b`` of Max(a, b), which is b where one of them is NaN. Of what was kept,
    first, and a NaN that would be NaN, and the next number after it: all that came before would be
    forgotten. The other way round a NaN is passed over, as on GPUs, by the same instruction.
    """
    body = tvm_ffi.structural_map(function.body, (tirx.BufferStore, _turned), order="post")
    if body.same_as(function.body):
        return function
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)


def _turned(store: Any) -> Any:
    value = store.value
    if not isinstance(value, (prim.Max, prim.Min)) or not _is_kept(value.a, store):
        return store
    turned = type(value)(value.b, value.a, value.span)
    return tirx.BufferStore(store.buffer, turned, store.indices, store.span)


def _is_kept(value: Any, store: Any) -> bool:
    """Whether a value is what stands where a store will put another."""
    if not isinstance(value, ir.TensorLoad) or not value.source.same_as(store.buffer):
        return False
    pairs = zip(value.indices, store.indices, strict=True)
    return all(tvm_ffi.structural_equal(a, b) for a, b in pairs)
