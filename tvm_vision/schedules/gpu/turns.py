"""Tensors that a kernel reads in another order than it writes: whose neighbours lie along one axis
of the results, while those that are written side by side lie along the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import prim

from ..common import product

# Neighbours along both axes below which a turn is left to the caches.
LEAST_FAR, LEAST_NEAR = 8, 8
_CHOICE = ir.Op.get("prim.if_then_else")


def turned_axis(value: Any, axes: Sequence[Any], extents: Sequence[int]) -> int | None:
    """The axis along which what is read lies together, where that is not the last one.

    value: what a kernel stores at each place; axes: its variables, of these extents. Tensors of
    fewer than half as many numbers as there are results are not asked. Returns None where results
    and what they are made of lie alike, where it depends on a condition what is read, and where
    that is not known. Raises nothing.
    """
    if len(extents) < 2 or extents[-1] < LEAST_FAR:
        return None
    return next((axis for _, axis in _turned(value, axes, extents)), None)


def turned_buffers(
    value: Any, axes: Sequence[Any], extents: Sequence[int], along: int
) -> list[Any]:
    """The buffers whose numbers lie together along the axis ``along``, of those that are read in
    one place each, which follows from the axes without divisions."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    return [
        load.source
        for load, axis in _turned(value, axes, extents)
        if axis == along
        and sum(load.source.same_as(other.source) for other in loads) == 1
        and all(len(sym.detect_linear_equation(index, list(axes))) for index in load.indices)
    ]


def _turned(value: Any, axes: Sequence[Any], extents: Sequence[int]) -> Iterator[tuple[Any, int]]:
    """Loads that go along another axis than the last, and that axis."""
    chooses = False

    def see(node: Any) -> None:
        nonlocal chooses
        chooses |= isinstance(node, prim.Select) or node.op.same_as(_CHOICE)

    # What is joined or padded keeps its vectors: each number may be of another tensor.
    tvm_ffi.structural_walk(value, ((ir.Call, prim.Select), see))
    if chooses:
        return
    for load, steps in _steps(value, axes, extents):
        near = [at for at, step in enumerate(steps) if step == 1]
        if abs(steps[-1]) >= LEAST_FAR and near and extents[near[0]] >= LEAST_NEAR:
            yield load, near[0]


def _steps(
    value: Any, axes: Sequence[Any], extents: Sequence[int]
) -> Iterator[tuple[Any, list[int]]]:
    """Loads of large tensors at places that are known, and how far apart each reads for neighbours
    along each axis, in the middle of the results."""
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
        if here is None:
            continue
        steps = []
        for at, extent in enumerate(extents):
            beside = [n + (i == at and extent > 1) for i, n in enumerate(middle)]
            there = _at(index, axes, beside, analyzer)
            steps.append(0 if there is None else there - here)
        yield load, steps


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
