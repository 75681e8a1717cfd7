"""Operators that leave the rows of an axis apart, those that are not real with the others."""

from __future__ import annotations

import numpy as np
import onnx

from ..graph import Unsupported, attribute
from .extents import Extent
from .graph import REMEDY, BoundedGraph
from .rules import Results, Rule, axes_of, given, of_equal_rows

_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Dropout Elu Erf "
    "Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not "
    "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu Trilu"
).split()
_BROADCAST = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Mul Or Pow PRelu Sub Sum Where Xor"
).split()
# The first axis is a batch.
_BATCHED = (
    "AveragePool BatchNormalization Conv ConvInteger ConvTranspose DeformConv DepthToSpace "
    "GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN "
    "LpPool MaxPool QLinearConv SpaceToDepth"
).split()
_REGIONS = ("MaxRoiPool", "RoiAlign")
# Inputs whose first axis is the result's, where these are not the first input alone.
_FIRST_AXES = {"DeformConv": (0, 2, 4), "MaxRoiPool": (1,), "RoiAlign": (1, 2)}
_NORMS = ("LayerNormalization", "MeanVarianceNormalization", "RMSNormalization")
_OVER_AN_AXIS = ("Hardmax", "LogSoftmax", "LpNormalization", "Softmax")


def unary(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Each element by itself or by its place; all other inputs are parameters."""
    return graph.again(node, graph.inputs(node), graph.axes(graph.inputs(node)[0]))


def broadcast(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Elements at the same places."""
    values = [graph.tensor(name) for name in graph.inputs(node)]
    values, rows = aligned(graph, values)
    return graph.again(node, values, rows)


def aligned(graph: BoundedGraph, values: list[str]) -> tuple[list[str], dict[int, Extent]]:
    """Values whose tensors broadcast, and which rows of the result are real."""
    rank = max(len(graph.shape(value)) for value in values)
    rows: dict[int, Extent] = {}
    for axis in range(rank):
        found = [
            (number, axis - rank + len(graph.shape(value)))
            for number, value in enumerate(values)
            if axis - rank + len(graph.shape(value)) >= 0
        ]
        extents = {number: graph.extents(values[number])[own] for number, own in found}
        bounded = {extent for extent in extents.values() if not extent.fixed}
        if not bounded:
            continue
        extent = _common(graph, bounded, {e for e in extents.values() if e.fixed})
        sizes = [
            graph.shape(values[number])[own] for number, own in found if extents[number] == extent
        ]
        for number, own in found:
            if extents[number] == extent:
                values[number] = graph.part(values[number], own, 0, min(sizes))
        rows[axis] = extent
    return values, rows


def _common(graph: BoundedGraph, bounded: set[Extent], fixed: set[Extent]) -> Extent:
    if len(bounded) > 1 or fixed - {Extent(1)}:
        raise Unsupported("its inputs have numbers of rows that are not known to be equal", REMEDY)
    return next(iter(bounded))


def transpose(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Axes in another order."""
    (value,) = graph.inputs(node)
    rank = len(graph.shape(value))
    order = attribute(node, "perm", list(range(rank))[::-1])
    axes = graph.axes(value)
    rows = {place: axes[axis] for place, axis in enumerate(order) if axis in axes}
    return graph.again(node, [value], rows)


def unsqueeze(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """New axes of one row."""
    value = graph.inputs(node)[0]
    wanted = axes_of(node, graph) or ()
    rank = len(graph.shape(value)) + len(wanted)
    new = {axis % rank for axis in wanted}
    kept = [axis for axis in range(rank) if axis not in new]
    rows = {kept[axis]: extent for axis, extent in graph.axes(value).items()}
    return [graph.set_axes(graph.on_axes("Unsqueeze", value, sorted(new)), rows)]


def squeeze(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Without axes of one row; of one that is to have one row, the first."""
    value = graph.inputs(node)[0]
    shape, axes = graph.shape(value), graph.axes(value)
    wanted = axes_of(node, graph)
    if not wanted:
        wanted = [a for a, size in enumerate(shape) if size == 1 and a not in axes]
    gone = {axis % len(shape) for axis in wanted}
    for axis in gone & set(axes):
        value = graph.part(value, axis, 0, 1)
    kept = [axis for axis in range(len(shape)) if axis not in gone]
    rows = {place: axes[axis] for place, axis in enumerate(kept) if axis in axes}
    return [graph.set_axes(graph.on_axes("Squeeze", value, sorted(gone)), rows)]


def batched(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """An operator on each image of a batch, or on each of some regions."""
    values = graph.inputs(node)
    places = [at for at in _FIRST_AXES.get(node.op_type, (0,)) if given(node, at)]
    for at, value in enumerate(values):
        if value and set(graph.axes(value)) - ({0} if at in places else set()):
            raise Unsupported("rows whose number depends on the data are not its batch", REMEDY)
    cut, rows = of_equal_rows(graph, [(values[at], 0) for at in places])
    for at, value in zip(places, cut, strict=True):
        values[at] = value
    return graph.again(node, values, {0: rows})


def grid_sample(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """GridSample: a result for each point; axes of the grid come behind the channels."""
    values = graph.inputs(node)
    if set(graph.axes(values[0])) - {0}:
        raise Unsupported("rows whose number depends on the data are not its points", REMEDY)
    rows = {axis + 1: extent for axis, extent in graph.axes(values[1]).items() if axis}
    values, rows[0] = of_equal_rows(graph, [(value, 0) for value in values])
    return graph.again(node, values, rows)


def one_hot(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """OneHot: a new axis."""
    values = graph.inputs(node)
    rank = len(graph.shape(values[0])) + 1
    new = attribute(node, "axis", -1) % rank
    rows = {a + (a >= new): extent for a, extent in graph.axes(values[0]).items()}
    return graph.again(node, values, rows)


def over_an_axis(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Softmax, LogSoftmax, Hardmax, LpNormalization: over an axis, or it and those behind it."""
    values = graph.inputs(node)
    shape = graph.shape(values[0])
    flat = node.op_type != "LpNormalization" and graph.opset < 13
    axis = attribute(node, "axis", 1 if flat else -1) % len(shape)
    rows = graph.axes(values[0])
    if flat and axis > 1 and axis - 1 in rows:
        raise Unsupported("rows whose number depends on the data are merged", REMEDY)
    fill = 0 if node.op_type == "LpNormalization" else -np.inf
    for place in range(axis, len(shape)) if flat else (axis,):
        values[0] = graph.masked(values[0], place, fill)
    return graph.again(node, values, rows)


def norm(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """LayerNormalization, RMSNormalization and MeanVarianceNormalization of each row."""
    values = graph.inputs(node)
    rank, rows = len(graph.shape(values[0])), graph.axes(values[0])
    over = {axis % rank for axis in attribute(node, "axes", (0, 2, 3))}
    if node.op_type != "MeanVarianceNormalization":
        over = set(range(attribute(node, "axis", -1) % rank, rank))
    if over & set(rows):
        raise Unsupported("a norm over rows whose number depends on the data", REMEDY)
    return graph.again(node, values, rows)


ROWWISE: dict[str, Rule] = {
    **dict.fromkeys(_UNARY, unary),
    **dict.fromkeys(_BROADCAST, broadcast),
    **dict.fromkeys((*_BATCHED, *_REGIONS), batched),
    **dict.fromkeys(_OVER_AN_AXIS, over_an_axis),
    **dict.fromkeys(_NORMS, norm),
    "GridSample": grid_sample,
    "OneHot": one_hot,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
