"""Concatenations in place: what leads to one writes straight into its memory.

A concatenation along the outermost axis puts its inputs one behind another. Where the kernels that
make them can write there at once, it needs no kernel of its own: its inputs become views of its
result. That takes three steps, with fusion and half precision between them:

1. ``keep_apart``, on Relax: fusion leaves alone what is to be done in place;
2. ``concat_axes``, on the static graph: which kernels are concatenations;
3. ``concat_in_place``: those that can be are taken out of the graph.

Concatenations of the same tensors, each with more of them than the one before, as dense blocks have
(Huang et al. 2017, DenseNet), are all views of the longest.

The option ``concat_in_place`` turns it off.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi

from ..relax.kernel_calls import INJECTIVE, OPAQUE, KernelCalls, bindings_of, patterns_of
from .slice_in_place import piece_offsets
from .static_graph import ALIGNMENT, KernelCall, StaticGraph, dtype_bytes

Shapes = tuple[tuple[int, ...], ...]


def keep_apart(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` as calls of TensorIR functions, with the concatenations marked that fusion must not
    touch: contiguous ones of results of kernels, which not all that follows would take in, or of
    whose parts there are other concatenations.
    """
    calls = KernelCalls(mod["main"])
    functions = {gv: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    patterns = patterns_of(functions)
    made = calls.made | _pieces(mod["main"], calls, functions)
    chosen: dict[Any, bool] = {}
    found: list[tuple[Any, tuple[Any, ...], bool]] = []
    for var, call in calls.bound:
        gv = call.args[0]
        if patterns.get(gv) != INJECTIVE:
            continue
        parts = tuple(call.args[1].fields)
        kernels = all(a in made for a in parts) and len(set(parts)) == len(parts)
        if kernels and _contiguous(functions[gv]):
            # What one reader cannot take in is a tensor, which no other takes in either.
            alone = any(patterns.get(user, OPAQUE) > INJECTIVE for user in calls.users[var])
            found.append((gv, parts, alone))
        else:
            chosen[gv] = False
    longest: list[tuple[Any, ...]] = []
    for gv, parts, alone in sorted(found, key=lambda one: -len(one[1])):
        family = any(parts != other and _is_run(other, parts) for _, other, _ in found)
        inside = any(_is_run(parts, whole) for whole in longest)
        # What is a part of one result cannot be a part of another elsewhere.
        free = all(set(parts).isdisjoint(whole) for whole in longest)
        if inside or (free and (alone or family)):
            longest += [] if inside else [parts]
            chosen.setdefault(gv, True)
        else:
            chosen[gv] = False
    marked = {gv: functions[gv].with_attr("op_pattern", OPAQUE) for gv, ok in chosen.items() if ok}
    return tvm.IRModule({**dict(mod.functions_items()), **marked}, attrs=mod.attrs)


def _is_run(parts: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Whether all parts follow each other so in the whole."""
    ends = range(len(parts), len(whole) + 1)
    return any(tuple(whole[end - len(parts) : end]) == tuple(parts) for end in ends)


def _pieces(main: relax.Function, calls: KernelCalls, functions: Mapping[Any, Any]) -> set[Any]:
    """The variables that are pieces of a tensor as a split in place makes them."""
    splits = {
        var: piece_offsets(functions[call.args[0]]) is not None
        for var, call in calls.bound
        if isinstance(call.ty_args[0], relax.TupleType)
    }
    return {
        var
        for var, value in bindings_of(main)
        if isinstance(value, relax.TupleGetItem) and splits.get(value.tuple_value)
    }


def concat_axes(graph: StaticGraph) -> dict[int, int]:
    """Position of each kernel that is a concatenation, and the axis that it is along."""
    axes: dict[str, int | None] = {}
    for kernel in graph.kernels:
        if kernel.function not in axes:
            axes[kernel.function] = concat_axis(graph.functions[kernel.function])
    found = {i: axes[kernel.function] for i, kernel in enumerate(graph.kernels)}
    return {i: axis for i, axis in found.items() if axis is not None}


def concat_axis(func: tirx.PrimFunc) -> int | None:
    """The axis along which ``func`` joins its inputs to its one result; None for other functions.

    A function is a concatenation when it equals what TE makes of one.
    """
    joined = _joined(func)
    if joined is None or not tvm_ffi.structural_equal(_bare(func), _concatenation(*joined)):
        return None
    return joined[-1]


def _joined(func: tirx.PrimFunc) -> tuple[Shapes, str, int] | None:
    """Shapes and type of what a function may join, by shapes alone, and the axis; None where it
    cannot."""
    types: list[Any] = [getattr(p, "ty", None) for p in func.params]
    if len(types) < 3 or not all(hasattr(t, "shape") for t in types):
        return None
    sizes = [[getattr(n, "value", None) for n in t.shape] for t in types]
    if any(None in shape for shape in sizes) or len({str(t.dtype) for t in types}) != 1:
        return None
    shapes = tuple(tuple(int(n) for n in shape if n is not None) for shape in sizes)
    *inputs, output = shapes
    for axis in range(len(output)):
        if any(len(s) != len(output) for s in inputs):
            return None
        others = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
        if len(others) == 1 and sum(s[axis] for s in inputs) == output[axis]:
            return tuple(inputs), str(types[0].dtype), axis
    return None


def concat_in_place(graph: StaticGraph, axes: Mapping[int, int]) -> StaticGraph:
    """The same graph without those concatenations, by position, whose inputs can be its parts.

    An input can be a part where a kernel makes it, all of its memory is its own, it is no output of
    the network and no part of another concatenation, and where it comes to lie at a multiple of
    ALIGNMENT bytes.
    """
    made = Counter(graph.root(t) for kernel in graph.kernels for t in kernel.outputs)
    fixed = {graph.root(t) for t in (*graph.inputs, *graph.outputs, *graph.params)}
    placed: set[int] = set()
    for position in sorted(axes, key=lambda at: -len(graph.kernels[at].inputs)):
        kernel = graph.kernels[position]
        offsets = _offsets(graph, kernel, axes[position])
        if offsets is None:
            continue
        (joined,) = kernel.outputs
        of = graph.tensors[joined]
        given = [graph.tensors[t] for t in kernel.inputs]
        first = given[0]
        if all(
            tensor.root == first.root and tensor.offset == first.offset + offset
            for tensor, offset in zip(given, offsets, strict=True)
        ):  # of a longer one
            if of.root == joined and joined not in fixed and first.root not in fixed:
                graph.move(joined, first.root, first.offset)
                placed.add(position)
            continue
        roots = [tensor.root for tensor in given]
        free = all(made[r] == 1 and r not in fixed for r in roots) and len(set(roots)) == len(roots)
        whole = all(
            tensor.nbytes == graph.tensors[tensor.root].nbytes and tensor.offset == 0
            for tensor in given
        )
        if free and whole:
            for root, offset in zip(roots, offsets, strict=True):
                graph.move(root, of.root, of.offset + offset)
            placed.add(position)
    kernels = [kernel for at, kernel in enumerate(graph.kernels) if at not in placed]
    used = {kernel.function for kernel in kernels}
    graph.kernels = kernels
    graph.functions = {name: f for name, f in graph.functions.items() if name in used}
    return graph


def _offsets(graph: StaticGraph, kernel: KernelCall, axis: int | None) -> list[int] | None:
    """Where each input begins in the result, in bytes; None where they cannot lie in it."""
    if axis is None or len({graph.tensors[t].dtype for t in kernel.tensors}) > 1:
        return None
    return _placed(
        [graph.tensors[t].shape for t in kernel.inputs], graph.tensors[kernel.inputs[0]].dtype, axis
    )


def _placed(shapes: Sequence[Sequence[int]], dtype: str, axis: int) -> list[int] | None:
    """Offsets in bytes of tensors that are joined along ``axis``; None where they are not in one
    piece there or not aligned."""
    sizes = [math.prod(shape) * dtype_bytes(dtype) for shape in shapes]
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    contiguous = all(math.prod(shape[:axis]) == 1 for shape in shapes)
    aligned = all(offset % ALIGNMENT == 0 for offset in offsets)
    return offsets if contiguous and aligned and min(sizes) > 0 else None


def _contiguous(func: tirx.PrimFunc) -> bool:
    joined = _joined(func)
    # To make one and to compare takes longer.
    return joined is not None and _placed(*joined) is not None and concat_axis(func) is not None


@lru_cache(maxsize=256)
def _concatenation(shapes: Shapes, dtype: str, axis: int) -> tirx.PrimFunc:
    long = [[tirx.IntImm("int64", n) for n in shape] for shape in shapes]
    inputs = [te.placeholder(shape, dtype, f"x{i}") for i, shape in enumerate(long)]
    return _bare(te.create_prim_func([*inputs, topi.concatenate(inputs, axis)]))


def _bare(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Without attributes, which say nothing of what it computes."""
    return tirx.PrimFunc(func.params, func.body, func.ret_type, None)
