"""What is rounded to whole numbers is computed as it is written.

A driver, and spirv-opt before it, may compute a · b + c in one step, a · 2 · 3 as a · 6, and a / 2
as a · ½. Each moves a number by its last digit, which is below what anybody asks of a network, but
where a number is rounded then: half way between two steps its last digit decides which of them it
becomes, of a quantized network as of an index. So the operations that such a number comes from are
decorated with NoContraction, which forbids all three. Sums over many terms stay as they are: a
variable that is stored from itself is where the walk back ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_OP_EXT_INST, _OP_ENTRY_POINT = 12, 15
_TYPES = range(19, 40)  # of which the first instruction follows all decorations
_OP_FUNCTION, _OP_FUNCTION_END, _OP_VARIABLE, _OP_LOAD, _OP_STORE = 54, 56, 59, 61, 62
_OP_DECORATE, _NO_CONTRACTION = 71, 42
_CONVERT_TO_INTEGER = (109, 110)  # OpConvertFToU, OpConvertFToS
_ROUNDING = (1, 2, 3, 8, 9, 10)  # Round, RoundEven, Trunc, Floor, Ceil, Fract of GLSL.std.450
_ARITHMETIC = (129, 131, 133, 136, 142)  # OpFAdd, OpFSub, OpFMul, OpFDiv, OpVectorTimesScalar
# What hands numbers on: OpVectorShuffle, OpCompositeConstruct and -Extract, OpCopyObject,
# OpFConvert, OpFNegate, OpSelect, OpPhi.
_PASSING = (79, 80, 81, 83, 115, 127, 169, 245)
_FOLLOWED = frozenset((*_ARITHMETIC, *_PASSING, *_CONVERT_TO_INTEGER, _OP_EXT_INST, _OP_LOAD))


@dataclass
class _Body:
    """The values of a kernel's main function, by their ids."""

    operands: dict[int, list[int]] = field(default_factory=dict)
    arithmetic: set[int] = field(default_factory=set)
    loads: dict[int, int] = field(default_factory=dict)  # value -> variable
    stored: dict[int, list[int]] = field(default_factory=dict)  # variable -> values
    rounded: list[int] = field(default_factory=list)


def with_exact_roundings(spirv: bytes) -> bytes:
    """The same module, with operations that decide about a rounding decorated NoContraction.

    spirv: as glslang writes it, little-endian words, not optimized yet.
    """
    words = memoryview(spirv).cast("I").tolist()
    body, place, decorated = _body_of(words)
    exact = sorted(_before_roundings(body) - decorated)
    if not exact:
        return spirv
    added = [word for i in exact for word in (3 << 16 | _OP_DECORATE, i, _NO_CONTRACTION)]
    text = b"".join(word.to_bytes(4, "little") for word in added)
    return spirv[: 4 * place] + text + spirv[4 * place :]


def _body_of(words: Sequence[int]) -> tuple[_Body, int, set[int]]:
    """The main function, the place for decorations, and what has this one."""
    body, place, decorated = _Body(), 0, set()
    entry, inside = -1, False
    for at, opcode, count in _instructions(words):
        if opcode == _OP_ENTRY_POINT:
            entry = words[at + 2]
        elif opcode == _OP_DECORATE and words[at + 2] == _NO_CONTRACTION:
            decorated.add(words[at + 1])
        elif not place and opcode in _TYPES:
            place = at
        elif opcode == _OP_FUNCTION:
            inside = words[at + 2] == entry
        elif opcode == _OP_FUNCTION_END:
            inside = False
        elif inside:
            _note(body, opcode, words[at + 1 : at + count])
    return body, place, decorated


def _instructions(words: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Place, opcode and length of each."""
    at = 5
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        yield at, opcode, count
        at += count


def _note(body: _Body, opcode: int, words: Sequence[int]) -> None:
    if opcode == _OP_STORE:
        body.stored.setdefault(words[0], []).append(words[1])
    elif opcode in _FOLLOWED:
        result, operands = words[1], list(words[2:])
        if opcode == _OP_LOAD:
            body.loads[result] = operands.pop(0)
            operands = []
        elif opcode == _OP_EXT_INST:
            if operands[1] in _ROUNDING:
                body.rounded.append(result)
            operands = operands[2:]
        elif opcode in _ARITHMETIC:
            body.arithmetic.add(result)
        elif opcode in _CONVERT_TO_INTEGER:
            body.rounded.append(result)
        body.operands[result] = operands


def _before_roundings(body: _Body) -> set[int]:
    """The operations whose results, handed on, are rounded."""
    if not body.rounded:
        return set()
    ends = {v for v, values in body.stored.items() if v in _behind(body, values, set())[1]}
    return _behind(body, body.rounded, ends)[0] & body.arithmetic


def _behind(body: _Body, values: Sequence[int], ends: set[int]) -> tuple[set[int], set[int]]:
    """What values are computed from, they themselves among it: values, and variables that are read
    on the way, of which ``ends`` are not followed further."""
    seen: set[int] = set()
    read: set[int] = set()
    left = list(values)
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        left += body.operands.get(value, ())
        variable = body.loads.get(value)
        if variable is not None and variable not in read:
            read.add(variable)
            left += body.stored.get(variable, ()) if variable not in ends else ()
    return seen, read
