"""Which tensors may share memory: a function of sizes and of when each tensor is needed.

Tensors that are never needed at the same time share a storage, which is as large as the largest of
them. Finding the least sum of storages is NP-hard; three greedy orders are tried and the best is
taken (the orders by size and by breadth are described by Pisarchyk and Lee, "Efficient Memory
Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LiveRange:
    """``nbytes`` needed from step ``first`` to step ``last``, both included.

    Raises ValueError for a negative size or a range that ends before it begins.
    """

    nbytes: int
    first: int
    last: int

    def __post_init__(self) -> None:
        if self.nbytes < 0 or self.last < self.first:
            raise ValueError(f"expected a size of at least 0 and first <= last, got {self}")


@dataclass(frozen=True)
class MemoryPlan:
    """``storage_of`` [i] is the storage of the i-th range, ``sizes`` the bytes of each storage."""

    storage_of: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        """Bytes of all storages."""
        return sum(self.sizes)


def plan_memory(ranges: Sequence[LiveRange]) -> MemoryPlan:
    """A storage for each range, so that no two that overlap share one."""
    orders: tuple[Callable[[Sequence[LiveRange]], list[int]], ...] = (
        _by_size,
        _by_breadth,
        _in_time,
    )
    return min((_assign(ranges, order(ranges)) for order in orders), key=lambda plan: plan.total)


def _by_size(ranges: Sequence[LiveRange]) -> list[int]:
    return sorted(range(len(ranges)), key=lambda i: (-ranges[i].nbytes, ranges[i].first, i))


def _in_time(ranges: Sequence[LiveRange]) -> list[int]:
    return sorted(range(len(ranges)), key=lambda i: (ranges[i].first, -ranges[i].nbytes, i))


def _by_breadth(ranges: Sequence[LiveRange]) -> list[int]:
    """All tensors of the fullest step first, then those of the next, each step by size."""
    steps = sorted({r.first for r in ranges})
    alive: dict[int, list[int]] = {step: [] for step in steps}
    for i, r in enumerate(ranges):
        for step in steps[bisect_left(steps, r.first) : bisect_right(steps, r.last)]:
            alive[step].append(i)
    fullest = sorted(alive, key=lambda s: (-sum(ranges[i].nbytes for i in alive[s]), s))
    order: dict[int, None] = {}
    for step in fullest:
        for i in sorted(alive[step], key=lambda i: (-ranges[i].nbytes, ranges[i].first, i)):
            order.setdefault(i)
    return list(order)


def _assign(ranges: Sequence[LiveRange], order: Sequence[int]) -> MemoryPlan:
    sizes: list[int] = []
    # Of each storage the ranges in it, which do not overlap, in time.
    members: list[list[tuple[int, int]]] = []
    storage_of: dict[int, int] = {}
    for i in order:
        span = (ranges[i].first, ranges[i].last)
        free = [s for s, inside in enumerate(members) if _fits(span, inside)]
        storage = _best_fit(ranges[i].nbytes, free, sizes)
        if storage is None:
            storage = len(sizes)
            sizes.append(0)
            members.append([])
        sizes[storage] = max(sizes[storage], ranges[i].nbytes)
        insort(members[storage], span)
        storage_of[i] = storage
    return MemoryPlan(tuple(storage_of[i] for i in range(len(ranges))), tuple(sizes))


def _fits(span: tuple[int, int], inside: Sequence[tuple[int, int]]) -> bool:
    """Whether no range of a storage overlaps a (first, last)."""
    place = bisect_left(inside, span)
    before = place == 0 or inside[place - 1][1] < span[0]
    return before and (place == len(inside) or span[1] < inside[place][0])


def _best_fit(nbytes: int, free: Sequence[int], sizes: Sequence[int]) -> int | None:
    """The smallest free storage that is large enough, else the largest, which will grow."""
    enough = [s for s in free if sizes[s] >= nbytes]
    if enough:
        return min(enough, key=lambda s: (sizes[s], s))
    return max(free, key=lambda s: (sizes[s], -s), default=None)
