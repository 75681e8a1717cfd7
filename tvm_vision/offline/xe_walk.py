"""A hardware thread's way through a kernel of Intel's: what runs how often, how long it waits.

Registers that hold the same number in all lanes are followed as far as they are known before the
kernel runs, which counters of loops are. All lanes are taken to be at work: an ``if`` on lanes is
entered. A loop whose end is not known is counted once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .machines import Machine
from .xe_assembly import GRF, Instruction, Program

MOST_STEPS = 2_000_000
_NUMBER = re.compile(r"-?(0x[0-9a-f]+|\d+)")
_WHOLE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << (b & 31),
    "asr": lambda a, b: a >> (b & 31),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "z": lambda a, b: a == b, "nz": lambda a, b: a != b, "l": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "g": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "e": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip


@dataclass
class ThreadWay:
    """What a hardware thread did.

    Attributes:
        cycles: from its begin to its end, alone on its execution unit.
        waited: of these, for messages.
        busy: cycles of the unit's arithmetic.
        shared_bytes, memory_bytes: that its messages moved.
        counts: how often instructions of each name ran.
        unknown: loops whose end is not known before the kernel runs.
    """

    cycles: float = 0.0
    waited: float = 0.0
    busy: float = 0.0
    shared_bytes: int = 0
    memory_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    unknown: int = 0


def walk(program: Program, machine: Machine) -> ThreadWay:
    """Follow a hardware thread on a machine."""
    return _Thread(program, machine).go()


class _Thread:
    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.way = ThreadWay()
        self.now = 0.0
        self.known: dict[str, int] = {}
        self.flags: dict[str, bool] = {}
        self.arrivals: dict[int, float] = {}
        # Ends of loops that are left by a test that is not known.
        self.open: set[int] = set()
        # When the last arithmetic instructions were done, the latest at the end.
        self.done: list[float] = [0.0] * 8

    def go(self) -> ThreadWay:
        at, steps, instructions = 0, 0, self.program.instructions
        while at < len(instructions) and steps < MOST_STEPS:
            steps += 1
            each = instructions[at]
            self.way.counts[each.op.split(" ")[0]] += 1
            self._wait(each)
            at = self._next(each, at)
            if each.message is not None:
                if each.message.kind == "end":
                    break
                self._send(each)
            elif not each.label and each.op != "endif":
                self._compute(each)
        self.way.cycles = self.now
        return self.way

    def _wait(self, each: Instruction) -> None:
        tokens = list(self.arrivals) if each.all_tokens else each.tokens
        arrival = max((self.arrivals.pop(token, 0.0) for token in tokens), default=0.0)
        if arrival > self.now:
            self.way.waited += arrival - self.now
            self.now = arrival
        if each.behind:
            self.now = max(self.now, self.done[-each.behind])

    def _next(self, each: Instruction, at: int) -> int:
        if not each.label:
            return at + 1
        self.now += self.machine.branch
        target = self.program.labels[each.label]
        if each.op == "else":
            return target  # its lanes went the other way
        taken = self.flags.get(each.flag)
        if each.op == "break":
            end = self._end_of_loop(at)
            if taken is None:
                self.way.unknown += end not in self.open
                self.open.add(end)
            return end + 1 if taken is not None and taken != each.negated else at + 1
        if each.op == "while":
            if at in self.open:
                self.open.remove(at)
                return at + 1
            if each.flag and taken is None:
                self.way.unknown += 1
                return at + 1
            return target if not each.flag or taken != each.negated else at + 1
        if each.op == "if" and taken is not None:
            return at + 1 if taken != each.negated else target
        return at + 1

    def _end_of_loop(self, at: int) -> int:
        """Where the loop around an instruction ends."""
        for place, each in enumerate(self.program.instructions[at:], at):
            if each.op == "while" and self.program.labels[each.label] <= at:
                return place
        return at  # in no loop

    def _send(self, each: Instruction) -> None:
        machine, message = self.machine, each.message
        assert message is not None
        self.now += machine.issue
        latency = {"load": machine.memory_latency, "store": machine.store_latency}
        if message.kind == "shared":
            self.way.shared_bytes += message.bytes
        else:
            self.way.memory_bytes += message.bytes
        if message.kind == "barrier":
            self.now += machine.barrier
        if message.token is not None:
            arrival = self.now + latency.get(message.kind, machine.shared_latency)
            self.arrivals[message.token] = arrival
        self._forget(each)

    def _compute(self, each: Instruction) -> None:
        if each.op.startswith("sync"):
            self.now += 1
            return
        cycles = _cycles(each, self.machine)
        self.now += cycles
        self.way.busy += cycles
        self.done = [*self.done[1:], self.now + self.machine.arithmetic_latency]
        self._follow(each)

    def _follow(self, each: Instruction) -> None:
        """What is known of a register or flag from here on."""
        values = [self._value(source) for source in each.sources]
        value: int | None = None
        if each.element == 4 and not each.flag and None not in values:
            whole = [v for v in values if v is not None]
            if each.op == "mov" and len(whole) == 1:
                value = whole[0]
            elif each.op in _WHOLE and len(whole) == 2:
                value = _WHOLE[each.op](*whole)
        if each.sets:
            test = _TESTS.get(each.condition)
            pair = values if each.op == "cmp" else [value, 0]
            if test and len(pair) == 2 and pair[0] is not None and pair[1] is not None:
                self.flags[each.sets] = test(pair[0], pair[1])
            else:
                self.flags.pop(each.sets, None)
        self._forget(each)
        if value is not None:
            self.known[each.result] = value

    def _forget(self, each: Instruction) -> None:
        """Nothing is known of the registers that are written."""
        if not each.result.startswith("g"):
            return
        first = int(each.result[1:].split(".")[0])
        size = each.message.bytes if each.message else each.lanes * each.element
        for number in range(first, first + max(1, -(-size // GRF))):
            for name in [n for n in self.known if n.split(".")[0] == f"g{number}"]:
                if "." not in each.result or name == each.result:
                    del self.known[name]

    def _value(self, operand: str) -> int | None:
        if _NUMBER.fullmatch(operand):
            value = int(operand, 16 if "x" in operand else 10)
            return value - (1 << 32) if value >= 1 << 31 else value
        return self.known.get(operand)


def _cycles(each: Instruction, machine: Machine) -> float:
    """That an instruction keeps the arithmetic of an execution unit busy."""
    if each.op.startswith("math"):
        return each.lanes / 2.0
    return max(1.0, each.lanes * max(each.element, 2) / (4.0 * machine.lanes))
