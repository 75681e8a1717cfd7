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
    weight = np.array(attribute(node, "coefficients"), np.float32)
    x = build.cast(node.input[0], np.float32)
    found = build("MatMul", x, _turned(weight, count))
    bias = np.array(attribute(node, "intercepts", []), np.float32)
    return build.finish(build("Add", found, bias) if bias.size else found)


def _binarizer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """1 where x is above the threshold, else 0."""
    build, threshold = NodeBuilder(graph, node), np.array(attribute(node, "threshold", 0.0))
    x = build.cast(node.input[0], np.float32)
    return build.finish(build.cast(build("Greater", x, threshold.astype(np.float32)), np.float32))


def _imputer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Another number in place of the one that stands for what is missing, of each column its own or
    one of all. NaN is such a number."""
    build, x = NodeBuilder(graph, node), node.input[0]
    if attribute(node, "imputed_value_int64s") is not None:
        put = np.array(attribute(node, "imputed_value_int64s"), np.int64)
        lost = np.array(attribute(node, "replaced_value_int64", 0), np.int64)
    else:
        put = np.array(attribute(node, "imputed_value_floats"), np.float32)
        lost = np.array(attribute(node, "replaced_value_float", 0.0), np.float32)
    gone = build("IsNaN", x) if lost != lost else build("Equal", x, lost)
    return build.finish(build("Where", gone, put, x))


def _columns(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The columns of these numbers, of rows or of one row, which comes out as a table."""
    build, places = NodeBuilder(graph, node), graph.constant(node.input[1])
    if places is None:
        raise Unsupported("its columns are chosen at run time", "make them a constant")
    found = build("Gather", node.input[0], places.reshape(-1).astype(np.int64), axis=-1)
    return build.finish(build("Flatten", found, axis=-1))


def _joined(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The columns of several tables side by side, as float32."""
    build = NodeBuilder(graph, node)
    rows = [build.cast(name, np.float32) for name in node.input]
    return build.finish(build("Concat", *rows, axis=1))


def _classes(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The label with the largest score, and all scores: those of a linear layer."""
    build = NodeBuilder(graph, node)
    labels = attribute(node, "classlabels_ints")
    if labels is None:
        raise Unsupported(
            "its labels are text", "let its labels be numbers (in skl2onnx, y of int)"
        )
    bias = np.array(attribute(node, "intercepts", []), np.float32)
    weight = np.array(attribute(node, "coefficients"), np.float32)
    count = bias.size or len(labels)
    found = build("MatMul", build.cast(node.input[0], np.float32), _turned(weight, count))
    found = build("Add", found, bias) if bias.size else found
    kind = attribute(node, "post_transform", "NONE")
    if count < 2 or kind not in ("NONE", "SOFTMAX", "LOGISTIC"):
        raise Unsupported(
            f"{count} scores for {len(labels)} labels, and post_transform {kind}",
            "give it a score for each label, and NONE, SOFTMAX or LOGISTIC",
        )
    places = build("ArgMax", found, axis=1, keepdims=0)
    build.finish(build("Gather", np.array(labels, np.int64), places))
    if kind == "SOFTMAX":
        return build.finish(build("Softmax", found, axis=1), 1)
    return build.finish(build("Sigmoid" if kind == "LOGISTIC" else "Identity", found), 1)


def _turned(weight: np.ndarray, rows: int) -> np.ndarray:
    return np.ascontiguousarray(weight.reshape(rows, -1).T)


TABLES: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "ArrayFeatureExtractor": _columns,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _joined,
    "Imputer": _imputer,
    "LinearClassifier": _classes,
    "LinearRegressor": _linear,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
}
