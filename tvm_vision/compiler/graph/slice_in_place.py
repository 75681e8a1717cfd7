"""Slices in place: what takes a piece of a tensor that lies in one piece is no kernel.

A slice along the outermost axis, as of the queries, keys and values of an attention or of half of
an image's channels, copies what its readers could read where it is. Such pieces become views:

- of the tensor that they are taken from, where they come to lie at multiples of ALIGNMENT bytes;
  a piece that lies elsewhere already, as a part of a concatenation, is copied alone;
- or, where all pieces of a tensor lie side by side in the memory of another one, as parts of a
  concatenation in place do, that tensor becomes a view there: its kernel writes what the
  concatenation holds, without a split and a concatenation between.

The option ``slice_in_place`` turns it off.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from ...schedules.common import constant_integer
from ...topi.copy import copy_kernel, copy_name
from ..tir.exact_casts import without_exact_casts
from .static_graph import ALIGNMENT, KernelCall, StaticGraph, drop_unused, dtype_bytes


def slice_in_place(graph: StaticGraph) -> StaticGraph:
    """The same graph without the kernels that only take pieces of a tensor, where those can be
    views.

    A tensor can become a view where kernels alone make it, and it is neither an input, an output
    nor a parameter of the network; nor is the tensor that it is to be a view of.
    """
    offsets = {name: piece_offsets(function) for name, function in graph.functions.items()}
    made = Counter(graph.root(t) for kernel in graph.kernels for t in kernel.outputs)
    fixed = {graph.root(t) for t in (*graph.inputs, *graph.outputs, *graph.params)}
    kernels: list[KernelCall] = []
    changed = False
    for kernel in graph.kernels:
        found = offsets.get(kernel.function)
        left = None if found is None else _placed(graph, kernel, found, made, fixed)
        kernels += [kernel] if left is None else left
        changed |= left is not None
    if not changed:
        return graph
    graph.kernels = kernels
    return drop_unused(graph)


def _placed(
    graph: StaticGraph, kernel: KernelCall, found: list[int], made: Counter[int], fixed: set[int]
) -> list[KernelCall] | None:
    """What is left of a kernel whose pieces, or the tensor that they are of, became views: copies
    of those pieces that could not. None where it stays."""
    if len(kernel.inputs) != 1 or len(kernel.outputs) != len(found):
        return None
    whole = graph.tensors[kernel.inputs[0]]
    offsets = [n * dtype_bytes(whole.dtype) for n in found]
    pieces = [graph.tensors[t] for t in kernel.outputs]
    if whole.root in fixed or any(piece.root in fixed for piece in pieces):
        return None
    first = pieces[0]
    side_by_side = all(
        piece.root == first.root and piece.offset == first.offset + offset
        for piece, offset in zip(pieces, offsets, strict=True)
    )
    ends = [offset + piece.nbytes for piece, offset in zip(pieces, offsets, strict=True)]
    all_of_it = [0, *ends] == [*offsets, whole.nbytes]
    places = [whole.offset + offset for offset in offsets]
    aligned = all(place % ALIGNMENT == 0 for place in places)
    views = [_is_own(graph, t, made) for t in kernel.outputs]
    if not (all(views) and aligned):
        if side_by_side and all_of_it and _is_own(graph, kernel.inputs[0], made):
            graph.move(whole.root, first.root, first.offset)
            return []
        if not (any(views) and aligned):
            return None
    copies = []
    for piece, place, view in zip(kernel.outputs, places, views, strict=True):
        if view:
            graph.move(piece, whole.root, place)
        else:
            copies.append(_copy(graph, piece, whole.root, place, kernel.nodes))
    return copies


def _copy(graph: StaticGraph, piece: int, root: int, offset: int, nodes: list[str]) -> KernelCall:
    """A kernel that copies a piece from where it begins in a tensor."""
    of = graph.tensors[piece]
    source = graph.add_tensor(of.shape, of.dtype, view_of=root)
    graph.tensors[source].offset = offset
    name = copy_name(of.shape, of.dtype)
    graph.functions[name] = copy_kernel(of.shape, of.dtype)
    return KernelCall(name, [source], [piece], nodes)


def _is_own(graph: StaticGraph, tensor: int, made: Counter[int]) -> bool:
    """Whether one kernel makes all of the memory that a tensor uses, and no more of it."""
    of = graph.tensors[tensor]
    return made[of.root] == 1 and of.offset == 0 and of.nbytes == graph.tensors[of.root].nbytes


def piece_offsets(function: tirx.PrimFunc) -> list[int] | None:
    """For each result where it begins in the one input, in elements, if all that the function does
    is to copy pieces that lie there as they do in the result; None for other functions."""
    types: list[Any] = [getattr(param, "ty", None) for param in function.params]
    if not all(hasattr(of, "shape") for of in types) or len({str(t.dtype) for t in types}) != 1:
        return None
    if any(constant_integer(n) is None for of in types for n in of.shape):
        return None
    copies = _copies(without_exact_casts(function))
    if copies is None:
        return None
    source, *results = function.params
    found = []
    for result in results:
        offset = _offset(copies, source, result)
        if offset is None:
            return None
        found.append(offset)
    return found


def is_whole_copy(function: tirx.PrimFunc) -> bool:
    """Whether all that a function does is to copy its one input, in whatever shape."""
    if piece_offsets(function) != [0]:
        return False
    sizes = [math.prod(constant_integer(n) or 0 for n in p.ty.shape) for p in function.params]
    return sizes[0] == sizes[1]


# The variables of a copy's loops, the tensor it reads, and the indices there.
_Copy = tuple[list[Any], Any, list[Any]]


def _copies(function: tirx.PrimFunc) -> dict[Any, _Copy] | None:
    """What each tensor is a copy of; None for a function that does more than to copy."""
    if not isinstance(function.body, s_tir.SBlockRealize):
        return None
    stores: list[Any] = []
    realized: list[Any] = []
    tvm_ffi.structural_walk(
        function.body.block.body,
        [(tirx.BufferStore, stores.append), (s_tir.SBlockRealize, realized.append)],
    )
    found: dict[Any, _Copy] = {}
    for realize in realized:
        block, store = realize.block, realize.block.body
        if not isinstance(store, tirx.BufferStore) or block.init is not None:
            return None
        variables = [axis.var for axis in block.iter_vars]
        sizes = [constant_integer(axis.dom.extent) for axis in block.iter_vars]
        shape = [constant_integer(n) for n in store.buffer.ty.shape]
        if not shape and sizes == [1]:  # the one place of a tensor without axes is a loop's, too
            variables, sizes = [], []
        in_order = len(store.indices) == len(variables) and all(
            index.same_as(variable)
            for index, variable in zip(store.indices, variables, strict=True)
        )
        value = store.value
        if not in_order or sizes != shape or not isinstance(value, ir.TensorLoad):
            return None
        if constant_integer(realize.predicate) != 1 or store.buffer in found:
            return None
        found[store.buffer] = variables, value.source, list(value.indices)
    return found if len(found) == len(stores) else None


def _offset(copies: dict[Any, _Copy], source: Any, result: Any) -> int | None:
    """Elements from where ``source`` begins to where ``result`` does, if that is so for all."""
    if result not in copies:
        return None
    variables, behind, indices = copies[result]
    while behind in copies:
        inner, further, places = copies[behind]
        known = dict(zip(inner, indices, strict=True))
        indices = [_replaced(place, known) for place in places]
        behind = further
    if not behind.same_as(source):
        return None
    analyzer = sym.Analyzer()
    shape = [constant_integer(n) for n in result.ty.shape]
    for variable, extent in zip(variables, shape, strict=True):
        analyzer.bind(variable, ir.Range(0, extent))
    distance = _flat(indices, source.ty.shape) - _flat(variables, shape)
    return constant_integer(analyzer.simplify(distance))


def _replaced(index: Any, known: dict[Any, Any]) -> Any:
    """An index with what its variables stand for."""
    return tvm_ffi.structural_map(index, [(ir.Var, lambda var: known.get(var, var))])


def _flat(indices: list[Any], shape: Any) -> Any:
    """The place of an element, elements in the order of the axes."""
    sizes = [constant_integer(n) for n in shape]
    flat: Any = tirx.IntImm("int64", 0)
    for place, index in enumerate(indices):
        flat = flat + index * math.prod(n for n in sizes[place + 1 :] if n is not None)
    return flat
