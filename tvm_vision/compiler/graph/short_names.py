"""Names of functions that fit into files and shaders, and names of their tensors by position.

Long chains of fused operators are cut. What a network calls a tensor is left out of the function,
so that kernels that compute the same are the same.
"""

from __future__ import annotations

import hashlib

import tvm_ffi
from tvm import ir, tirx

from .static_graph import KernelCall, StaticGraph

MAX_NAME = 80


def short_names(graph: StaticGraph) -> StaticGraph:
    names = {name: _short(name) for name in graph.functions}
    inputs = {kernel.function: len(kernel.inputs) for kernel in graph.kernels}
    graph.functions = {
        names[name]: _by_position(func, inputs[name]) for name, func in graph.functions.items()
    }
    graph.kernels = [
        KernelCall(names[k.function], k.inputs, k.outputs, k.nodes) for k in graph.kernels
    ]
    return graph


def _short(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def _by_position(function: tirx.PrimFunc, inputs: int) -> tirx.PrimFunc:
    """The same function, its inputs named in0, in1, … and its results out0, …"""
    names = [f"in{i}" for i in range(inputs)]
    names += [f"out{i}" for i in range(len(function.params) - inputs)]
    new = {old: ir.Var(name, old.ty) for old, name in zip(function.params, names, strict=True)}
    body = tvm_ffi.structural_map(function.body, [(ir.Var, lambda var: new.get(var, var))])
    params = [new[old] for old in function.params]
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs, function.span)
