"""Pieces of GLSL expressions, and vectors of any number of lanes split into parts of up to four.

A value of 16 lanes is four vec4; one of 6 lanes is a vec4 and a vec2. Everything elementwise works
part by part, everything else lane by lane.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.types import UINT32, Type

_ATOM = re.compile(r"[A-Za-z_0-9]+(\.[xyzw])?|\d+\.\d+(e[-+]\d+)?|\d+[ul]+|-\d+")
_INTEGER = re.compile(r"-?\d{1,9}")
_LAST_CONSTANT = re.compile(r"(.+) ([+-]) (\d{1,9})")
PRIMARY, UNARY, CONDITIONAL = 100, 90, 1
_PRECEDENCE = {
    "||": 10,
    "&&": 11,
    "|": 12,
    "^": 13,
    "&": 14,
    "==": 15,
    "!=": 15,
    "<": 16,
    "<=": 16,
    ">": 16,
    ">=": 16,
    "<<": 17,
    ">>": 17,
    "+": 18,
    "-": 18,
    "*": 19,
    "/": 19,
    "%": 19,
}
_COMPARE = {
    "==": "equal",
    "!=": "notEqual",
    "<": "lessThan",
    "<=": "lessThanEqual",
    ">": "greaterThan",
    ">=": "greaterThanEqual",
}


class Code(str):
    """GLSL text with the precedence of its outermost operator.

    Attributes:
        word: of four bytes the word that they are, of four halves the two words, where these are
            known; else empty.
    """

    precedence: int
    word: str

    def __new__(cls, text: str, precedence: int = PRIMARY, word: str = "") -> Code:
        self = super().__new__(cls, text)
        self.precedence, self.word = precedence, word
        return self


class Value:
    """A typed expression: one part for up to four lanes, several parts for more."""

    __slots__ = ("parts", "type")

    def __init__(self, of: Type, parts: Iterable[str]) -> None:
        self.type = of
        self.parts = tuple(parts)

    @property
    def text(self) -> str:
        return self.parts[0]

    def lane(self, index: int) -> str:
        """One lane as a scalar expression; the part it lies in should be an atom."""
        if self.type.lanes == 1:
            return self.parts[0]
        part, offset = divmod(index, 4)
        if widths(self.type.lanes)[part] == 1:
            return self.parts[part]
        return Code(f"{wrap(self.parts[part], PRIMARY)}.{'xyzw'[offset]}")


def widths(lanes: int) -> list[int]:
    """How a vector is split: [4, 4] for 8 lanes, [4, 2] for 6."""
    whole, rest = divmod(lanes, 4)
    return [4] * whole + ([rest] if rest else [])


def is_atom(text: str) -> bool:
    """Whether repeating the text costs nothing: a name, a lane of a name, a literal."""
    return _ATOM.fullmatch(text) is not None


def wrap(text: str, at_least: int) -> str:
    """Parenthesises what binds less tightly than its surroundings."""
    found = getattr(text, "precedence", PRIMARY)
    if found == PRIMARY and text.startswith("-"):
        found = UNARY
    return text if found >= at_least else f"({text})"


def split_constant(text: str) -> tuple[str, int]:
    """A sum as text without the constant at its end, and that constant."""
    found = _LAST_CONSTANT.fullmatch(text)
    if found is None or getattr(text, "precedence", PRIMARY) != _PRECEDENCE["+"]:
        return text, 0
    return found[1], int(found[2] + found[3])


def infix(symbol: str, a: str, b: str) -> Code:
    """``a symbol b`` with as few parentheses as it takes; keeps the order of evaluation."""
    if symbol == "+" and _INTEGER.fullmatch(b):
        if _INTEGER.fullmatch(a):
            return Code(str(int(a) + int(b)))
        if b.startswith("-"):
            symbol, b = "-", b[1:]
    precedence = _PRECEDENCE[symbol]
    careful = symbol in ("&", "|", "^", "<<", ">>", "&&", "||")  # read wrong without parentheses
    left = wrap(
        a, PRIMARY if careful and getattr(a, "precedence", 100) != precedence else precedence
    )
    right = wrap(b, UNARY if careful else precedence + 1)
    return Code(f"{left} {symbol} {right}", precedence)


def compare(symbol: str, a: str, b: str, width: int) -> Code:
    """A comparison of scalars (``<``) or of vectors (``lessThan``)."""
    if width == 1:
        return infix(symbol, a, b)
    return Code(f"{_COMPARE[symbol]}({a}, {b})")


def construct(of: Type, lanes: Sequence[str]) -> Value:
    """A value from one scalar text per lane."""
    if of.lanes == 1:
        return Value(of, lanes)
    parts, at = [], 0
    for width in widths(of.lanes):
        chunk = list(lanes[at : at + width])
        at += width
        if width == 1:
            parts.append(chunk[0])
        elif all(text == chunk[0] for text in chunk):
            parts.append(Code(f"{types.name(of.with_lanes(width))}({chunk[0]})"))
        else:
            parts.append(Code(f"{types.name(of.with_lanes(width))}({', '.join(chunk)})"))
    return Value(of, parts)


def broadcast(of: Type, scalar: str) -> Value:
    """The same scalar in every lane."""
    return construct(of, [scalar] * of.lanes)


def words_of(of: Type) -> Type:
    """The words of 32 bits that lanes of bytes or of halves lie in."""
    return Type("uint" if of.kind == "float" else of.kind, 32, of.lanes * of.bits // 32)


def in_words(value: Value) -> bool:
    """Whether all lanes of a value are known as words."""
    return all(_word(part) for part in value.parts)


def _word(part: str) -> str:
    return getattr(part, "word", "")


def pack(value: Value) -> Value:
    """The words of bytes, or of halves, in fours."""
    if value.type.bits == 8:
        return _joined(words_of(value.type), [_word(p) or f"pack32({p})" for p in value.parts])
    of, halves = UINT32.with_lanes(4), pairs(value)
    words = [_joined(of, halves[at : at + 2]).text for at in range(0, len(halves), 2)]
    return Value(words_of(value.type), words)


def pairs(value: Value) -> list[str]:
    """Two words of each four of halves."""
    halves = (f"packFloat2x16({{0}}.{pair})" for pair in ("xy", "zw"))
    both = f"uvec2({', '.join(halves)})"
    return [_word(p) or both.format(wrap(p, PRIMARY)) for p in value.parts]


def _joined(of: Type, pieces: Sequence[str]) -> Value:
    """Words of pieces of them; what they are all pieces of where that is one."""
    whole = pieces[0].removesuffix(".x").removesuffix(".xy")
    letters = "xyzw"[: of.lanes]
    each = max(1, of.lanes // len(pieces))
    cut = [letters[at : at + each] for at in range(0, of.lanes, each)]
    if of.lanes > 1 and list(pieces) == [f"{whole}.{part}" for part in cut]:
        return Value(of, [Code(whole)])
    if of.lanes == len(pieces) or of.lanes == 1:
        return construct(of, [Code(piece) for piece in pieces])
    return Value(of, [Code(f"{types.name(of)}({', '.join(pieces)})")])


def unpack(words: Value, of: Type) -> Value:
    """The bytes or halves, of type ``of``, of words; the parts of these should be atoms."""
    if of.bits == 8:
        lanes = [words.lane(i) for i in range(words.type.lanes)]
        return Value(of, [Code(f"unpack8({lane})", word=lane) for lane in lanes])
    parts = []
    for text in words.parts:
        parts += [half_vector(text, lanes) for lanes in ("xy", "zw")]
    return Value(of, parts)


def half_vector(text: str, lanes: str = "") -> Code:
    """Four halves of two words: of ``lanes`` of an atom, or of one of two."""
    both = ", ".join(f"unpackFloat2x16({text}.{lane})" for lane in lanes or "xy")
    return Code(f"f16vec4({both})", word=f"{text}.{lanes}" if lanes else text)


def repeat_in_words(of: Type, value: float) -> Value:
    """The same constant byte, or half, in all lanes, a multiple of four."""
    text = f"{types.name(of.with_lanes(4))}({types.literal(value, of.scalar)})"
    if of.bits == 8:
        word = types.literal((int(value) & 255) * 0x01010101, Type(of.kind, 32))
    else:
        half = int.from_bytes(struct.pack("<e", value), "little")
        word = f"uvec2({types.literal(half * 0x00010001, UINT32)})"
    return Value(of, [Code(text, word=word)] * (of.lanes // 4))


def partwise(of: Type, function: Callable[..., str], *values: Value) -> Value:
    """Applies ``function(width, *parts)`` to each part of values of the same number of lanes."""
    chunks = widths(of.lanes)
    return Value(of, (function(w, *(v.parts[i] for v in values)) for i, w in enumerate(chunks)))


def lanewise(of: Type, function: Callable[..., str], *values: Value) -> Value:
    """Applies ``function(*scalars)`` lane by lane; the parts of the values should be atoms."""
    return construct(of, [function(*(v.lane(i) for v in values)) for i in range(of.lanes)])
