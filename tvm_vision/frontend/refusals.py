"""What cannot be imported: node by node, and as one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UnsupportedModelError

# For what is not known any better.
CUT = "end the model before it, or express it by other operators"


@dataclass(frozen=True)
class Refusal:
    """One node that cannot be imported, why, and what can be done."""

    operator: str
    node: str
    reason: str
    remedy: str


class RefusedNodes(Exception):
    """Nodes that cannot be imported: all of them, as far as the types behind them are known."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{len(refusals)} nodes cannot be imported")
        self.refusals = tuple(refusals)


class NodesRefused(UnsupportedModelError):
    """The same for who called the importer: one line, and the refusals that it tells of."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(describe(refusals))
        self.refusals = tuple(refusals)


def describe(refusals: Sequence[Refusal]) -> str:
    """One line: each operator with the names of its nodes, by reason; then the remedy for them."""
    by_remedy: dict[str, dict[tuple[str, str], list[str]]] = {}
    for refusal in sorted(refusals, key=lambda one: (one.operator, one.reason)):
        nodes = by_remedy.setdefault(refusal.remedy, {})
        nodes.setdefault((refusal.operator, refusal.reason), []).append(refusal.node)
    parts = [
        ", ".join(
            f"{operator} ({reason}) at {', '.join(repr(name) for name in names)}"
            for (operator, reason), names in nodes.items()
        )
        + f": {remedy}"
        for remedy, nodes in by_remedy.items()
    ]
    plural = "" if len(refusals) == 1 else "s"
    return f"{len(refusals)} node{plural} cannot be imported: {'; '.join(parts)}"
