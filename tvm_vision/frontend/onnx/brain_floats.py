"""Files that compute in bfloat16, as PyTorch exports modules of that type: in float32.

TVM has few operators for bfloat16, GPUs hardly any. float32 has all of its numbers and more digits.
"""

from __future__ import annotations

import onnx
from onnx import helper

from .graph import graph_inputs, nodes_in, put_nodes
from .storage import computed_in_float32

BFLOAT16, FLOAT = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT


def computes_in_bfloat16(model: onnx.ModelProto) -> bool:
    """Whether a model has values of bfloat16 that more than a Cast reads or writes."""
    ends = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    found = {value.name for value in ends if value.type.tensor_type.elem_type == BFLOAT16}
    found |= {tensor.name for tensor in model.graph.initializer if tensor.data_type == BFLOAT16}
    others = [node for node in nodes_in(model.graph) if node.op_type != "Cast"]
    return bool(found) and any(not found.isdisjoint((*node.input, *node.output)) for node in others)


def without_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of the same inputs and outputs, between which float32 stands for bfloat16; ``model``
    itself where it computes in no bfloat16."""
    if not computes_in_bfloat16(model):
        return model
    wide = computed_in_float32(model, BFLOAT16)
    given = {value.name for value in graph_inputs(model) if _is_narrow(value)}
    made = {value.name for value in model.graph.output if _is_narrow(value)}
    for value in (*wide.graph.input, *wide.graph.output):
        if value.name in given | made:
            value.type.tensor_type.elem_type = BFLOAT16
    names = {name: f"{name}/float32" for name in given | made}
    for node in nodes_in(wide.graph):
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in wide.graph.value_info:
        value.name = names.get(value.name, value.name)
    first = [_cast(name, names[name], FLOAT) for name in sorted(given)]
    last = [_cast(names[name], name, BFLOAT16) for name in sorted(made - given)]
    put_nodes(wide.graph, [*first, *wide.graph.node, *last])
    return wide


def _is_narrow(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == BFLOAT16)


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], f"{source}/Cast", to=to)
