"""Kernels of more tensors than a device lets a shader see, as several of fewer; and of results
that have no elements, as kernels without them.

Fusion makes none; single operators do: a concatenation of 40 tensors, a split into 40, of which one
has all. Parts of a concatenation are joined first, and the results of a split are computed by
kernels of some each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm import s_tir, te, tirx, topi

from ..tir.cast_buffers import block_with
from ..tir.dead_block_elimination import without_dead_blocks
from ..tir.prescheduled import variables_of
from .lower import unused_name
from .static_graph import KernelCall, StaticGraph, drop_unused


def split_kernels(graph: StaticGraph, axes: Mapping[int, int], most: int) -> StaticGraph:
    """The same graph without kernels of more than ``most`` tensors, as far as that can be.

    axes: of the concatenations, by the kernels' positions. What cannot be split stays.
    """
    kernels: list[KernelCall] = []
    for position, given in enumerate(graph.kernels):
        kernel = _with_elements(graph, given)
        if kernel is None:
            continue
        if len(kernel.inputs) + len(kernel.outputs) <= most:
            kernels.append(kernel)
        elif position in axes:
            kernels += _joined_in_steps(graph, kernel, axes[position], most)
        else:
            kernels += _by_results(graph, kernel, most)
    if kernels == graph.kernels:
        return graph
    graph.kernels = kernels
    return drop_unused(graph)


def _with_elements(graph: StaticGraph, kernel: KernelCall) -> KernelCall | None:
    """The kernel for its results that have elements; None where none of them has."""
    kept = [i for i, t in enumerate(kernel.outputs) if math.prod(graph.tensors[t].shape)]
    function = graph.functions[kernel.function]
    if len(kept) == len(kernel.outputs) or not kept:
        return kernel if kept else None
    if not isinstance(function.body, s_tir.SBlockRealize):
        return kernel
    return _part(graph, kernel, kept, f"{kernel.function}_kept")


def _joined_in_steps(
    graph: StaticGraph, kernel: KernelCall, axis: int, most: int
) -> list[KernelCall]:
    """A concatenation of concatenations."""
    if most < 3:
        return [kernel]
    dtypes = {graph.tensors[t].dtype for t in kernel.inputs}
    # Parts of several types are joined in the result's.
    dtype = dtypes.pop() if len(dtypes) == 1 else graph.tensors[kernel.outputs[0]].dtype
    made: list[KernelCall] = []
    left = list(kernel.inputs)
    while len(left) + 1 > most:
        parts = [left[i : i + most - 1] for i in range(0, len(left), most - 1)]
        left = []
        for part in parts:
            if len(part) > 1:
                shape = list(graph.tensors[part[0]].shape)
                shape[axis] = sum(graph.tensors[t].shape[axis] for t in part)
                joined = graph.add_tensor(shape, dtype)
                made.append(_joining(graph, part, joined, axis, kernel.nodes))
                part = [joined]
            left += part
    return [*made, _joining(graph, left, kernel.outputs[0], axis, kernel.nodes)]


def _joining(
    graph: StaticGraph, inputs: Sequence[int], output: int, axis: int, nodes: Sequence[str]
) -> KernelCall:
    """The kernel that joins some tensors, in the type of the result."""
    dtype = graph.tensors[output].dtype
    given = [te.placeholder(t.shape, t.dtype) for t in (graph.tensors[i] for i in inputs)]
    parts = [x if x.dtype == dtype else topi.cast(x, dtype) for x in given]
    name = unused_name(f"concatenate_{len(inputs)}", graph.functions)
    graph.functions[name] = te.create_prim_func([*given, topi.concatenate(parts, axis)])
    return KernelCall(name, list(inputs), [output], list(nodes))


def _by_results(graph: StaticGraph, kernel: KernelCall, most: int) -> list[KernelCall]:
    """A kernel for some of the results each; the kernel itself where that does not help."""
    function = graph.functions[kernel.function]
    inputs, results = len(kernel.inputs), len(kernel.outputs)
    each = most - inputs
    if results < 2 or each < 1 or not isinstance(function.body, s_tir.SBlockRealize):
        return [kernel]
    made = []
    for first in range(0, results, each):
        chosen = range(first, min(first + each, results))
        made.append(_part(graph, kernel, chosen, f"{kernel.function}_{first}"))
    return made


def _part(graph: StaticGraph, kernel: KernelCall, chosen: Sequence[int], name: str) -> KernelCall:
    """A kernel for some of the results of another."""
    part, read = _computing(graph.functions[kernel.function], len(kernel.inputs), chosen)
    name = unused_name(name, graph.functions)
    graph.functions[name] = part
    inputs = [kernel.inputs[i] for i in read]
    return KernelCall(name, inputs, [kernel.outputs[i] for i in chosen], list(kernel.nodes))


def _computing(
    function: tirx.PrimFunc, inputs: int, chosen: Sequence[int]
) -> tuple[tirx.PrimFunc, list[int]]:
    """A function with some of its results alone, and the places of the inputs that it keeps."""
    results = list(function.params[inputs:])
    kept = [results[i] for i in chosen]
    root = function.body.block
    own = [*root.alloc_buffers, *(r for r in results if not any(r.same_as(k) for k in kept))]
    body = s_tir.SBlockRealize(
        function.body.iter_values,
        function.body.predicate,
        block_with(root, body=root.body, alloc_buffers=own),
    )
    params = [*function.params[:inputs], *kept]
    part = without_dead_blocks(
        tirx.PrimFunc(params, body, function.ret_type, function.attrs, function.span)
    )
    used = variables_of(part.body)
    read = [i for i in range(inputs) if part.params[i] in used]
    params = [*(part.params[i] for i in read), *kept]
    return tirx.PrimFunc(params, part.body, part.ret_type, part.attrs, part.span), read
