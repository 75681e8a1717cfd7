"""Which types a target lacks, and what takes their place."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import type_of
from tvm_vision.vulkan.codegen.glsl.types import FLOAT16, FLOAT32, INT32, UINT32, Type


class Missing:
    """What a target says that it lacks, and what takes its place."""

    def __init__(self, attributes: dict) -> None:
        self._attributes = attributes

    def _says_no(self, attribute: str) -> bool:
        found = self._attributes.get(attribute)
        return found is not None and not found

    def has_value(self, of: Type) -> bool:
        """Whether a type can be computed with."""
        return not self._says_no(types.attribute_of(of.scalar))

    def has_buffer(self, of: Type) -> bool:
        """Whether buffers can hold a type."""
        bits = types.storage(of).bits
        if bits == 64:
            return self.has_value(of)
        return bits == 32 or not self._says_no(f"supports_{bits}bit_buffer")

    def lacks(self, of: Type) -> bool:
        """Whether something is to be done about a type: float64, and float16 without buffers of 16
        bits, have no form."""
        if of.kind == "float":
            return of.bits == 16 and not self.has_value(of) and self.has_buffer(of)
        return not self.has_value(of) or not self.has_buffer(of)

    def held(self, of: Type) -> Type:
        """The type to compute in."""
        if of.kind == "bool" or self.has_value(of) or not self.lacks(of):
            return of
        if of.scalar == FLOAT16:
            return FLOAT32.with_lanes(of.lanes)
        unsigned = of.kind == "uint" and of.bits == 64
        return (UINT32 if unsigned else INT32).with_lanes(of.lanes)


def types_in(function: Any) -> set[Type]:
    """The scalars that a lowered kernel computes with, loads or stores."""
    found: set[Type] = {
        type_of(p).scalar for p in function.params if not isinstance(p.ty, ir.PointerType)
    }

    def see(buffer: Any) -> None:
        found.add(types.parse(str(buffer.ty.dtype.dtype)).scalar)

    def value(node: Any) -> None:
        found.add(type_of(node).scalar)

    tvm_ffi.structural_walk(
        function.body,
        [
            (tirx.BufferStore, lambda store: see(store.buffer)),
            (ir.TensorLoad, lambda load: see(load.source)),
            (tirx.AllocBuffer, lambda made: see(made.buffer)),
            (prim.Cast, value),
            (prim.IntImm, value),
        ],
    )
    return found
