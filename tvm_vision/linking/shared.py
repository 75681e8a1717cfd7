"""A shared library from object files: what ``ld -shared -Bsymbolic`` does, as far as LLVM's code
needs it.

The sections of objects go one after another into those of the library, the names that all objects
see are resolved, and each place that depends on an address is patched. What the loader must patch,
since it is an absolute address or one of another library, is listed for it. Code reaches other
libraries through slots of the GOT, which the loader fills at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from .image import Export, Image, Output
from .machines import MACHINES, STUB_BYTES, Machine
from .objects import (
    ALLOC,
    DEFAULT,
    EXECUTE,
    FINI_ARRAY,
    INIT_ARRAY,
    LOCAL,
    NOBITS,
    PROGBITS,
    PROTECTED,
    WEAK,
    WRITE,
    LinkError,
    ObjectFile,
    Relocation,
    Section,
    Symbol,
    read_object,
)

# Says of its table that it has no index, and that addresses are relative to the place (pcrel).
_EH_FRAME_HEAD = bytes((1, 0x1B, 0xFF, 0xFF))
_RELATIVE32 = struct.Struct("<i")
_SLOT = 8


def link_shared(objects: Iterable[bytes], needed: Sequence[str] = ()) -> bytes:
    """The library, the same for the same objects.

    needed: names of libraries that the loader brings along. What no object defines is the loader's
    to find: ``undefined_names`` says what that is.

    Raises LinkError for what is not for this linker; a larger one may do it.
    """
    try:
        return _Link([read_object(content) for content in objects], needed).to_bytes()
    except struct.error as error:
        raise LinkError(f"a number has no room where it is kept ({error})") from None


def undefined_names(objects: Iterable[bytes]) -> set[str]:
    """What the objects ask for and none of them has. Raises LinkError where one cannot be read."""
    read = [read_object(content) for content in objects]
    known = _resolved(read)
    names = {symbol.name for each in read for symbol in each.symbols if symbol.bind != LOCAL}
    return names - set(known)


def called_names(content: bytes) -> set[str]:
    """What the code of an object asks for, be it its own or not. Raises LinkError."""
    read = read_object(content)
    return {
        read.symbols[relocation.symbol].name
        for section in read.sections
        if section.flags & EXECUTE
        for relocation in section.relocations
    }


def _machine(number: int) -> Machine:
    if number not in MACHINES:
        names = ", ".join(machine.name for machine in MACHINES.values())
        raise LinkError(f"a processor out of {names} is needed, found number {number} of ELF")
    return MACHINES[number]


def _resolved(objects: Sequence[ObjectFile]) -> dict[str, Symbol]:
    """What the names stand for that all objects see: the first, but one that is not weak before it.

    Raises LinkError where two are not weak.
    """
    known: dict[str, Symbol] = {}
    for each in objects:
        for symbol in each.symbols:
            if symbol.bind == LOCAL or symbol.section is None:
                continue
            other = known.get(symbol.name)
            if other is None or (other.bind == WEAK and symbol.bind != WEAK):
                known[symbol.name] = symbol
            elif symbol.bind != WEAK and other.bind != WEAK:
                raise LinkError(f"{symbol.name} is defined twice")
    return known


class _Link:
    def __init__(self, objects: list[ObjectFile], needed: Sequence[str]) -> None:
        if not objects:
            raise LinkError("an object file is needed")
        first = objects[0]
        if any((each.machine, each.flags) != (first.machine, first.flags) for each in objects):
            raise LinkError("object files of one processor are needed")
        self.machine, self.flags = _machine(first.machine), first.flags
        self.objects, self.known = objects, _resolved(objects)
        # By what they are for: a name of another library, or a symbol of these objects.
        self.slots: dict[str | Symbol, int] = {}
        self.stubs: dict[str, int] = {}
        self.imports: dict[str, int] = {}
        loader = sum(self._count(relocation, symbol) for _, relocation, symbol in self._places())
        self.image = self._lay_out(needed, loader + len(self.slots))
        # The place of each relocation with a high part.
        self.high: dict[int, int] = {}

    def _places(self) -> Iterator[tuple[Section, Relocation, Symbol]]:
        """Each relocation, with its symbol as all objects see it."""
        for each in self.objects:
            symbols = [
                self.known.get(symbol.name, symbol) if symbol.bind != LOCAL else symbol
                for symbol in each.symbols
            ]
            for section in each.sections:
                for relocation in section.relocations:
                    if relocation.kind not in self.machine.ignored:
                        yield section, relocation, symbols[relocation.symbol]

    def _count(self, relocation: Relocation, symbol: Symbol) -> bool:
        """Make what a relocation needs; whether it is one for the loader, too."""
        machine, outside = self.machine, symbol.section is None
        if outside:
            # The loader may leave out a name that is weak for all who ask for it.
            self.imports[symbol.name] = min(symbol.bind, self.imports.get(symbol.name, WEAK))
        if relocation.kind == machine.absolute:
            return True
        if relocation.kind not in machine.patches:
            raise LinkError(
                f"relocation {relocation.kind} of {machine.name} is not for this linker"
            )
        if relocation.kind in machine.through_got:
            self.slots.setdefault(symbol.name if outside else symbol, len(self.slots))
        elif outside:
            if relocation.kind not in machine.calls:
                raise LinkError(f"{symbol.name} is used without the GOT")
            self.slots.setdefault(symbol.name, len(self.slots))
            self.stubs.setdefault(symbol.name, len(self.stubs))
        return False

    def _lay_out(self, needed: Sequence[str], relocations: int) -> Image:
        outputs = {
            name: Output(name, flags, kind)
            for name, flags, kind in (
                (".rodata", ALLOC, PROGBITS),
                (".eh_frame_hdr", ALLOC, PROGBITS),
                (".eh_frame", ALLOC, PROGBITS),
                (".text", ALLOC | EXECUTE, PROGBITS),
                (".plt", ALLOC | EXECUTE, PROGBITS),
                (".init_array", ALLOC | WRITE, INIT_ARRAY),
                (".fini_array", ALLOC | WRITE, FINI_ARRAY),
                (".got", ALLOC | WRITE, PROGBITS),
                (".data", ALLOC | WRITE, PROGBITS),
                (".bss", ALLOC | WRITE, NOBITS),
            )
        }
        for each in self.objects:
            for section in each.sections:
                outputs[_output_of(section)].add(section)
        if not outputs[".text"].size:
            raise LinkError("code is needed")
        outputs[".eh_frame_hdr"].put(_EH_FRAME_HEAD + bytes(_RELATIVE32.size))
        # Its end: an entry without length.
        outputs[".eh_frame"].add(Section("", PROGBITS, ALLOC, 4, 4, bytes(4)))
        outputs[".plt"].put(bytes(STUB_BYTES * len(self.stubs)))
        outputs[".got"].put(bytes(_SLOT * len(self.slots)))
        always = (".text", ".eh_frame", ".eh_frame_hdr")
        exports = [
            Export(name, symbol.bind << 4 | symbol.type, symbol.section, symbol.value, symbol.size)
            for name, symbol in self.known.items()
            if symbol.visibility in (DEFAULT, PROTECTED) and symbol.section is not None
        ]
        kept = [output for name, output in outputs.items() if output.size or name in always]
        return Image(kept, exports, sorted(self.imports.items()), needed, relocations)

    def to_bytes(self) -> bytes:
        """Patch everything, and write it."""
        image, machine = self.image, self.machine
        loader = [self._slot(key, number) for key, number in self.slots.items()]
        contents = {
            section: (output, start)
            for output in image.outputs
            for start, section in output.members
        }
        later = []
        for section, relocation, symbol in self._places():
            output, start = contents[section]
            if relocation.kind == machine.absolute:
                loader.append(self._absolute(section, relocation, symbol))
            elif relocation.kind in machine.low_parts:
                later.append((output, start + relocation.offset, relocation, symbol))
            else:
                self._patch(output, start + relocation.offset, relocation, symbol)
        for output, at, relocation, symbol in later:
            high = _address(symbol)
            if high not in self.high:
                raise LinkError(f"{symbol.name} is no place of a high part")
            machine.patches[relocation.kind](output.content, at, self.high[high], high)
        for name, number in self.stubs.items():
            self._stub(name, number)
        head, frames = image[".eh_frame_hdr"], image[".eh_frame"]
        at = len(_EH_FRAME_HEAD)
        _RELATIVE32.pack_into(head.content, at, frames.address - head.address - at)
        return image.to_bytes(machine.number, self.flags, loader)

    def _patch(self, output: Output, at: int, relocation: Relocation, symbol: Symbol) -> None:
        machine = self.machine
        if relocation.kind in machine.through_got:
            value = self._slot_address(symbol if symbol.section else symbol.name)
        elif symbol.section is None:
            value = self.image[".plt"].address + STUB_BYTES * self.stubs[symbol.name]
        else:
            value = _address(symbol)
        value, place = value + relocation.addend, output.address + at
        self.high[place] = value
        machine.patches[relocation.kind](output.content, at, value, place)

    def _absolute(
        self, section: Section, relocation: Relocation, symbol: Symbol
    ) -> tuple[int, int, int]:
        """For the loader: an address in a table."""
        place = section.address + relocation.offset
        if not section.flags & WRITE:
            raise LinkError(f"{section.name} has addresses and may not be written")
        if symbol.section is None:
            number = self.image.number(symbol.name)
            return place, number << 32 | self.machine.absolute, relocation.addend
        return place, self.machine.relative, _address(symbol) + relocation.addend

    def _slot(self, key: str | Symbol, number: int) -> tuple[int, int, int]:
        """For the loader: what it puts into a slot."""
        place = self._slot_address(key)
        if isinstance(key, str):
            return place, self.image.number(key) << 32 | self.machine.slot, 0
        return place, self.machine.relative, _address(key)

    def _slot_address(self, key: str | Symbol) -> int:
        return self.image[".got"].address + _SLOT * self.slots[key]

    def _stub(self, name: str, number: int) -> None:
        output, at = self.image[".plt"], STUB_BYTES * number
        code = self.machine.stub(output.address + at, self._slot_address(name))
        output.content[at : at + STUB_BYTES] = code


def _address(symbol: Symbol) -> int:
    assert symbol.section is not None
    return symbol.section.address + symbol.value


def _output_of(section: Section) -> str:
    """The section of the library that an object's one goes into."""
    if section.name == ".eh_frame":
        return ".eh_frame"
    if section.type in (INIT_ARRAY, FINI_ARRAY):
        return ".init_array" if section.type == INIT_ARRAY else ".fini_array"
    if section.flags & EXECUTE:
        return ".text"
    if section.flags & WRITE:
        return ".bss" if section.type == NOBITS else ".data"
    return ".rodata"
