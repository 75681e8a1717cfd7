"""What differs from processor to processor: relocations, and the code that jumps into a library.

Source of all numbers and formulas: the psABI documents of x86_64, AArch64 and RISC-V. S is the
address of a symbol, A the addend, P the place, G the address of the symbol's slot in the GOT.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .objects import LinkError

# Writes a value (S + A, or G + A) at bytes of a section, which is loaded at the address P.
Patch = Callable[[bytearray, int, int, int], None]


@dataclass(frozen=True)
class Machine:
    """One processor.

    Attributes:
        name: as platform.machine() has it.
        number: in ELF headers.
        absolute: a relocation of 64 bits, S + A; of the same number in libraries.
        relative, slot: of libraries: where it is loaded plus A; the address of a symbol.
        patches: relocations of code and of tables, by number.
        through_got: those of ``patches`` that get G + A.
        calls: those of ``patches`` that may go to a stub.
        low_parts: those whose symbol is the place of the relocation with the high part.
        ignored: hints.
        stub: code that jumps to what a slot holds, from the addresses of both.
    """

    name: str
    number: int
    absolute: int
    relative: int
    slot: int
    patches: Mapping[int, Patch]
    through_got: frozenset[int]
    calls: frozenset[int]
    stub: Callable[[int, int], bytes]
    low_parts: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset((0,))


def _signed(value: int, bits: int) -> int:
    """The value, if it has room. Raises LinkError where it has none."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise LinkError(f"a library is too large: {value:#x} does not fit into {bits} bits")
    return value


def _word(content: bytearray, at: int, bits: int, mask: int) -> None:
    """Bits of an instruction, those of ``mask``."""
    old = int.from_bytes(content[at : at + 4], "little")
    content[at : at + 4] = ((old & ~mask) | (bits & mask)).to_bytes(4, "little")


def _relative32(content: bytearray, at: int, value: int, place: int) -> None:
    struct.pack_into("<i", content, at, _signed(value - place, 32))


def _x86_stub(at: int, slot: int) -> bytes:
    # jmp *slot(%rip)
    return b"\xff\x25" + struct.pack("<i", _signed(slot - at - 6, 32)) + b"\xcc" * 10


def _arm_page(content: bytearray, at: int, value: int, place: int) -> None:
    """adrp: 21 bits of the distance in pages."""
    pages = _signed((value >> 12) - (place >> 12), 21)
    _word(content, at, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5, 0x60FFFFE0)


def _arm_low(scale: int) -> Patch:
    """add, ldr, str: the low 12 bits of an address, in units of 1 << scale bytes."""

    def patch(content: bytearray, at: int, value: int, place: int) -> None:
        if value & ((1 << scale) - 1):
            raise LinkError(f"the address {value:#x} is not a multiple of {1 << scale}")
        _word(content, at, (value & 0xFFF) >> scale << 10, 0xFFF << 10)

    return patch


def _arm_call(content: bytearray, at: int, value: int, place: int) -> None:
    _word(content, at, _signed(value - place, 28) >> 2, 0x03FFFFFF)


def _arm_stub(at: int, slot: int) -> bytes:
    # adrp x16, slot; ldr x17, [x16, slot]; br x17
    code = bytearray(struct.pack("<4I", 0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F))
    _arm_page(code, 0, slot, at)
    _arm_low(3)(code, 4, slot, at)
    return bytes(code)


def _risc_high(content: bytearray, at: int, value: int, place: int) -> None:
    """auipc: the high 20 bits of a distance, whose low 12 bits are signed."""
    distance = _signed(value - place + 0x800, 32)
    _word(content, at, distance & 0xFFFFF000, 0xFFFFF000)


def _risc_low(content: bytearray, at: int, value: int, place: int) -> None:
    """addi, loads, jalr."""
    _word(content, at, (value - place & 0xFFF) << 20, 0xFFF00000)


def _risc_low_store(content: bytearray, at: int, value: int, place: int) -> None:
    low = value - place & 0xFFF
    _word(content, at, low >> 5 << 25 | (low & 31) << 7, 0xFE000F80)


def _risc_call(content: bytearray, at: int, value: int, place: int) -> None:
    _risc_high(content, at, value, place)
    _risc_low(content, at + 4, value, place)


def _risc_stub(at: int, slot: int) -> bytes:
    # auipc t3, slot; ld t3, slot(t3); jr t3; nop
    code = bytearray(struct.pack("<4I", 0x00000E17, 0x000E3E03, 0x000E0067, 0x00000013))
    _risc_call(code, 0, slot, at)
    return bytes(code)


_X86_GOT = (9, 41, 42)  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
_X86 = Machine(
    "x86_64", 62, absolute=1, relative=8, slot=6,
    patches=dict.fromkeys((2, 4, *_X86_GOT), _relative32),  # PC32, PLT32
    through_got=frozenset(_X86_GOT), calls=frozenset((2, 4)), stub=_x86_stub,
)  # fmt: skip
_ARM = Machine(
    "aarch64", 183, absolute=257, relative=1027, slot=1025,
    patches={
        261: _relative32,  # PREL32
        275: _arm_page,  # ADR_PREL_PG_HI21
        277: _arm_low(0),  # ADD_ABS_LO12_NC
        278: _arm_low(0), 284: _arm_low(1), 285: _arm_low(2),  # LDST8, 16, 32
        286: _arm_low(3), 299: _arm_low(4),  # LDST64, 128
        282: _arm_call, 283: _arm_call,  # JUMP26, CALL26
        311: _arm_page, 312: _arm_low(3),  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
    },
    through_got=frozenset((311, 312)), calls=frozenset((282, 283)), stub=_arm_stub,
    ignored=frozenset((0, 256)),
)  # fmt: skip
_RISC = Machine(
    "riscv64", 243, absolute=2, relative=3, slot=2,
    patches={
        18: _risc_call, 19: _risc_call,  # CALL, CALL_PLT
        20: _risc_high, 23: _risc_high,  # GOT_HI20, PCREL_HI20
        24: _risc_low, 25: _risc_low_store,  # PCREL_LO12_I, PCREL_LO12_S
        57: _relative32,  # 32_PCREL
    },
    through_got=frozenset((20,)), calls=frozenset((18, 19)), stub=_risc_stub,
    low_parts=frozenset((24, 25)), ignored=frozenset((0, 51)),  # RELAX
)  # fmt: skip
MACHINES = {machine.number: machine for machine in (_X86, _ARM, _RISC)}
# Those and what others link for, by the class of ELF and its number.
_NAMES = {(2, machine.number): machine.name for machine in MACHINES.values()} | {
    (1, 40): "armv7l", (2, 21): "ppc64le"
}  # fmt: skip
# The length of each one's stub.
STUB_BYTES = 16


def machine_of(header: bytes) -> str:
    """The processor that a file in ELF, little-endian, is for, as platform.machine() has it, from
    its first 20 bytes; "" of one that is not known, and of other files."""
    if len(header) < 20 or header[:4] != b"\x7fELF" or header[5] != 1:
        return ""
    return _NAMES.get((header[4], int.from_bytes(header[18:20], "little")), "")
