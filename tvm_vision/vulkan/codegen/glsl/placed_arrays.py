"""The array of a shader that stands for shared arrays which take each other's place.

Its elements are vectors of words. What is narrower than a word, bytes and halves, is only loaded
and stored in whole elements; numbers of 32 bits may be by themselves in kernels with matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import Access, Analysis, BufferUse, handle
from tvm_vision.vulkan.codegen.glsl.shared_places import Places, Uses, places, shared_in
from tvm_vision.vulkan.codegen.glsl.types import INT32, UINT32, Type
from tvm_vision.vulkan.codegen.glsl.vector import Code, infix, words_of

_ALIGNED = 16  # bytes, at multiples of which each begins


@dataclass(frozen=True)
class PlacedArrays:
    """How arrays lie in one.

    Attributes:
        name: of the one array.
        places: where the others lie in it; none where it does not exist.
        words: of an element of it.
        of: their type.
    """

    name: str = ""
    places: Places = field(default_factory=Places)
    words: int = 4
    of: Type = UINT32

    def width(self, scalar: Type) -> int:
        """Scalars of an element."""
        return 32 * self.words // scalar.bits

    def element(self, place: int) -> int:
        """The element that begins at a byte."""
        return place // (4 * self.words)

    def word(self, index: str) -> str:
        """The text of a word; index: an atom."""
        shift, mask = str(self.words // 2), str(self.words - 1)
        return f"{self.name}[{infix('>>', index, shift)}][{infix('&', index, mask)}]"

    def load(self, of: Type, text: str) -> str:
        """A value of 32 bits of what the array holds."""
        return _converted(of, self.of.with_lanes(of.lanes), text)

    def store(self, of: Type, text: str) -> str:
        """What the array holds for a value of 32 bits."""
        return _converted(self.of.with_lanes(of.lanes), of, text)

    def declarations(self) -> list[str]:
        """That of the array, where it exists."""
        if not self.places.at:
            return []
        typed = types.name(self.of.with_lanes(self.words))
        return [f"shared {typed} {self.name}[{self.element(self.places.size)}];"]


def _converted(of: Type, held: Type, text: str) -> str:
    if of.kind == held.kind:
        return text
    if "float" not in (of.kind, held.kind):
        return Code(f"{types.name(of)}({text})")
    return Code(f"{held.kind}BitsTo{of.kind.capitalize()}({text})")


def placed_arrays(
    analysis: Analysis, body: Any, name: str, width: Callable[[Access], int], most: int
) -> PlacedArrays:
    """The arrays of a kernel that take the place of others.

    Args:
        body: of the kernel.
        name: of the array that stands for them.
        width: scalars that an access may load or store at once.
        most: bytes of shared memory that a workgroup may have.
    """
    shared = shared_in(body)
    # What spirv-opt folds of constant bytes and halves is right as long as nobody converts it.
    elements = [analysis.element(array) for array in shared]
    packed = {words_of(of.with_lanes(4)).kind for of in elements if of.bits < 32}
    if len(shared) < 2 or len(packed) > 1:
        return PlacedArrays()

    uses = Uses(body, set(map(handle, shared)), lambda buffer: analysis.root[handle(buffer)])

    def found(words: int) -> Places:
        sizes = {handle(array): _size(analysis, array, words, width) for array in shared}
        return places(uses, {array: size for array, size in sizes.items() if size})

    four, two = found(4), found(2)
    of = INT32 if packed == {"int"} else UINT32
    best, words = (two, 2) if two.saved > four.saved else (four, 4)
    apart = sum(_bytes(analysis, array) for array in shared)
    # Bytes in fours: single words are slower than vectors, but better than none.
    if apart - best.saved > most and (one := found(1)).saved > best.saved:
        best, words = one, 1
    return PlacedArrays(name, best, words, of)


def _size(analysis: Analysis, buffer: Any, words: int, width: Callable[[Access], int]) -> int:
    """Bytes of an array that can be a part of one of so many words; 0 of any other."""
    use = analysis.uses.get(handle(buffer), BufferUse())
    element = analysis.element(buffer)
    seen = {access.element.scalar for access in use.accesses}
    if use.atomic or seen != {element.scalar} or element.kind == "bool":
        return 0
    if words not in {8: (4, 1), 16: (4, 2), 32: (4, 2, 1)}.get(element.bits, ()):
        return 0
    alone = element.bits == 32 and element.lanes == 1 and analysis.uses_matrices
    whole = [access for access in use.accesses if access.matrix or not alone]
    if any(width(access) * element.bits % (32 * words) for access in whole):
        return 0
    return -(-_bytes(analysis, buffer) // _ALIGNED) * _ALIGNED


def _bytes(analysis: Analysis, buffer: Any) -> int:
    """Of an array; 0 where its size is not constant, which no shader has."""
    element = analysis.element(buffer)
    return analysis.scalars(buffer) * (4 if element.kind == "bool" else element.storage_bytes)
