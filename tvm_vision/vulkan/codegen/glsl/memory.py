"""Loads from buffers in GLSL, and stores into them: ``storages.py`` has what there is."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import Access, Analysis
from tvm_vision.vulkan.codegen.glsl.printer import Choice, Printer
from tvm_vision.vulkan.codegen.glsl.storages import KernelStorages, Storage
from tvm_vision.vulkan.codegen.glsl.types import INT32, UINT32, Type
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


class KernelMemory(KernelStorages):
    """All memory of one kernel, read and written."""

    def __init__(
        self, analysis: Analysis, requirements: types.Requirements, printer: Printer
    ) -> None:
        super().__init__(analysis)
        self._requirements = requirements
        self._printer = printer

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

    def _in_pairs(self, storage: Storage, access: Access) -> bool:
        """Whether halves lie in a shared array of two words."""
        return storage.place is not None and self.placed.words == 2 and access.element.bits == 16
