"""Where a model can be cut in two: what depends on some nodes, and whether the rest is worth it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import onnx

from ..refusals import CUT, Refusal
from .graph import fixed_values, graph_inputs, node_called, nodes_in, reads

# A part without one of these is no network: preparing an image, or counting.
_WORK = frozenset(
    ("Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul")
)
ENGINE = "onnxruntime"


def behind(nodes: Iterable[onnx.NodeProto], names: Collection[str]) -> list[onnx.NodeProto]:
    """The nodes of these names and all that depend on them, in the order of the model."""
    made: set[str] = set()
    found = []
    for node in nodes:
        if node.name in names or not made.isdisjoint(reads(node)):
            found.append(node)
            made.update(filter(None, node.output))
    return found


def opened(model: onnx.ModelProto) -> list[Refusal]:
    """The nodes of a model of fixed inputs whose inputs have sizes that are known and whose results
    have not: it depends on the data how many there are."""
    known = {tensor.name for tensor in model.graph.initializer} | fixed_values(model.graph)
    known.update(value.name for value in graph_inputs(model))
    return [
        Refusal(node.op_type, node.name, "the size of its result depends on the data", CUT)
        for node in model.graph.node
        if known.issuperset(reads(node)) and not known.issuperset(filter(None, node.output))
    ]


def has_work(graph: onnx.GraphProto) -> bool:
    """Whether a graph has anything that is worth a package of its own."""
    return any(node.op_type in _WORK for node in nodes_in(graph))


def with_possible_cuts(
    model: onnx.ModelProto, refusals: Sequence[Refusal], *, engine: bool = True
) -> list[Refusal]:
    """``refusals`` of the nodes of a model, whose remedies say nothing of ``--cut`` where that has
    nothing to compile before them. engine: whether onnxruntime takes the model, which they then
    say."""
    known = {node.name for node in model.graph.node}
    refused = {node_called(refusal.node, known) for refusal in refusals} - {""}
    lost = {node.name for node in behind(model.graph.node, refused)}
    kept = onnx.GraphProto(node=[node for node in model.graph.node if node.name not in lost])
    if not refused or has_work(kept):
        return list(refusals)
    return [
        replace(one, remedy=one.remedy.with_engine(ENGINE) if engine else one.remedy.without_cut())
        for one in refusals
    ]
