"""A shared library as a file: sections in three segments, what the loader reads of them, and tables
for people's tools (objdump, gdb)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from .objects import (
    ALLOC,
    DYNAMIC,
    DYNSYM,
    EXECUTE,
    HASH,
    HEADER,
    IDENT,
    NOBITS,
    PROGBITS,
    RELA,
    RELA_TYPE,
    SECTION,
    SHARED,
    STRTAB,
    SYMBOL,
    WRITE,
    Section,
)

# The largest pages of the processors here: an address and its place in the file are alike modulo
# this size.
PAGE = 1 << 16
SEGMENT = struct.Struct("<IIQQQQQQ")
PAIR = struct.Struct("<QQ")
_LOAD, _DYNAMIC, _EH_FRAME, _STACK = 1, 2, 0x6474E550, 0x6474E551
_SEGMENTS = 6
_READ_ONLY, _CODE, _DATA = ALLOC, ALLOC | EXECUTE, ALLOC | WRITE
_NEEDED, _HASH, _STRTAB, _SYMTAB, _RELA, _RELASZ, _RELAENT, _STRSZ, _SYMENT = (
    1, 4, 5, 6, 7, 8, 9, 10, 11,
)  # fmt: skip
_INIT_ARRAY, _FINI_ARRAY, _INIT_ARRAYSZ, _FINI_ARRAYSZ, _FLAGS = 25, 26, 27, 28, 30
_BIND_NOW = 8


@dataclass
class Output:
    """A section of the library: bytes, or ``size`` zeros that the file has not (bss)."""

    name: str
    flags: int
    type: int = PROGBITS
    align: int = 16
    entry: int = 0
    link: str = ""
    content: bytearray = field(default_factory=bytearray)
    size: int = 0
    address: int = 0
    offset: int = 0
    members: list[tuple[int, Section]] = field(default_factory=list)

    def add(self, section: Section) -> None:
        """Put an object's section at the end."""
        start = -(-self.size // section.align) * section.align
        self.members.append((start, section))
        self.align = max(self.align, section.align)
        self.size = start + section.size
        if self.type != NOBITS:
            self.content += bytes(start - len(self.content)) + section.content

    def put(self, content: bytes) -> None:
        """Make this all of it."""
        self.content = bytearray(content)
        self.size = len(content)


@dataclass(frozen=True)
class Export:
    """A name of the library. info: bind and type, as a symbol table has them."""

    name: str
    info: int
    section: Section
    value: int
    size: int


class Image:
    """Sections by name; the tables of names are made by ``lay_out``, which gives all addresses.

    relocations: how many the loader gets; ``to_bytes`` takes them.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        exports: Sequence[Export],
        imports: Sequence[tuple[str, int]],
        needed: Sequence[str],
        relocations: int,
    ) -> None:
        self._exports, self._imports = exports, imports
        self._needed = needed
        self._strings = _strings(
            [*(name for name, _ in imports), *(export.name for export in exports), *needed]
        )
        self._at: dict[str, int] = {}
        start = 1
        for name in self._strings[1:-1].decode().split("\0") if len(self._strings) > 1 else []:
            self._at[name], start = start, start + len(name.encode()) + 1
        names = 1 + len(imports) + len(exports)
        tables = [
            Output(".hash", _READ_ONLY, HASH, 8, 4, ".dynsym", size=8 * (1 + names)),
            Output(".dynsym", _READ_ONLY, DYNSYM, 8, SYMBOL.size, ".dynstr", size=24 * names),
            Output(".dynstr", _READ_ONLY, STRTAB, 1, size=len(self._strings)),
            Output(".rela.dyn", _READ_ONLY, RELA_TYPE, 8, RELA.size, ".dynsym",
                   size=RELA.size * relocations),
        ]  # fmt: skip
        dynamic = Output(".dynamic", _DATA, DYNAMIC, 8, PAIR.size, ".dynstr")
        everything = [*tables, dynamic, *outputs]
        # What starts as zeros is the end of its segment.
        order = {_READ_ONLY: 0, _CODE: 1, _DATA: 2}
        everything.sort(key=lambda output: (order[output.flags], output.type == NOBITS))
        self.outputs = everything
        self._numbers = {
            section: number
            for number, output in enumerate(self.outputs, 1)
            for _, section in output.members
        }
        dynamic.size = PAIR.size * len(self._dynamic())
        self._lay_out()

    def __getitem__(self, name: str) -> Output:
        return next(output for output in self.outputs if output.name == name)

    def __contains__(self, name: str) -> bool:
        return any(output.name == name for output in self.outputs)

    def number(self, name: str) -> int:
        """Of an import, among the library's names."""
        return 1 + [known for known, _ in self._imports].index(name)

    def _lay_out(self) -> None:
        offset = HEADER.size + _SEGMENTS * SEGMENT.size
        address, flags = offset, _READ_ONLY
        for output in self.outputs:
            if output.flags != flags:
                address = -(-address // PAGE) * PAGE + offset % PAGE
                flags = output.flags
            step = -address % output.align
            address += step
            offset += step if output.type != NOBITS else 0
            output.address, output.offset = address, offset
            address += output.size
            offset += output.size if output.type != NOBITS else 0
            for start, section in output.members:
                section.address = output.address + start

    def to_bytes(
        self, machine: int, flags: int, relocations: Sequence[tuple[int, int, int]]
    ) -> bytes:
        """The file. machine, flags: of its header. relocations: place, what, addend."""
        names = b"".join(
            [
                bytes(SYMBOL.size),
                *(
                    SYMBOL.pack(self._at[name], bind << 4, 0, 0, 0, 0)
                    for name, bind in self._imports
                ),
                *(self._symbol(export) for export in self._exports),
            ]
        )
        self[".dynsym"].put(names)
        self[".dynstr"].put(self._strings)
        self[".hash"].put(self._hash())
        self[".rela.dyn"].put(b"".join(RELA.pack(*each) for each in relocations))
        self[".dynamic"].put(b"".join(PAIR.pack(*each) for each in self._dynamic()))
        content = bytearray()
        for output in self.outputs:
            if output.type != NOBITS:
                content += bytes(max(0, output.offset - len(content))) + output.content
        labels = _strings([*(output.name for output in self.outputs), ".shstrtab"])
        table = -(-(len(content) + len(labels)) // 8) * 8
        heads = self._section_heads(labels, len(content))
        header = HEADER.pack(
            IDENT, SHARED, machine, 1, 0, HEADER.size, table, flags, HEADER.size,
            SEGMENT.size, _SEGMENTS, SECTION.size, len(heads), len(heads) - 1,
        )  # fmt: skip
        segments = b"".join(SEGMENT.pack(*segment) for segment in self._segments())
        content[: len(header) + len(segments)] = header + segments
        content += labels
        return bytes(content).ljust(table, b"\0") + b"".join(SECTION.pack(*head) for head in heads)

    def _symbol(self, export: Export) -> bytes:
        address = export.section.address + export.value
        number = self._numbers[export.section]
        return SYMBOL.pack(self._at[export.name], export.info, 0, number, address, export.size)

    def _hash(self) -> bytes:
        """As many buckets as names: what dlsym looks in."""
        names = [name for name, _ in self._imports] + [export.name for export in self._exports]
        buckets, chains = [0] * (len(names) + 1), [0] * (len(names) + 1)
        for number, name in enumerate(names, 1):
            bucket = _hash(name) % len(buckets)
            chains[number], buckets[bucket] = buckets[bucket], number
        head = [len(buckets), len(chains)]
        return struct.pack(f"<{2 + len(buckets) + len(chains)}I", *head, *buckets, *chains)

    def _dynamic(self) -> list[tuple[int, int]]:
        entries = [(_NEEDED, self._at[name]) for name in self._needed]
        for name, address, size in (
            (".init_array", _INIT_ARRAY, _INIT_ARRAYSZ),
            (".fini_array", _FINI_ARRAY, _FINI_ARRAYSZ),
        ):
            if name in self:
                entries += [(address, self[name].address), (size, self[name].size)]
        return [
            *entries,
            (_HASH, self[".hash"].address), (_STRTAB, self[".dynstr"].address),
            (_SYMTAB, self[".dynsym"].address), (_STRSZ, len(self._strings)),
            (_SYMENT, SYMBOL.size), (_RELA, self[".rela.dyn"].address),
            (_RELASZ, self[".rela.dyn"].size), (_RELAENT, RELA.size), (_FLAGS, _BIND_NOW), (0, 0),
        ]  # fmt: skip

    def _segments(self) -> list[tuple[int, ...]]:
        found = []
        for flags, permissions in ((_READ_ONLY, 4), (_CODE, 5), (_DATA, 6)):
            parts = [output for output in self.outputs if output.flags == flags]
            # The file's header is in the first.
            offset, address = (parts[0].offset, parts[0].address) if flags != _READ_ONLY else (0, 0)
            last = parts[-1]
            stored = [p for p in parts if p.type != NOBITS][-1]
            end, size = last.address + last.size - address, stored.address + stored.size - address
            found.append((_LOAD, permissions, offset, address, address, size, end, PAGE))
        for kind, name, permissions in (
            (_DYNAMIC, ".dynamic", 6), (_EH_FRAME, ".eh_frame_hdr", 4),
        ):  # fmt: skip
            part = self[name]
            place = (part.offset, part.address, part.address, part.size, part.size)
            found.append((kind, permissions, *place, 8))
        # Without it the loader makes stacks executable.
        return [*found, (_STACK, 6, 0, 0, 0, 0, 0, 16)]

    def _section_heads(self, labels: bytes, end: int) -> list[tuple[int, ...]]:
        numbers = {output.name: number for number, output in enumerate(self.outputs, 1)}
        heads: list[tuple[int, ...]] = [(0,) * 10]
        for output in self.outputs:
            name = labels.index(b"\0" + output.name.encode() + b"\0") + 1
            link = numbers[output.link] if output.link else 0
            # Of names: how many are of this library alone.
            info = 1 if output.type == DYNSYM else 0
            heads.append(
                (name, output.type, output.flags, output.address, output.offset, output.size,
                 link, info, output.align, output.entry)
            )  # fmt: skip
        name = labels.index(b"\0.shstrtab\0") + 1
        return [*heads, (name, STRTAB, 0, 0, end, len(labels), 0, 0, 1, 0)]


def _strings(names: Sequence[str]) -> bytes:
    return b"\0" + b"".join(name.encode() + b"\0" for name in dict.fromkeys(names))


def _hash(name: str) -> int:
    """The hash of the System V ABI."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
