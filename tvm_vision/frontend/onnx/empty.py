"""Tensors without elements: what follows from them is known, and no kernel can run over nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from ..refusals import CUT
from .graph import GraphEditor, NodeBuilder, Rewrite, Unsupported, attribute

# What a reduction of no elements at all gives in onnxruntime, the mean too.
_OF_NOTHING = {
    "ReduceL1": 0.0,
    "ReduceL2": 0.0,
    "ReduceLogSum": -np.inf,
    "ReduceLogSumExp": -np.inf,
    "ReduceMax": -np.inf,
    "ReduceMean": 0.0,
    "ReduceMin": np.inf,
    "ReduceProd": 1.0,
    "ReduceSum": 0.0,
    "ReduceSumSquare": 0.0,
}
# Sums of products: of no products they are 0.
_PRODUCTS = frozenset({"Einsum", "MatMul", "MatMulInteger"})
# Whose first input may have no elements and say something by that: a shape, a list of tensors.
_MEANT = frozenset({"Concat", "ConstantOfShape", "Loop", "Scan", "If"})


def known_of_nothing(node: onnx.NodeProto, graph: GraphEditor) -> list[np.ndarray] | None:
    """The results of a node that have no elements, or come from a tensor that has none; None where
    something has to be computed, or is not known."""
    if (found := _found_in_nothing(node, graph)) is not None:
        return [found]
    names = [name for name in node.output if name]
    try:
        shapes = [graph.shape(name) for name in names]
        dtypes = [graph.dtype(name) for name in names]
    except Unsupported:
        return None
    # A range of no elements may be one whose step is 0.
    if not names or node.op_type in ("Constant", "Range"):
        return None
    if all(0 in shape for shape in shapes):
        made = iter([np.zeros(*kind) for kind in zip(shapes, dtypes, strict=True)])
        return [next(made) if name else np.zeros(0) for name in node.output]
    value = _filling(node, graph, dtypes[0])
    return None if value is None else [np.full(shapes[0], value, dtypes[0])]


def _found_in_nothing(node: onnx.NodeProto, graph: GraphEditor) -> np.ndarray | None:
    """What looks for places, and has nothing to look at."""
    if node.op_type == "NonZero" and is_empty(node.input[0], graph):
        return np.zeros((len(graph.shape(node.input[0])), 0), np.int64)
    if node.op_type == "NonMaxSuppression" and any(is_empty(n, graph) for n in node.input[:2]):
        return np.zeros((0, 3), np.int64)
    return None


def _filling(node: onnx.NodeProto, graph: GraphEditor, dtype: np.dtype) -> float | None:
    """The value of all elements of a result; None where they differ, or are not known."""
    if not any(is_empty(name, graph) for name in node.input if name):
        return None
    if node.op_type in _PRODUCTS:
        return 0.0
    if not is_empty(node.input[0], graph):
        return None
    if node.op_type == "Pad" and attribute(node, "mode", "constant") == "constant":
        given = graph.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        plain = len(node.input) < 3 or not node.input[2]
        return attribute(node, "value", 0.0) if plain else None if given is None else given.item()
    value = _OF_NOTHING.get(node.op_type)
    if value is None or np.issubdtype(dtype, np.floating) or np.isfinite(value):
        return value
    if dtype == np.bool_:
        return float(value > 0)
    limits = np.iinfo(dtype)
    return limits.max if value > 0 else limits.min


def is_empty(name: str, graph: GraphEditor) -> bool:
    """Whether a value is known to have no elements."""
    try:
        return 0 in graph.shape(name)
    except Unsupported:
        return False


def around_nothing(node: onnx.NodeProto, graph: GraphEditor) -> Sequence[onnx.NodeProto] | None:
    """What stands for a node some of whose tensors have no elements; None for any other.

    Raises Unsupported for one that would compute something of nothing in a way of its own.
    """
    if node.op_type in _AROUND:
        found = _AROUND[node.op_type](node, graph)
        if found is not None:
            return found
    first = node.input[0] if node.input else ""
    if not first or node.op_type in _MEANT or not is_empty(first, graph):
        return None
    if all(is_empty(name, graph) for name in node.output if name):
        return None
    raise Unsupported(f"its input '{first}' has no elements", CUT)


def _split(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto] | None:
    """A split into the parts that have elements, and constants in place of the others."""
    empty = [name for name in node.output if is_empty(name, graph)]
    kept = [name for name in node.output if name not in empty]
    if not empty or not kept:
        return None
    axis, dtype = attribute(node, "axis", 0), graph.dtype(node.input[0])
    sizes = [graph.shape(name)[axis] for name in kept]
    nodes = [_constant(name, np.zeros(graph.shape(name), dtype)) for name in empty]
    if len(kept) == 1:
        return [*nodes, helper.make_node("Identity", node.input[:1], kept)]
    if graph.opset < 13:
        return [*nodes, helper.make_node("Split", node.input[:1], kept, axis=axis, split=sizes)]
    given = [node.input[0], graph.make_constant(np.array(sizes, np.int64), node.name)]
    return [*nodes, helper.make_node("Split", given, kept, axis=axis)]


def _constant(name: str, value: np.ndarray) -> onnx.NodeProto:
    tensor = onnx.numpy_helper.from_array(value, name)
    return helper.make_node("Constant", [], [name], value=tensor)


def _scatter(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto] | None:
    """Nothing is written into what is given."""
    if not is_empty(node.input[1], graph):
        return None
    return [helper.make_node("Identity", node.input[:1], node.output[:])]


def _gemm(node: onnx.NodeProto, graph: GraphEditor) -> Sequence[onnx.NodeProto] | None:
    """The summand alone, of the result's shape."""
    if not is_empty(node.input[0], graph):
        return None
    steps = NodeBuilder(graph, node)
    shape, dtype = graph.shape(node.output[0]), graph.dtype(node.output[0])
    if len(node.input) < 3 or not node.input[2]:
        return [_constant(node.output[0], np.zeros(shape, dtype))]
    factor = np.array(attribute(node, "beta", 1.0), dtype)
    scaled = steps("Mul", node.input[2], factor)
    return steps.finish(steps("Expand", scaled, np.array(shape, np.int64)))


_AROUND: dict[str, Rewrite] = {
    "Gemm": _gemm,
    "Scatter": _scatter,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Split": _split,
}
