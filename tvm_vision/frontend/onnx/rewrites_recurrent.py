"""Rewrites of LSTM, GRU and RNN, which TVM has not: to an operator of all steps, or to the steps.

Formulas and the order of gates are those of ONNX's operators LSTM-22, GRU-22 and RNN-22. What does
not depend on a state is computed for all steps at once. Few steps, and those of large states, whose
weights a whole device has to read, are written out one after the other: they are the same but for
the rows of it that they take, by indices that are data. Others are one operator
(topi/recurrence/), so that neither a compilation nor what is launched grows with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ...topi.recurrence.form import Activation, RecurrentForm
from .graph import GraphEditor, NodeBuilder, Rewrite, Unsupported, attribute, given
from .own_operators import RECURRENCE

Nodes = Sequence[onnx.NodeProto] | None

# The way through the steps of each direction.
WAYS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
# The functions of gates, by the numbers that they take, alpha, beta or both, and what these are
# where the node does not say.
ACTIVATIONS: dict[str, dict[str, float]] = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "Affine": {"alpha": 1.0, "beta": 0.0},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
    "Softsign": {},
    "Softplus": {},
}


# From so many steps on they are one operator, of states of up to so many numbers: a workgroup,
# which has them to itself, reads 4 MB of an LSTM's weights in each step then.
LEAST_STEPS, MOST_SIZE = 5, 512


@dataclass(frozen=True)
class Layer:
    """A recurrent node; states and steps have the shape (directions, batch, size)."""

    node: onnx.NodeProto
    graph: GraphEditor
    steps: NodeBuilder
    ways: tuple[int, ...]
    gates: int
    length: int
    batch: int
    size: int
    # What ONNX calls f, g and h.
    functions: tuple[Activation, ...]
    # Of each sequence, (batch,) int32; empty where all have all steps.
    lengths: str

    @property
    def dtype(self) -> np.dtype:
        """Of all values."""
        return self.graph.dtype(self.node.input[0])

    @property
    def batch_first(self) -> bool:
        """Whether inputs and outputs have the batch before steps and directions."""
        return bool(attribute(self.node, "layout", 0))

    @property
    def rows(self) -> np.ndarray:
        """(length, directions) int64: the rows of (length * directions) that each step is about."""
        count, places = len(self.ways), np.arange(self.length, dtype=np.int64)
        columns = [places[::way] * count + index for index, way in enumerate(self.ways)]
        return np.stack(columns, axis=1)

    def input(self, index: int) -> str:
        """The name of an input, empty where it is left out."""
        return given(self.node, index)

    def activate(self, which: int, value: str) -> str:
        """Add function ``which`` of f, g and h, behind the clipping that goes before each."""
        clip = attribute(self.node, "clip", 0.0)
        if clip:
            limit = np.array(clip, self.dtype)
            value = self.steps("Max", self.steps("Min", value, limit), -limit)
        return self.put(which, value)

    def put(self, which: int, value: str) -> str:
        """Add function ``which`` of f, g and h."""
        function, steps = self.functions[which], self.steps
        alpha, beta = (np.array(number, self.dtype) for number in (function.alpha, function.beta))
        if function.name == "Affine":
            return steps("Add", steps("Mul", value, alpha), beta)
        if function.name == "ScaledTanh":
            return steps("Mul", steps("Tanh", steps("Mul", value, beta)), alpha)
        numbers = {name: getattr(function, name) for name in ACTIVATIONS[function.name]}
        return steps(function.name, value, **numbers)

    def parts(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Add Slices of these sizes, one behind the other along an axis."""
        ends = np.cumsum(sizes)
        return [
            self.steps.part(value, int(end) - size, int(end), axis)
            for size, end in zip(sizes, ends, strict=True)
        ]

    def chosen(self, inside: str, new: str, old: str | np.ndarray) -> str:
        """Add a Where: what a step makes of a state, or the state itself behind a sequence's end.

        inside: of this step; empty where it is in all sequences.
        """
        return self.steps("Where", inside, new, old) if inside else new

    def each(self, value: str, count: int) -> list[str]:
        """Add Slices for ``count`` gates of one value."""
        return self.parts(value, [self.size] * count, 2)

    def state(self, index: int) -> str:
        """An initial state; zeros where it is left out."""
        name = self.input(index)
        if not name:
            zeros = np.zeros((len(self.ways), self.batch, self.size), self.dtype)
            return self.graph.make_constant(zeros, self.node.name)
        return self.steps("Transpose", name, perm=[1, 0, 2]) if self.batch_first else name

    def recurrent(self, first: int, last: int) -> str:
        """The weights of some gates, (directions, size, gates), to multiply a state with."""
        size, weight = self.size, self.input(2)
        if (first, last) != (0, self.gates):
            weight = self.steps.part(weight, first * size, last * size, 1)
        turned = self.steps("Transpose", weight, perm=[0, 2, 1])
        # Targets have better kernels for weights without a batch.
        return self.steps.axes("Squeeze", turned, [0]) if len(self.ways) == 1 else turned

    def biases(self) -> tuple[str, str]:
        """Those of the input and of the state, (directions, 1, gates * size); empty if left out."""
        if not self.input(3):
            return "", ""
        width, unsqueeze = self.gates * self.size, self.steps.axes
        of_input, of_state = self.parts(self.input(3), [width, width], 1)
        return unsqueeze("Unsqueeze", of_input, [1]), unsqueeze("Unsqueeze", of_state, [1])

    def peepholes(self) -> list[str]:
        """Weights of the cell in each gate but its own, (directions, 1, size); none if left out."""
        if not self.input(7):
            return []
        return self.each(self.steps.axes("Unsqueeze", self.input(7), [1]), 3)

    def projected(self, *biases: str) -> str:
        """The input of all steps times its weights, (length * batch, directions * gates * size)."""
        count, width, steps = len(self.ways), self.gates * self.size, self.steps
        x, features = self.input(0), self.graph.shape(self.input(0))[2]
        if self.batch_first:
            x = steps("Transpose", x, perm=[1, 0, 2])
        x = steps.reshape(x, (self.length * self.batch, features))
        weight = steps("Transpose", self.input(1), perm=[2, 0, 1])
        value = steps("MatMul", x, steps.reshape(weight, (features, count * width)))
        added = [bias for bias in biases if bias]
        if not added:
            return value
        # One constant, which the product's kernel adds.
        bias = steps("Add", *added) if len(added) > 1 else added[0]
        return steps("Add", value, steps.reshape(bias, (count * width,)))

    def by_rows(self, projected: str) -> str:
        """What is projected by the rows that steps take, (length * directions, batch, gates)."""
        count, width, steps = len(self.ways), self.gates * self.size, self.steps
        if count > 1 and self.batch > 1:
            projected = steps.reshape(projected, (self.length, self.batch, count, width))
            projected = steps("Transpose", projected, perm=[0, 2, 1, 3])
        return steps.reshape(projected, (self.length * count, self.batch, width))

    def inside(self) -> str:
        """Which steps are in a sequence, (length * directions, batch, 1); empty where all are."""
        if not self.lengths:
            return ""
        places = np.repeat(np.arange(self.length, dtype=np.int32), len(self.ways))
        lengths = self.steps.reshape(self.lengths, (1, self.batch, 1))
        return self.steps("Less", places.reshape(-1, 1, 1), lengths)

    @property
    def is_long(self) -> bool:
        """Whether all steps are one operator."""
        return self.length >= LEAST_STEPS and self.size <= MOST_SIZE

    def at_once(self, projected: str, bias: str = "", **form: Any) -> Nodes:
        """The nodes with all steps as one operator. bias: of the last gate's product, (directions,
        size); form: what RecurrentForm has beyond functions and sizes."""
        steps, operator = self.steps, self.node.op_type
        lstm = operator == "LSTM"
        what = RecurrentForm(
            operator, self.ways, self.functions, float(attribute(self.node, "clip", 0.0)),
            biased=bool(bias), peepholes=lstm and bool(self.input(7)), ended=bool(self.lengths),
            **form,
        )  # fmt: skip
        width = len(self.ways) * self.gates * self.size
        names = [steps.reshape(projected, (self.length, self.batch, width)), self.state(5)]
        names += [self.state(6)] if lstm else []
        names += [self.input(2), bias, self.input(7) if lstm else "", self.lengths]
        results = [self.graph.fresh(f"{self.node.output[0]}/{RECURRENCE}")]
        results += [f"{results[0]}/{place}" for place in range(what.states)]
        steps.nodes.append(
            onnx.helper.make_node(
                RECURRENCE, list(filter(None, names)), results, form=what.to_json()
            )
        )
        if any(self.node.output[:1]):
            # (steps, batch, directions, size), as most networks turn it back to.
            perm = [1, 0, 2, 3] if self.batch_first else [0, 2, 1, 3]
            steps.finish(steps("Transpose", results[0], perm=perm), 0)
        self.finish_states(*results[1:])
        return steps.nodes

    def finish(self, states: Sequence[str], *last: str) -> Nodes:
        """The nodes, with the states after each step and the last of each kind as results."""
        steps = self.steps
        if any(self.node.output[:1]):
            stacked = steps("Concat", *states, axis=0) if len(states) > 1 else states[0]
            order = np.argsort(self.rows.reshape(-1))
            if np.any(order != np.arange(order.size)):
                stacked = steps("Gather", stacked, order, axis=0)
            stacked = self.chosen(self.inside(), stacked, np.zeros((), self.dtype))
            shape = (self.length, len(self.ways), self.batch, self.size)
            y = steps.reshape(stacked, shape)
            steps.finish(steps("Transpose", y, perm=[2, 0, 1, 3]) if self.batch_first else y, 0)
        self.finish_states(*last)
        return steps.nodes

    def finish_states(self, *last: str) -> None:
        """Make the last of each kind of state results."""
        wanted, steps = [*self.node.output, "", ""], self.steps
        for output, state in enumerate(last, 1):
            if wanted[output]:
                turned = self.batch_first
                steps.finish(steps("Transpose", state, perm=[1, 0, 2]) if turned else state, output)


def lstm(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Gates in the order input, output, forget, cell."""
    layer = _layer(node, graph, gates=4, defaults=("Sigmoid", "Tanh", "Tanh"))
    coupled, one = bool(attribute(node, "input_forget", 0)), np.ones((), layer.dtype)
    projected = layer.projected(*layer.biases())
    if layer.is_long:
        return layer.at_once(projected, coupled=coupled)
    steps, cells = layer.steps, [layer.state(6)]
    weights, peepholes = layer.recurrent(0, 4), layer.peepholes()

    def peeped(gate: str, which: int) -> str:
        return steps("Add", gate, steps("Mul", peepholes[which], cells[-1])) if peepholes else gate

    def step(x: str, state: str, inside: str) -> str:
        gates = steps("Add", x, steps("MatMul", state, weights))
        into, out, forget, new = layer.each(gates, 4)
        into = layer.activate(0, peeped(into, 0))
        # What comes in goes out, where the two gates are coupled.
        keep = steps("Sub", one, into) if coupled else layer.activate(0, peeped(forget, 2))
        kept = steps("Mul", keep, cells[-1])
        added = steps("Mul", into, layer.activate(1, new))
        cells.append(layer.chosen(inside, steps("Add", kept, added), cells[-1]))
        # This gate sees the new cell.
        out = peeped(out, 1)
        # What goes out of the cell is not clipped.
        new_state = steps("Mul", layer.activate(0, out), layer.put(2, cells[-1]))
        return layer.chosen(inside, new_state, state)

    states = _run(layer, projected, step)
    return layer.finish(states, states[-1], cells[-1])


def gru(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Gates in the order update, reset, hidden."""
    layer = _layer(node, graph, gates=3, defaults=("Sigmoid", "Tanh"))
    reset_after = bool(attribute(node, "linear_before_reset", 0))
    steps, of_input, of_state = layer.steps, *layer.biases()
    size = layer.size
    if layer.is_long:
        return _gru_at_once(layer, of_input, of_state, reset_after)
    one = np.ones((), layer.dtype)
    whole = layer.recurrent(0, 3) if reset_after else ""
    two, third = ("", "") if reset_after else (layer.recurrent(0, 2), layer.recurrent(2, 3))

    def step(x: str, state: str, inside: str) -> str:
        if reset_after:
            h = steps("MatMul", state, whole)
            h = steps("Add", h, of_state) if of_state else h
            x_gates, x_new = layer.parts(x, [2 * size, size], 2)
            h_gates, h_new = layer.parts(h, [2 * size, size], 2)
        else:
            x_gates, x_new = layer.parts(x, [2 * size, size], 2)
            h_gates = steps("MatMul", state, two)
        update, reset = layer.each(layer.activate(0, steps("Add", x_gates, h_gates)), 2)
        if reset_after:
            h_new = steps("Mul", reset, h_new)
        else:
            h_new = steps("MatMul", steps("Mul", reset, state), third)
        new = layer.activate(1, steps("Add", x_new, h_new))
        kept = steps("Mul", update, state)
        mixed = steps("Add", steps("Mul", steps("Sub", one, update), new), kept)
        return layer.chosen(inside, mixed, state)

    projected = layer.projected(of_input, *([] if reset_after else [of_state]))
    states = _run(layer, projected, step)
    return layer.finish(states, states[-1])


def _gru_at_once(layer: Layer, of_input: str, of_state: str, reset_after: bool) -> Nodes:
    """The reset gate is multiplied with the last gate's bias of the state as well, if it is after
    the product; what else is added is added before."""
    if not (reset_after and of_state):
        return layer.at_once(layer.projected(of_input, of_state), reset_after=reset_after)
    before, size = 2 * layer.size, layer.size
    first, last = layer.parts(of_state, [before, size], 2)
    zeros = np.zeros((len(layer.ways), 1, size), layer.dtype)
    first = layer.steps("Concat", first, zeros, axis=2)
    bias = layer.steps.reshape(last, (len(layer.ways), size))
    return layer.at_once(layer.projected(of_input, first), bias, reset_after=True)


def rnn(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """One gate, and nothing but it."""
    layer = _layer(node, graph, gates=1, defaults=("Tanh",))
    projected = layer.projected(*layer.biases())
    if layer.is_long:
        return layer.at_once(projected)
    steps, weights = layer.steps, layer.recurrent(0, 1)

    def step(x: str, state: str, inside: str) -> str:
        new = layer.activate(0, steps("Add", x, steps("MatMul", state, weights)))
        return layer.chosen(inside, new, state)

    states = _run(layer, projected, step)
    return layer.finish(states, states[-1])


def _run(layer: Layer, projected: str, step: Callable[[str, str, str], str]) -> list[str]:
    """The states after each step. step: of the input's part, the state, and whether it counts."""
    states = [layer.state(5)]
    values = layer.by_rows(projected), layer.inside()
    for rows in layer.rows:
        x, inside = (
            layer.steps("Gather", value, rows, axis=0) if value else "" for value in values
        )
        states.append(step(x, states[-1], inside))
    return states[1:]


def _layer(node: onnx.NodeProto, graph: GraphEditor, gates: int, defaults: Sequence[str]) -> Layer:
    """What the three have in common. Raises Unsupported."""
    ways = WAYS.get(attribute(node, "direction", "forward"))
    if ways is None:
        raise Unsupported(
            f"the direction {attribute(node, 'direction')}", f"use one of {', '.join(WAYS)}"
        )
    shape = graph.shape(node.input[0])
    if len(shape) != 3 or 0 in shape:
        raise Unsupported(
            f"an input of shape {shape}", "give it three dimensions that have elements"
        )
    length, batch = (shape[1], shape[0]) if attribute(node, "layout", 0) else shape[:2]
    size = graph.shape(node.input[2])[2]
    functions = _functions(node, defaults, len(ways))
    lengths = given(node, 4)
    ends = graph.constant(lengths) if lengths else None
    if ends is not None and np.all(ends == length):
        lengths = ""
    steps = NodeBuilder(graph, node)
    return Layer(node, graph, steps, ways, gates, length, batch, size, functions, lengths)


def _functions(
    node: onnx.NodeProto, defaults: Sequence[str], directions: int
) -> tuple[Activation, ...]:
    """The functions f, g and h, the same for each direction."""
    # Their names may be in lower case, as onnxruntime takes them.
    known = {name.lower(): name for name in ACTIVATIONS}
    given_names = [name.decode() for name in attribute(node, "activations", ())]
    left = {name: list(attribute(node, f"activation_{name}", ())) for name in ("alpha", "beta")}
    found = []
    for given_name in given_names or [*defaults] * directions:
        name = known.get(given_name.lower())
        if name is None:
            raise Unsupported(
                f"the activation {given_name}", f"use one of {', '.join(ACTIVATIONS)}"
            )
        # The numbers that are given are those of the first functions that take some.
        numbers = {n: left[n].pop(0) if left[n] else d for n, d in ACTIVATIONS[name].items()}
        found.append(Activation(name, **numbers))
    first, count = tuple(found[: len(defaults)]), len(defaults)
    if found != [*first] * directions or len(first) != count:
        raise Unsupported(
            f"the activations {', '.join(given_names)}",
            f"give {count}, the same for each direction",
        )
    return first


RECURRENT_REWRITES: dict[str, Rewrite] = {"GRU": gru, "LSTM": lstm, "RNN": rnn}
