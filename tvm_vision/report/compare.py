"""Two profiles layer by layer: what became slower, and what faster.

Two packages of one network seldom have the same kernels: they are fused otherwise, or split. What
is compared are the smallest groups of kernels that compute the same nodes of the network.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

# Times that differ by less, relative to the longer, are taken for the same.
SAME = 0.05
# Steps of the compiler's own, numbered in each compilation anew: they name no layer.
_OWN = re.compile(r"(un)?pack_c\d+|gather_c\d+")


class Timed(Protocol):
    """A kernel of a profile."""

    @property
    def function(self) -> str: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...
    @property
    def median_us(self) -> float: ...


@dataclass(frozen=True)
class Change:
    """The same nodes of a network in both profiles.

    Attributes:
        nodes: of the network; for kernels that compute none the function's name.
        now, before: positions of the kernels in each; one may be empty.
        now_us, before_us: their times together, in microseconds.
    """

    nodes: tuple[str, ...]
    now: tuple[int, ...]
    before: tuple[int, ...]
    now_us: float
    before_us: float

    @property
    def difference_us(self) -> float:
        """Above 0 where it became slower."""
        return self.now_us - self.before_us

    @property
    def verdict(self) -> str:
        """ "slower", "faster", "same", "new" or "gone"."""
        if not self.before:
            return "new"
        if not self.now:
            return "gone"
        if abs(self.difference_us) <= SAME * max(self.now_us, self.before_us):
            return "same"
        return "slower" if self.difference_us > 0 else "faster"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "difference_us": self.difference_us, "verdict": self.verdict}


def compare_profiles(now: Sequence[Timed], before: Sequence[Timed]) -> list[Change]:
    """The changes of all layers, the largest difference first."""
    groups = _Groups(len(now) + len(before))
    kernels = [*now, *before]
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        layers = [name for name in kernel.nodes if not _OWN.fullmatch(name)]
        for name in layers or (_stand_in(kernels, index, len(now)),):
            by_name[name].append(index)
    for members in by_name.values():
        groups.join(members)
    changes = []
    for members in groups.all():
        of_now = tuple(i for i in members if i < len(now))
        of_before = tuple(i - len(now) for i in members if i >= len(now))
        nodes = dict.fromkeys(
            name for i in members for name in kernels[i].nodes or (kernels[i].function,)
        )
        changes.append(
            Change(
                tuple(nodes),
                of_now,
                of_before,
                sum(now[i].median_us for i in of_now),
                sum(before[i].median_us for i in of_before),
            )
        )
    return sorted(changes, key=lambda change: -abs(change.difference_us))


def how_fast(changes: Sequence[Change], now_us: float, before_us: float) -> str:
    """How many times as fast a frame is now, in words; that says nothing where no layer of one
    profile is in the other."""
    verdicts = {change.verdict for change in changes if not all(map(_OWN.fullmatch, change.nodes))}
    if verdicts and verdicts <= {"new", "gone"}:
        return "no layer of one is in the other: they are of two networks, or with other names"
    return f"{before_us / now_us if now_us else 0.0:.2f} times as fast"


def _stand_in(kernels: Sequence[Timed], index: int, border: int) -> str:
    """A name for a kernel without layers: the n-th call of its function in its profile."""
    first = 0 if index < border else border
    function = kernels[index].function
    nth = sum(k.function == function for k in kernels[first:index])
    return f"{function}\0{nth}"


class _Groups:
    """Positions that belong together."""

    def __init__(self, count: int) -> None:
        self._of = list(range(count))

    def _head(self, index: int) -> int:
        while self._of[index] != index:
            self._of[index] = self._of[self._of[index]]
            index = self._of[index]
        return index

    def join(self, members: Iterable[int]) -> None:
        first, *rest = members
        for other in rest:
            self._of[self._head(other)] = self._head(first)

    def all(self) -> list[list[int]]:
        """Each group in order, by its first position."""
        found: dict[int, list[int]] = defaultdict(list)
        for index in range(len(self._of)):
            found[self._head(index)].append(index)
        return list(found.values())
