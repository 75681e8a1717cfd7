"""Buffers in GLSL: declarations of storage blocks, shared and local arrays; loads and stores.

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
from tvm_vision.vulkan.codegen.glsl.printer import Choice, Printer
from tvm_vision.vulkan.codegen.glsl.types import FLOAT16, FLOAT32, INT32, UINT32, Type
from tvm_vision.vulkan.codegen.glsl.vector import (
    CONDITIONAL,
    Code,
    Value,
    construct,
    half_vector,
    infix,
    pack,
    pairs,
    split_constant,
    unpack,
    widths,
    words_of,
)

_VIEW_BYTES = 16  # a vector view never asks for more alignment than a vec4
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


class KernelMemory:
    """All memory of one kernel."""

    def __init__(
        self, analysis: Analysis, requirements: types.Requirements, printer: Printer
    ) -> None:
        self._analysis = analysis
        self._requirements = requirements
        self._printer = printer
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

    def _in_pairs(self, storage: Storage, access: Access) -> bool:
        """Whether halves lie in a shared array of two words."""
        return storage.place is not None and self.placed.words == 2 and access.element.bits == 16

    # -- loads and stores -----------------------------------------------------

    def _array(self, storage: Storage, scalar: Type, width: int) -> str:
        """The name of the array of elements that hold ``width`` scalars each."""
        held = UINT32 if storage.as_words else scalar
        if storage.narrow:
            held = INT32
        whole = storage.size == width
        if self._in_words(scalar, width):
            words = words_of(scalar.with_lanes(width))
            storage.per_word = width // words.lanes
            held, width = words.scalar, words.lanes
        if storage.place is not None:
            self._requirements.value(held)
            storage.arrays[self.placed.of, self.placed.words] = self.placed.name
            return self.placed.name
        key = (held, width)
        if key not in storage.arrays:
            name = storage.name if width == 1 else f"{storage.name}_v{width}"
            if name in storage.arrays.values():
                name = f"{name}_{types.name(held)}"
            if name != storage.name:
                name = self._printer.names.unique(name)
            storage.arrays[key] = name
            if storage.kind != "buffer" and whole:
                self._printer.mutable.add(name)  # printed without an index
            if storage.kind == "buffer":
                self._requirements.buffer(held)
            if held.kind != "bool":
                self._requirements.value(held)
        return storage.arrays[key]

    def _places(self, buffer: Any, access: Access) -> tuple[Storage, int, list[str]]:
        """The storage, the scalars in its elements and the text of each element accessed."""
        storage = self._storage(buffer)
        scalar = access.element.scalar
        width = storage.width or self._view_width(access)
        if storage.place is not None:
            width = self.placed.width(scalar)
            if self._width(access) % width:
                return storage, 1, self._words_of_place(storage, access)
        array = self._array(storage, scalar, width)
        first = storage.ranges.get(scalar, (0, 0))[0]
        found = self._contiguous(access)
        if found is None:
            if access.element.lanes > 1:
                raise UnsupportedKernelError(
                    f"buffer {storage.name}: a gather of vector elements is not supported"
                )
            places = self._printer.indices(access.index, first)
            places = [self._guarded(buffer, place, 1, 1) for place in places]
        else:
            base, lanes = found
            one = tirx.const(width, str(base.ty.dtype))
            if width > 1:
                base = tirx.floordiv(base, one)
                if storage.place:
                    first = tirx.const(self.placed.element(storage.place), str(base.ty.dtype))
                    base = base + first
                base = self._analysis.analyzer.simplify(base)
            elif first:
                base = base - tirx.const(first, str(base.ty.dtype))
                base = self._analysis.analyzer.simplify(base)
            text = self._guarded(buffer, self._printer.index(base), width, lanes)
            if lanes // width > 1:
                text = self._printer.atom(text, INT32, "at")
            places = [infix("+", text, str(k)) if k else text for k in range(lanes // width)]
        if storage.kind != "buffer" and storage.size == width and storage.place is None:
            return storage, width, [array] * len(places)
        return storage, width, [f"{array}[{place}]" for place in places]

    def _words_of_place(self, storage: Storage, access: Access) -> list[str]:
        """Single words of a storage that is a part of an array of several."""
        self._array(storage, access.element.scalar, 1)
        first = (storage.place or 0) // 4
        places = []
        for text in self._printer.indices(access.index, 0):
            index = infix("+", text, str(first)) if first else text
            places.append(self.placed.word(self._printer.atom(index, INT32, "at")))
        return places

    def _guarded(self, buffer: Any, index: str, width: int, lanes: int) -> str:
        """The index of a load of so many values, in elements of ``width``; where what guards it
        fails, one at the beginning.

        Loads under one guard from places that differ by constants, pixels side by side, share a
        choice: where it fails they are as far apart at the beginning.
        """
        guard, printer = self._printer.guard, self._printer
        if not guard or self._storage(buffer).kind != "buffer":
            return index
        base, offset = split_constant(index)
        if (first := printer.choices.get((guard, base))) is not None:
            apart = offset - first.offset
            if apart >= 0 and self._analysis.scalars(buffer) >= apart * width + lanes:
                return infix("+", first.name, str(apart)) if apart else first.name
        either = f"{guard} ? {printer.atom(index, INT32, 'at')} : 0"
        name = printer.atom(Code(either, CONDITIONAL), INT32, "at")
        if printer.stays(guard) and printer.stays(base):
            printer.choices.setdefault((guard, base), Choice(name, offset))
        return name

    def _view_width(self, access: Access) -> int:
        width = self._width(access)
        while width > 1 and width * access.element.storage_bytes > _VIEW_BYTES:
            width //= 2
        return width

    def holds(self, buffer: Any, of: Type) -> bool:
        """Whether a buffer is an argument that is known to have a value of ``of`` at index 0."""
        storage = self._storage(buffer)
        return storage.kind == "buffer" and self._analysis.scalars(buffer) >= of.lanes

    def _storage(self, buffer: Any) -> Storage:
        return self.storages[handle(self._analysis.root[handle(buffer)])]

    def is_shared(self, buffer: Any) -> bool:
        """Whether a buffer lies in the memory that a workgroup shares."""
        return self._storage(buffer).kind == "shared"

    def load(self, buffer: Any, access: Access) -> Value:
        """The value at an index."""
        storage, width, places = self._places(buffer, access)
        of = access.value
        if self._in_pairs(storage, access):
            pair = UINT32.with_lanes(2)
            texts = [self._printer.temporary(Code(place), pair, "words") for place in places]
            return Value(of, [half_vector(text) for text in texts])
        if self._in_words(access.element.scalar, width):
            words = words_of(of.with_lanes(width))
            return self._of_words(of, width, [self._from_held(storage, words, p) for p in places])
        parts = [self._from_held(storage, of.with_lanes(width), Code(place)) for place in places]
        if width == 1:
            return construct(of, parts)
        return self._regroup(of, width, parts)

    def _of_words(self, of: Type, width: int, places: list[str]) -> Value:
        """Bytes or halves of elements that are words."""
        element = of.with_lanes(width)
        held = words_of(element)
        texts: list[str] = [Code(place) for place in places]
        if held.lanes > 1:
            texts = [self._printer.temporary(text, held, "words") for text in texts]
        parts = [part for text in texts for part in unpack(Value(held, [text]), element).parts]
        return Value(of, parts)

    def _regroup(self, of: Type, width: int, parts: list[str]) -> Value:
        """Joins parts of two lanes into the usual parts of four."""
        if width == 4 or of.lanes == 2:
            return Value(of, parts)
        joined, at = [], 0
        for lanes in widths(of.lanes):
            count = lanes // width
            chunk = parts[at : at + count]
            at += count
            joined.append(
                chunk[0]
                if count == 1
                else Code(f"{types.name(of.with_lanes(lanes))}({', '.join(chunk)})")
            )
        return Value(of, joined)

    def store(self, buffer: Any, access: Access, value: Value) -> None:
        """Emits the assignments that write a value."""
        storage, width, places = self._places(buffer, access)
        of = access.value
        if self._in_pairs(storage, access):
            for place, text in zip(places, pairs(value), strict=True):
                self._printer.emit(f"{place} = {text};")
            return
        if self._in_words(access.element.scalar, width):
            each = width // 4
            for number, place in enumerate(places):
                parts = value.parts[number * each : (number + 1) * each]
                words = pack(Value(of.with_lanes(width), parts))
                text = self._to_held(storage, words.type, words.text)
                self._printer.emit(f"{place} = {text};")
            return
        if width != 4 and len(places) > 1:
            value = self._printer.atomic(value)
        for number, place in enumerate(places):
            if width == 4:
                text = value.parts[number]
            elif len(places) == 1:
                text = value.parts[0]
            elif width == 1:
                text = value.lane(number)
            else:
                part, half = divmod(number, 2)
                text = value.parts[part]
                if widths(of.lanes)[part] == 4:
                    text = f"{text}.{('xy', 'zw')[half]}"
            text = self._to_held(storage, of.with_lanes(width), text)
            self._printer.emit(f"{place} = {text};")

    def _from_held(self, storage: Storage, of: Type, place: str) -> str:
        """The value of type ``of`` of what an array holds."""
        if storage.place is not None:
            return self.placed.load(of, place)
        if storage.as_words and of.kind == "float":
            return Code(f"uintBitsToFloat({place})")
        if storage.narrow:
            return Code(f"{types.name(of)}({place})")
        if of.kind == "bool" and storage.kind == "buffer":
            if of.lanes == 1:
                return infix("!=", Code(f"uint({place})"), "0u")
            words = f"uvec{of.lanes}"
            return Code(f"notEqual({words}({place}), {words}(0u))")
        return place

    def _to_held(self, storage: Storage, of: Type, text: str) -> str:
        """What an array holds for a value of type ``of``."""
        if storage.place is not None:
            return self.placed.store(of, text)
        if storage.as_words and of.kind == "float":
            return f"floatBitsToUint({text})"
        if of.kind == "bool" and storage.kind == "buffer":
            words = types.name(UINT32.with_lanes(of.lanes))
            return f"{types.name(types.storage(of))}({words}({text}))"
        return text

    def narrow_place(self, buffer: Any, access: Access) -> str | None:
        """The 32-bit text of a load from an array of narrowed int64, None for any other."""
        storage = self._storage(buffer)
        if not storage.narrow or access.value.lanes != 1 or storage.width != 1:
            return None
        return self._places(buffer, access)[2][0]

    def element(self, buffer: Any, access: Access) -> tuple[str, str, int]:
        """(array, index, width) of the element of an array that an access starts at."""
        storage, width, places = self._places(buffer, access)
        array = self._array(storage, access.element.scalar, width)
        return array, places[0][len(array) + 1 : -1] if places[0] != array else "0", width

    def address(self, buffer: Any, index: Any) -> tuple[Storage, str, str]:
        """(storage, array, index) of one element that an atomic operation works on."""
        element = self._analysis.element(buffer)
        access = Access(element, element, index)
        storage, _, places = self._places(buffer, access)
        array = self._array(storage, element, 1)
        inside = places[0][len(array) + 1 : -1] if places[0] != array else "0"
        return storage, array, inside

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
