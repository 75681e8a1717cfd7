"""Copies in fp16 of a network's inputs, for products that matrices then compute.

Inputs keep their type, and a product one of whose factors is float32 is computed without the
matrices of fp16 that a GPU may have. Where it is estimated to be faster with them, a copy rounds
the input: points, joint angles, descriptors, whatever is no image, which is brought into another
layout anyway. Each product has its own, as what one product alone reads becomes a part of it
(graph/fuse_data_movement.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ...schedules import TargetLimits, likeliest
from ...schedules.cost import coopmat_gemm, gemm
from ...schedules.templates import shape_of
from ...topi.copy import copy_kernel, copy_name
from ..graph.static_graph import KernelCall, StaticGraph
from ..tir.cast_buffers import FP32, narrowed

# Of the time without matrices, at most.
MARGIN = 0.8


def with_rounded_inputs(
    graph: StaticGraph, narrow: Collection[int], limits: TargetLimits
) -> tuple[StaticGraph, set[int]]:
    """The graph with copies of inputs for the products that gain by them, and the copies.

    narrow: the tensors with memory of their own that can be fp16, inputs among them.
    """
    ends = set(map(graph.root, (*graph.inputs, *graph.outputs)))
    inputs = set(map(graph.root, graph.inputs)).intersection(narrow)
    inputs = inputs.difference(map(graph.root, graph.outputs))
    result = replace(graph, tensors=list(graph.tensors), functions=dict(graph.functions))
    kernels: list[KernelCall] = []
    copies: set[int] = set()
    for kernel in graph.kernels:
        roots = graph.roots(kernel)
        half = {i for i, root in enumerate(roots) if root in narrow and root not in ends}
        for tensor in dict.fromkeys(t for t in kernel.inputs if graph.root(t) in inputs):
            more = {i for i, t in enumerate(kernel.inputs) if t == tensor}
            if not _gains(graph.functions[kernel.function], half, more, limits):
                continue
            shape = graph.tensors[tensor].shape
            name = copy_name(shape, FP32)
            result.functions.setdefault(name, copy_kernel(shape, FP32))
            copied = result.add_tensor(shape, FP32)
            copies.add(copied)
            kernels.append(KernelCall(name, [tensor], [copied], list(kernel.nodes)))
            read = [copied if t == tensor else t for t in kernel.inputs]
            kernel = replace(kernel, inputs=read)
        kernels.append(kernel)
    return replace(result, kernels=kernels), copies


def _gains(
    function: Any, half: Collection[int], more: Collection[int], limits: TargetLimits
) -> bool:
    """Whether a kernel with fp16 in its parameters ``half`` is a product that matrices compute
    sooner with fp16 in ``more`` of them, too."""
    if not limits.matrices:
        return False
    device = limits.device
    before, after = narrowed(function, half), narrowed(function, {*half, *more})
    plain, rounded = likeliest(before, limits), likeliest(after, limits)
    if plain is None or rounded is None:
        return False
    if (plain.template, rounded.template) != ("contraction", "coopmat_gemm"):
        return False
    shape, shape_rounded = shape_of(plain.template, before), shape_of(rounded.template, after)
    cycles = coopmat_gemm.cycles(rounded.parameters, shape_rounded, device)
    without = gemm.cycles(plain.parameters, shape, device)
    return not shape_rounded.windows and cycles <= MARGIN * without
