"""Layers on each image or sequence of a batch whose number depends on the data."""

from __future__ import annotations

import numpy as np
import onnx

from ..graph import Unsupported, attribute
from .extents import Extent
from .graph import REMEDY, BoundedGraph
from .rules import Results, Rule, fixed, given, of_equal_rows

_RESIZED = "rows whose number depends on the data are resized"
# Inputs of a recurrent layer: how many, the ends of its sequences, and its first states.
_INPUTS, _LENGTHS, _STATES = 8, 4, (5, 6)


def resize(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """Resize and Upsample that leave as many rows as there are."""
    values = graph.inputs(node)
    rows, rank = graph.axes(values[0]), len(graph.shape(values[0]))
    listed = attribute(node, "axes")
    axes = list(range(rank)) if listed is None else [int(axis) % rank for axis in listed]
    counted = [place for place, axis in enumerate(axes) if axis in rows]
    if counted and attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported(_RESIZED, REMEDY)
    if any(value and graph.axes(value) for value in values[1:]):
        raise Unsupported(_RESIZED, REMEDY)
    if counted and attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = fixed(node, graph, 1)
        if any((roi[place], roi[place + len(axes)]) != (0, 1) for place in counted):
            raise Unsupported(_RESIZED, REMEDY)
    if given(node, 3):
        values[3] = graph.constant_of(_sizes(graph, values[0], values[3], axes))
    elif counted:
        scales = attribute(node, "scales")
        if scales is None:
            scales = fixed(node, graph, 2 if node.op_type == "Resize" and graph.opset > 10 else 1)
        if any(scales[place] != 1 for place in counted):
            raise Unsupported(_RESIZED, REMEDY)
    return graph.again(node, values, rows)


def _sizes(graph: BoundedGraph, value: str, wanted: str, axes: list[int]) -> np.ndarray:
    """The sizes of the tensor that is resized to ``wanted`` along some axes."""
    numbers = graph.numbers(wanted)
    if numbers is None:
        raise Unsupported("a size is computed from the data, and no maximum is known of it", REMEDY)
    extents, shape = graph.extents(value), graph.shape(value)
    found = []
    for axis, number in zip(axes, numbers.flat, strict=True):
        if number != extents[axis] and not (number.fixed and extents[axis].fixed):
            raise Unsupported(_RESIZED, REMEDY)
        found.append(number.constant if extents[axis].fixed else shape[axis])
    return np.array(found, np.int64)


def recurrent(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """LSTM, GRU and RNN: over a batch of as many sequences as data counts, or steps of as many,
    behind which each sequence ends."""
    values = [*graph.inputs(node), *[""] * _INPUTS][:_INPUTS]
    batch_first = bool(attribute(node, "layout", 0))
    batch, steps = (0, 1) if batch_first else (1, 0)
    places = {0: batch, _LENGTHS: 0, **dict.fromkeys(_STATES, batch)}
    if any(value and graph.axes(value) for at, value in enumerate(values) if at not in places):
        raise Unsupported("weights of rows whose number depends on the data", REMEDY)
    present = [place for place in places if values[place]]
    cut, sequences = of_equal_rows(graph, [(values[at], places[at]) for at in present])
    for place, value in zip(present, cut, strict=True):
        values[place] = value
    ends = graph.axes(values[0]).get(steps)
    if values[_LENGTHS]:
        values[_LENGTHS] = graph.masked(values[_LENGTHS], 0, 1)
    elif ends is not None:
        number = np.array([graph.shape(values[0])[batch]], np.int64)
        values[_LENGTHS] = graph("Expand", graph.cast(graph.scalar(ends), np.int32), number)
    while not values[-1]:
        values.pop()
    results = list(graph.again(node, values))
    rank = 4
    for place, name in enumerate(results):
        if not name:
            continue
        of_batch = 0 if batch_first else rank - 2 - bool(place)
        rows: dict[int, Extent] = {of_batch: sequences}
        if not place and ends is not None:
            rows[1 if batch_first else 0] = ends
        graph.set_axes(name, rows)
    return results


LAYERS: dict[str, Rule] = {
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
    **dict.fromkeys(("Resize", "Upsample"), resize),
}
