"""Quantization of rows that data counts, by scales of all of them or of each."""

from __future__ import annotations

import onnx

from ..graph import Unsupported, attribute
from .extents import Extent
from .graph import REMEDY, BoundedGraph
from .rules import Results, Rule, given, of_equal_rows


def quantize(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """QuantizeLinear and DequantizeLinear: a scale for each row of an axis counts as often."""
    values = graph.inputs(node)
    rank = len(graph.shape(values[0]))
    axis = attribute(node, "axis", 1) % max(rank, 1)
    blocks = bool(attribute(node, "block_size", 0))
    if blocks and axis in graph.axes(values[0]):
        raise Unsupported("blocks of rows whose number depends on the data", REMEDY)
    for place in (place for place in (1, 2) if given(node, place)):
        extents = graph.extents(values[place])
        if not blocks and extents in ([], [Extent(1)]):
            continue
        pairs = [(a, a) for a in range(rank) if a != axis] if blocks else [(axis, 0)]
        for own, other in pairs:
            (values[0], values[place]), _ = of_equal_rows(
                graph, [(values[0], own), (values[place], other)]
            )
    return graph.again(node, values, graph.axes(values[0]))


def dynamic_quantize(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    """DynamicQuantizeLinear: one scale, of the real rows and of 0, which is always within it."""
    (value,) = graph.inputs(node)
    rows = graph.axes(value)
    for axis in rows:
        value = graph.masked(value, axis, 0)
    results = graph.again(node, [value])
    graph.set_axes(results[0], rows)
    return results


QUANTIZED: dict[str, Rule] = {
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), quantize),
    "DynamicQuantizeLinear": dynamic_quantize,
}
