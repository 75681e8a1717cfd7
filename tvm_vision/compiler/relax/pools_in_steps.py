"""Pools of large windows in steps of smaller ones.

A window of 13 by 13 looks at 169 pixels for each. The largest of those is the largest of a window
of 5 by 5 of what windows of 9 by 9 found: where several pools look at one image, each goes on from
the one before (spatial pyramids: YOLOv3 to v7, YOLOX). And a window is one along rows of what
windows along columns found, of a mean, too, whose windows count what they hold along each axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import fixed_shape, operator_of
from .rewriting import rebind, resolve, rewritten

_MAX, _MEAN = "relax.nn.max_pool2d", "relax.nn.avg_pool2d"
LARGE = 49  # pixels of a window from which on it goes on from a smaller one
# How many times as many pixels are looked at, and how many more, that are worth a kernel more.
LEAST_TIMES, LEAST_SAVED = 6, 1 << 23


@dataclass(frozen=True)
class _Window:
    """Of a pool: size, steps, and pads before and behind, along columns and rows."""

    size: tuple[int, int]
    strides: tuple[int, int]
    before: tuple[int, int]
    behind: tuple[int, int]
    plain: bool  # not dilated

    @classmethod
    def of(cls, pool: relax.Call) -> _Window:
        attrs = pool.attrs
        top, left, bottom, right = (int(pad) for pad in attrs.padding)
        height, width = (int(size) for size in attrs.pool_size)
        down, across = (int(step) for step in attrs.strides)
        plain = all(int(step) == 1 for step in attrs.dilation)
        return cls((height, width), (down, across), (top, left), (bottom, right), plain)

    @property
    def in_place(self) -> bool:
        """Whether each pixel has a window around it."""
        around = tuple((size - 1) // 2 for size in self.size)
        odd = all(size % 2 for size in self.size)
        return (
            odd and self.plain and self.strides == (1, 1) and self.before == self.behind == around
        )


def pools_in_steps(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with pools of large windows as several of small ones."""
    later = _going_on(mod["main"])
    return rewritten(mod, _Steps(mod, later))


def _going_on(main: relax.Function) -> dict[Any, tuple[Any, tuple[int, int]]]:
    """For each pool that goes on from another of the same image, by its variable, that one, and the
    size of its windows."""
    bound = list(bindings_of(main))
    lookup = dict(bound).get
    of_image: dict[Any, list[tuple[_Window, Any]]] = {}
    for var, value in bound:
        if operator_of(value) != _MAX or not _is_plain(value):
            continue
        window = _Window.of(value)
        if window.in_place:
            of_image.setdefault(resolve(value.args[0], lookup), []).append((window, var))
    found = {}
    for pools in of_image.values():
        for number, (window, var) in enumerate(pools):
            # Those that are bound before it: what comes later is not computed yet.
            smaller = [
                (earlier, other.size)
                for other, earlier in pools[:number]
                if other.size != window.size
                and all(a <= b for a, b in zip(other.size, window.size, strict=True))
            ]
            if smaller and math.prod(window.size) >= LARGE:
                found[var] = max(smaller, key=lambda pair: math.prod(pair[1]))
    return found


def _is_plain(pool: relax.Call) -> bool:
    layout = str(pool.attrs.layout)
    return layout == "NCHW" and str(pool.attrs.out_layout or layout) == layout


@relax.expr_functor.mutator
class _Steps(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, going_on: dict[Any, tuple[Any, tuple[int, int]]]) -> None:
        super().__init__(mod)
        self._going_on = going_on

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        pool = binding.value
        if binding.var in self._going_on:
            earlier, before = self._going_on[binding.var]
            size = [b - a + 1 for a, b in zip(before, _Window.of(pool).size, strict=True)]
            pads = [(extent - 1) // 2 for extent in size] * 2
            image = self.visit_expr(earlier)
            rebind(self, binding.var, relax.op.nn.max_pool2d(image, size, padding=pads))
        elif operator_of(pool) in (_MAX, _MEAN) and _is_plain(pool) and _is_worth(pool):
            image = self.visit_expr(pool.args[0])
            columns = self.builder_.emit(_along(pool, 0, image), str(binding.var.name))
            rebind(self, binding.var, _along(pool, 1, columns))
        else:
            super().visit_var_binding_(binding)


def _is_worth(pool: relax.Call) -> bool:
    """Whether windows along columns and then along rows look at far fewer pixels."""
    before, after = fixed_shape(pool.args[0]), fixed_shape(pool)
    if before is None or after is None:
        return False
    (height, width), images = _Window.of(pool).size, math.prod(after[:2])
    at_once = images * math.prod(after[2:]) * height * width
    in_steps = images * after[2] * (before[3] * height + after[3] * width)
    return at_once >= LEAST_TIMES * in_steps and at_once - in_steps >= LEAST_SAVED


def _along(pool: relax.Call, axis: int, image: Any) -> relax.Call:
    """The pool along one of both axes of an image."""
    window, attrs = _Window.of(pool), pool.attrs

    def only(sizes: tuple[int, int], other: int) -> list[int]:
        return [size if i == axis else other for i, size in enumerate(sizes)]

    options = {
        "strides": only(window.strides, 1),
        "padding": only(window.before, 0) + only(window.behind, 0),
        "dilation": [int(step) if i == axis else 1 for i, step in enumerate(attrs.dilation)],
        "ceil_mode": bool(attrs.ceil_mode),
        "count_include_pad": bool(attrs.count_include_pad),
    }
    make = relax.op.nn.max_pool2d if operator_of(pool) == _MAX else relax.op.nn.avg_pool2d
    return make(image, only(window.size, 1), **options)
