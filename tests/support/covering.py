"""Cases of several parameters, of which every two meet in all ways."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest


def covering(*values: Sequence[Any]) -> list[Any]:
    """Cases for ``parametrize``, one value of each parameter: all in the full run, by default so
    many that each two values of two parameters are in one of them."""
    cases = list(product(*(range(len(each)) for each in values)))
    pairs = {case: set(combinations(enumerate(case), 2)) for case in cases}
    chosen = set()
    left = set().union(*pairs.values())
    while left:
        best = max(cases, key=lambda case: len(pairs[case] & left))
        chosen.add(best)
        left -= pairs[best]
    return [
        pytest.param(
            *(each[at] for each, at in zip(values, case, strict=True)),
            marks=[] if case in chosen else [pytest.mark.slow],
        )
        for case in cases
    ]
