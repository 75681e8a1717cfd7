"""Weights that a file computes of others, computed before onnxsim reads the model.

As normalized weights are (weight standardization), and turned ones. onnxsim would do it, too, but
it reads, hashes and writes all weights several times over, and only those that nothing computes
with can stay away meanwhile (``stand_ins``): of NFNet-L0, 140 MB, that is 7 s of a processor and
2 GB of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import onnx

from .fold import QUANTIZERS, RANDOM, SLOW
from .graph import opset_of, readers_of
from .known_sizes import is_computed_otherwise
from .stand_ins import MEASURES, is_large
from .tools import ToolError, bare, run

# Of weights that are computed with: with fewer onnxsim is as quick.
LEAST_BYTES = 8 << 20


def with_weights_computed(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with constants in place of what is computed of large weights and other constants
    alone; the same object where there is little of the kind.

    What ONNX's reference cannot compute stays, and so does what is larger than all that it is made
    of, as a weight that is repeated.
    """
    graph = model.graph
    given = {tensor.name: tensor for tensor in graph.initializer}
    parts = list(_parts(model, given))
    read = {name for part in parts for node in part.nodes for name in node.input if name in given}
    if sum(len(given[name].raw_data) for name in read) < LEAST_BYTES:
        return model
    made: list[onnx.TensorProto] = []
    done: set[str] = set()
    for part in parts:
        results = _computed(part, given, model)
        if results:
            made += results
            done.update(name for node in part.nodes for name in node.output if name)
    if not made:
        return model
    changed = bare(model)
    del changed.graph.node[:]
    changed.graph.node.extend(node for node in graph.node if done.isdisjoint(node.output))
    read = {name for node in changed.graph.node for name in node.input}
    read.update(value.name for value in (*graph.output, *graph.input))
    for tensor in (*graph.initializer, *made):
        if tensor.name in read:
            # ``append`` would make a message of it, which has at most 2 GB.
            changed.graph.initializer.add().CopyFrom(tensor)
    return changed


class _Part:
    """Nodes that compute with some large weights, which no others do, in order.

    Attributes:
        nodes: which compute with them, or with what these make.
        needed: which make the small constants that those take, too, in front of them.
        results: what others read of theirs.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.needed: list[onnx.NodeProto] = []
        self.results: list[str] = []


def _parts(model: onnx.ModelProto, given: Mapping[str, onnx.TensorProto]) -> Iterator[_Part]:
    """Each by itself, so that a few weights are in memory at a time. None of a model with branches
    or loops, which may read what nodes make."""
    graph, opset = model.graph, opset_of(model)
    if any(a.type == onnx.AttributeProto.GRAPH for node in graph.node for a in node.attribute):
        return
    inputs = {value.name for value in graph.input}
    outputs = {value.name for value in graph.output}
    known = {name for name in given if name not in inputs}
    # Each value that is made of large weights, to one of them; the last has itself.
    joined = {name: name for name in known if is_large(given[name])}
    makers: dict[str, onnx.NodeProto] = {}
    steps: list[onnx.NodeProto] = []

    def root(name: str) -> str:
        while joined[name] != name:
            name = joined[name]
        return name

    for node in graph.node:
        names = [name for name in node.input if name]
        fits = known.issuperset(names) and outputs.isdisjoint(node.output) and not node.domain
        if not fits or node.op_type in QUANTIZERS | RANDOM | SLOW:
            continue
        if is_computed_otherwise(node, opset):
            continue
        known.update(node.output)
        makers |= dict.fromkeys(filter(None, node.output), node)
        of = [root(name) for name in names if name in joined]
        if of and node.op_type not in MEASURES:
            steps.append(node)
            joined |= dict.fromkeys(of, of[0]) | dict.fromkeys(filter(None, node.output), of[0])
    parts: dict[str, _Part] = {}
    for node in steps:
        parts.setdefault(root(node.output[0]), _Part()).nodes.append(node)
    readers = readers_of(graph)
    for part in parts.values():
        inside = set(map(id, part.nodes))
        part.needed = _makers_of(part, makers, inside)
        part.results = [
            name
            for node in part.nodes
            for name in filter(None, node.output)
            if not inside.issuperset(map(id, readers.get(name, ())))
        ]
        yield part


def _makers_of(
    part: _Part, makers: Mapping[str, onnx.NodeProto], inside: set[int]
) -> list[onnx.NodeProto]:
    """The other nodes that a part's own need, each behind what it needs."""
    found: dict[int, onnx.NodeProto] = {}

    def add(name: str) -> None:
        node = makers.get(name)
        if node is not None and id(node) not in inside and id(node) not in found:
            for before in node.input:
                add(before)
            found[id(node)] = node

    for node in part.nodes:
        for name in node.input:
            add(name)
    return list(found.values())


def _computed(
    part: _Part, given: Mapping[str, onnx.TensorProto], model: onnx.ModelProto
) -> list[onnx.TensorProto]:
    """The results of a part; none where they cannot be computed, or take too much."""
    nodes = [*part.needed, *part.nodes]
    weights = {name: given[name] for node in nodes for name in node.input if name in given}
    graph = onnx.GraphProto(
        name="weights",
        node=nodes,
        output=[onnx.helper.make_empty_tensor_value_info(name) for name in part.results],
    )
    small = onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, graph=graph
    )
    for tensor in weights.values():
        small.graph.initializer.add().CopyFrom(tensor)
    try:
        made = list(run("evaluate", small).graph.initializer)
    except ToolError:
        return []
    before, after = (sum(map(_elements, these)) for these in (weights.values(), made))
    return made if after <= before else []


def _elements(tensor: onnx.TensorProto) -> int:
    return math.prod(tensor.dims)
