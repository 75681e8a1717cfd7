"""The pass: each node of a model by the rule of its operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...refusals import Refusal, RefusedNodes
from ..branches import OWN, is_choice
from ..fold import RANDOM
from ..graph import Unsupported, fixed_values, readers_of
from .along import ALONG
from .choices import choice, needed_by
from .graph import REMEDY, BoundedGraph
from .integers import followed
from .layers import LAYERS
from .masks import counted_mask
from .products import PRODUCTS
from .quantized import QUANTIZED
from .rowwise import ROWWISE
from .rules import Results, Rule
from .shapes import SHAPES
from .sources import SOURCES, SUPPRESSION, rows_wanted

# Of a value that has rows whose number depends on the data.
RULES: dict[str, Rule] = {
    **ROWWISE,
    **ALONG,
    **LAYERS,
    **PRODUCTS,
    **QUANTIZED,
    **SHAPES,
    **SOURCES,
}
# These make such rows, or take integers that decide about them.
_MAKERS = {**SOURCES, **SHAPES, "Slice": ALONG["Slice"], "TopK": ALONG["TopK"]}
COUNT = "{}_count"
# What the description of an output starts with, where rows of it are real and others are not.
ROWS = "real rows"


def bounded(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with tensors of fixed size in place of those whose rows data counts.

    model: simplified, with the types of its values as far as they are known.

    An output that has such rows has as many as there can be, 0 behind the last real one, -1 for
    signed integers; another output of its name and "_count" says how many are real. The model
    itself where nothing depends on the data. Raises RefusedNodes.
    """
    if not _depends_on_data(model):
        return model
    graph = _followed(model)
    try:
        outputs = _outputs(model, graph)
    except RefusedNodes:
        if any(is_choice(node) or node.op_type in SOURCES for node in model.graph.node):
            raise
        # Sizes that ONNX cannot tell, and the importer may.
        return model
    return _written(model, graph, outputs)


def undecided(model: onnx.ModelProto) -> Sequence[Refusal]:
    """The nodes whose sizes follow from nothing that is known, where ``bounded`` has left a model
    as it is; none where all sizes follow."""
    if not _depends_on_data(model):
        return []
    try:
        _outputs(model, _followed(model))
    except RefusedNodes as error:
        return error.refusals
    return []


def _followed(model: onnx.ModelProto) -> BoundedGraph:
    graph = BoundedGraph(model)
    for node in model.graph.node:
        _write(node, graph)
    return graph


def drop_traced_shapes(model: onnx.ModelProto) -> None:
    """Take out of a model the sizes that it declares of values behind rows that data counts:
    exporters write those that they met, and what follows from them would be folded."""
    counted: set[str] = set()
    for node in model.graph.node:
        by_data = node.op_type == "If" or node.op_type in SOURCES
        if by_data or not counted.isdisjoint(node.input):
            counted.update(filter(None, node.output))
    kept = [value for value in model.graph.value_info if value.name not in counted]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    for value in model.graph.output:
        for size in value.type.tensor_type.shape.dim if value.name in counted else ():
            size.Clear()


def _depends_on_data(model: onnx.ModelProto) -> bool:
    """Whether a node's results have a size that does not follow from the inputs."""
    known = fixed_values(model.graph)
    # Older operators have results that nobody reads and ONNX does not tell the types of.
    read = {*readers_of(model.graph), *(value.name for value in model.graph.output)}
    return any(
        is_choice(node) or any(name in read and name not in known for name in node.output)
        for node in model.graph.node
    )


def _write(node: onnx.NodeProto, graph: BoundedGraph) -> None:
    """Add what a node computes, or note why it cannot be had."""
    graph.node = node
    try:
        needed = needed_by(node, graph) if is_choice(node) else graph.inputs(node)
        refused = [graph.refused[name] for name in needed if name in graph.refused]
        if refused:
            graph.refuse(node, refused[0])
            return
        results = graph.once(_key(node, graph), lambda: _results(node, graph))
    except Unsupported as error:
        operator = "If" if is_choice(node) else node.op_type
        graph.refuse(node, Refusal(operator, node.name, error.reason, error.remedy))
        return
    for value, name in zip(node.output, results, strict=False):
        graph.rename(value, name)


def _key(node: onnx.NodeProto, graph: BoundedGraph) -> Any:
    """The same for nodes that compute the same, whose rows are then known to be as many."""
    if node.op_type in RANDOM:
        return node.name
    attributes = sorted(entry.SerializeToString() for entry in node.attribute)
    left_out = tuple(bool(name) for name in node.output)
    read = rows_wanted(node, graph) if node.op_type == SUPPRESSION else None
    return node.domain, node.op_type, tuple(graph.inputs(node)), tuple(attributes), left_out, read


def _results(node: onnx.NodeProto, graph: BoundedGraph) -> Results:
    if is_choice(node):
        return choice(node, graph)
    counted = counted_mask(node, graph)
    if counted is not None:
        return [counted]
    names = [name for name in graph.inputs(node) if name]
    if any(name in graph.integers for name in names):
        result = followed(node, graph)
        if result is not None:
            return [result]
    by_rows = any(graph.axes(name) for name in names)
    rule = RULES.get(node.op_type) if by_rows else None
    maker = _MAKERS.get(node.op_type)
    if (
        rule is None
        and maker is not None
        and (node.op_type in SOURCES or any(name in graph.integers for name in names))
    ):
        rule = maker
    if rule is not None:
        return rule(node, graph)
    if by_rows:
        raise Unsupported("the number of its rows depends on the data", REMEDY)
    if graph.is_known(node):
        return graph.keep(node)
    return graph.again(node, graph.inputs(node))


def _outputs(model: onnx.ModelProto, graph: BoundedGraph) -> list[onnx.ValueInfoProto]:
    """The outputs, with a count after each that has rows which are not real."""
    refused = {
        id(found): found
        for value in model.graph.output
        if (found := graph.refused.get(graph.name(value.name))) is not None
    }
    if refused:
        raise RefusedNodes(list(refused.values()))
    outputs = []
    for value in model.graph.output:
        name = graph.tensor(graph.name(value.name))
        axes = graph.axes(name)
        suffix = COUNT if len(axes) < 2 else COUNT + "_{}"
        counts = {axis: suffix.format(value.name, axis) for axis in axes}
        padding = _padding(graph, name)
        real = " and ".join(f"the first {count} along axis {a}" for a, count in counts.items())
        outputs.append(graph.output(_filled(graph, name, padding), value.name))
        outputs[-1].doc_string = f"{ROWS}: {real}; behind them {padding}" if counts else ""
        for axis, count in counts.items():
            outputs.append(graph.output(graph.scalar(axes[axis]), count))
            outputs[-1].doc_string = f"{ROWS} of {value.name} along axis {axis}"
    return outputs


def _padding(graph: BoundedGraph, value: str) -> int:
    """What stands in rows that are not real: -1 of signed integers, which no index is, else 0."""
    return -1 if np.issubdtype(graph.dtype(value), np.signedinteger) else 0


def _filled(graph: BoundedGraph, value: str, padding: int) -> str:
    for axis in graph.axes(value):
        value = graph.masked(value, axis, padding)
    return value


def _written(
    model: onnx.ModelProto, graph: BoundedGraph, outputs: list[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """The model of the nodes that its outputs need."""
    needed = {value.name for value in outputs}
    nodes = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    written = graph.editor.with_nodes(model, nodes[::-1])
    del written.graph.output[:], written.graph.value_info[:]
    written.graph.output.extend(outputs)
    kept = [tensor for tensor in written.graph.initializer if tensor.name in needed]
    written.graph.ClearField("initializer")
    for tensor in kept:
        written.graph.initializer.add().CopyFrom(tensor)
    written.graph.value_info.extend(
        graph.described(name) for node in written.graph.node for name in node.output if name
    )
    written.opset_import.append(helper.make_opsetid(OWN, 1))
    return written
