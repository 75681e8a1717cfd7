"""Dynamic shared memory without a type: TVM merges all of it into raw bytes, seen through views.

A view of a type that is held in a larger one does not fit its place among the others. Views of
different types are arrays of their own in a shader (memory.py), so each such type gets an
allocation of its own, in which its elements keep their indices.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import handle
from tvm_vision.vulkan.codegen.glsl.missing_types import Missing
from tvm_vision.vulkan.codegen.glsl.types import UINT32, Type

SCOPE = "shared.dyn"


class DynamicShared:
    """The dynamic shared memory of one kernel."""

    def __init__(self, missing: Missing, buffers: dict[int, Any]) -> None:
        """buffers: gets what is held otherwise, by the buffer that it stands for."""
        self._missing = missing
        self._buffers = buffers
        self._bytes: dict[int, int] = {}
        # Where views of types that there are lie, where that is not their own allocation.
        self._homes: dict[int, Any] = {}
        self._made: dict[tuple[int, Type], Any] = {}

    def allocate(self, stmt: Any) -> Any:
        """An allocation, or None for memory that is not dynamic."""
        buffer = stmt.buffer
        if str(buffer.ty.storage_scope) != SCOPE:
            return None
        of = types.parse(str(buffer.ty.dtype.dtype))
        root, count = handle(buffer), of.lanes
        for extent in buffer.ty.shape:
            if type(extent) is not prim.IntImm:
                return stmt  # refused by name where it is printed
            count *= int(extent.value)
        self._bytes[root] = count * of.scalar.storage_bytes
        if self._missing.held(of) == of:
            return stmt
        home = buffer_like(buffer, UINT32, [-(-self._bytes[root] // UINT32.storage_bytes)])
        self._homes[root] = home
        return tirx.SeqStmt([tirx.AllocBuffer(home), self._array(root, of, buffer)])

    def declare(self, stmt: Any, root: int) -> Any:
        """A view of the memory of a handle, or None where that is not dynamic."""
        if root not in self._bytes:
            return None
        of = types.parse(str(stmt.buffer.ty.dtype.dtype))
        if self._missing.held(of) != of:
            return self._array(root, of, stmt.buffer)
        home = self._homes.get(root)
        return stmt if home is None else tirx.DeclBuffer(stmt.buffer, data=home.data)

    def _array(self, root: int, of: Type, buffer: Any) -> Any:
        """Has a buffer stand for the array of a type, which is allocated when it is first seen."""
        key = (root, of.scalar)
        made, new = self._made.get(key), key not in self._made
        if new:
            count = self._bytes[root] // of.storage_bytes
            made = self._made[key] = buffer_like(buffer, self._missing.held(of), [count])
        self._buffers[handle(buffer)] = made
        return tirx.AllocBuffer(made) if new else tirx.Evaluate(0)


def buffer_like(buffer: Any, of: Type, shape: Any) -> Any:
    """A buffer of the same name and scope, of another type and shape."""
    scope = str(buffer.ty.storage_scope)
    return tirx.decl_buffer(shape, str(of), buffer.name, scope=scope)
