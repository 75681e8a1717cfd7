"""Object files as LLVM writes them (ELF, 64 bits, little endian), read for a linker.

Source of all numbers: the System V ABI, chapters 4 and 5, and <elf.h>.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")
IDENT = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
RELOCATABLE, SHARED = 1, 3

PROGBITS, SYMTAB, STRTAB, RELA_TYPE, HASH, DYNAMIC, NOBITS, DYNSYM = 1, 2, 3, 4, 5, 6, 8, 11
NOTE, REL_TYPE, INIT_ARRAY, FINI_ARRAY, PREINIT_ARRAY, GROUP = 7, 9, 14, 15, 16, 17
# Of x86_64: the type of .eh_frame, which elsewhere is PROGBITS.
UNWIND = 0x70000001
WRITE, ALLOC, EXECUTE, TLS = 1, 2, 4, 0x400
LOCAL, GLOBAL, WEAK = 0, 1, 2
UNDEFINED, ABSOLUTE, COMMON, EXTENDED = 0, 0xFFF1, 0xFFF2, 0xFFFF
DEFAULT, PROTECTED = 0, 3
MOST_ALIGN, MOST_BYTES = 1 << 16, 1 << 31


class LinkError(Exception):
    """Objects that this linker does not link; the message says what of them."""


@dataclass(frozen=True)
class Relocation:
    """A place in a section (bytes from its start) that depends on the address of a symbol."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(eq=False)
class Section:
    """What is loaded of an object; equal to itself alone.

    content: none of what starts as zeros, which has a size. address: in the library, once that is
    laid out.
    """

    name: str
    type: int
    flags: int
    align: int
    size: int
    content: bytes
    relocations: list[Relocation] = field(default_factory=list)
    address: int = 0


@dataclass(frozen=True)
class Symbol:
    """A name and what it stands for: ``value`` bytes from the start of a section; without a section
    it is of another object, or of a library."""

    name: str
    value: int
    size: int
    bind: int
    type: int
    visibility: int
    section: Section | None


@dataclass(frozen=True)
class ObjectFile:
    """machine, flags: of the ELF header; sections: that are loaded, in their order."""

    machine: int
    flags: int
    sections: list[Section]
    symbols: list[Symbol]


def read_object(content: bytes) -> ObjectFile:
    """Raises LinkError for anything else than such an object, or with what is not for here."""
    try:
        return _read(content)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise LinkError(f"an object file is damaged ({error})") from None


def _read(content: bytes) -> ObjectFile:
    header = HEADER.unpack_from(content)
    ident, kind, machine = header[:3]
    if ident[:7] != IDENT[:7] or kind != RELOCATABLE:
        raise LinkError("object files of 64 bits, little endian, are needed")
    heads = [
        SECTION.unpack_from(content, header[6] + number * SECTION.size)
        for number in range(header[12])
    ]
    names = _part(content, heads[header[13]])
    sections = {
        number: _section(content, head, _name(names, head[0]))
        for number, head in enumerate(heads)
        if head[2] & ALLOC and head[1] != NOTE
    }
    symbols: list[Symbol] = []
    for head in heads:
        if head[1] == SYMTAB:
            symbols = list(_symbols(content, head, _part(content, heads[head[6]]), sections))
    for head in heads:
        if head[1] == RELA_TYPE and head[7] in sections:
            section = sections[head[7]]
            for offset, info, addend in RELA.iter_unpack(_part(content, head)):
                if offset + 4 > len(section.content) or info >> 32 >= len(symbols):
                    raise LinkError(f"a relocation of {section.name} is of nothing that is there")
                section.relocations.append(
                    Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
                )
        elif head[1] == REL_TYPE and head[7] in sections:
            raise LinkError("relocations with addends are needed")
        elif head[1] == GROUP:
            raise LinkError("sections in groups are not for this linker")
    return ObjectFile(machine, header[7], list(sections.values()), symbols)


def _section(content: bytes, head: tuple[int, ...], name: str) -> Section:
    _, kind, flags, _, _, size, _, _, align, _ = head
    if kind not in (PROGBITS, NOBITS, INIT_ARRAY, FINI_ARRAY, UNWIND) or flags & TLS:
        raise LinkError(f"the section {name} is not for this linker (type {kind}, flags {flags})")
    # More than any kernel has, and it would be made of zeros.
    if align > MOST_ALIGN or align & (align - 1) or size > MOST_BYTES:
        raise LinkError(f"the section {name} has {size} bytes, to multiples of {align}")
    data = b"" if kind == NOBITS else _part(content, head)
    return Section(name, kind, flags, max(align, 1), size, data)


def _symbols(
    content: bytes, head: tuple[int, ...], names: bytes, sections: dict[int, Section]
) -> Iterator[Symbol]:
    for name, info, other, place, value, size in SYMBOL.iter_unpack(_part(content, head)):
        bind, kind, visibility = info >> 4, info & 15, other & 3
        text = _name(names, name)
        if place in (COMMON, EXTENDED) or bind > WEAK or kind in (6, 10):
            raise LinkError(f"the symbol {text} is not for this linker (section {place:#x})")
        if place == ABSOLUTE and bind != LOCAL:
            raise LinkError(f"the symbol {text} has no section")
        if place in sections and value > sections[place].size:
            raise LinkError(f"the symbol {text} is outside of its section")
        yield Symbol(text, value, size, bind, kind, visibility, sections.get(place))


def _part(content: bytes, head: tuple[int, ...]) -> bytes:
    offset, size = head[4], head[5]
    if offset + size > len(content):
        raise LinkError("an object file is shorter than it says")
    return content[offset : offset + size]


def _name(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode()
