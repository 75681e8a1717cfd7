"""Attention, softmax(q · kᵀ · scale + added) · v, of tensors that are read where they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from .forms import TextForm

# Attribute of a function: its AttentionForm, as JSON.
FORM = "tvm_vision.attention"


@dataclass(frozen=True)
class View:
    """Where a tensor lies in one that is kept.

    Attributes:
        source: which of the function's inputs, each of one axis.
        offset: the first element.
        strides: elements from one to the next, along each axis.
    """

    source: int
    offset: int
    strides: tuple[int, ...]

    def place(self, *index: Any) -> Any:
        """The element at an index."""
        steps = zip(index, self.strides, strict=True)
        return sum((i * step for i, step in steps if step), tirx.const(self.offset, "int32"))


@dataclass(frozen=True)
class AttentionForm(TextForm):
    """What is attended to.

    Attributes:
        batch: extents of the axes before the last two: images, heads.
        queries, keys: how many of each.
        width, value_width: numbers of a query or key, and of a value.
        scale: factor of each score.
        q, k, v: (*batch, queries or keys, width).
        added: to scores, (*batch, queries, keys).
        turned: whether the result's numbers come before its queries, as channels before places.
    """

    batch: tuple[int, ...]
    queries: int
    keys: int
    width: int
    value_width: int
    scale: float
    q: View
    k: View
    v: View
    added: tuple[View, ...] = ()
    turned: bool = False

    def values(self) -> dict[str, Any]:
        """By the text of a form that is not turned kernels are known that were tuned before there
        were others."""
        values = super().values()
        if not self.turned:
            del values["turned"]
        return values

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> AttentionForm:
        """Of its views' own values."""
        views = {name: View(**values[name]) for name in "qkv"}
        return cls(**{**values, **views, "added": tuple(View(**view) for view in values["added"])})

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result: queries stand before the last axis of the batch, the heads; last where
        it is turned."""
        return self.place(self.batch, self.queries, self.value_width)

    def place(self, batch: Sequence[Any], query: Any, column: Any) -> tuple[Any, ...]:
        """Where the result has a number of a query."""
        if self.turned:
            return (*batch, column, query)
        return (*batch[:-1], query, batch[-1], column)

    @property
    def batches(self) -> int:
        """All products."""
        return math.prod(self.batch)

    def inside(self, number: Any) -> list[Any]:
        """The place in the batch of a product, of its number."""
        found: list[Any] = []
        for extent in reversed(self.batch):
            found.insert(0, number % extent)
            number = number // extent
        return found


def attention(sources: Sequence[te.Tensor], form: AttentionForm) -> te.Tensor:
    """The result, of ``form.shape``; sources: tensors of one axis, float32."""
    b = len(form.batch)

    def at(view: View, *index: Any) -> Any:
        return sources[view.source](view.place(*index))

    c = te.reduce_axis((0, form.width), "c")
    square = (*form.batch, form.queries, form.keys)
    scores = te.compute(
        square,
        lambda *i: te.sum(at(form.q, *i[:-1], c) * at(form.k, *i[:b], i[-1], c), c),
        "scores",
    )

    def logit(*i: Any) -> Any:
        value = scores(*i) * tirx.const(form.scale, "float32")
        for view in form.added:
            value = value + at(view, *i)
        return value

    logits = te.compute(square, logit, "logits")
    j = te.reduce_axis((0, form.keys), "j")
    top = te.compute(square[:-1], lambda *i: te.max(logits(*i, j), j), "top")
    shares = te.compute(square, lambda *i: te.exp(logits(*i) - top(*i[:-1])), "shares")
    s = te.reduce_axis((0, form.keys), "s")
    total = te.compute(square[:-1], lambda *i: te.sum(shares(*i, s), s), "total")
    t = te.reduce_axis((0, form.keys), "t")
    found = te.compute(
        (*square[:-1], form.value_width),
        lambda *i: te.sum(shares(*i[:-1], t) * at(form.v, *i[:b], t, i[-1]), t),
        "found",
    )

    def result(*i: Any) -> Any:
        if form.turned:
            *batch, column, query = i
        else:
            *batch, query, head, column = i
            batch = [*batch, head]
        return found(*batch, query, column) / total(*batch, query)

    return te.compute(form.shape, result, "attention")
