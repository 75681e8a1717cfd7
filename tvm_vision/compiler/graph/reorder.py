"""The order of a network's kernels on a GPU: side by side what does not wait for each other.

The executor puts a barrier between kernels only where one waits for what another did since the last
barrier, but a barrier holds up everything. What stands between two barriers is a level, whose
kernels run side by side. In the model's order one branch follows the other, and each waits for its
own steps; sorted by levels, a network has no more of them than its longest chain has kernels.

Memory follows the levels: two tensors that are needed in one level never share any. What is shared
across a barrier costs nothing, what is shared within a level would take one more.

The option ``reorder`` turns it off: the model's order stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .memory_plan import plan_memory
from .static_graph import KernelCall, StaticGraph, live_ranges

# The model's order stays where activations would take more than so many times what they take in it,
# unless that is less than so many bytes.
MOST_GROWTH, SMALL_GROWTH = 1.25, 1 << 20

# Root of a tensor, first byte, end, and whether it is written.
Access = tuple[int, int, int, bool]


def in_levels(graph: StaticGraph) -> tuple[StaticGraph, list[int] | None]:
    """The same graph with its kernels sorted into as few levels as there can be, and the level of
    each, for the memory plan.

    What has a choice of levels goes to its first or to its last one, whichever takes less memory.
    Where both take much more than the order that there was, that stays and there are no levels.
    """
    waits = dependencies(graph)
    before = _planned_bytes(graph, None)
    found: list[tuple[int, StaticGraph, list[int]]] = []
    for level_of in (_earliest(waits), _latest(waits)):
        order = sorted(range(len(waits)), key=lambda i: (level_of[i], i))
        ordered = replace(graph, kernels=[graph.kernels[i] for i in order])
        steps = [level_of[i] for i in order]
        found.append((_planned_bytes(ordered, steps), ordered, steps))
    total, ordered, steps = min(found, key=lambda candidate: candidate[0])
    allowed = max(MOST_GROWTH * before, before + SMALL_GROWTH)
    return (ordered, steps) if total <= allowed else (graph, None)


def dependencies(graph: StaticGraph) -> list[list[int]]:
    """For each kernel the earlier ones that it has to wait for, by position and in order."""
    accesses = [_accesses(graph, kernel) for kernel in graph.kernels]
    users: dict[int, list[int]] = {}
    waits: list[list[int]] = []
    for position, own in enumerate(accesses):
        roots = {root for root, *_ in own}
        before = {p for root in roots for p in users.get(root, ())}
        waits.append([p for p in sorted(before) if _conflict(own, accesses[p])])
        for root in roots:
            users.setdefault(root, []).append(position)
    return waits


def _earliest(waits: Sequence[Sequence[int]]) -> list[int]:
    """The first level in which each kernel can be."""
    found: list[int] = []
    for before in waits:
        found.append(1 + max((found[p] for p in before), default=-1))
    return found


def _latest(waits: Sequence[Sequence[int]]) -> list[int]:
    """The last level in which each kernel can be, with no more levels than there have to be."""
    found = [max(_earliest(waits), default=0)] * len(waits)
    for position in range(len(waits) - 1, -1, -1):
        for p in waits[position]:
            found[p] = min(found[p], found[position] - 1)
    return found


def _planned_bytes(graph: StaticGraph, steps: Sequence[int] | None) -> int:
    return plan_memory(list(live_ranges(graph, steps).values())).total


def _accesses(graph: StaticGraph, kernel: KernelCall) -> list[Access]:
    read = [(t, False) for t in kernel.inputs if graph.root(t) not in graph.params]
    written = [(t, True) for t in kernel.outputs]
    used = [(graph.tensors[t], writes) for t, writes in (*read, *written)]
    return [(t.root, t.offset, t.offset + t.nbytes, writes) for t, writes in used]


def _conflict(one: Sequence[Access], other: Sequence[Access]) -> bool:
    """Whether one writes bytes that the other reads or writes."""
    return any(
        root == of and begin < stop and start < end and (writes or wrote)
        for root, begin, end, writes in one
        for of, start, stop, wrote in other
    )
