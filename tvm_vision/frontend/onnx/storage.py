"""How much a file's constants take, and those of float32 in the fewer bytes that hold them."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .checks import tensors_in, tensors_of

# Of fewer elements, the node that converts them takes more than it saves.
LEAST_ELEMENTS = 1024


def constant_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all constants, in branches and functions too, and those kept in other files."""
    inside = (tensors_of(function.node) for function in model.functions)
    return sum(map(_size, chain(tensors_in(model.graph), *inside)))


def _size(tensor: onnx.TensorProto) -> int:
    count = math.prod(tensor.dims)
    if tensor.data_type in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4):
        return (count + 1) // 2
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def store_as_fp16(model: onnx.ModelProto) -> None:
    """Keep those constants in float16 that lose nothing by it, and convert them where they are
    read: weights that the file had in float16 before its constants were folded."""
    graph = model.graph
    casts = []
    for tensor in graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or math.prod(tensor.dims) < LEAST_ELEMENTS:
            continue
        value = numpy_helper.to_array(tensor)
        with np.errstate(over="ignore"):
            short = value.astype(np.float16)
        if not np.array_equal(short.astype(np.float32), value, equal_nan=True):
            continue
        name, stored = tensor.name, f"{tensor.name}/float16"
        tensor.CopyFrom(numpy_helper.from_array(short, stored))
        cast = helper.make_node("Cast", [stored], [name], stored, to=onnx.TensorProto.FLOAT)
        casts.append(cast)
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
