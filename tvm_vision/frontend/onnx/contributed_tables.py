"""Operators of ai.onnx.ml, classical machine learning, that are arithmetic of rows, put as ONNX's.

What each computes is said by ONNX's specification of the domain; results are float32, whatever the
rows are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from .graph import GraphEditor, NodeBuilder, Unsupported, attribute

Nodes = list[onnx.NodeProto]
DOMAIN = "ai.onnx.ml"


def _scaler(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """(x - offset) · scale, of each column its own or one of all."""
    build = NodeBuilder(graph, node)
    offset, scale = (np.array(attribute(node, name), np.float32) for name in ("offset", "scale"))
    moved = build("Sub", build.cast(node.input[0], np.float32), offset)
    return build.finish(build("Mul", moved, scale))


def _normalizer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Each row by its norm; a row whose norm is 0 as it is."""
    build, kind = NodeBuilder(graph, node), attribute(node, "norm", "MAX")
    x = build.cast(node.input[0], np.float32)
    if kind == "L1":
        norm = build.axes("ReduceSum", build("Abs", x), [-1], keepdims=1)
    elif kind == "L2":
        norm = build("Sqrt", build.axes("ReduceSum", build("Mul", x, x), [-1], keepdims=1))
    elif kind == "MAX":
        norm = build.axes("ReduceMax", x, [-1], keepdims=1)
    else:
        raise Unsupported(f"its norm is {kind}", "use MAX, L1 or L2")
    nothing = build("Equal", norm, np.zeros((), np.float32))
    return build.finish(build("Div", x, build("Where", nothing, np.ones((), np.float32), norm)))


def _linear(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x · coefficientsᵀ + intercepts, a column for each target."""
    build, count = NodeBuilder(graph, node), attribute(node, "targets", 1)
    if attribute(node, "post_transform", "NONE") != "NONE":
        raise Unsupported("its results are transformed", "use no post_transform, but a node")
    weight = np.array(attribute(node, "coefficients"), np.float32).reshape(count, -1)
    x = build.cast(node.input[0], np.float32)
    found = build("MatMul", x, np.ascontiguousarray(weight.T))
    bias = np.array(attribute(node, "intercepts", []), np.float32)
    return build.finish(build("Add", found, bias) if bias.size else found)


TABLES: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "LinearRegressor": _linear,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
}
