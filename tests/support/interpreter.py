"""Runs a static graph the plain way: storages are tensors, kernels are called one by one."""

from __future__ import annotations

import math

import numpy as np
import tvm


def run(compiled, inputs):
    """Outputs (numpy) of a CompiledModel for ``inputs`` (numpy, in order), all storage shared as
    planned: a plan that lets live tensors overlap gives wrong numbers."""
    graph = compiled.graph
    device = tvm.device("vulkan", 0) if "gpu" in compiled.target.keys else tvm.cpu(0)
    storages = [
        tvm.runtime.empty((max(1, math.ceil(size / 4)),), "int32", device)
        for size in graph["storages"]
    ]
    tensors = [
        storages[t["storage"]]._create_view(tuple(t["shape"]), t["dtype"], t["offset"])
        for t in graph["tensors"]
    ]
    # TVM's functions refuse a tensor that begins inside its memory: they get one in its place.
    apart = {
        i: tvm.runtime.empty(tuple(t["shape"]), t["dtype"], device)
        for i, t in enumerate(graph["tensors"])
        if t["offset"]
    }
    for name, tensor in graph["params"].items():
        tensors[tensor].copyfrom(np.asarray(compiled.params[name], order="C"))
    for tensor, value in zip(graph["inputs"], inputs, strict=True):
        tensors[tensor].copyfrom(np.asarray(value, order="C"))
    for kernel in graph["kernels"]:
        for t in apart.keys() & set(kernel["args"]):
            tensors[t].copyto(apart[t])
        compiled.library.module[kernel["function"]](
            *(apart.get(t, tensors[t]) for t in kernel["args"])
        )
        for t in apart.keys() & set(kernel["args"][-kernel["num_outputs"] :]):
            apart[t].copyto(tensors[t])
    device.sync()
    return [tensors[t].numpy() for t in graph["outputs"]]
