"""Names of functions that fit into files and shaders: long chains of fused operators are cut."""

from __future__ import annotations

import hashlib

from .static_graph import KernelCall, StaticGraph

MAX_NAME = 80


def short_names(graph: StaticGraph) -> StaticGraph:
    names = {name: _short(name) for name in graph.functions}
    graph.functions = {names[name]: func for name, func in graph.functions.items()}
    graph.kernels = [
        KernelCall(names[k.function], k.inputs, k.outputs, k.nodes) for k in graph.kernels
    ]
    return graph


def _short(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"
