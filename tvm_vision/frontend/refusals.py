"""What cannot be imported: node by node, and as one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import UnsupportedModelError

OTHERWISE = "express it by other operators"


@dataclass(frozen=True)
class Cut:
    """The way out that ``compile --cut`` goes. before: what the model would end before."""

    before: str = "it"

    def __str__(self) -> str:
        return f"end the model before {self.before}, as 'compile --cut' does"


@dataclass(frozen=True, init=False)
class Remedy:
    """What can be done about a refusal: ways of which each is enough, in the order of a line."""

    ways: tuple[str | Cut, ...]

    def __init__(self, *ways: str | Cut | Remedy) -> None:
        flat = [w for way in ways for w in (way.ways if isinstance(way, Remedy) else (way,))]
        object.__setattr__(self, "ways", tuple(dict.fromkeys(flat)))

    def __str__(self) -> str:
        return ", or ".join(map(str, self.ways))

    def behind(self, reason: str) -> str:
        """A line of a reason and the remedy, or of the reason alone where no way is left."""
        return f"{reason}: {self}" if self.ways else reason

    def without_cut(self) -> Remedy:
        """The other ways: none may be left."""
        return Remedy(*(way for way in self.ways if not isinstance(way, Cut)))

    def with_engine(self, engine: str) -> Remedy:
        """Where there is nothing to compile before the node, another engine takes its place."""
        ways = (f"use {engine} for this model" if isinstance(w, Cut) else w for w in self.ways)
        return Remedy(*ways)


# For what is not known any better.
CUT = Remedy(Cut(), OTHERWISE)
# Where the types and sizes of a node's inputs contradict each other.
OTHER_SIZES = Remedy("export the model again, or for other sizes of its inputs", CUT)


@dataclass(frozen=True)
class Refusal:
    """One node that cannot be imported, why, and what can be done."""

    operator: str
    node: str
    reason: str
    remedy: Remedy


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

    def without_cut(self) -> NodesRefused:
        """The same for whom the model was cut already."""
        return NodesRefused([replace(r, remedy=r.remedy.without_cut()) for r in self.refusals])


def describe(refusals: Sequence[Refusal]) -> str:
    """One line: each operator with the names of its nodes, by reason; then the remedy for them."""
    by_remedy: dict[Remedy, dict[tuple[str, str], list[str]]] = {}
    for refusal in sorted(refusals, key=lambda one: (one.operator, one.reason)):
        nodes = by_remedy.setdefault(refusal.remedy, {})
        nodes.setdefault((refusal.operator, refusal.reason), []).append(refusal.node)
    parts = [
        remedy.behind(
            ", ".join(
                f"{operator} ({reason}) at {', '.join(repr(name) for name in names)}"
                for (operator, reason), names in nodes.items()
            )
        )
        for remedy, nodes in by_remedy.items()
    ]
    plural = "" if len(refusals) == 1 else "s"
    return f"{len(refusals)} node{plural} cannot be imported: {'; '.join(parts)}"
