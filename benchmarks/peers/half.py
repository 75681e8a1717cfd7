"""An ONNX model with its weights and activations as fp16; inputs and outputs keep their types.

For engines that take a model in the precision that it is written in.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Their second and third inputs are sizes and scales, float32 by the standard.
FLOAT_SIZES = {"Resize"}


def to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` between two casts."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    graph = half.graph
    kept = {
        name
        for node in graph.node
        if node.op_type in FLOAT_SIZES
        for name in node.input[1:]
        if name
    }
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT and weight.name not in kept:
            array = numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    floats = _floats(graph.output)
    inputs = {name: f"{name}_half" for name in _floats(graph.input)}
    nodes = [
        helper.make_node("Cast", [name], [renamed], to=TensorProto.FLOAT16)
        for name, renamed in inputs.items()
    ]
    outputs = {name: f"{name}_half" for name in floats}
    renamed = {**inputs, **outputs}
    for node in graph.node:
        if node.op_type == "Constant" and not kept.intersection(node.output):
            for attribute in node.attribute:
                if attribute.t.data_type == TensorProto.FLOAT:
                    values = numpy_helper.to_array(attribute.t).astype(np.float16)
                    attribute.t.CopyFrom(numpy_helper.from_array(values))
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [outputs.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
        nodes.append(node)
    nodes += [
        helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT)
        for name in sorted(floats)
    ]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return onnx.shape_inference.infer_shapes(half, strict_mode=True)


def _floats(values: Iterable[onnx.ValueInfoProto]) -> set[str]:
    return {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}
