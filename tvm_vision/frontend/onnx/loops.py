"""Loop and Scan taken apart: the nodes of their bodies once for each step, where the number of the
steps is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from ..refusals import Cut, Refusal, RefusedNodes, Remedy
from .branches import choice, inlined, named_anew, with_choices
from .fold import fold
from .graph import GraphEditor, NodeBuilder, Unsupported, attribute

LOOPS = ("Loop", "Scan")
# Nodes that a loop may become; networks of more take minutes to compile.
MOST_NODES = 20_000
# Before this, Scan has a batch, and a number of steps for each of it.
SCAN_WITHOUT_BATCH = 9
BY_DATA = Remedy("make its number of steps a constant", Cut())
UNLIMITED = Remedy("give it a constant limit of steps", Cut())
TOO_LONG = Remedy("give the model shorter inputs", Cut())


def has_loops(model: onnx.ModelProto) -> bool:
    """Whether a Loop or Scan is left."""
    return any(node.op_type in LOOPS for node in model.graph.node)


def unrolled(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, whose constants are folded, with the steps of each Loop and Scan.

    Loops within these stay, and those whose number of steps may follow once the others are folded:
    layers of Keras count the steps of the layer before. Where none is left of known length, those
    which data ends have all the steps that their limit allows, and a Choice of each result: its
    new value while the loop goes on. Raises RefusedNodes where data decides how many steps there
    are, of all that are left.
    """
    for up_to_limit in (False, True):
        changed, refusals = _unrolled(model, up_to_limit)
        if len(refusals) < sum(node.op_type in LOOPS for node in model.graph.node):
            return named_anew(with_choices(changed))
    raise RefusedNodes(refusals)


def _unrolled(model: onnx.ModelProto, up_to_limit: bool) -> tuple[onnx.ModelProto, list[Refusal]]:
    """``model`` with the steps of the loops that can be taken apart, and why others cannot."""
    graph, refusals = GraphEditor(model), []
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type not in LOOPS:
            nodes.append(node)
            continue
        try:
            nodes += _Unrolling(node, graph, up_to_limit).nodes()
        except Unsupported as error:
            refusals.append(Refusal(node.op_type, node.name, error.reason, error.remedy))
            nodes.append(node)
    return graph.with_nodes(model, nodes), refusals


class _Unrolling:
    """The steps of one node."""

    def __init__(self, node: onnx.NodeProto, graph: GraphEditor, up_to_limit: bool) -> None:
        self.node, self.graph, self.up_to_limit = node, graph, up_to_limit
        self.body: onnx.GraphProto = attribute(node, "body")
        self.steps = NodeBuilder(graph, node)
        self._count = 0

    def nodes(self) -> list[onnx.NodeProto]:
        """What stands for the node."""
        if self.node.op_type == "Loop":
            results = self._loop()
        elif self.graph.opset < SCAN_WITHOUT_BATCH:
            results = self._scan_of_batch()
        else:
            count = attribute(self.node, "num_scan_inputs")
            results = self._scan(list(self.node.input), count)
        for value, name in zip(results, self.node.output, strict=True):
            if name:
                self.steps("Identity", value, to=name)
        return self.steps.nodes

    def _step(self, given: Sequence[str]) -> list[str]:
        """Add the body's nodes for these inputs; the names of its results."""
        names = {value.name: name for value, name in zip(self.body.input, given, strict=True)}
        prefix = f"{self.node.name}/{self._count}"
        self._count += 1
        nodes, results = inlined(self.body, prefix, self.graph, names)
        self.steps.nodes += [node for node in nodes if not fold(node, self.graph)]
        if len(self.steps.nodes) > MOST_NODES:
            raise Unsupported(f"its steps are more than {MOST_NODES} nodes", TOO_LONG)
        return results

    def _loop(self) -> list[str]:
        limit, goes_on, *state = [*self.node.input, ""][: max(2, len(self.node.input))]
        most = self.graph.constant(limit) if limit else np.array(MOST_NODES)
        if most is None:
            raise Unsupported("the number of its steps depends on the data", BY_DATA)
        true = self.graph.make_constant(np.array(True), self.node.name)
        goes_on = goes_on or true
        rows: list[list[str]] = [[] for _ in self.body.output[1 + len(state) :]]
        asked: list[str] = []  # of each step, whether there is one
        for step in range(int(most.item())):
            known = self.graph.constant(goes_on)
            if known is not None and not known.item():
                break
            if known is None:
                self._check_limit(int(most.item()) if limit else None)
                goes_on = self.steps.reshape(goes_on, [])
            asked.append(goes_on)
            number = self.graph.make_constant(np.array(step, np.int64), self.node.name)
            again, *results = self._step([number, true if known is None else goes_on, *state])
            if known is None:
                pairs = zip(results, state, strict=False)
                state = [choice(self.steps, goes_on, new, old) for new, old in pairs]
                goes_on = self._both(goes_on, again)
            else:
                state, goes_on = results[: len(state)], again
            for values, value in zip(rows, results[len(state) :], strict=True):
                values.append(value)
        return [*state, *(self._there(self._stacked(values), asked) for values in rows)]

    def _check_limit(self, limit: int | None) -> None:
        """Raises Unsupported where data ends the loop, and its steps cannot all be computed."""
        if limit is None or not self.up_to_limit:
            raise Unsupported("whether it goes on depends on the data", UNLIMITED)
        most = MOST_NODES // max(1, len(self.body.node))
        if limit > most:
            raise Unsupported(
                "whether it goes on depends on the data",
                Remedy(f"give it a constant limit of at most {most} steps", Cut()),
            )

    def _both(self, goes_on: str, again: str) -> str:
        """Whether a loop that goes on does so once more."""
        known = self.graph.constant(again)
        if known is not None:
            return goes_on if known.item() else again
        return self.steps("And", goes_on, self.steps.reshape(again, []))

    def _there(self, stacked: str, asked: Sequence[str]) -> str:
        """The rows of the steps that there are."""
        if all(map(self.graph.is_constant, asked)):
            return stacked
        flags = [self.steps.reshape(each, [1]) for each in asked]
        return self.steps("Compress", stacked, self.steps("Concat", *flags, axis=0), axis=0)

    def _scan(self, inputs: list[str], scanned: int) -> list[str]:
        """States and stacked results; the axes of attributes as in Scan-9."""
        state, sequences = inputs[: len(inputs) - scanned], inputs[len(inputs) - scanned :]
        axes = attribute(self.node, "scan_input_axes", [0] * scanned)
        backwards = attribute(self.node, "scan_input_directions") or [0] * scanned
        shapes = [self.graph.shape(name) for name in sequences]
        count = shapes[0][axes[0]]
        rows: list[list[str]] = [[] for _ in self.body.output[len(state) :]]
        for step in range(count):
            places = [count - 1 - step if back else step for back in backwards]
            taken = [
                self.steps("Gather", name, np.array(place, np.int64), axis=axis)
                for name, place, axis in zip(sequences, places, axes, strict=True)
            ]
            results = self._step([*state, *taken])
            state = results[: len(state)]
            for values, value in zip(rows, results[len(state) :], strict=True):
                values.append(value)
        ends = attribute(self.node, "scan_output_axes", [0] * len(rows))
        turned = attribute(self.node, "scan_output_directions") or [0] * len(rows)
        stacked = [
            self._stacked(values[::-1] if back else values, axis)
            for values, axis, back in zip(rows, ends, turned, strict=True)
        ]
        return [*state, *stacked]

    def _scan_of_batch(self) -> list[str]:
        """Scan-8: every tensor has a batch before all axes, and its first input counts steps."""
        lengths, *inputs = self.node.input
        if lengths:
            raise Unsupported("a number of steps for each of a batch", "leave it out")
        backwards = attribute(self.node, "directions")
        if backwards:
            entry = onnx.helper.make_attribute("scan_input_directions", backwards)
            self.node.attribute.append(entry)
        scanned = attribute(self.node, "num_scan_inputs")
        sizes = [self.graph.shape(name) for name in inputs[len(inputs) - scanned :]]
        results = []
        for place in range(sizes[0][0]):
            index = np.array(place, np.int64)
            parts = [self.steps("Gather", name, index, axis=0) for name in inputs]
            for part, size in zip(parts[len(inputs) - scanned :], sizes, strict=True):
                self.graph.set_shape(part, np.dtype(np.float32), size[1:])
            results.append(self._scan(parts, scanned))
        return [self._stacked(list(values)) for values in zip(*results, strict=True)]

    def _stacked(self, values: Sequence[str], axis: int = 0) -> str:
        if not values:
            raise Unsupported("it has no steps, and results of each", BY_DATA)
        parts = [self.steps.axes("Unsqueeze", value, [axis]) for value in values]
        return self.steps("Concat", *parts, axis=axis)
