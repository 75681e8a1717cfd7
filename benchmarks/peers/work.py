"""What a network has to do at least: operations, bytes, and kernels one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

FLOAT_BYTES = {"fp32": 4, "fp16": 2}


@dataclass(frozen=True)
class Work:
    """``operations``: twice the multiply-adds of convolutions and products; ``bytes``: weights,
    inputs and outputs once each, in the precision that they are kept in."""

    operations: int
    bytes: int


def model_work(model: onnx.ModelProto, precision: str = "fp32") -> Work:
    """The work of a model with all shapes known."""
    shapes = _shapes(model)
    operations = 0
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            weight, result = shapes[node.input[1]], shapes[node.output[0]]
            # Each output takes a product with all of a row (or filter) of the weights.
            row = math.prod(weight) // weight[0]
            operations += 2 * math.prod(result) * row
    weights = sum(math.prod(w.dims) for w in model.graph.initializer)
    # Images come and results go as float32 or bytes whatever the precision inside.
    ends = sum(
        math.prod(shapes[value.name]) * _item_bytes(value)
        for value in (*model.graph.input, *model.graph.output)
    )
    return Work(operations, weights * FLOAT_BYTES[precision] + ends)


def _item_bytes(value: onnx.ValueInfoProto) -> int:
    return onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    shapes = {w.name: tuple(w.dims) for w in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(dim.dim_value for dim in dims)
    return shapes


def graph_work(graph: Mapping[str, Any]) -> dict[str, int]:
    """Of the graph in mod.json: its kernels, and how many of them must run one after the other.

    Two kernels may run side by side unless one reads what the other wrote.
    """
    depth: dict[int, int] = {}
    for kernel in graph["kernels"]:
        reads = kernel["args"][: len(kernel["args"]) - kernel["num_outputs"]]
        level = 1 + max((depth.get(_place(graph, t), 0) for t in reads), default=0)
        for tensor in kernel["args"][len(reads) :]:
            depth[_place(graph, tensor)] = level
    return {"kernels": len(graph["kernels"]), "chain": max(depth.values(), default=0)}


def _place(graph: Mapping[str, Any], tensor: int) -> int:
    return graph["tensors"][tensor]["storage"]


def floor_ms(work: Work, chain: int, ceilings: Mapping[str, float], precision: str) -> float:
    """No run is faster: the slower of bytes and operations at the device's measured rates, plus
    what ``chain`` kernels cost that wait for each other, empty as they may be."""
    rate = ceilings["fp32_tflops"]
    if precision == "fp16":
        rate = max(rate, ceilings.get("fp16_tflops", 0), ceilings.get("matrix_tflops", 0))
    moving = work.bytes / (ceilings["copy_gb_s"] * 1e9)
    computing = work.operations / (rate * 1e12)
    return 1e3 * max(moving, computing) + chain * ceilings["launch_us"] / 1e3
