"""How much a model's file takes, constants of float32 in the fewer bytes that hold them, and names
no longer than need be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from ...file_kinds import TFLITE, kind_of
from .checks import tensors_in, tensors_of
from .graph import inner_graphs, nodes_in, put_nodes
from .light import load_light

# Of fewer elements, the node that converts them takes more than it saves.
LEAST_ELEMENTS = 1024
# Attributes that say of which type a result is.
TYPES = ("to", "dtype", "output_dtype", "stash_type")


def file_bytes(path: Path) -> int:
    """Bytes of an ONNX or TFLite file, with those of its constants that are kept in other files."""
    size = path.stat().st_size
    if kind_of(path) is TFLITE:
        return size
    model = onnx.load(path, load_external_data=False)
    return size + sum(map(_size, _constants_elsewhere(model)))


def weight_files(path: Path) -> list[str]:
    """The files that an ONNX model keeps constants in, as it names them from its folder."""
    constants = _constants_elsewhere(load_light(path))
    entries = chain.from_iterable(tensor.external_data for tensor in constants)
    return sorted({entry.value for entry in entries if entry.key == "location"})


def _constants_elsewhere(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Those that are kept in other files."""
    inside = (tensors_of(function.node) for function in model.functions)
    return filter(uses_external_data, chain(tensors_in(model.graph), *inside))


def _size(tensor: onnx.TensorProto) -> int:
    elements = math.prod(tensor.dims)
    if tensor.data_type in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4):
        return (elements + 1) // 2
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return elements * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


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
    put_nodes(graph, [*casts, *graph.node])


def computed_in_float32(
    model: onnx.ModelProto, half: int = onnx.TensorProto.FLOAT16
) -> onnx.ModelProto:
    """A model with float32 wherever it has float16, or another such type: its inputs, constants,
    results and outputs."""
    single = onnx.TensorProto.FLOAT
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in tensors_in(wide.graph):
        if tensor.data_type == half:
            value = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    for node in nodes_in(wide.graph):
        for entry in node.attribute:
            if entry.name in TYPES and entry.i == half:
                entry.i = single
    inner = (graph for node in nodes_in(wide.graph) for graph in inner_graphs(node))
    for graph in (wide.graph, *inner):
        for value in (*graph.input, *graph.output, *graph.value_info):
            tensor_type = value.type.tensor_type
            if tensor_type.elem_type == half:
                tensor_type.elem_type = single
    return wide


def shorten_names(model: onnx.ModelProto, plain: onnx.ModelProto) -> None:
    """Number the tensors that are not in ``plain``, which a quantizer called after others, each
    several times in the file, and leave the nodes around them without a name and their shapes out:
    of a small network these can take more than its weights."""
    known = _tensor_names(plain.graph)
    nodes = {node.name for node in nodes_in(plain.graph)}
    fresh = (name for number in count() if (name := f"q{number}") not in known)
    short: dict[str, str] = {}
    for name in sorted(_tensor_names(model.graph) - known):
        short[name] = next(fresh)
    for tensor in model.graph.initializer:
        tensor.name = short.get(tensor.name, tensor.name)
    for node in nodes_in(model.graph):
        node.input[:] = [short.get(name, name) for name in node.input]
        node.output[:] = [short.get(name, name) for name in node.output]
        if node.name not in nodes:
            node.name = ""
    del model.graph.value_info[:]


def _tensor_names(graph: onnx.GraphProto) -> set[str]:
    """Of all that is in a graph and the graphs in its nodes, and "" for what is left out."""
    ends = (value.name for value in chain(graph.input, graph.output))
    used = (chain(node.input, node.output) for node in nodes_in(graph))
    return {"", *ends, *(tensor.name for tensor in graph.initializer), *chain(*used)}
