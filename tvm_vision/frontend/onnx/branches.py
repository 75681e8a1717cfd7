"""If nodes taken apart: the branch that a known condition chooses, or both and a choice of results.

ONNX's operators have no effects but their results, so that both branches may be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from ..node_names import name_nodes
from .graph import GraphEditor, NodeBuilder, Unsupported, attribute, inferred, inner_graphs

# The choice between two results, until it is known whether their shapes are the same.
CHOICE, OWN = "Choice", "tvm_vision"


def has_branches(model: onnx.ModelProto) -> bool:
    """Whether an If is left."""
    return any(node.op_type == "If" for node in model.graph.node)


def is_choice(node: onnx.NodeProto) -> bool:
    """Whether a node chooses one of two results by a condition."""
    return bool(node.op_type == CHOICE and node.domain == OWN)


def inline_known(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the branch in place of each If whose condition is a constant; the model itself
    where there is none. Branches within that one stay."""
    graph, nodes, changed = GraphEditor(model), [], False
    for node in model.graph.node:
        known = graph.constant(node.input[0]) if node.op_type == "If" else None
        changed |= known is not None
        nodes += [node] if known is None else _branch_taken(node, bool(known.item()), graph)
    return named_anew(graph.with_nodes(model, nodes)) if changed else model


def choose_by_data(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with both branches of each If, and a Choice for each of its results."""
    graph, nodes = GraphEditor(model), []
    for node in model.graph.node:
        nodes += _both_branches(node, graph) if node.op_type == "If" else [node]
    return named_anew(with_choices(graph.with_nodes(model, nodes)))


def with_choices(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, in place, whose nodes may be Choices."""
    if all(entry.domain != OWN for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(OWN, 1))
    return model


def choice(steps: NodeBuilder, condition: str, one: str, other: str) -> str:
    """Add a Choice by a scalar; what it gives."""
    return other if one == other else steps(CHOICE, condition, one, other, domain=OWN)


def settle_alike(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with a Where for each Choice between values of one type and fixed shape; the model
    itself where there is none."""
    if not any(map(is_choice, model.graph.node)):
        return model
    # A Choice behind others has a type once those are settled: all of a loop's steps at once.
    assumed = _settled(model, lambda _: True)
    graph = GraphEditor(assumed)
    alike: set[str] = set()
    for node in model.graph.node:
        if is_choice(node):
            if not _alike(graph, *node.input[1:]):
                break
            alike.add(node.output[0])
    if alike:
        return _settled(model, lambda node: node.output[0] in alike)
    graph = GraphEditor(model)
    alike = {n.output[0] for n in model.graph.node if is_choice(n) and _alike(graph, *n.input[1:])}
    return _settled(model, lambda node: node.output[0] in alike) if alike else model


def _settled(model: onnx.ModelProto, wanted: Callable[[onnx.NodeProto], bool]) -> onnx.ModelProto:
    """``model`` with a Where for each Choice that is wanted."""
    nodes = [
        _named("Where", node, list(node.input), node.output[0])
        if is_choice(node) and wanted(node)
        else node
        for node in model.graph.node
    ]
    return inferred(GraphEditor(model).with_nodes(model, nodes))


def _alike(graph: GraphEditor, one: str, other: str) -> bool:
    try:
        kinds = [(graph.dtype(value), graph.shape(value)) for value in (one, other)]
    except Unsupported:
        return False
    return kinds[0] == kinds[1]


def _branch_taken(node: onnx.NodeProto, then: bool, graph: GraphEditor) -> list[onnx.NodeProto]:
    branch = attribute(node, "then_branch" if then else "else_branch")
    nodes, results = inlined(branch, node.name, graph)
    pairs = zip(results, node.output, strict=True)
    return [*nodes, *(_named("Identity", node, [a], b) for a, b in pairs if b)]


def _both_branches(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto]:
    nodes, then = inlined(attribute(node, "then_branch"), f"{node.name}/then", graph)
    others, otherwise = inlined(attribute(node, "else_branch"), f"{node.name}/else", graph)
    scalar = graph.fresh(f"{node.output[0]}/condition")
    shape = graph.make_constant(np.zeros(0, np.int64), node.name)
    nodes += [*others, helper.make_node("Reshape", [node.input[0], shape], [scalar])]
    nodes[-1].name = f"{node.name}/condition"
    for a, b, result in zip(then, otherwise, node.output, strict=True):
        if result:
            nodes.append(_named(CHOICE, node, [scalar, a, b], result))
            nodes[-1].domain = OWN
    return nodes


def _named(operator: str, node: onnx.NodeProto, inputs: list[str], output: str) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=node.name)


def inlined(
    branch: onnx.GraphProto, prefix: str, graph: GraphEditor, given: Mapping[str, str] | None = None
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of a graph within a node and the names of its results, where no other value has
    their names. given: the graph's inputs -> values that stand for them."""
    own = [tensor.name for tensor in branch.initializer]
    own += [name for node in branch.node for name in node.output if name]
    names = {name: graph.fresh(f"{prefix}/{name}") for name in own} | dict(given or {})
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
    for inner in inner_graphs(copy):
        # Nothing in there has a name of the graphs around it: ONNX forbids that.
        nodes = [_renamed(step, names) for step in inner.node]
        del inner.node[:]
        inner.node.extend(nodes)
        for value in inner.output:
            value.name = names.get(value.name, value.name)
    return copy


def named_anew(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, in place, with a name for each node, and the types that follow."""
    name_nodes(model.graph)
    return inferred(model)
