"""Which candidate of which kernel to measure next, and when to stop: no device, no compiler.

Kernels that take the largest share of a network's time come first, and as long as they gain. Within
a kernel the candidates come in the order of the templates' model, mixed with neighbours of the best
so far: those that differ from it in one number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Decision = Mapping[str, Any]

GAIN = 0.01  # less than this share of a kernel's time is noise
PATIENCE = 3  # batches without a gain after which a kernel rests
DECAY = 0.5  # how much a batch without a gain lowers a kernel's turn


def same(decision: Decision) -> str:
    """A key that equal decisions share."""
    return json.dumps(decision, sort_keys=True)


def difference(one: Decision, other: Decision) -> int:
    """In how many parameters two decisions differ; all, where the templates do."""
    mine, theirs = one.get("parameters", {}), other.get("parameters", {})
    if one.get("template") != other.get("template"):
        return len(mine) + len(theirs)
    return sum(mine.get(name) != theirs.get(name) for name in {*mine, *theirs})


@dataclass
class KernelSearch:
    """The candidates of one kernel and what is known of them.

    Attributes:
        key: the kernel's, see ``schedules.kernel_key``.
        name: for people.
        calls: how often a run of the network calls it.
        candidates: all that may be tried, the likeliest first; the first is the default.
        hints: decisions that did well elsewhere: tried right after the default.
    """

    key: str
    name: str
    calls: int
    candidates: Sequence[Decision]
    hints: Sequence[Decision] = ()
    best: Decision | None = None
    best_seconds: float = math.inf
    default_seconds: float = math.inf
    tried: int = 0
    failed: int = 0
    idle_batches: int = 0
    _seen: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError(f"expected candidates for {self.name}, got none")
        self._keys = {same(candidate) for candidate in self.candidates}
        self.hints = [hint for hint in self.hints if same(hint) in self._keys]

    @property
    def default(self) -> Decision:
        """What the kernel gets without tuning."""
        return self.candidates[0]

    @property
    def default_known(self) -> bool:
        """Whether the default was tried."""
        return same(self.default) in self._seen

    @property
    def left(self) -> int:
        """Candidates that were not tried yet, nor begun."""
        return len(self._keys - self._seen - self._begun)

    @property
    def finished(self) -> bool:
        """Nothing left to try, or nothing gained for long."""
        return self._keys <= self._seen or self.idle_batches >= PATIENCE

    @property
    def seconds(self) -> float:
        """The kernel's share of the network's time, as good as it is now; 0 where unknown."""
        return self.calls * self.best_seconds if math.isfinite(self.best_seconds) else 0.0

    @property
    def turn(self) -> float:
        """How much the kernel deserves the next batch."""
        if self.finished or not self.left:
            return -1.0
        if self.best is None:
            return math.inf
        return self.seconds * DECAY**self.idle_batches

    def next_batch(self, size: int) -> list[Decision]:
        """Up to ``size`` candidates: the default first of all, hints, then likely ones and
        neighbours of the best by turns. They are begun until they are reported or left out."""
        batch = self._next(size)
        self._begun |= {same(decision) for decision in batch}
        return batch

    def leave_out(self, batch: Sequence[Decision]) -> None:
        """Forgets that a batch was begun."""
        self._begun -= {same(decision) for decision in batch}

    def _next(self, size: int) -> list[Decision]:
        taken = self._seen | self._begun
        if same(self.default) not in taken:
            return [self.default]
        likely = [c for c in self.candidates if same(c) not in taken]
        order: list[Decision] = [hint for hint in self.hints if same(hint) not in taken]
        if self.best is None:
            order += likely
        else:
            best = self.best
            near = sorted(likely, key=lambda c: difference(c, best))
            for pair in zip(likely, near, strict=True):
                order += pair
        return list({same(decision): decision for decision in order}.values())[:size]

    def report(self, decision: Decision, seconds: float) -> bool:
        """Takes in one result, infinite for a failure; True where it is the best so far."""
        self._seen.add(same(decision))
        self._begun.discard(same(decision))
        self.tried += 1
        if not math.isfinite(seconds):
            self.failed += 1
        if same(decision) == same(self.default):
            self.default_seconds = seconds
        if seconds < self.best_seconds:
            self.best, self.best_seconds = decision, seconds
            return True
        return False

    def end_batch(self, before: float) -> None:
        """Notes whether a batch gained over ``before`` seconds of the kernel."""
        gained = self.best_seconds < before * (1.0 - GAIN) or not math.isfinite(before)
        self.idle_batches = (
            0 if gained and math.isfinite(self.best_seconds) else (self.idle_batches + 1)
        )


def next_kernel(searches: Sequence[KernelSearch]) -> KernelSearch | None:
    """The kernel whose turn it is; None when all are finished or begun."""
    open_ones = [search for search in searches if search.left and not search.finished]
    return max(open_ones, key=lambda search: search.turn, default=None)


def network_seconds(searches: Sequence[KernelSearch], *, default: bool = False) -> float:
    """The sum over all kernels and their calls, now or with the defaults.

    Over those of which something is known; a default that failed counts as the best that did not.
    """
    known = [search for search in searches if math.isfinite(search.best_seconds)]
    if not default:
        return sum(search.seconds for search in known)
    return sum(
        s.calls * (s.default_seconds if math.isfinite(s.default_seconds) else s.best_seconds)
        for s in known
    )
