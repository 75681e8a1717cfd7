"""How two orders of the same candidates agree, and what it costs to trust one of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

LEAST = 4  # candidates, with fewer of which a correlation says little


@dataclass
class Ranked:
    """A candidate of a kernel.

    Attributes:
        template: of its schedule.
        decision: the template and its parameters.
        place: among all that the template offers, from 0, of ``offered``.
        predicted: what each way to rank says of it, the less the faster; ways that know nothing of
            it are not in.
        seconds: measured, of each repeat; none where it was not reached, or failed by ``error``.
    """

    template: str
    decision: dict[str, Any]
    place: int
    offered: int
    predicted: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def best(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.seconds)


@dataclass
class RankedKernel:
    """A kernel and those of its candidates that are compared.

    Attributes:
        layer: of a network, that it is of; ``name`` is that of its function, ``key`` that of its
            structure.
        chosen: the decision that it gets without records.
    """

    layer: str
    name: str
    key: str
    precision: str
    chosen: dict[str, Any]
    candidates: list[Ranked]

    def groups(self) -> Iterator[tuple[str, list[Ranked]]]:
        """Measured candidates by template."""
        for template in dict.fromkeys(each.template for each in self.candidates):
            found = [c for c in self.candidates if c.template == template and c.seconds]
            if len(found) >= LEAST:
                yield template, found


@dataclass(frozen=True)
class Agreement:
    """Of one way to rank with time, over the candidates of one kernel and template.

    Attributes:
        spearman, kendall: rank correlations, 1 for the same order, 0 for none in common.
        regret: time of the candidate that comes first over that of the best.
        spread: time of the slowest over that of the best: what there was to lose.
    """

    spearman: float
    kendall: float
    regret: float
    spread: float


def ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share the middle of theirs."""
    order = sorted(values)
    return [order.index(v) + (1 + order.count(v)) / 2 for v in values]


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 where all values of one are the same."""
    a, b = ranks(one), ranks(other)
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0
    return statistics.correlation(a, b)


def kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Kendall's rank correlation tau-b; 0 where all values of one are the same."""

    def signs(values: Sequence[float]) -> list[int]:
        return [(x > y) - (x < y) for x, y in combinations(values, 2)]

    a, b = signs(one), signs(other)
    scale = math.sqrt(sum(map(abs, a)) * sum(map(abs, b)))
    return sum(x * y for x, y in zip(a, b, strict=True)) / scale if scale else 0.0


def agreement(candidates: Sequence[Ranked], way: str) -> Agreement | None:
    """How a way to rank agrees with time; None where it knows too few of the candidates."""
    known = [each for each in candidates if way in each.predicted]
    if len(known) < LEAST:
        return None
    predicted, measured = [c.predicted[way] for c in known], [c.best for c in known]
    first = min(known, key=lambda c: c.predicted[way])
    best, slowest = min(measured), max(measured)
    return Agreement(
        spearman(predicted, measured), kendall(predicted, measured), first.best / best,
        slowest / best,
    )  # fmt: skip


Groups = Mapping[tuple[str, str, str], Sequence[Agreement]]
HEADER = (
    "ranked by", "template", "precision", "kernels", "Spearman", "(least)", "Kendall",
    "first ÷ best", "(worst)", "slowest ÷ best",
)  # fmt: skip


def agreements(
    kernels: Sequence[RankedKernel], ways: Sequence[str]
) -> dict[tuple[str, str, str], list[Agreement]]:
    """By way, template and precision, an agreement for each kernel."""
    found: dict[tuple[str, str, str], list[Agreement]] = {}
    for way in ways:
        for kernel in kernels:
            for template, candidates in kernel.groups():
                agreed = agreement(candidates, way)
                if agreed is not None:
                    found.setdefault((way, template, kernel.precision), []).append(agreed)
    return found


def rows(found: Groups) -> list[tuple[str, ...]]:
    """A line a group, below HEADER: medians over its kernels, and the worst."""
    return [
        (
            *group,
            str(len(each)),
            f"{_median(each, lambda a: a.spearman):.2f}",
            f"{min(a.spearman for a in each):.2f}",
            f"{_median(each, lambda a: a.kendall):.2f}",
            f"{_median(each, lambda a: a.regret):.2f}",
            f"{max(a.regret for a in each):.2f}",
            f"{_median(each, lambda a: a.spread):.1f}",
        )
        for group, each in found.items()
    ]


def _median(each: Sequence[Agreement], of: Callable[[Agreement], float]) -> float:
    return statistics.median(map(of, each))


CHOSEN_HEADER = ("kernel", "precision", "candidates", "µs chosen", "µs best", "ratio", "best's")


def chosen_rows(kernels: Sequence[RankedKernel]) -> list[tuple[str, ...]]:
    """What each kernel gets without records, beside the best of all templates that was measured;
    below CHOSEN_HEADER, those that lose most first."""
    found = []
    for kernel in kernels:
        measured = [each for each in kernel.candidates if each.seconds]
        chosen = next((c for c in measured if c.decision == kernel.chosen), None)
        if chosen is None or len(measured) < 2:
            continue
        best = min(measured, key=lambda c: c.best)
        row = (
            f"{kernel.layer} ({kernel.name})", kernel.precision, str(len(measured)),
            f"{1e6 * chosen.best:.1f}", f"{1e6 * best.best:.1f}", f"{chosen.best / best.best:.2f}",
            best.template,
        )  # fmt: skip
        found.append((chosen.best / best.best, row))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])]
