"""What neighbouring results have in common: operations that the place along an axis is no part of.

Where an image is resized, or read at places that are computed, these places and their weights are
the same for all channels, and take many times what is then done with a channel's values. Threads of
several channels find them once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir
from tvm.ir.prim import expr as prim

_LEAVES = (prim.IntImm, prim.FloatImm, ir.Var)
_DIVISIONS = (prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod)
# In operations of a processor.
DIVISION, LOAD, CALL = 4, 2, 2

# Places of axes -> operations that depend on just these.
Work = Mapping[frozenset[int], int]


def work_of(value: Any, axes: Sequence[Any]) -> Work | None:
    """Operations of a value by the axes that they depend on, each that occurs several times once.

    axes: variables. Returns None for a value with something else than arithmetic, loads, choices
    and calls.
    """
    counts: Counter[frozenset[int]] = Counter()
    numbers: dict[Any, int] = {}
    depends: list[frozenset[int]] = []

    def numbered(key: Any, on: frozenset[int], cost: int) -> int:
        if key not in numbers:
            numbers[key] = len(depends)
            depends.append(on)
            if cost and on:
                counts[on] += cost
        return numbers[key]

    def visit(node: Any) -> int | None:
        if isinstance(node, _LEAVES):
            on = frozenset(at for at, axis in enumerate(axes) if axis.same_as(node))
            # Variables by their identity: those of different kernels' axes have the same names.
            name = f"axis {min(on)}" if on else str(node)
            return numbered((type(node), str(node.ty), name), on, 0)
        parts = _parts(node)
        if parts is None:
            return None
        kind, below, cost = parts
        found = [visit(part) for part in below]
        if None in found:
            return None
        on = frozenset().union(*(depends[n] for n in found if n is not None))
        return numbered((kind, str(node.ty), *found), on, cost)

    return counts if visit(value) is not None else None


def _parts(node: Any) -> tuple[Any, list[Any], int] | None:
    """What kind of operation a node is, of what, and how much it costs; None for any other node."""
    if isinstance(node, ir.TensorLoad):
        return ("load", node.source.name), list(node.indices), LOAD
    if isinstance(node, ir.Call):
        return ("call", str(node.op)), list(node.args), CALL
    if isinstance(node, prim.Cast):
        return "cast", [node.value], 1
    if isinstance(node, prim.Select):
        return "select", [node.condition, node.true_value, node.false_value], 1
    if isinstance(node, prim.Not):
        return "not", [node.a], 1
    if hasattr(node, "a") and hasattr(node, "b"):
        cost = DIVISION if isinstance(node, _DIVISIONS) else 1
        return type(node).__name__, [node.a, node.b], cost
    return None


def of_tile(work: Work, tile: Mapping[int, int]) -> float:
    """Operations for each result of a thread that computes so many along each axis of ``tile``."""
    results, every = 1, 0
    for extent in tile.values():
        results *= extent
    for axes, operations in work.items():
        times = 1
        for axis, extent in tile.items():
            times *= extent if axis in axes else 1
        every += operations * times
    return every / results
