"""Means and variances of long rows, in two steps: of each part of a row, and of the parts together.

A variance is that within parts of one size and that of their means (Chan, Golub and LeVeque,
"Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979): nowhere is one
the difference of large numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx, topi


def moments_of_parts(x: Any) -> Any:
    """Mean and variance of each part, by one kernel, in the type of ``x``.

    Args:
        x: (before, parts, terms, after), or (before, parts, terms, after, again); rows lie along
            parts, terms and again.

    Returns:
        (before, parts, after, 2): means first.
    """
    before, parts, terms, after, *again = map(int, x.shape)
    shape, count = (before, parts, after), tirx.const(terms * math.prod(again), x.dtype)

    def mean(of: Any, name: str) -> Any:
        axes = [te.reduce_axis((0, terms), "term")]
        axes += [te.reduce_axis((0, many), "again") for many in again]
        term, *rest = axes
        added = te.compute(shape, lambda b, p, a: te.sum(of(b, p, term, a, *rest), axes), name)
        return te.compute(shape, lambda *at: added(*at) / count, f"{name}_mean")

    means = mean(x, "terms")

    def square(b: Any, p: Any, term: Any, a: Any, *rest: Any) -> Any:
        return topi.power(x(b, p, term, a, *rest) - means(b, p, a), 2)

    variances = mean(square, "squares")
    return te.compute(
        (*shape, 2),
        lambda b, p, a, which: tirx.Select(which == 0, means(b, p, a), variances(b, p, a)),
        "moments",
    )


def mean_of_parts(moments: Any, shape: Sequence[int]) -> Any:
    """The mean of whole rows, in ``shape``, of what ``moments_of_parts`` returns."""
    return _mean(shape, moments, lambda b, p, a: moments(b, p, a, 0), "means")


def variance_of_parts(moments: Any, shape: Sequence[int]) -> Any:
    """The variance of whole rows, in ``shape``, of what ``moments_of_parts`` returns."""
    before, _, after, _ = moments.shape
    means = _mean((before, after), moments, lambda b, p, a: moments(b, p, a, 0), "means")

    def term(b: Any, p: Any, a: Any) -> Any:
        difference = moments(b, p, a, 0) - means(b, a)
        return moments(b, p, a, 1) + difference * difference

    return _mean(shape, moments, term, "variances")


def row_at(at: Sequence[Any], shape: Sequence[int]) -> Any:
    """Which row a point of ``shape`` is of, in their order; axes of one element say nothing."""
    row: Any = 0
    for place, extent in zip(at, shape, strict=True):
        row = row * extent + place if int(extent) > 1 else row
    return row


def _mean(shape: Sequence[int], moments: Any, term: Any, name: str) -> Any:
    """The mean of a term (before, part, after) over the parts, for each row."""
    _, parts, after, _ = map(int, moments.shape)
    count = tirx.const(parts, moments.dtype)
    part = te.reduce_axis((0, parts), "part")

    def added(*at: Any) -> Any:
        row = row_at(at, shape)
        return te.sum(term(row // after, part, row % after), part)

    total = te.compute(shape, added, name)
    return te.compute(shape, lambda *at: total(*at) / count, f"{name}_mean")
