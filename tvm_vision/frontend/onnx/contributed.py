"""Operators of onnxruntime's own domain, com.microsoft, put as ONNX's."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from ..refusals import Refusal, RefusedNodes
from .graph import GraphEditor, Unsupported

DOMAIN = "com.microsoft"
# Inputs that an LSTM has as well; behind them are scale and zero point of W and of R.
SHARED = 8


def standard_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with ONNX's operators in place of those of com.microsoft that there are words for;
    the model itself where it has none of them.

    Raises RefusedNodes for a node whose weights are not constants.
    """
    if not any(map(_is_quantized_lstm, model.graph.node)):
        return model
    graph = GraphEditor(model)
    nodes, refusals = [], []
    for node in model.graph.node:
        try:
            nodes.append(_plain_lstm(node, graph) if _is_quantized_lstm(node) else node)
        except Unsupported as error:
            refusals.append(Refusal(node.op_type, node.name, error.reason, error.remedy))
    if refusals:
        raise RefusedNodes(refusals)
    return graph.with_nodes(model, nodes)


def _is_quantized_lstm(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, "DynamicQuantizeLSTM")


def _plain_lstm(node: onnx.NodeProto, graph: GraphEditor) -> onnx.NodeProto:
    """An LSTM of the same weights in float32; its inputs and states are not rounded to uint8."""
    inputs = list(node.input)
    for index, scale in ((1, SHARED), (2, SHARED + 2)):
        values = [graph.constant(name) for name in (inputs[index], *inputs[scale : scale + 2])]
        if any(value is None for value in values):
            raise Unsupported("weights, scales or zero points at run time", "make them constants")
        weight, factor, zero = (np.asarray(value) for value in values)
        # (directions, rows, gates) here, with a scale for each direction or each gate.
        factor, zero = (one.reshape(weight.shape[0], 1, -1) for one in (factor, zero))
        real = (weight.astype(np.float32) - zero.astype(np.float32)) * factor
        inputs[index] = graph.make_constant(real.transpose(0, 2, 1), inputs[index])
    plain = helper.make_node("LSTM", inputs[:SHARED], node.output, name=node.name)
    plain.attribute.extend(node.attribute)
    return plain
