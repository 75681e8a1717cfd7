"""Nodes that TVM imports wrongly or not at all, put as nodes that it imports rightly.

A table from operator to a small function; each takes a node and returns the nodes that replace it,
or None to leave it, or raises Unsupported for a node that would come out wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx

from ..node_names import name_after, name_nodes
from ..refusals import Refusal, RefusedNodes
from .empty import around_nothing
from .graph import (
    GraphEditor,
    Rewrite,
    Unsupported,
    attribute,
    infer_types,
    inferred,
    is_plain,
    reads,
)
from .reduced_axes import name_axes_once, over_no_axis
from .rewrites_image import IMAGE_REWRITES
from .rewrites_math import MATH_REWRITES
from .rewrites_numbers import NUMBER_REWRITES
from .rewrites_quantized import QUANTIZED_REWRITES
from .rewrites_recurrent import RECURRENT_REWRITES
from .rewrites_signal import SIGNAL_REWRITES
from .rewrites_types import TYPE_REWRITES
from .rewrites_windows import WINDOW_REWRITES
from .tools import ToolError, light_step, without_large_values

REWRITES: dict[str, Rewrite] = {
    **IMAGE_REWRITES,
    **MATH_REWRITES,
    **NUMBER_REWRITES,
    **QUANTIZED_REWRITES,
    **RECURRENT_REWRITES,
    **SIGNAL_REWRITES,
    **TYPE_REWRITES,
    **WINDOW_REWRITES,
}

# Operators whose bodies of ONNX's own definition TVM imports better than the operator: it takes
# Attention for the one of another domain.
EXPANDED = ("Attention",)
MAX_DEPTH = 4
# The domain of operators that ONNX may take in; those that have a body are nothing new.
PREVIEW = "ai.onnx.preview"


def rewrite(model: onnx.ModelProto) -> None:
    """Replace the nodes of REWRITES, in the model itself, whose weights are not copied for it, and
    put in the types of all values as far as known.

    The last of the nodes that replace a node takes its name, the others start with it. Raises
    RefusedNodes for nodes that would come out wrong.
    """
    typed = inferred(without_large_values(model))
    graph = GraphEditor(typed, weights=model)
    nodes: list[onnx.NodeProto] = []
    refusals = []
    for node in typed.graph.node:
        function = REWRITES.get(node.op_type)
        name_axes_once(node, graph)
        try:
            replaced = around_nothing(node, graph)
            if replaced is None:
                replaced = over_no_axis(node, graph)
            if replaced is None and function:
                replaced = function(node, graph)
        except Unsupported as error:
            refusals.append(Refusal(node.op_type, node.name, error.reason, error.remedy))
            replaced = None
        if replaced is None:
            nodes.append(node)
            continue
        name_after(node, replaced)
        nodes += replaced
    if refusals:
        raise RefusedNodes(refusals)
    graph.put_nodes(model, nodes, typed)
    _drop_unread(model.graph)
    infer_types(model)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Take out of a graph the weights that nothing reads any more: TVM makes tensors of all, and
    has none of some types."""
    kept = {name for node in graph.node for name in reads(node)}
    kept.update(value.name for value in [*graph.output, *graph.input])
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name not in kept:
            del graph.initializer[place]


def expand_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with ONNX's bodies in place of function operators that TVM does not have."""
    # A body may hold such operators again.
    for _ in range(MAX_DEPTH):
        before = list(model.graph.node)
        wanted = sorted({(node.domain, node.op_type) for node in before if _to_expand(node)})
        if not wanted:
            break
        typed = inferred(model)
        _complete(typed.graph)
        try:
            model = light_step("expand", typed, operators=wanted)
        except ToolError:  # a body that needs a type which is not known: refused by name later
            break
        _name_bodies(before, model.graph, wanted)
        name_nodes(model.graph)
    return model


def _name_bodies(
    before: Sequence[onnx.NodeProto], graph: onnx.GraphProto, expanded: Collection[tuple[str, str]]
) -> None:
    """Name what stands in place of a node after it: ONNX's bodies have no names.

    They stand in the order of the nodes, each to the last of what its node gives.
    """
    gone = [node for node in before if (node.domain, node.op_type) in expanded]
    kept = {node.name for node in before} - {node.name for node in gone}
    bodies: list[list[onnx.NodeProto]] = []
    missing: set[str] = set()
    for step in graph.node:
        if step.name in kept:
            continue
        if not missing and len(bodies) < len(gone):
            missing = set(filter(None, gone[len(bodies)].output))
            bodies.append([])
        bodies[-1].append(step)
        missing.difference_update(step.output)
    for node, body in zip(gone, bodies, strict=False):
        name_after(node, body)


def _to_expand(node: onnx.NodeProto) -> bool:
    if not is_plain(node.domain):
        # Operators of a domain that we let through have bodies.
        return node.domain == PREVIEW
    from tvm_vision.tvm_compat.onnx import imported_operators

    # Of these TVM returns only the first output, or takes only the last axis.
    if node.op_type == "LayerNormalization":
        return any(node.output[1:])
    if node.op_type == "RMSNormalization":
        return attribute(node, "axis", -1) != -1
    missing = node.op_type not in imported_operators() and node.op_type not in REWRITES
    if not missing and node.op_type not in EXPANDED:
        return False
    schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _complete(graph: onnx.GraphProto) -> None:
    """Add what the inliner does not find by itself: types of weights, and attributes left out."""
    known = {value.name for value in [*graph.value_info, *graph.input]}
    graph.value_info.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
        if tensor.name not in known
    )
    # An input that is left out has the empty name.
    graph.value_info.append(onnx.ValueInfoProto(name="", type=onnx.TypeProto()))
    for node in graph.node:
        if not _to_expand(node):
            continue
        given = {entry.name for entry in node.attribute}
        schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
        node.attribute.extend(
            entry.default_value
            for name, entry in schema.attributes.items()
            if name not in given and entry.default_value.type
        )
