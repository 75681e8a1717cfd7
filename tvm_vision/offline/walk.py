"""One wave's way through a kernel: how often each instruction runs, and how long it waits.

Scalar registers are followed as far as they are known before the kernel runs (constants and what is
computed of them), which counters of loops are. All lanes are taken to be at work, so that no branch
on lanes is taken. One that depends on an unknown scalar, such as the workgroup's number, falls
through; where it would go back, a loop ends, which is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from .assembly import Instruction, Kind, Program
from .machines import Machine
from .scalars import Scalars

# A kernel that runs more instructions is cut: none of ours does.
MOST_STEPS = 2_000_000
_COUNTER = re.compile(r"(vm|lgkm)cnt\((\d+)\)")
# RDNA's own instructions for one counter: with the number last.
_OWN_COUNTER = re.compile(r"s_wait(?:cnt)?_(vs|vm|lgkm|load|store|ds|km)cnt")
_QUEUES = {
    "vm": "load", "load": "load", "vs": "store", "store": "store",
    "lgkm": "shared", "ds": "shared", "km": "shared",
}  # fmt: skip


@dataclass
class Walked:
    """What a wave did.

    Attributes:
        runs: how often each instruction of the program ran, by its number.
        cycles: from its begin to its end, alone on its unit.
        waited: of these, for memory.
        clauses: how many loads of device memory were on their way at each wait for some of them.
        unknown: turns of loops whose end is not known before the kernel runs.
        cut: whether it was cut at MOST_STEPS.
    """

    runs: list[int]
    cycles: float = 0.0
    waited: float = 0.0
    clauses: list[int] = field(default_factory=list)
    unknown: int = 0
    cut: bool = False


def walk(program: Program, machine: Machine, lanes: int) -> Walked:
    """Follow a wave of ``lanes`` lanes on a machine."""
    return _Wave(program, machine, lanes).go()


class _Wave:
    def __init__(self, program: Program, machine: Machine, lanes: int) -> None:
        self.program, self.machine = program, machine
        self.costs = [machine.issue_cycles(each, lanes) for each in program.instructions]
        self.transfers = [machine.shared_cycles(each, lanes) for each in program.instructions]
        self.waits = [dict(_waits(each, machine)) for each in program.instructions]
        self.scalars = Scalars()
        self.now = 0.0
        # When each of what is on its way arrives, in the order of its issue.
        self.queues: dict[str, list[float]] = {"load": [], "store": [], "shared": []}
        self.done = Walked([0] * len(program.instructions))

    def go(self) -> Walked:
        at, steps, done = 0, 0, self.done
        instructions = self.program.instructions
        while at < len(instructions):
            if steps == MOST_STEPS:
                done.cut = True
                break
            steps += 1
            each, here = instructions[at], at
            done.runs[here] += 1
            self.now += self.costs[here]
            at += 1
            if each.kind is Kind.VECTOR or each.kind is Kind.NOTHING:
                continue
            if each.kind is Kind.END:
                break
            if each.kind is Kind.BRANCH:
                if self._taken(each, here):
                    at = self.program.labels[each.operands[-1]]
                    self.now += self.machine.branch
            else:
                self._step(each, here)
        done.cycles = self.now
        return done

    def _step(self, each: Instruction, here: int) -> None:
        machine = self.machine
        if each.kind is Kind.SCALAR:
            self.scalars.run(each)
        elif each.kind is Kind.WAIT:
            for queue, left in self.waits[here].items():
                self._wait(queue, left)
        elif each.kind is Kind.LOAD:
            self.queues["load"].append(self.now + machine.memory_latency)
        elif each.kind is Kind.STORE:
            # On GCN stores count with the loads.
            queue = "store" if machine.counts_stores_apart else "load"
            self.queues[queue].append(self.now + machine.store_latency)
        elif each.kind is Kind.SCALAR_LOAD:
            self.queues["shared"].append(self.now + machine.scalar_latency)
            self.scalars.forget(each)
        elif each.kind is Kind.SHARED:
            last = max(self.queues["shared"], default=0.0)
            busy = last + self.transfers[here]
            self.queues["shared"].append(max(self.now + machine.shared_latency, busy))
        elif each.kind is Kind.BARRIER:
            self.now += machine.barrier

    def _wait(self, queue: str, left: int) -> None:
        pending = self.queues[queue]
        if queue == "load" and len(pending) > left:
            self.done.clauses.append(len(pending))
        arrival = self.now
        while len(pending) > left:
            arrival = max(arrival, pending.pop(0))
        self.done.waited += arrival - self.now
        self.now = arrival

    def _taken(self, each: Instruction, here: int) -> bool:
        back = self.program.labels[each.operands[-1]] <= here
        if each.op == "s_branch":
            return True
        condition = each.op.removeprefix("s_cbranch_")
        if condition.startswith("exec"):
            if back:
                self.done.unknown += 1  # lanes leave such a loop one by one
            return condition == "execnz" and not back
        known = self.scalars.condition(condition)
        if known is None:
            self.done.unknown += back
            return False
        return known


def _waits(each: Instruction, machine: Machine) -> Iterator[tuple[str, int]]:
    if each.kind is not Kind.WAIT:
        return
    if own := _OWN_COUNTER.match(each.op):
        yield _QUEUES[own[1]], int(each.operands[-1], 0)
        return
    for counter, number in _COUNTER.findall(" ".join(each.operands)):
        yield _QUEUES[counter], int(number)


def mix(program: Program, walked: Walked) -> Counter[str]:
    """How often a wave runs instructions of each kind, and vector instructions of each work."""
    counts: Counter[str] = Counter()
    for each, runs in zip(program.instructions, walked.runs, strict=True):
        counts[each.kind.value] += runs
        if each.work is not None:
            counts[each.work.value] += runs * (2 if each.doubled else 1)
    return counts
