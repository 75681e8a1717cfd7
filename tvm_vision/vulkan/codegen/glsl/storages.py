"""Buffers in GLSL: arguments, shared and local arrays, how wide each is seen, their declarations.

A buffer that is only read may be seen through several blocks of one binding (float[] and vec4[]);
one that is written is seen through a single array, so that no two names alias: vec4[] if every
access is a whole aligned vec4, else scalars. Where four or more bytes are loaded or stored at once,
they are words of 32 bits in memory, in registers too, and bytes only to compute with; so are eight
halves in kernels with cooperative matrices, which load sixteen bytes from memory that is declared
in such faster than from that in pieces of eight.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import Access, Analysis, BufferUse, handle
from tvm_vision.vulkan.codegen.glsl.placed_arrays import PlacedArrays, placed_arrays
from tvm_vision.vulkan.codegen.glsl.types import FLOAT16, FLOAT32, Type

_EXACT_SHARED = ("shared", "shared.dyn")


class Storage:
    """One piece of memory: an argument (with a binding), a shared or a local array."""

    def __init__(self, name: str, kind: str, use: BufferUse, binding: int = -1) -> None:
        self.name = name
        self.kind = kind  # "buffer", "shared" or "local"
        self.use = use
        self.binding = binding
        self.size = 0  # elements; unknown (0) for an argument
        self.narrow = False  # int64 held in 32 bits
        self.arrays: dict[tuple[Type, int], str] = {}  # (scalar held, width) -> array name
        self.ranges: dict[Type, tuple[int, int]] = {}  # shared.dyn: part used by each type
        self.width = 0  # elements accessed at once; 0: each access chooses
        self.per_word = 1  # scalars in an array's words; 1 where its elements are none
        self.as_words = False  # floats added to atomically are held as uint
        self.place: int | None = None  # where it lies in the array that stands for several


class KernelStorages:
    """The pieces of memory of one kernel."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.storages: dict[int, Storage] = {}
        self.placed = PlacedArrays()

    def place_shared(self, body: Any, name: str, most: int) -> None:
        """Lets shared arrays of a kernel take the place of others that are read no more.

        Args:
            name: of the array that stands for them.
            most: bytes of shared memory that a workgroup may have.
        """
        self.placed = placed_arrays(self._analysis, body, name, self._width, most)

    # -- what there is --------------------------------------------------------

    def add_argument(self, parameter: Any, name: str, binding: int) -> None:
        """Registers a buffer argument of the kernel."""
        use = self._analysis.uses.get(handle(parameter), BufferUse())
        storage = Storage(name, "buffer", use, binding)
        if use.writes:
            storage.width = self._common_width(use)
            if len({access.element.scalar for access in use.accesses}) > 1:
                raise UnsupportedKernelError(
                    f"buffer {name} is written and seen under two element types"
                )
        self._use_words(storage)
        self.storages[handle(parameter)] = storage

    def add_allocation(self, buffer: Any, name: str) -> Storage:
        """Registers a shared or local array.

        Raises:
            UnsupportedKernelError: a size that is not constant, an unknown scope, two types.
        """
        scope = str(buffer.ty.storage_scope) or "local"
        if scope not in ("local", *_EXACT_SHARED):
            raise UnsupportedKernelError(
                f"array {name}: memory of scope {scope!r} has no form in a Vulkan shader: "
                "use shared or local"
            )
        use = self._analysis.uses.get(handle(buffer), BufferUse())
        storage = Storage(name, "local" if scope == "local" else "shared", use)
        element = self._analysis.element(buffer)
        storage.size = element.lanes
        for extent in buffer.ty.shape:
            if type(extent) is not prim.IntImm:
                raise UnsupportedKernelError(f"array {name}: needs a constant size, got {extent}")
            storage.size *= int(extent.value)
        storage.narrow = handle(buffer) in self._analysis.narrow
        storage.width = self._common_width(use)
        seen = {access.element.scalar for access in use.accesses}
        if scope == "shared.dyn":
            storage.width = 1
            self._split_by_type(storage, element)
        elif len(seen) > 1 or (seen and element.scalar not in seen):
            raise UnsupportedKernelError(
                f"array {name}: one {scope} array is seen under two element types"
            )
        self._use_words(storage)
        storage.place = self.placed.places.at.get(handle(buffer))
        self.storages[handle(buffer)] = storage
        return storage

    def _use_words(self, storage: Storage) -> None:
        if storage.use.atomic:
            storage.width = 1
            floats = {a.element.scalar for a in storage.use.accesses if a.element.kind == "float"}
            if floats - {FLOAT32}:
                raise UnsupportedKernelError(
                    f"buffer {storage.name}: atomics on floats exist for float32 only"
                )
            storage.as_words = bool(floats)

    def _split_by_type(self, storage: Storage, element: Type) -> None:
        """Gives each type its own array: TVM merges all dynamic shared memory into raw bytes."""
        size = storage.size * element.storage_bytes
        for access in storage.use.accesses:
            scalar = access.element.scalar
            low, high = self._touched(access, size // scalar.storage_bytes)
            found = storage.ranges.get(scalar, (low, high))
            storage.ranges[scalar] = (min(low, found[0]), max(high, found[1]))

    def _touched(self, access: Access, whole: int) -> tuple[int, int]:
        """First and one past the last element an access may touch."""
        index, step, lanes = access.index, 0, 1
        if type(index) is prim.Ramp and type(index.stride) is prim.IntImm:
            step, lanes, index = int(index.stride.value), int(index.lanes), index.base
        elif types.parse(str(index.ty.dtype)).lanes > 1:
            return 0, whole
        low, high = self._analysis.bounds(index)
        low += min(0, step * (lanes - 1))
        high += max(0, step * (lanes - 1))
        low, high = low * access.element.lanes, (high + 1) * access.element.lanes
        return max(low, 0), min(high, whole)

    def holds(self, buffer: Any, of: Type) -> bool:
        """Whether a buffer is an argument that is known to have a value of ``of`` at index 0."""
        storage = self._storage(buffer)
        return storage.kind == "buffer" and self._analysis.scalars(buffer) >= of.lanes

    def _storage(self, buffer: Any) -> Storage:
        return self.storages[handle(self._analysis.root[handle(buffer)])]

    def is_shared(self, buffer: Any) -> bool:
        """Whether a buffer lies in the memory that a workgroup shares."""
        return self._storage(buffer).kind == "shared"

    # -- widths ---------------------------------------------------------------

    def _contiguous(self, access: Access) -> tuple[Any, int] | None:
        """(index of the first scalar, number of scalars) of an access without gaps."""
        index, lanes = access.index, access.element.lanes
        if type(index) is prim.Ramp:
            stride = index.stride
            if not (type(stride) is prim.IntImm and int(stride.value) == 1):
                return None
            base = index.base
        elif types.parse(str(index.ty.dtype)).lanes == 1:
            base = index
        else:
            return None
        if lanes > 1:
            base = base * tirx.const(lanes, str(base.ty.dtype))
        return base, access.value.lanes

    def _width(self, access: Access) -> int:
        found = self._contiguous(access)
        if found is None:
            return 1
        base, lanes = found
        wide = [width for width in (16, 8) if self._in_words(access.element.scalar, width)]
        for width in (*wide, 4, 2):
            if lanes % width == 0 and self._analysis.multiple_of(base, width):
                return width
        return 1

    def _common_width(self, use: BufferUse) -> int:
        return min((self._width(access) for access in use.accesses), default=1)

    def _in_words(self, scalar: Type, width: int) -> bool:
        """Whether an array holds words for so many elements."""
        if scalar == FLOAT16:
            return width == 8 and self._analysis.uses_matrices
        return scalar.is_integer and scalar.bits == 8 and width % 4 == 0

    # -- declarations ---------------------------------------------------------

    def local_declarations(self, storage: Storage) -> list[str]:
        """Declarations of a local array; none when it is never used."""
        return [
            self._declare(held, width, name, storage) for (held, width), name in _sorted(storage)
        ]

    def _declare(self, held: Type, width: int, name: str, storage: Storage) -> str:
        typed = types.name(held.with_lanes(width))
        size = self._elements(storage, held, width)
        if size == 1 and not storage.ranges:
            return f"{typed} {name};"
        return f"{typed} {name}[{size}];"

    def _elements(self, storage: Storage, held: Type, width: int) -> int:
        """The length of an array."""
        low, high = storage.ranges.get(held, (0, storage.size))
        return -(-(high - low) // (width * storage.per_word))

    def shared_declarations(self) -> list[str]:
        """Declarations of all shared arrays."""
        lines = self.placed.declarations()
        for storage in self.storages.values():
            if storage.kind == "shared" and storage.place is None:
                for (held, width), name in _sorted(storage):
                    lines.append("shared " + self._declare(held, width, name, storage))
        return lines

    def shared_bytes(self) -> int:
        """Bytes of shared memory that the declared arrays take."""
        total = self.placed.places.size
        for storage in self.storages.values():
            if storage.kind != "shared" or storage.place is not None:
                continue
            for held, width in storage.arrays:
                bytes_each = 4 if held.kind == "bool" else held.storage_bytes
                total += self._elements(storage, held, width) * width * bytes_each
        return total

    def buffer_declarations(self, coherent: bool) -> list[str]:
        """Storage blocks of the arguments; ``coherent``: the kernel has workgroup barriers."""
        lines = []
        for storage in self.storages.values():
            if storage.kind != "buffer":
                continue
            use = storage.use
            qualifier = "" if use.reads and use.writes else "readonly "
            if use.writes and not use.reads:
                qualifier = "writeonly "
            if coherent and use.reads and use.writes:
                qualifier = "coherent "
            for (held, width), name in _sorted(storage):
                typed = types.name(types.storage(held).with_lanes(width))
                lines.append(
                    f"layout(std430, set = 0, binding = {storage.binding}) {qualifier}"
                    f"buffer {name}_block {{ {typed} {name}[]; }};"
                )
        return lines


def _sorted(storage: Storage) -> list[tuple[tuple[Type, int], str]]:
    return sorted(storage.arrays.items())
