"""AMD's machine code as its driver prints it, read: what kind each instruction is, where it jumps.

Names are those of GCN (buffer_load_dwordx4, ds_read_b64) and of RDNA3 (buffer_load_b128,
ds_load_b64), from AMD's instruction set references for Vega, RDNA2 and RDNA3.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from ..errors import InputError


class Kind(enum.Enum):
    """What part of a unit an instruction occupies."""

    VECTOR = "vector"
    SCALAR = "scalar"
    SCALAR_LOAD = "scalar load"
    LOAD = "load"
    STORE = "store"
    SHARED = "shared"
    WAIT = "wait"
    BARRIER = "barrier"
    BRANCH = "branch"
    END = "end"
    NOTHING = "nothing"


class Work(enum.Enum):
    """What a vector instruction computes."""

    MULTIPLY_ADD = "fp32 multiply-adds"
    PACKED = "packed fp16"
    MIXED = "mixed fp16 multiply-adds"
    DOT = "dot products"
    MATRIX = "matrix products"
    CONVERT = "conversions"
    MOVE = "moves"
    WIDE_INTEGER = "wide integer products"
    SPECIAL = "exp, log, rcp, sqrt"
    DOUBLE = "float64"
    OTHER = "other"


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        op: its name, without what says how it is encoded.
        operands: as they are written.
        kind: what it occupies.
        work: of a vector instruction, else None.
        lane_bytes: that a lane loads or stores, in device or shared memory.
        doubled: whether it is two instructions in one (RDNA3's v_dual_*).
    """

    op: str
    operands: tuple[str, ...]
    kind: Kind
    work: Work | None = None
    lane_bytes: int = 0
    doubled: bool = False


@dataclass(frozen=True)
class Program:
    """A kernel's instructions, in order, and where each label stands."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


_LABEL = re.compile(r"(\w+):")
# What the driver writes in place of lines that are the same as the one before.
_REPEATED = re.compile(r"\(then repeated (\d+) times\)")
# And for what the LLVM beside it cannot name: instructions on halves of registers of RDNA3.
_NOT_NAMED = "(invalid instruction)"
_ENCODING = re.compile(r"_(e32|e64|sdwa|dpp|dpp8|e64_dpp)$")
# The first that fits counts.
_WORKS = (
    (r"v_wmma_|v_swmmac_|v_mfma_", Work.MATRIX),
    (r"v_dot\d", Work.DOT),
    (r"v_(mad|fma)_mix", Work.MIXED),
    (r"v_pk_", Work.PACKED),
    (r"v_\w*f64", Work.DOUBLE),
    (r"v_cvt_", Work.CONVERT),
    (r"v_(fma|fmac|fmaak|fmamk|mac|mad|madak|madmk)(_legacy)?_f32", Work.MULTIPLY_ADD),
    (r"v_(exp|log|rcp|rsq|sqrt|sin|cos)(_iflag)?_f(16|32)", Work.SPECIAL),
    (r"v_mul_(lo|hi)_[ui](32|64)|v_mad_[ui]64", Work.WIDE_INTEGER),
    (r"v_(mov|swap|readfirstlane|readlane|writelane|accvgpr|perm|permlane)", Work.MOVE),
)
_WORK = [(re.compile(pattern), work) for pattern, work in _WORKS]
_DEVICE_MEMORY = ("buffer_", "global_", "flat_", "scratch_", "tbuffer_", "image_")
_WORDS = re.compile(r"_(?:format_)?dword(?:x(\d))?")
_BITS = re.compile(r"_[a-z]*?(8|16|32|64|96|128)(?=_|$)")
_NARROW = re.compile(r"_[us]?(byte|short)")
_NAMED_BYTES = {"byte": 1, "short": 2}


def parse(text: str) -> Program:
    """The program that a driver printed.

    Raises InputError for text that is no machine code of AMD's, or that jumps to nowhere.
    """
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        code = line.partition(";")[0].strip()
        if label := _LABEL.fullmatch(code):
            labels[label[1]] = len(instructions)
        elif again := _REPEATED.fullmatch(code):
            instructions += instructions[-1:] * int(again[1])
        elif code == _NOT_NAMED:
            instructions.append(Instruction("v_unnamed", (), Kind.VECTOR, Work.OTHER))
        elif code:
            instructions.append(read_instruction(code))
    if not any(each.kind is Kind.END for each in instructions):
        first = next(iter(text.splitlines()), "")[:60]
        raise InputError(
            f"machine code of an AMD GPU, up to its s_endpgm, is needed, found '{first}'..."
        )
    for each in instructions:
        if each.kind is Kind.BRANCH and each.operands[-1] not in labels:
            raise InputError(
                f"{each.op} jumps to '{each.operands[-1]}', and there is no such label"
            )
    return Program(tuple(instructions), labels)


def read_instruction(code: str) -> Instruction:
    """One line, without its comment. Raises InputError for what is none."""
    name, _, rest = code.partition(" ")
    if not re.fullmatch(r"[a-z]\w*", name):
        raise InputError(f"an instruction of an AMD GPU is needed, found '{code[:60]}'")
    doubled = name.startswith("v_dual_")
    op = _ENCODING.sub("", name.replace("v_dual_", "v_", 1))
    operands = tuple(part.strip() for part in rest.split(",")) if rest else ()
    kind = _kind(op)
    work = None
    if kind is Kind.VECTOR:
        work = next((work for pattern, work in _WORK if pattern.match(op)), Work.OTHER)
    in_memory = kind in (Kind.LOAD, Kind.STORE, Kind.SHARED)
    return Instruction(op, operands, kind, work, _lane_bytes(op) if in_memory else 0, doubled)


def _kind(op: str) -> Kind:
    if op.startswith("v_"):
        return Kind.VECTOR
    if op.startswith("ds_"):
        return Kind.SHARED
    if op.startswith(_DEVICE_MEMORY):
        # What begins with buffer_ and moves nothing: invalidations and write-backs of caches.
        if re.search(r"_(inv|invl2|wb|wbl2|wbinvl1|gl[01]_inv)", op):
            return Kind.NOTHING
        return Kind.LOAD if "load" in op or "_return" in op else Kind.STORE
    if not op.startswith("s_"):
        return Kind.NOTHING
    if op.startswith(("s_load", "s_buffer_load")):
        return Kind.SCALAR_LOAD
    if op.startswith(("s_waitcnt_depctr", "s_wait_alu")):
        return Kind.NOTHING
    if op.startswith(("s_waitcnt", "s_wait_")):
        return Kind.WAIT
    if op.startswith("s_barrier"):
        return Kind.BARRIER
    if op.startswith(("s_branch", "s_cbranch")):
        return Kind.BRANCH
    if op.startswith("s_endpgm"):
        return Kind.END
    if op.startswith(("s_clause", "s_delay_alu", "s_nop", "s_code_end", "s_sendmsg", "s_dcache")):
        return Kind.NOTHING
    return Kind.SCALAR


def _lane_bytes(op: str) -> int:
    if words := _WORDS.search(op):
        return 4 * int(words[1] or 1)
    if narrow := _NARROW.search(op):
        return _NAMED_BYTES[narrow[1]]
    bits = _BITS.search(op)
    two = 2 if re.search(r"(read|write)2|_2addr", op) else 1
    return two * int(bits[1]) // 8 if bits else 4
