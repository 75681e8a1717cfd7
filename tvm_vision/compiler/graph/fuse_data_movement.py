"""Selections and prologues without a kernel of their own: their consumer does it as it fetches.

Concatenations, nearest-neighbour resizing and slices move values and compute none. A gate of
channels, or a normalization and ReLU before a convolution, computes little of each value. Where a
convolution or product alone reads such a result, the two functions become one: schedules for sums
of products inline whatever makes an operand into its fetch, as they do with padding. It saves a
kernel, the barrier after it, and writing and reading the tensor between; it costs arithmetic at
every fetch, k·k times for a window, which selection_cost.py weighs up for the device.
Concatenations in place are no kernels before. A part of one tensor is read so by sums over rows
and by windows, too.

The option ``fuse_data_movement`` turns it off.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import prim

from ...schedules import TargetLimits, first_taking
from ...schedules.common import number_at
from ..tir.cast_buffers import block_with, choice_parts, with_buffers
from .lower import unused_name
from .selection_cost import pays
from .static_graph import KernelCall, StaticGraph, drop_unused

# Templates that inline what makes an operand, and those that read a part of one tensor where it
# lies, each value of it as soon as from a copy.
_PRODUCTS = ("direct_conv", "coopmat_gemm", "contraction", "winograd_conv")
_WINDOW = "window"
_IN_PLACE = ("reduction", _WINDOW)
# Neighbours that a window's thread loads at once, where they begin at a multiple of so many.
_VECTOR = 4


def fuse_data_movement(graph: StaticGraph, limits: TargetLimits) -> StaticGraph:
    """The same graph with each selection or prologue that one sum reads as a part of that."""
    joined = _Joined(graph, limits)
    uses = Counter(t for kernel in graph.kernels for t in kernel.inputs)
    kept = {graph.root(t) for t in (*graph.inputs, *graph.outputs, *graph.params)}
    alone = Counter(t.root for t in graph.tensors)
    for kernel in graph.kernels:
        (made, *others) = kernel.outputs
        # Its memory is its own: no view of it, no part of another's.
        own = graph.root(made) == made and alone[made] == 1 and made not in kept
        if others or not own or uses[made] != 1 or not joined.is_first(kernel.function):
            continue
        reader = next(k for k in graph.kernels if made in k.inputs)
        name = joined.function(kernel.function, reader.function, reader.inputs.index(made))
        if name is None:
            continue
        merged = KernelCall(
            name,
            [*kernel.inputs, *(t for t in reader.inputs if t != made)],
            reader.outputs,
            list(dict.fromkeys([*kernel.nodes, *reader.nodes])),
        )
        graph = replace(
            graph,
            kernels=[merged if k is reader else k for k in graph.kernels if k is not kernel],
            functions=joined.functions,
        )
    return drop_unused(graph)


class _Joined:
    """Functions of two, made once for each pair."""

    def __init__(self, graph: StaticGraph, limits: TargetLimits) -> None:
        self.functions = dict(graph.functions)
        self._limits = limits
        self._names: dict[tuple[str, str, int], str | None] = {}
        self._firsts: dict[str, bool] = {}

    def is_first(self, name: str) -> bool:
        """Whether a function may be done by what reads its result."""
        if name not in self._firsts:
            function = self.functions[name]
            self._firsts[name] = is_selection(function) or is_prologue(function)
        return self._firsts[name]

    def function(self, first: str, second: str, at: int) -> str | None:
        """The name of ``second`` with its parameter ``at`` made by ``first`` inside.

        None where no schedule for sums takes it, or it is slower so.
        """
        key = (first, second, at)
        if key not in self._names:
            before, after = self.functions[first], self.functions[second]
            self._names[key] = None
            template = self._template(after)
            if template is not None and self._pays(before, after, at, template):
                function = join(before, after, at)
                if self._template(function) in (
                    (template,) if template in _IN_PLACE else _PRODUCTS
                ):
                    name = unused_name(f"{first}_{second}", self.functions)
                    self._names[key] = name
                    self.functions[name] = function
        return self._names[key]

    def _pays(
        self, before: tirx.PrimFunc, after: tirx.PrimFunc, at: int, template: str
    ) -> bool:  # fmt: skip
        """Whether what makes an operand is no slower inside. Sums over rows and windows read each
        value where it lies as soon as from a copy; of several tensors they would choose at each."""
        selects = is_selection(before)
        if template in _IN_PLACE:
            aligned = template != _WINDOW or _is_aligned(before)
            return selects and len(before.params) == 2 and aligned
        return pays(before, after, at, self._limits, computes=not selects)

    def _template(self, function: tirx.PrimFunc) -> str | None:
        """The template that schedules a function, if it is one that inlines an operand."""
        if not isinstance(function.body, s_tir.SBlockRealize):
            return None
        if len(function.params) > self._limits.tensors:
            return None
        found = first_taking(function, self._limits)
        return found if found in (*_PRODUCTS, *_IN_PLACE) else None


def is_selection(function: tirx.PrimFunc) -> bool:
    """Whether every value that a function stores is one that it loads, and neighbours in memory
    come from neighbours.

    A change of layout is none, nor is filling up: they are there so that their reader finds
    neighbours together.
    """
    if not isinstance(function.body, s_tir.SBlockRealize):
        return False
    stores: list[Any] = []
    odd: list[Any] = []
    tvm_ffi.structural_walk(
        function.body,
        [
            (tirx.BufferStore, stores.append),
            (tirx.AttrStmt, odd.append),
            (s_tir.SBlock, lambda block: odd.append(block) if block.init is not None else None),
        ],
    )
    return bool(stores) and not odd and all(_is_picked(s.value, s.indices) for s in stores)


def is_prologue(function: tirx.PrimFunc) -> bool:
    """Whether a function makes each value of its result of the one at the same place of one tensor,
    by products, sums and bounds with those of smaller tensors: the gate of a channel (Hu et al.
    2018, squeeze-and-excitation), or a normalization and ReLU before a convolution."""
    if not isinstance(function.body, s_tir.SBlockRealize):
        return False
    *given, result = function.params
    size = _size(result)
    blocks: list[Any] = []
    calls: list[Any] = []
    tvm_ffi.structural_walk(
        function.body.block.body, [(s_tir.SBlock, blocks.append), (ir.Call, calls.append)]
    )
    whole = [p for p in given if _size(p) >= size]
    return len(whole) == 1 and not calls and all(_is_by_place(b, given, size) for b in blocks)


def _is_by_place(block: Any, given: list[Any], size: int) -> bool:
    """Whether a block stores values at the places that they are made of, of a result of that size;
    what is smaller is given."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or block.init is not None:
        return False
    loads: list[Any] = []
    tvm_ffi.structural_walk(store.value, (ir.TensorLoad, loads.append))
    own = [axis.var for axis in block.iter_vars]
    return (
        _size(store.buffer) == size
        and _same(store.indices, own)
        and all(
            _same(load.indices, own) if _size(load.source) == size
            else any(load.source.same_as(p) for p in given)
            for load in loads
        )
    )  # fmt: skip


def _is_aligned(selection: tirx.PrimFunc) -> bool:
    """Whether a vector of what is picked of one tensor is one there, too: where the last axis's
    extent is one of vectors, it goes along what lies side by side, and each begins where a vector
    does. Of the other axes one step stands for all."""
    shape = [int(extent) for extent in selection.params[-1].ty.shape]
    if shape[-1] % _VECTOR:
        return True
    origin = _place(selection, [0] * len(shape))
    places = [
        _place(selection, [int(axis == other) for other in range(len(shape))])
        for axis in range(len(shape))
        if shape[axis] > 1
    ]
    if origin is None or None in places:
        return False
    *steps, last = [place - origin for place in places if place is not None]
    return last == 1 and all(step % _VECTOR == 0 for step in (origin, *steps))


def _place(selection: tirx.PrimFunc, at: list[int]) -> int | None:
    """Where in the one tensor that a selection reads the value lies that it stores at a place; None
    where one of its blocks chooses among several."""
    stores: dict[Any, tirx.BufferStore] = {}

    def note(store: Any) -> None:
        stores[store.buffer] = store

    tvm_ffi.structural_walk(selection.body, (tirx.BufferStore, note))
    buffer = selection.params[-1]
    while (store := stores.get(buffer)) is not None:
        loads: list[Any] = []
        tvm_ffi.structural_walk(store.value, (ir.TensorLoad, loads.append))
        if len(loads) != 1 or not all(isinstance(index, ir.Var) for index in store.indices):
            return None
        known = dict(zip(store.indices, at, strict=True))
        found = [number_at(index, known) for index in loads[0].indices]
        at = [place for place in found if place is not None]
        if len(at) < len(found):
            return None
        buffer = loads[0].source
    return int(np.ravel_multi_index(at, [int(extent) for extent in buffer.shape]))


def _size(tensor: Any) -> int:
    return math.prod(int(n) for n in tensor.ty.shape)


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(a.same_as(b) for a, b in zip(one, other, strict=True))


def _is_picked(value: Any, place: Any) -> bool:
    if isinstance(value, prim.Cast):
        return _is_picked(value.value, place)
    if isinstance(value, ir.TensorLoad):
        return bool(place) and bool(value.indices) and _shared(place[-1], value.indices[-1])
    chosen = choice_parts(value)
    return chosen is not None and all(_is_picked(part, place) for part in chosen[1:])


def _shared(one: Any, other: Any) -> bool:
    """Whether two indices have a variable in common."""
    found: list[list[Any]] = [[], []]
    for index, variables in zip((one, other), found, strict=True):
        tvm_ffi.structural_walk(index, (ir.Var, variables.append))
    return any(a.same_as(b) for a in found[0] for b in found[1])


def join(first: tirx.PrimFunc, second: tirx.PrimFunc, at: int) -> tirx.PrimFunc:
    """A function of ``first``'s inputs and the other parameters of ``second``, whose parameter
    ``at`` is the result of ``first``."""
    *inputs, made = first.params
    taken = second.params[at]
    buffer = tirx.decl_buffer(made.ty.shape, str(made.ty.dtype), name=f"{made.name}_picked")
    before = with_buffers(first.body, {made: buffer}).block
    after = with_buffers(second.body, {taken: buffer}).block
    root = block_with(
        after,
        body=tirx.SeqStmt([before.body, after.body]),
        alloc_buffers=[*before.alloc_buffers, *after.alloc_buffers, buffer],
    )
    body = s_tir.SBlockRealize(second.body.iter_values, second.body.predicate, root)
    params = [*inputs, *(p for i, p in enumerate(second.params) if i != at)]
    return tirx.PrimFunc(params, body, second.ret_type, second.attrs, second.span)
