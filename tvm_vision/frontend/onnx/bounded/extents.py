"""Sizes that data decides: integers that are sums of counts, with what is known of their range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# How often a count is replaced by what it is known not to exceed, in sums of so many counts.
MAX_STEPS, MAX_TERMS = 8, 16


@dataclass(frozen=True)
class Extent:
    """constant + the sum of factor · count, where a count is the name of an int64 scalar."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether it is the same for all data."""
        return not self.terms

    def __add__(self, other: Extent) -> Extent:
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, 0) + factor
        kept = tuple(sorted((name, factor) for name, factor in terms.items() if factor))
        return Extent(self.constant + other.constant, kept)

    def __sub__(self, other: Extent) -> Extent:
        return self + other.times(-1)

    def times(self, factor: int) -> Extent:
        """Multiplied by an integer."""
        terms = tuple((name, factor * own) for name, own in self.terms) if factor else ()
        return Extent(factor * self.constant, terms)

    def divided(self, divisor: int) -> Extent | None:
        """Divided by an integer; None where a remainder is possible."""
        if any(part % divisor for part in (self.constant, *(f for _, f in self.terms))):
            return None
        terms = tuple((name, factor // divisor) for name, factor in self.terms)
        return Extent(self.constant // divisor, terms)


@dataclass(frozen=True)
class Range:
    """What is known of a count: least <= count <= most, and factor · count <= bound for each
    (bound, factor) of ``below``."""

    least: int
    most: int
    below: tuple[tuple[Extent, int], ...] = ()


class Ranges:
    """The counts of a graph, and what follows for sums of them."""

    def __init__(self) -> None:
        self._of: dict[str, Range] = {}

    def add(
        self, name: str, least: int, most: int, below: Sequence[Extent] = (), factor: int = 1
    ) -> Extent:
        """A new count, as an extent. ``below``: what it is no more than, taken once and taken
        ``factor`` times."""
        factors = dict.fromkeys((1, factor))
        self._of[name] = Range(least, most, tuple((b, f) for b in below for f in factors))
        return Extent(0, ((name, 1),))

    def least(self, extent: Extent) -> int:
        """The smallest value there can be."""
        return extent.constant + sum(
            factor * (self._of[name].least if factor > 0 else self._of[name].most)
            for name, factor in extent.terms
        )

    def most(self, extent: Extent) -> int:
        """The largest value there can be."""
        return -self.least(extent.times(-1))

    def no_more(self, one: Extent, other: Extent) -> bool:
        """Whether ``one`` <= ``other`` for all data, as far as that can be told."""
        gap = other - one
        least = self.least(gap)
        for _ in range(MAX_STEPS):
            if least >= 0 or len(gap.terms) > MAX_TERMS:
                break
            # With the larger bound in place of a count that is taken off, the gap is smaller.
            smaller = [
                gap + (Extent(0, ((name, often),)) - bound).times(-factor // often)
                for name, factor in gap.terms
                if factor < 0
                for bound, often in self._of[name].below
            ]
            tightest = max(smaller, key=self.least, default=gap)
            if self.least(tightest) <= least:
                break
            gap, least = tightest, self.least(tightest)
        return least >= 0


def whole_numbers(dtype: np.dtype) -> range:
    """Those of which an element type has all that are between them."""
    if dtype.kind in "iu":
        return range(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1)
    most = 1 << (np.finfo(dtype).nmant + 1)
    return range(-most, most + 1)


def are_whole(values: np.ndarray) -> bool:
    """Whether numbers are whole, of a type that has all others of their size."""
    if values.dtype.kind != "f":
        return values.dtype.kind in "iu"
    largest = whole_numbers(values.dtype)[-1]
    return bool(np.all((values == np.trunc(values)) & (abs(values) <= largest)))


def as_extents(values: np.ndarray) -> np.ndarray:
    """An array of Extent of whole numbers."""
    found = np.empty(values.shape, object)
    for index, value in np.ndenumerate(values):
        found[index] = Extent(int(value))
    return found
