"""Intel's machine code as its driver prints it, read: what instructions do, and wait for.

Names are those of Mesa's disassembler for Gen12 (Xe-LP). What an instruction waits for stands
behind it: ``@n`` is the n-th arithmetic instruction before it, ``$n.dst`` what message n brings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InputError

_LABEL = re.compile(r"(LABEL\d+):")
_INSTRUCTION = re.compile(
    r"(?:\((?P<negated>[-+])(?P<flag>f\d\.\d)[^)]*\)\s+)?"
    r"(?P<op>[a-z]\w*)(?P<more>(?:\.[a-z]\w*|\.f\d\.\d)*)(?:\s(?P<function>[a-z]\w*))?"
    r"\((?P<lanes>\d+)\)\s*(?P<rest>[^{]*)"
)
_OPERAND = re.compile(
    r"[-(]*(?:abs\))?(?P<name>g\d+(?:\.\d+)?|null|acc\d\S*|-?0x[0-9a-f]+|-?\d+)"
    r"(?P<region><[^>]*>)?(?P<type>UQ|UD|UW|UB|DF|HF|BF|Q|D|W|B|F)\b"
)
_BYTES = {"B": 1, "W": 2, "HF": 2, "BF": 2, "D": 4, "F": 4, "Q": 8, "DF": 8}
GRF = 32  # bytes of a register
# Shared memory, as surfaces of messages to the data port.
_SHARED = re.compile(r"(?:Surface = |bti )254\b")


@dataclass(frozen=True)
class Message:
    """What a send asks for.

    Attributes:
        kind: "load", "store", "shared", "barrier", "fence" or "end".
        bytes: that it brings or takes, of all lanes.
        token: by which others wait for it; None where none does.
    """

    kind: str
    bytes: int
    token: int | None


@dataclass(frozen=True)
class Instruction:
    """One instruction of a hardware thread.

    Attributes:
        op: its name; of math with the function.
        lanes: that it computes.
        condition, sets: what it compares by, and the flag that it sets; "" for neither.
        flag, negated: under which it runs; "" for always.
        result, sources: registers, or numbers as they are written.
        element: bytes of the largest of its elements.
        label: where it jumps to; "" for nowhere.
        message: of a send.
        behind: how many arithmetic instructions before it the one is that it waits for; 0 for none.
        tokens: of messages whose data it waits for; ``all_tokens``: for all of them.
    """

    op: str
    lanes: int
    condition: str = ""
    sets: str = ""
    flag: str = ""
    negated: bool = False
    result: str = ""
    sources: tuple[str, ...] = ()
    element: int = 4
    label: str = ""
    message: Message | None = None
    behind: int = 0
    tokens: tuple[int, ...] = ()
    all_tokens: bool = False


@dataclass(frozen=True)
class Program:
    """A kernel's instructions, in order, and where each label stands."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def parse(text: str) -> Program:
    """The program that a driver printed.

    Raises InputError for text that is no machine code of Intel's, or that jumps to nowhere.
    """
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if label := _LABEL.fullmatch(line):
            labels[label[1]] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            # What a send asks for stands in the line after it.
            after = lines[number + 1] if number + 1 < len(lines) else ""
            instructions.append(_instruction(found, line, after if "MsgDesc" in after else ""))
    if not any(each.message and each.message.kind == "end" for each in instructions):
        first = (lines or [""])[0][:60]
        raise InputError(
            f"machine code of an Intel GPU, up to its end of thread, is needed, found '{first}'..."
        )
    for each in instructions:
        if each.label and each.label not in labels:
            raise InputError(f"{each.op} jumps to '{each.label}', and there is no such label")
    return Program(tuple(instructions), labels)


def _instruction(found: re.Match[str], line: str, after: str) -> Instruction:
    op, rest = found["op"], found["rest"]
    operands = list(_OPERAND.finditer(rest))
    waits = (after or line).rpartition("{")[2]
    jump = re.search(r"JIP:\s+(LABEL\d+)", line)
    parts = [part for part in found["more"].split(".") if part]
    flag = re.search(r"\.(f\d\.\d)", found["more"])
    behind = re.search(r"@(\d)", waits)
    names = [each["name"] for each in operands]
    return Instruction(
        op=f"{op} {found['function']}" if found["function"] else op,
        lanes=int(found["lanes"]),
        condition=parts[0] if flag and parts else "",
        sets=flag[1] if flag else "",
        flag=found["flag"] or "",
        negated=found["negated"] == "-",
        result=names[0] if names else "",
        sources=tuple(names[1:]),
        element=max((_BYTES[each["type"].lstrip("U")] for each in operands), default=4),
        label=jump[1] if jump else "",
        message=_message(after, waits) if op in ("send", "sendc") else None,
        behind=int(behind[1]) if behind else 0,
        tokens=tuple(map(int, re.findall(r"\$(\d+)\.dst", waits))),
        all_tokens=op == "sync" and found["function"] == "allwr",
    )


def _message(said: str, waits: str) -> Message:
    own = re.search(r"\$(\d+)(?!\.|\d)", waits)
    token = int(own[1]) if own else None
    sizes = {name: int(size) for name, size in re.findall(r"\b(ex_mlen|mlen|rlen) (\d+)", said)}
    brought, taken = GRF * sizes.get("rlen", 0), GRF * sizes.get("ex_mlen", 0)
    if "EOT" in waits:
        return Message("end", 0, token)
    if "gateway" in said:
        return Message("barrier", 0, token)
    if "fence" in said:
        return Message("fence", 0, token)
    if _SHARED.search(said):
        return Message("shared", brought or taken, token)
    return Message("load" if brought else "store", brought or taken, token)
