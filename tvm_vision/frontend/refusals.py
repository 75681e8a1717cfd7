"""What cannot be imported: node by node, and as one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """One node that cannot be imported, and why."""

    operator: str
    node: str
    reason: str


class RefusedNodes(Exception):
    """Nodes that cannot be imported: all of them, as far as the types behind them are known."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{len(refusals)} nodes cannot be imported")
        self.refusals = tuple(refusals)


def describe(refusals: Sequence[Refusal]) -> str:
    """One line: each operator with the names of its nodes, by reason."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        nodes.setdefault((refusal.operator, refusal.reason), []).append(refusal.node)
    parts = [
        f"{operator} ({reason}) at {', '.join(repr(name) for name in names)}"
        for (operator, reason), names in sorted(nodes.items())
    ]
    plural = "" if len(refusals) == 1 else "s"
    return f"{len(refusals)} node{plural} cannot be imported: {'; '.join(parts)}"
