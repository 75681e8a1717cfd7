"""Correlations of two images, written out place by place, as one kernel.

Networks for optical flow and stereo compare each pixel of an image with neighbours in another one:
of each way to get from a pixel to such a neighbour the other image is cut to a part, both are
multiplied, and the mean over channels is a map of its own, 81 of which are concatenated. Each map
was one or two kernels that read both images anew. Ways of even steps are axes of one sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te

from .operators import fixed_shape, operator_of
from .rewriting import Lookup, calls_any, resolve, rewritten, value_of
from .views import numbers

LEAST = 4  # maps: fewer are a few launches
NAME = "correlation"
_VIEWS = ("relax.reshape", "relax.expand_dims", "relax.squeeze")
_SUMS = ("relax.mean", "relax.sum")
Offset = tuple[int, int]


@dataclass(frozen=True)
class Steps:
    """From a pixel to those of another image that it is compared with: ``first``, and from there
    ``counts`` steps of ``outer`` and ``inner``, each (down, aside)."""

    first: Offset
    counts: tuple[int, int]
    outer: Offset
    inner: Offset

    @classmethod
    def of(cls, offsets: list[Offset]) -> Steps | None:
        """Of all places in order; None where they are no even steps."""
        count, first = len(offsets), offsets[0]
        for many in (n for n in range(count, 0, -1) if count % n == 0):
            inner = _between(first, offsets[1]) if many > 1 else (0, 0)
            outer = _between(first, offsets[many]) if many < count else (0, 0)
            found = cls(first, (count // many, many), outer, inner)
            if all(found.at(*divmod(n, many)) == place for n, place in enumerate(offsets)):
                return found
        return None

    def at(self, outer: Any, inner: Any) -> Any:
        """After so many steps."""
        return tuple(
            self.first[axis] + outer * self.outer[axis] + inner * self.inner[axis]
            for axis in (0, 1)
        )


def _between(one: Offset, other: Offset) -> Offset:
    return other[0] - one[0], other[1] - one[1]


@dataclass(frozen=True)
class _Map:
    """One of the maps.

    Attributes:
        image, other: (images, channels, rows, width), and one at least as large.
        groups: of neighbouring channels, each with a sum of its own.
        is_mean: whether sums are divided by their terms.
        offset: of the pixel in ``other`` that the first of ``image`` is compared with.
    """

    image: Any
    other: Any
    groups: int
    is_mean: bool
    offset: Offset

    def is_beside(self, other: _Map) -> bool:
        """Whether another one compares the same images elsewhere."""
        same = self.image.same_as(other.image) and self.other.same_as(other.other)
        return same and (self.groups, self.is_mean) == (other.groups, other.is_mean)


def correlations(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with one call for concatenated maps that compare two images."""
    if not calls_any(mod, _SUMS):
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Correlations(mod)))


@relax.expr_functor.mutator
class _Correlations(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != "relax.concat" or call.attrs.axis is None:
            return call
        parts = resolve(call.args[0], self.lookup_binding)
        if not isinstance(parts, relax.Tuple) or len(parts.fields) < LEAST:
            return call
        maps: list[_Map] = []
        for part in parts.fields:
            found = _map_of(part, self.lookup_binding)
            if found is None or (maps and not found.is_beside(maps[0])):
                return call
            maps.append(found)
        steps = Steps.of([each.offset for each in maps])
        shape = fixed_shape(parts.fields[0])
        outer = None if shape is None else math.prod(shape[: int(call.attrs.axis)])
        images, *_ = fixed_shape(maps[0].image) or (0,)
        groups_first = outer == images * maps[0].groups
        if steps is None or not (groups_first or outer == images):
            return call
        first = maps[0]

        def compute(image: te.Tensor, other: te.Tensor) -> te.Tensor:
            return compared(image, other, steps, first.groups, first.is_mean, groups_first)

        made = self.builder_.emit_te(compute, first.image, first.other, primfunc_name_hint=NAME)
        return relax.op.reshape(made, call.ty.shape)


def _map_of(expr: Any, lookup: Lookup) -> _Map | None:
    total = _behind_views(expr, lookup)
    if operator_of(total) not in _SUMS or "float" not in str(total.ty.dtype):
        return None
    shape = fixed_shape(total.args[0])
    product = _behind_views(total.args[0], lookup)
    if shape is None or operator_of(product) != "relax.multiply":
        return None
    axes = [int(axis) % len(shape) for axis in total.attrs.axis or ()]
    for one, other in (product.args, reversed(product.args)):
        part = _behind_views(other, lookup)
        size, offset = fixed_shape(part), _offset_of(part, lookup)
        if size is None or offset is None:
            continue
        image = _source(one, lookup, size)
        if size != fixed_shape(image):
            continue
        # In front of pixels, all channels are summed up or those of each group.
        whole = shape == size and axes == [1]
        grouped = len(shape) == 5 and axes == [2] and (shape[0], *shape[3:]) == (size[0], *size[2:])
        if (whole or grouped) and math.prod(fixed_shape(product) or ()) == math.prod(size):
            return _Map(
                image,
                resolve(part.args[0], lookup),
                groups=1 if whole else shape[1],
                is_mean=operator_of(total) == "relax.mean",
                offset=offset,
            )
    return None


def _source(expr: Any, lookup: Lookup, shape: tuple[int, ...] | None = None) -> Any:
    """The tensor that a tensor is a view of, or it itself; the first of a shape, where one is
    given."""
    found = resolve(expr, lookup)
    while shape is None or fixed_shape(found) != shape:
        value = value_of(found, lookup)
        if operator_of(value) not in _VIEWS:
            break
        found = resolve(value.args[0], lookup)
    return found


def _behind_views(expr: Any, lookup: Lookup) -> Any:
    return value_of(_source(expr, lookup), lookup)


def _offset_of(part: Any, lookup: Lookup) -> Offset | None:
    """Of a part of the rows and columns of images of four axes, the first of both."""
    if operator_of(part) != "relax.strided_slice":
        return None
    source, result = fixed_shape(part.args[0]), fixed_shape(part)
    try:
        axes, begins, _, *steps = (numbers(given, lookup) for given in part.args[1:])
    except ValueError:
        return None
    if source is None or result is None or len(source) != 4 or source[:2] != result[:2]:
        return None
    if any(step != 1 for each in steps for step in each):
        return None
    first = {axis % 4: begin for axis, begin in zip(axes, begins, strict=True)}
    down, aside = (begin + source[n] * (begin < 0) for n in (2, 3) for begin in [first.get(n, 0)])
    fits = 0 <= down <= source[2] - result[2] and 0 <= aside <= source[3] - result[3]
    return (down, aside) if fits else None


def compared(
    image: te.Tensor,
    other: te.Tensor,
    steps: Steps,
    groups: int,
    is_mean: bool,
    groups_first: bool,
) -> te.Tensor:
    """Sums or means of products of two images' channels.

    image: (images, channels, rows, width); other: of at least as many rows and columns. The result
    has axes (images, groups, outer steps, inner steps, rows, width), groups behind the steps unless
    they are first.
    """
    images, channels, rows, width = image.shape
    of_group = int(channels) // groups
    channel = te.reduce_axis((0, of_group), "channel")
    outer, inner = steps.counts
    order = (groups, outer, inner) if groups_first else (outer, inner, groups)

    def value(n: Any, *at: Any) -> Any:
        group, far, near = at[:3] if groups_first else (at[2], at[0], at[1])
        down, aside = steps.at(far, near)
        place, (y, x) = group * of_group + channel, at[3:]
        products = image(n, place, y, x) * other(n, place, y + down, x + aside)
        return te.sum(products, axis=channel)

    sums = te.compute((images, *order, rows, width), value, name=NAME)
    if not is_mean:
        return sums
    return te.compute(sums.shape, lambda *at: sums(*at) / of_group, name="mean")
