"""If nodes taken apart: the branch that a known condition chooses, or both and a choice of results.

ONNX's operators have no effects but their results, so that both branches may be computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from ..node_names import name_nodes
from ..refusals import Refusal, RefusedNodes
from .graph import GraphEditor, Unsupported, attribute, inferred

DIFFERS = "its condition depends on the data, and its branches give {}"
REMEDY = "fix the condition, or export the model without control flow"


def without_branches(model: onnx.ModelProto, *, known_only: bool = False) -> onnx.ModelProto:
    """``model`` without If nodes; the model itself where it has none.

    known_only: leave those whose condition is not a constant.

    Raises RefusedNodes for branches whose results differ in shape or type.
    """
    waiting: dict[str, tuple[str, str, str]] = {}
    # A branch may hold branches again.
    while any(node.op_type == "If" for node in model.graph.node):
        graph = GraphEditor(model)
        if not any(_is_open(node, graph, known_only) for node in model.graph.node):
            break
        nodes: list[onnx.NodeProto] = []
        for node in model.graph.node:
            nodes.extend(_taken_apart(node, graph, waiting, known_only))
        model = _with_nodes(model, nodes, graph.new_constants)
    if waiting:
        _check_alike(model, waiting)
    return model


def _is_open(node: onnx.NodeProto, graph: GraphEditor, known_only: bool) -> bool:
    return node.op_type == "If" and (not known_only or graph.constant(node.input[0]) is not None)


def _taken_apart(
    node: onnx.NodeProto,
    graph: GraphEditor,
    waiting: dict[str, tuple[str, str, str]],
    known_only: bool,
) -> Sequence[onnx.NodeProto]:
    """The nodes that stand for a node; chosen results are noted in ``waiting``."""
    if not _is_open(node, graph, known_only):
        return [node]
    condition = graph.constant(node.input[0])
    if condition is not None:
        branch = "then_branch" if condition.item() else "else_branch"
        nodes, results = _inlined(attribute(node, branch), node.name, graph)
        pairs = zip(results, node.output, strict=True)
        return [*nodes, *(_named("Identity", node, [a], b) for a, b in pairs if b)]
    nodes, then = _inlined(attribute(node, "then_branch"), f"{node.name}/then", graph)
    others, otherwise = _inlined(attribute(node, "else_branch"), f"{node.name}/else", graph)
    scalar = graph.fresh(f"{node.output[0]}/condition")
    shape = graph.make_constant(np.zeros(0, np.int64), node.name)
    nodes = [*nodes, *others, _named("Reshape", node, [node.input[0], shape], scalar)]
    for a, b, result in zip(then, otherwise, node.output, strict=True):
        if result:
            waiting[result] = (node.name, a, b)
            nodes.append(_named("Where", node, [scalar, a, b], result))
    return nodes


def _named(operator: str, node: onnx.NodeProto, inputs: list[str], output: str) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=node.name)


def _inlined(
    branch: onnx.GraphProto, prefix: str, graph: GraphEditor
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of a branch and the names of its results, where no other value has their names."""
    own = [tensor.name for tensor in branch.initializer]
    own += [name for node in branch.node for name in node.output if name]
    names = {name: graph.fresh(f"{prefix}/{name}") for name in own}
    for tensor in branch.initializer:
        graph.set_constant(names[tensor.name], onnx.numpy_helper.to_array(tensor))
    nodes = [_renamed(node, names) for node in branch.node]
    for node in nodes:
        node.name = f"{prefix}/{node.name or node.op_type}"
    return nodes, [names.get(value.name, value.name) for value in branch.output]


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy whose values have other names, in its own branches too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for entry in copy.attribute:
        for inner in [entry.g, *entry.graphs] if entry.HasField("g") else entry.graphs:
            # Nothing in there has a name of the graphs around it: ONNX forbids that.
            nodes = [_renamed(step, names) for step in inner.node]
            del inner.node[:]
            inner.node.extend(nodes)
            for value in inner.output:
                value.name = names.get(value.name, value.name)
    return copy


def _with_nodes(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]
) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    changed.graph.initializer.extend(constants)
    name_nodes(changed.graph)
    return inferred(changed)


def _check_alike(model: onnx.ModelProto, chosen: Mapping[str, tuple[str, str, str]]) -> None:
    """Where broadcasts, and If does not."""
    graph, refusals = GraphEditor(model), []
    for name, then, otherwise in chosen.values():
        try:
            kinds = [(graph.dtype(value), graph.shape(value)) for value in (then, otherwise)]
            found = " and ".join(f"{kind}{list(shape)}" for kind, shape in kinds)
            alike = kinds[0] == kinds[1]
        except Unsupported:
            found, alike = "tensors of open shape", False
        if not alike:
            refusals.append(Refusal("If", name, DIFFERS.format(found), REMEDY))
    if refusals:
        raise RefusedNodes(refusals)
