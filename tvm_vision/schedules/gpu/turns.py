"""Tensors that a kernel reads in another order than it writes: whose neighbours lie along one axis
of the results, while those that are written side by side lie along the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from ..common import product

# Neighbours along both axes below which a turn is left to the caches.
LEAST_FAR, LEAST_NEAR = 8, 8


def turned_axis(value: Any, axes: Sequence[Any], extents: Sequence[int]) -> int | None:
    """The axis along which what is read lies together, where that is not the last one.

    value: what a kernel stores at each place; axes: its variables, of these extents. Tensors of
    fewer than half as many numbers as there are results are not asked. Returns None where results
    and what they are made of lie alike, and where that is not known. Raises nothing.
    """
    if len(extents) < 2 or extents[-1] < LEAST_FAR:
        return None
    for steps in _steps(value, axes, extents):
        near = [at for at, step in enumerate(steps) if step == 1]
        if abs(steps[-1]) >= LEAST_FAR and near and extents[near[0]] >= LEAST_NEAR:
            return near[0]
    return None


def _steps(value: Any, axes: Sequence[Any], extents: Sequence[int]) -> Iterator[list[int]]:
    """For each large tensor how far apart in memory it is read for neighbours along each axis, in
    the middle of the results."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    middle = [(extent - 1) // 2 for extent in extents]
    analyzer = sym.Analyzer()
    for load in loads:
        place = _place(load)
        if place is None:
            continue
        size, index = place
        if 2 * size < product(extents):
            continue
        here = _at(index, axes, middle, analyzer)
        steps = []
        for at, extent in enumerate(extents):
            beside = [n + (i == at and extent > 1) for i, n in enumerate(middle)]
            there = _at(index, axes, beside, analyzer)
            steps.append(0 if here is None or there is None else there - here)
        yield steps


def _place(load: Any) -> tuple[int, Any] | None:
    """The size of the tensor and the place in it that a load reads."""
    shape = load.source.ty.shape
    if len(load.source.ty.strides) or not all(isinstance(n, tirx.IntImm) for n in shape):
        return None
    index: Any = 0
    for extent, at in zip(shape, load.indices, strict=True):
        index = index * extent + at
    return product([int(n) for n in shape]), index


def _at(
    index: Any, axes: Sequence[Any], place: Sequence[int], analyzer: sym.Analyzer
) -> int | None:
    """An index at one place; None where it depends on numbers that are read."""

    def value_of(variable: Any) -> Any:
        for axis, number in zip(axes, place, strict=True):
            if axis.same_as(variable):
                return tirx.const(number, str(variable.ty.dtype))
        return variable

    known = analyzer.simplify(tvm_ffi.structural_map(index, [(ir.Var, value_of)]))
    return int(known.value) if isinstance(known, tirx.IntImm) else None
