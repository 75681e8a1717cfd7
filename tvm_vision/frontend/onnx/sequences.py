"""Sequences of tensors as the tensors that are in them, where nothing but constants decides which,
and what is optional as what it is.

An output that is a sequence becomes an output for each of its tensors, by name and number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import onnx

from ...errors import UnsupportedModelError
from ..refusals import Cut, Refusal, RefusedNodes, Remedy
from .branches import is_choice, named_anew
from .graph import GraphEditor, NodeBuilder, Unsupported, attribute

MEMBER = "{}_{}"
_OPTIONAL = ("Optional", "OptionalGetElement")
# Operators whose result is the sequence that they take.
_SAME = ("Identity", *_OPTIONAL)
KNOWN = Remedy("make it a constant", Cut())


def has_sequences(model: onnx.ModelProto) -> bool:
    """Whether a node makes or takes a sequence, or what is optional."""
    return any(node.op_type in _RULES for node in model.graph.node)


def without_sequences(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, whose constants are folded, with tensors alone.

    Raises RefusedNodes where data decides which tensors are in a sequence.
    """
    walk = _Walk(model)
    nodes, refusals = [], []
    for node in model.graph.node:
        try:
            nodes += walk.written(node)
        except Unsupported as error:
            operator = "If" if is_choice(node) else node.op_type
            refusals.append(Refusal(operator, node.name, error.reason, error.remedy))
    if refusals:
        raise RefusedNodes(refusals)
    changed = walk.graph.with_nodes(model, nodes)
    del changed.graph.output[:]
    for value in model.graph.output:
        changed.graph.output.extend(walk.outputs(value, changed))
    kept = [value for value in changed.graph.value_info if value.type.HasField("tensor_type")]
    del changed.graph.value_info[:]
    changed.graph.value_info.extend(kept)
    return named_anew(changed)


def with_known_lengths(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with a constant for each SequenceLength of a sequence whose members are known: a
    loop over them counts its steps by it. The model itself where there is none."""
    walk, nodes = _Walk(model), []
    for node in model.graph.node:
        known = False
        with contextlib.suppress(Unsupported):
            walk.written(node)
            known = node.op_type == "SequenceLength"
        nodes += [] if known else [node]
    return walk.graph.with_nodes(model, nodes) if len(nodes) < len(model.graph.node) else model


class _Walk:
    """What is in each sequence, node by node."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = GraphEditor(model)
        self.members: dict[str, list[str]] = {}

    def written(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """The nodes that stand for one node. Raises Unsupported."""
        rule = _RULES.get(node.op_type)
        if node.op_type in _SAME and node.input[0] in self.members:
            self.members[node.output[0]] = self.members[node.input[0]]
            return []
        if is_choice(node) and node.input[1] in self.members:
            return self._chosen(node)
        if rule is not None:
            steps = NodeBuilder(self.graph, node)
            rule(self, node, steps)
            return steps.nodes
        if any(name in self.members for name in node.input):
            raise Unsupported("it takes a sequence", "pass tensors between operators")
        return [node]

    def _chosen(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """One of two sequences of tensors of the same types, by a condition."""
        condition, *names = node.input
        one, other = (self.members.get(name, []) for name in names)
        if len(one) != len(other) or not all(map(self._alike, one, other)):
            raise Unsupported(
                "its branches give sequences of other tensors", "let both give the same shapes"
            )
        steps = NodeBuilder(self.graph, node)
        self.members[node.output[0]] = [
            steps("Where", condition, a, b) for a, b in zip(one, other, strict=True)
        ]
        return steps.nodes

    def _alike(self, one: str, other: str) -> bool:
        kinds = [(self.graph.dtype(name), self.graph.shape(name)) for name in (one, other)]
        return kinds[0] == kinds[1]

    def all_alike(self, members: list[str]) -> bool:
        """Whether data may choose among members: these are of one type and shape."""
        try:
            return bool(members) and all(self._alike(members[0], other) for other in members)
        except Unsupported:
            return False

    def of(self, node: onnx.NodeProto) -> list[str]:
        """What is in a node's first input. Raises Unsupported."""
        if node.input[0] not in self.members:
            raise Unsupported("what is in its sequence is not known", KNOWN)
        return self.members[node.input[0]]

    def place(self, node: onnx.NodeProto, index: int, behind: int = 0) -> int:
        """A position, which negative numbers count from the end. Raises Unsupported.

        behind: how many places there are behind the last member.
        """
        count = len(self.of(node))
        if len(node.input) <= index or not node.input[index]:
            return count if behind else count - 1
        value = self.graph.constant(node.input[index])
        if value is None:
            raise Unsupported("its position depends on the data", KNOWN)
        place = int(value.item())
        if not -count <= place < count + behind:
            raise Unsupported(f"position {place} of {count}", "correct the position")
        return place + count if place < 0 else place

    def outputs(
        self, value: onnx.ValueInfoProto, changed: onnx.ModelProto
    ) -> list[onnx.ValueInfoProto]:
        """The outputs that stand for one, each the result of a node of its own."""
        if value.name not in self.members:
            return [value]
        if not self.members[value.name]:
            raise UnsupportedModelError(
                f"tensors are needed, and output '{value.name}' is a sequence of none: export the "
                "model without it"
            )
        kind = value.type.sequence_type.elem_type.tensor_type.elem_type
        found = []
        for number, member in enumerate(self.members[value.name]):
            name = self.graph.fresh(MEMBER.format(value.name, number))
            step = onnx.helper.make_node("Identity", [member], [name], name=name)
            changed.graph.node.append(step)
            found.append(onnx.helper.make_tensor_value_info(name, kind, None))
        return found


def _same(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    if not any(node.input):
        raise Unsupported("there is nothing in it", "take it out of the model")
    steps("Identity", node.input[0], to=node.output[0])


def _construct(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    walk.members[node.output[0]] = list(node.input)


def _empty(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    walk.members[node.output[0]] = []


def _insert(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    members = list(walk.of(node))
    members.insert(walk.place(node, 2, behind=1), node.input[1])
    walk.members[node.output[0]] = members


def _erase(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    place = walk.place(node, 1)
    walk.members[node.output[0]] = [m for i, m in enumerate(walk.of(node)) if i != place]


def _at(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    members = walk.of(node)
    if walk.graph.constant(node.input[1]) is not None or not walk.all_alike(members):
        steps("Identity", members[walk.place(node, 1)], to=node.output[0])
        return
    rows = [steps.axes("Unsqueeze", member, [0]) for member in members]
    place = steps.reshape(node.input[1], [])
    steps("Gather", steps("Concat", *rows, axis=0), place, to=node.output[0], axis=0)


def _length(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    walk.graph.set_constant(node.output[0], np.array(len(walk.of(node)), np.int64))


def _concat(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    axis, parts = attribute(node, "axis"), walk.of(node)
    if attribute(node, "new_axis", 0):
        parts = [steps.axes("Unsqueeze", part, [axis]) for part in parts]
    steps("Concat", *parts, to=node.output[0], axis=axis)


def _split(walk: _Walk, node: onnx.NodeProto, steps: NodeBuilder) -> None:
    shape = walk.graph.shape(node.input[0])
    axis = attribute(node, "axis", 0) % len(shape)
    size, given = shape[axis], None
    if len(node.input) > 1 and node.input[1]:
        given = walk.graph.constant(node.input[1])
        if given is None:
            raise Unsupported("its sizes depend on the data", KNOWN)
    sizes = [1] * size
    if given is not None and given.ndim:
        sizes = [int(one) for one in given]
    elif given is not None:
        whole, rest = divmod(size, int(given))
        sizes = [int(given)] * whole + [rest] * bool(rest)
    ends = np.cumsum(sizes)
    parts = [
        steps.part(node.input[0], int(end) - one, int(end), axis)
        for one, end in zip(sizes, ends, strict=True)
    ]
    of_one = given is None and not attribute(node, "keepdims", 1)
    if of_one:
        parts = [steps.axes("Squeeze", part, [axis]) for part in parts]
    dtype = walk.graph.dtype(node.input[0])
    for part, one in zip(parts, sizes, strict=True):
        own = [*shape[:axis], *([] if of_one else [one]), *shape[axis + 1 :]]
        walk.graph.set_shape(part, dtype, own)
    walk.members[node.output[0]] = parts


_RULES: dict[str, Callable[[_Walk, onnx.NodeProto, NodeBuilder], None]] = {
    **dict.fromkeys(_OPTIONAL, _same),
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
