"""Products of matrices: what is summed over has nothing in rows that are not real."""

from __future__ import annotations

import numpy as np
import onnx

from ..einsum import read_equation
from ..graph import Unsupported, attribute
from .extents import Extent
from .graph import REMEDY, BoundedGraph
from .rules import Results, Rule, given, of_equal_rows

# Where the second matrix is, and the zero points of both.
_MATRICES = {"MatMul": (1, None), "MatMulInteger": (1, (2, 3)), "QLinearMatMul": (3, (2, 5))}


def matrix_product(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """MatMul, of floats or of bytes: rows of the first, columns of the second."""
    values = graph.inputs(node)
    place = _MATRICES[node.op_type][0]
    first, second = values[0], values[place]
    if any(graph.axes(value) for at, value in enumerate(values) if value and at not in (0, place)):
        raise Unsupported("scales of rows whose number depends on the data", REMEDY)
    ranks = len(graph.shape(first)), len(graph.shape(second))
    if min(ranks) < 2:
        raise Unsupported("a vector of rows whose number depends on the data", REMEDY)
    terms = (first, ranks[0] - 1), (second, ranks[1] - 2)
    if any(axis in graph.axes(value) for value, axis in terms):
        fills = _nothing(node, graph)
        filled = [
            (value if fill is None else graph.masked(value, axis, fill), axis)
            for (value, axis), fill in zip(terms, fills, strict=True)
        ]
        (first, second), _ = of_equal_rows(graph, filled)
    rank = max(ranks)
    found: dict[int, Extent] = {}
    for value, own, kept in ((first, ranks[0], -2), (second, ranks[1], -1)):
        for axis, extent in graph.axes(value).items():
            if axis - own == kept or axis - own < -2:
                if found.setdefault(axis - own + rank, extent) != extent:
                    raise Unsupported("batches not known to be equal", REMEDY)
    values[0], values[place] = first, second
    return graph.again(node, values, found)


def _nothing(node: onnx.NodeProto, graph: BoundedGraph) -> list[int | None]:
    """What adds nothing to a sum, in the first matrix and in the second; None where that is not one
    known number. Raises Unsupported where it is in neither."""
    zeros = _MATRICES[node.op_type][1]
    if zeros is None:
        return [0, 0]
    found: list[int | None] = []
    for place in zeros:
        known = graph.constant(graph.inputs(node)[place]) if given(node, place) else np.zeros(1)
        found.append(int(known.flat[0]) if known is not None and known.size == 1 else None)
    if found == [None, None]:
        raise Unsupported("a sum over rows whose number and zero depend on the data", REMEDY)
    return found


def gemm(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Gemm whose first matrix has the rows."""
    values = graph.inputs(node)
    axis = 1 if attribute(node, "transA", 0) else 0
    others = any(graph.axes(value) for value in values[1:] if value)
    if others or set(graph.axes(values[0])) != {axis}:
        raise Unsupported("rows whose number depends on the data are not those it leaves", REMEDY)
    return graph.again(node, values, {0: graph.axes(values[0])[axis]})


def einsum(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Einsum: axes of one label have as many rows, or one for all."""
    values = graph.inputs(node)
    ranks = [len(graph.shape(value)) for value in values]
    equation = read_equation(str(attribute(node, "equation", "")), ranks)
    if equation is None:
        raise Unsupported("an axis of its equation is no other's, or twice an input's", REMEDY)
    rows: dict[int, Extent] = {}
    for label in {label for term in equation.operands for label in term}:
        at = [
            (number, term.index(label))
            for number, term in enumerate(equation.operands)
            if label in term and graph.extents(values[number])[term.index(label)] != Extent(1)
        ]
        if all(axis not in graph.axes(values[number]) for number, axis in at):
            continue
        if label not in equation.result:
            # In all of them: what is not real may be no number, whose product with 0 is none.
            for number, axis in at:
                values[number] = graph.masked(values[number], axis, 0)
        cut, extent = of_equal_rows(graph, [(values[number], axis) for number, axis in at])
        for (number, _), value in zip(at, cut, strict=True):
            values[number] = value
        if label in equation.result:
            rows[equation.result.index(label)] = extent
    return graph.again(node, values, rows)


PRODUCTS: dict[str, Rule] = {
    **dict.fromkeys(_MATRICES, matrix_product),
    "Einsum": einsum,
    "Gemm": gemm,
}
