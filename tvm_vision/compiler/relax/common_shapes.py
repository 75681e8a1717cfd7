"""Sums between two reshapes, with what follows them, in one shape that both have.

ONNX has no group normalization before opset 18: exporters write [n, groups, rest], normalize that,
turn it back into [n, c, h, w], and scale, shift and cut there what they normalized. No kernel takes
both in, as a reshape lies between. In [n, groups, c / groups, h, w] each axis of either is one axis
or several, so that a sum, and what is made of it for each channel, are of the same rows.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import ELEMENTWISE_OPERATORS, fixed_shape, operator_of, without_ones
from .rewriting import is_constant, rebind, rewritten

_SUMS = {f"relax.{name}" for name in ("mean", "sum", "variance", "max", "min")}
_RESHAPE = "relax.reshape"
Shape = tuple[int, ...]


def in_common_shapes(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such sums, and what is made of them alone, in the shape that both have."""
    starts = _starts(mod["main"])
    if not starts:
        return mod
    rewriter = _Rewriter(mod)
    rewriter.starts = starts
    return relax.transform.DeadCodeElimination()(rewritten(mod, rewriter))


@dataclass(frozen=True)
class _Common:
    """A shape of which two are made by joining neighbours.

    Attributes:
        shape: its extents.
        given: those of the two: behind the second reshape, and between both.
        axes: for each of the two, which of its axes each axis is; none for one of 1.
    """

    shape: Shape
    given: tuple[Shape, Shape]
    axes: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]

    @classmethod
    def of(cls, one: Shape, other: Shape) -> _Common | None:
        """None where an extent of neither divides the other's."""
        left = [[[n, axis] for axis, n in enumerate(s) if n > 1][::-1] for s in (one, other)]
        found: list[int] = []
        axes: list[list[list[int]]] = [[[] for _ in s] for s in (one, other)]
        while left[0] and left[1]:
            extent = min(side[-1][0] for side in left)
            for side, own in zip(left, axes, strict=True):
                if side[-1][0] % extent:
                    return None
                own[side[-1][1]].append(len(found))
                side[-1][0] //= extent
                if side[-1][0] == 1:
                    side.pop()
            found.append(extent)
        first, second = (tuple(tuple(own) for own in each) for each in axes)
        return cls(tuple(found), (one, other), (first, second))

    def broadcast(self, side: int, shape: Shape) -> Shape | None:
        """The shape here of what is ``shape`` beside one of the two; None where they do not fit."""
        whole, extents = self.given[side], [1] * len(self.shape)
        if len(shape) > len(whole):
            return None
        for extent, full, axes in zip(
            shape[::-1], whole[::-1], self.axes[side][::-1], strict=False
        ):
            if extent == full:
                for axis in axes:
                    extents[axis] = self.shape[axis]
            elif extent != 1:
                return None
        return tuple(extents)


@dataclass(frozen=True)
class _Finer:
    """A value in the common shape, or of a sum in it, which stands for one of a side's shape."""

    value: Any
    common: _Common
    side: int


def _starts(main: relax.Function) -> dict[Any, _Common]:
    """The reshapes behind which are sums, and another reshape behind these."""
    bound = [(var, call) for var, call in bindings_of(main) if isinstance(call, relax.Call)]
    readers: dict[Any, list[int]] = {}
    for place, (_, call) in enumerate(bound):
        for argument in call.args:
            if isinstance(argument, relax.Var):
                readers.setdefault(argument, []).append(place)
    found: dict[Any, _Common] = {}
    for var, call in bound:
        if operator_of(call) == _RESHAPE:
            inside, behind = fixed_shape(call), _reshaped_again(bound, readers, var)
            if inside and behind and without_ones(inside) != without_ones(behind):
                common = _Common.of(behind, inside)
                if common is not None:
                    found[var] = common
    return found


def _reshaped_again(
    bound: Sequence[tuple[Any, relax.Call]], readers: Mapping[Any, Sequence[int]], var: Any
) -> Shape | None:
    """The shape that what is made of sums over a reshape's result gets; None where there are no
    sums, or it keeps its own."""
    whole = fixed_shape(var)
    of_sums: set[Any] = set()
    seen: set[int] = set()
    left = list(readers.get(var, ()))
    heapq.heapify(left)
    while left:
        place = heapq.heappop(left)
        if place in seen:
            continue
        seen.add(place)
        other, call = bound[place]
        name = operator_of(call)
        summed = name in _SUMS and bool(call.attrs.keepdims)
        if summed or not of_sums.isdisjoint(call.args):
            of_sums.add(other)
        if summed or name in ELEMENTWISE_OPERATORS:
            for reader in readers.get(other, ()):
                heapq.heappush(left, reader)
        elif name == _RESHAPE and other in of_sums and fixed_shape(call.args[0]) == whole:
            return fixed_shape(call)
    return None


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    starts: dict[Any, _Common]

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._finer: dict[Any, _Finer] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var = binding.var
        if var not in self.starts and not self._reads_finer(binding.value):
            super().visit_var_binding_(binding)
            return
        value = self.visit_expr(binding.value)
        name = operator_of(value)
        if var in self.starts:
            common = self.starts[var]
            source = value.args[0]
            if fixed_shape(source) != common.shape:
                source = self.builder_.emit(relax.op.reshape(source, common.shape), str(var.name))
            finer: _Finer | None = _Finer(source, common, 1)
        elif name == _RESHAPE:
            finer = self._back(value)
        elif name in _SUMS:
            finer = self._sum(value)
        else:
            finer = self._single(value) if name in ELEMENTWISE_OPERATORS else None
        if finer is not None and name != _RESHAPE:
            finer = replace(finer, value=self.builder_.emit(finer.value, str(var.name)))
            value = relax.op.reshape(finer.value, fixed_shape(binding.value))
        rebind(self, var, value)
        if finer is not None:
            self._finer[self.visit_expr(var)] = finer

    def _reads_finer(self, value: Any) -> bool:
        arguments = value.args if isinstance(value, relax.Call) else ()
        return any(
            isinstance(a, relax.Var) and self.visit_expr(a) in self._finer for a in arguments
        )

    def _back(self, call: relax.Call) -> _Finer | None:
        """Of the second reshape: the same value, which stands for its shape."""
        finer = self._finer.get(call.args[0])
        if finer is None or finer.side != 1 or fixed_shape(call) != finer.common.given[0]:
            return None
        whole = fixed_shape(call.args[0]) == finer.common.given[1]
        return replace(finer, side=0) if whole else None

    def _sum(self, call: relax.Call) -> _Finer | None:
        finer, shape = self._finer.get(call.args[0]), fixed_shape(call.args[0])
        if finer is None or not bool(call.attrs.keepdims) or shape is None:
            return None
        given = call.attrs.axis
        axes = range(len(shape)) if given is None else [int(axis) % len(shape) for axis in given]
        own = [own for axis in axes for own in finer.common.axes[finer.side][axis]]
        if not own:
            return None
        of = getattr(relax.op, operator_of(call).removeprefix("relax."))
        return replace(finer, value=of(finer.value, own, keepdims=True))

    def _single(self, call: relax.Call) -> _Finer | None:
        """Of an operator whose other operands are constants, or in the same common shape."""
        first = next((self._finer[a] for a in call.args if a in self._finer), None)
        if first is None:
            return None
        operands = [self._operand(argument, first) for argument in call.args]
        if any(operand is None for operand in operands):  # numbers make == an expression
            return None
        return replace(first, value=relax.Call(call.op, operands, call.attrs))

    def _operand(self, argument: Any, beside: _Finer) -> Any:
        finer = self._finer.get(argument)
        if finer is not None:
            same = finer.side == beside.side and finer.common == beside.common
            return finer.value if same else None
        shape = fixed_shape(argument)
        if shape is None:
            return argument if not hasattr(argument.ty, "shape") else None
        if not is_constant(argument, self.lookup_binding):
            return None
        if math.prod(shape) == 1:
            return argument if not shape else self.builder_.emit(relax.op.reshape(argument, ()))
        extents = beside.common.broadcast(beside.side, shape)
        if extents is None:
            return None
        return self.builder_.emit(relax.op.reshape(argument, extents))
