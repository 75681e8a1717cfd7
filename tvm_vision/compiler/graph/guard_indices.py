"""Places in memory that data decides, kept within their tensors.

An index that a network computes, or takes as an input, can be any number: a Gather would read, a
Scatter write, beyond its tensor, which ends the process on a processor and spoils other tensors on
a GPU. Where an index that depends on loaded values is not known to be inside, a load takes the
nearest element there is, and a store is left out. ONNX calls such an index an error; a kernel
cannot raise one.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import prim


def guarded(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """``function`` with guards where data decides about places; the same object where nowhere."""
    loaded = _loaded(function.body)
    if not loaded.places:
        return function
    body = tvm_ffi.structural_map(
        function.body,
        [(ir.TensorLoad, loaded.load), (tirx.BufferStore, loaded.store)],
        order="post",
    )
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)


class _Loaded:
    """What in a function depends on loaded values.

    Attributes:
        places: whether any index does.
    """

    def __init__(self) -> None:
        self.names: set[Any] = set()
        self.places = False

    def depends(self, value: Any) -> bool:
        found: list[Any] = []
        tvm_ffi.structural_walk(
            value,
            [
                (ir.TensorLoad, found.append),
                (ir.Var, lambda var: found.append(var) if var in self.names else None),
            ],
        )
        return bool(found)

    def load(self, load: Any) -> Any:
        """A load with its indices inside."""
        shape = load.source.ty.shape
        indices = [self._inside(i, n) for i, n in zip(load.indices, shape, strict=True)]
        same = all(a is b for a, b in zip(indices, load.indices, strict=True))
        return load if same else tirx.BufferLoad(load.source, indices)

    def store(self, store: Any) -> Any:
        """A store under the condition that its indices are inside."""
        pairs = zip(store.indices, store.buffer.ty.shape, strict=True)
        conditions = [
            tirx.all(index >= 0, index < size)
            for index, size in pairs
            if self.depends(index) and not _is_inside(index, size)
        ]
        return tirx.IfThenElse(tirx.all(*conditions), store, None) if conditions else store

    def _inside(self, index: Any, size: Any) -> Any:
        if not self.depends(index) or _is_inside(index, size):
            return index
        zero = tirx.const(0, str(index.ty.dtype))
        last = tirx.Cast(str(index.ty.dtype), size) - 1
        return prim.Max(prim.Min(index, last), zero)


def _is_inside(index: Any, size: Any) -> bool:
    bound = sym.Analyzer().const_int_bound(index)
    known = getattr(size, "value", None)
    return known is not None and bound.min_value >= 0 and bound.max_value < int(known)


def _loaded(body: Any) -> _Loaded:
    """What depends on loaded values, through variables too."""
    found = _Loaded()

    def bind(node: Any) -> None:
        if found.depends(node.value):
            found.names.add(node.var)

    def see(indices: Any) -> None:
        found.places = found.places or any(map(found.depends, indices))

    tvm_ffi.structural_walk(body, ((tirx.Bind, tirx.LetStmt), bind), order="pre")
    tvm_ffi.structural_walk(
        body,
        [
            (ir.TensorLoad, lambda load: see(load.indices)),
            (tirx.BufferStore, lambda store: see(store.indices)),
        ],
    )
    return found
