"""The scalar registers of a wave, as far as their content is known before the kernel runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from .assembly import Instruction

_ALL_LANES = (1 << 64) - 1
_WIDTHS = {"b32": 32, "i32": 32, "u32": 32, "b64": 64, "i64": 64, "u64": 64}
_NAME = re.compile(r"s_(\w+?)_(b32|i32|u32|b64|i64|u64)")
_COMPARE = re.compile(r"s_cmpk?_(eq|lg|gt|ge|lt|le)_(i32|u32|u64)")
_RANGE = re.compile(r"s\[(\d+):(\d+)\]")
_SINGLE = re.compile(r"s(\d+)|vcc_lo|vcc_hi|m0")
_NUMBER = re.compile(r"-?(0x[0-9a-f]+|\d+)")

Number = int | None


def _bitwise(combine: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    return lambda a, b, width: combine(a, b) & ((1 << width) - 1)


_LOGIC: dict[str, Callable[[int, int, int], int]] = {
    "and": _bitwise(lambda a, b: a & b),
    "or": _bitwise(lambda a, b: a | b),
    "xor": _bitwise(lambda a, b: a ^ b),
    "andn2": _bitwise(lambda a, b: a & ~b),
    "and_not1": _bitwise(lambda a, b: a & ~b),
    "orn2": _bitwise(lambda a, b: a | ~b),
    "or_not1": _bitwise(lambda a, b: a | ~b),
    "nand": _bitwise(lambda a, b: ~(a & b)),
    "nor": _bitwise(lambda a, b: ~(a | b)),
    "xnor": _bitwise(lambda a, b: ~(a ^ b)),
    "lshl": lambda a, b, width: (a << (b % width)) & ((1 << width) - 1),
    "lshr": lambda a, b, width: a >> (b % width),
    "ashr": lambda a, b, width: (_signed(a, width) >> (b % width)) & ((1 << width) - 1),
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mul_hi": lambda a, b: a * b >> 32,
    "min": min,
    "max": max,
}
# Leave the condition code as it was.
_QUIET = ("mov", "movk", "cselect", "mul", "mulk", "brev", "bitset0", "bitset1", "pack", "getreg")


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


class Scalars:
    """Registers by name, 32 bits each; what is not in them is not known."""

    def __init__(self) -> None:
        self._registers: dict[str, int] = {}
        self._condition: bool | None = None

    def condition(self, name: str) -> bool | None:
        """Whether a branch on ``name`` (scc0, scc1, vccz, vccnz) is taken; None: not known."""
        if name in ("scc0", "scc1"):
            return None if self._condition is None else self._condition == (name == "scc1")
        value = self.read("vcc", 64)
        if name not in ("vccz", "vccnz") or value is None:
            return None
        return (value == 0) == (name == "vccz")

    def read(self, operand: str, width: int) -> Number:
        """An operand's value, from 0 to 2**width - 1."""
        if operand in ("exec", "exec_lo", "exec_hi"):
            return _ALL_LANES & ((1 << width) - 1)
        if _NUMBER.fullmatch(operand):
            return int(operand, 0) & ((1 << width) - 1)
        parts = [self._registers.get(name) for name in _names(operand)]
        if not parts or None in parts[: width // 32]:
            return None
        return sum((part or 0) << (32 * i) for i, part in enumerate(parts[: width // 32]))

    def write(self, operand: str, value: Number) -> None:
        """Set an operand's registers, or forget them."""
        for i, name in enumerate(_names(operand)):
            if value is None:
                self._registers.pop(name, None)
            else:
                self._registers[name] = value >> (32 * i) & 0xFFFFFFFF

    def forget(self, each: Instruction) -> None:
        """What an instruction writes is not known."""
        if each.operands:
            self.write(each.operands[0], None)

    def run(self, each: Instruction) -> None:
        """Carry a scalar instruction out."""
        if compared := _COMPARE.fullmatch(each.op):
            self._condition = self._compare(compared[1], compared[2], each.operands)
            return
        named = _NAME.fullmatch(each.op)
        if named is None or not each.operands:
            self._unknown(each)
            return
        stem, kind = named[1], named[2]
        width = _WIDTHS[kind]
        if stem.endswith("saveexec"):
            self.write(each.operands[0], self.read("exec", width))
            self._condition = None
        elif stem in ("mov", "movk", "not"):
            self._move(stem, width, each.operands)
        elif stem == "cselect":
            chosen = None if self._condition is None else each.operands[2 - int(self._condition)]
            self.write(each.operands[0], None if chosen is None else self.read(chosen, width))
        elif stem in _LOGIC:
            self._logic(stem, width, each.operands)
        elif stem in ("bitcmp0", "bitcmp1"):
            # Writes the condition code alone: its first operand is what it looks at.
            self._condition = self._bit(each.operands, width, int(stem[-1]))
        elif width == 32 and (found := re.fullmatch(r"(add|sub|mul_hi|mul|min|max)(k?)", stem)):
            self._arithmetic(found[1], bool(found[2]), kind == "i32", each.operands)
        elif width == 32 and (found := re.fullmatch(r"lshl([1-4])_add", stem)):
            a, b = (self.read(operand, 32) for operand in each.operands[1:3])
            both = a is not None and b is not None
            self._set(each.operands[0], (a << int(found[1])) + b if both else None, 32)  # type: ignore[operator]
        else:
            self._unknown(each)

    def _compare(self, how: str, kind: str, operands: tuple[str, ...]) -> bool | None:
        width = 64 if kind == "u64" else 32
        a, b = (self.read(operand, width) for operand in operands[:2])
        if a is None or b is None:
            return None
        if kind == "i32":
            a, b = _signed(a, 32), _signed(b, 32)
        return _COMPARISONS[how](a, b)

    def _bit(self, operands: tuple[str, ...], width: int, wanted: int) -> bool | None:
        value, number = self.read(operands[0], width), self.read(operands[1], 32)
        if value is None or number is None:
            return None
        return value >> (number % width) & 1 == wanted

    def _move(self, stem: str, width: int, operands: tuple[str, ...]) -> None:
        value = self.read(operands[1], width)
        if stem == "movk" and value is not None:
            value = _signed(value & 0xFFFF, 16) & 0xFFFFFFFF
        if stem == "not" and value is not None:
            value = ~value & ((1 << width) - 1)
        self.write(operands[0], value)
        if stem == "not":
            self._condition = None if value is None else value != 0

    def _logic(self, stem: str, width: int, operands: tuple[str, ...]) -> None:
        shift = stem in ("lshl", "lshr", "ashr")
        a, b = self.read(operands[1], width), self.read(operands[2], 32 if shift else width)
        value = None if a is None or b is None else _LOGIC[stem](a, b, width)
        if stem == "and" and 0 in (a, b):
            value = 0  # whatever the other is
        self.write(operands[0], value)
        self._condition = None if value is None else value != 0

    def _arithmetic(self, stem: str, short: bool, signed: bool, operands: tuple[str, ...]) -> None:
        # The short forms have a constant of 16 bits in place of their second operand.
        first, second = (operands[0], operands[1]) if short else (operands[1], operands[2])
        a, b = self.read(first, 32), self.read(second, 32)
        if short and b is not None:
            b = _signed(b & 0xFFFF, 16) & 0xFFFFFFFF
        if a is None or b is None:
            self._set(operands[0], None, 32, quiet=stem.startswith("mul"))
            return
        if signed:
            a, b = _signed(a, 32), _signed(b, 32)
        value = _ARITHMETIC[stem](a, b)
        self.write(operands[0], value & 0xFFFFFFFF)
        if stem in ("add", "sub"):
            low, high = (-(1 << 31), 1 << 31) if signed else (0, 1 << 32)
            self._condition = not low <= value < high
        elif stem in ("min", "max"):
            self._condition = value == a

    def _set(self, operand: str, value: Number, width: int, quiet: bool = False) -> None:
        self.write(operand, None if value is None else value & ((1 << width) - 1))
        if not quiet:
            self._condition = None

    def _unknown(self, each: Instruction) -> None:
        self.forget(each)
        if not each.op.startswith(tuple(f"s_{stem}" for stem in _QUIET)):
            self._condition = None


def _names(operand: str) -> list[str]:
    if found := _RANGE.fullmatch(operand):
        return [f"s{number}" for number in range(int(found[1]), int(found[2]) + 1)]
    if operand == "vcc":
        return ["vcc_lo", "vcc_hi"]
    return [operand] if _SINGLE.fullmatch(operand) else []
