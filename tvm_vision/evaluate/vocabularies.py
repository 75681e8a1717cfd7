"""What numbers an input of integers may be: of words, those of the rows of a table."""

from __future__ import annotations

from pathlib import Path

import onnx

from ..frontend.onnx.light import load_light

# What passes numbers on as they are.
_MOVES = frozenset("Cast Expand Flatten Identity Reshape Slice Squeeze Transpose Unsqueeze".split())


def vocabularies_of(model: Path) -> dict[str, int]:
    """The same of a file; none of one that is no ONNX file or cannot be read: whatever runs the
    model says so."""
    try:
        return vocabularies(load_light(model))
    except Exception:  # protobuf and the system raise every kind there is
        return {}


def vocabularies(model: onnx.ModelProto) -> dict[str, int]:
    """For each input that chooses from tables of constants, how many rows the smallest has."""
    graph = model.graph
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    shapes |= {
        node.output[0]: list(entry.t.dims)
        for node in graph.node
        if node.op_type == "Constant"
        for entry in node.attribute
        if entry.name == "value"
    }
    source = {value.name: value.name for value in graph.input}
    rows: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in _MOVES and node.input[0] in source:
            source[node.output[0]] = source[node.input[0]]
        if node.op_type != "Gather" or node.input[1] not in source:
            continue
        shape, name = shapes.get(node.input[0], []), source[node.input[1]]
        axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
        if -len(shape) <= axis < len(shape):
            rows[name] = min(shape[axis], rows.get(name, shape[axis]))
    return rows
