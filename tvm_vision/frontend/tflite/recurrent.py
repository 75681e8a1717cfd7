"""TFLite's recurrent operators, LSTM, RNN and SVDF, of one direction and of both: as those of ONNX,
or step by step where ONNX has no such form.

The order of inputs, and the formulas, are those of TensorFlow Lite's kernels of float32: lstm_eval,
basic_rnn, svdf. Weights of int8 are real numbers here. A sequence begins with a state of zeros each
time; the state of one step alone is an input of the network, and an output for the next frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..onnx.graph import Unsupported
from .network import EXPORT, Value
from .step import ACTIVATIONS, Converter, Step
from .values import is_rounded

# What is added to a variance before its root is taken (lstm_eval).
LEAST_VARIANCE = 1e-8
# Places of an LSTM's inputs behind the first, each for the input, forget, cell and output gate.
WEIGHTS, RECURRENT, PEEPHOLES, BIASES = 1, 5, 9, 12
PROJECTION, PROJECTION_BIAS, OUTPUT_STATE, CELL_STATE, NORMS = 16, 17, 18, 19, 20
# Of both directions: where the second begins, its states, and the second input.
BACKWARD, BOTH_STATES, SECOND_INPUT = 17, 35, 39
FIRST_AXIS = np.array([0], np.int64)
FLOAT = "convert the file without quantizing its activations"
State = tuple[Value, ...]


def _need_float(step: Step) -> None:
    if is_rounded(step.result()) or is_rounded(step.tensor(0)):
        raise Unsupported("its states are kept as integers", FLOAT)


def _turned(step: Step, place: int) -> Value:
    """Weights (rows, columns) as what a row is multiplied with."""
    return step.values.turned(step.real(place), [1, 0], step.label)


def _activated(step: Step, value: Value, number: int) -> Value:
    name = ACTIVATIONS.get(number, f"activation {number}")
    if name in ("none", "tanh"):
        return step.emit("Tanh", value) if name == "tanh" else value
    bounds = {"relu": (0.0, np.inf), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}
    if name not in bounds:
        raise Unsupported(f"its activation is {name}", "use tanh or relu")
    return step.clipped(value, *bounds[name])


@dataclass(frozen=True)
class Lstm:
    """The weights of one direction. first: how far its places are behind those of a single one."""

    step: Step
    first: int
    norms: bool

    def place(self, base: int, gate: int = 0) -> int:
        return base + gate + self.first

    def has(self, base: int, gate: int = 0) -> bool:
        return self.step.has(self.place(base, gate))

    def gates(self) -> list[tuple[int, bool]]:
        """Place of each gate's weights, and whether they are taken with the other sign: an input
        gate that is left out is 1 - σ(a) = σ(-a), a of the forget gate."""
        return [(0, False) if self.has(WEIGHTS) else (1, True), (1, False), (2, False), (3, False)]

    def joined(self, base: int) -> Value:
        """The weights of all gates side by side, to multiply a row with."""
        parts = [self.signed(_turned(self.step, self.place(base, g)), n) for g, n in self.gates()]
        return self.step.emit("Concat", *parts, axis=1)

    def signed(self, value: Value, negative: bool) -> Value:
        return self.step.emit("Neg", value) if negative else value

    def bias(self) -> Value:
        parts = [
            self.signed(self.step.real(self.place(BIASES, gate)), negative)
            for gate, negative in self.gates()
        ]
        return self.step.emit("Concat", *parts, axis=0)

    def projected(self, x: Value) -> Value:
        """What the gates are before the state is added, for rows of the input."""
        value = self.step.emit("MatMul", x, self.joined(WEIGHTS))
        return value if self.norms else self.step.emit("Add", value, self.bias())

    def units(self) -> int:
        return self.step.shape(self.place(WEIGHTS, 2))[0]

    def start(self, batch: int) -> State:
        """Output and cell of before the first step."""
        size = self.units()
        projected = self.step.shape(self.place(PROJECTION))[0] if self.has(PROJECTION) else size
        zeros = [np.zeros((batch, count), np.float32) for count in (projected, size)]
        return tuple(self.step.network.constant(array, self.step.label) for array in zeros)

    def __call__(self, row: Value, state: State, recurrent: Value) -> State:
        """Output and cell behind one step. row: what ``projected`` gave of it."""
        emit, options = self.step.emit, self.step.options
        output, cell = state
        value = emit("Add", row, emit("MatMul", output, recurrent))
        parts = self.step.emit_all("Split", value, count=4, axis=1)
        (_, negative), *_ = self.gates()
        gates = [self._peep(parts[0], 1 if negative else 0, cell, negative=negative)]
        gates += [self._peep(parts[1], 1, cell), parts[2]]
        function = options.FusedActivationFunction()
        entered, kept = (emit("Sigmoid", self._normal(g, i)) for i, g in enumerate(gates[:2]))
        new = _activated(self.step, self._normal(gates[2], 2), function)
        cell = emit("Add", emit("Mul", kept, cell), emit("Mul", entered, new))
        cell = self._limited(cell, options.CellClip())
        shown = emit("Sigmoid", self._normal(self._peep(parts[3], 2, cell), 3))
        output = emit("Mul", shown, _activated(self.step, cell, function))
        if self.has(PROJECTION):
            output = emit("MatMul", output, _turned(self.step, self.place(PROJECTION)))
            if self.has(PROJECTION_BIAS):
                output = emit("Add", output, self.step.real(self.place(PROJECTION_BIAS)))
            output = self._limited(output, options.ProjClip())
        return output, cell

    def _peep(self, value: Value, gate: int, cell: Value, negative: bool = False) -> Value:
        """With the cell added by the gate's weights for it, if there are any."""
        if not self.has(PEEPHOLES, gate):
            return value
        seen = self.step.emit("Mul", cell, self.step.real(self.place(PEEPHOLES, gate)))
        return self.step.emit("Add", value, self.signed(seen, negative))

    def _normal(self, value: Value, gate: int) -> Value:
        if not self.norms:
            return value
        emit = self.step.emit
        if gate == 0 and not self.has(WEIGHTS):
            raise Unsupported("a normalised input gate is left out", EXPORT)
        centred = emit("Sub", value, emit("ReduceMean", value, axes=[1]))
        spread = emit("ReduceMean", emit("Mul", centred, centred), axes=[1])
        root = emit("Sqrt", emit("Add", spread, np.float32(LEAST_VARIANCE)))
        scaled = emit("Mul", emit("Div", centred, root), self.step.real(self.place(NORMS, gate)))
        return emit("Add", scaled, self.step.real(self.place(BIASES, gate)))

    def _limited(self, value: Value, limit: float) -> Value:
        return self.step.clipped(value, -limit, limit) if limit > 0 else value


def _rows(step: Step, time_major: bool) -> tuple[Value, int, int]:
    """The input as (steps, batch, features), how many steps, and the batch."""
    shape = step.shape(0)
    value = step.real(0)
    if len(shape) != 3:
        raise Unsupported(f"its input has {len(shape)} axes", EXPORT)
    if not time_major:
        value = step.values.turned(value, [1, 0, 2], step.label)
        shape = (shape[1], shape[0], shape[2])
    return value, shape[0], shape[1]


def _walk(
    step: Step,
    rows: Value,
    count: int,
    state: State,
    move: Callable[[Value, State], State],
    backward: bool = False,
) -> Value:
    """The outputs of all steps, (steps, batch, units)."""
    outputs = []
    for place in range(count)[:: -1 if backward else 1]:
        row = step.emit("Gather", rows, np.array(place, np.int64), axis=0)
        state = move(row, state)
        outputs.append(step.emit("Unsqueeze", state[0], np.array([0], np.int64)))
    return step.emit("Concat", *outputs[:: -1 if backward else 1], axis=0)


def _at_once(
    step: Step, kind: str, rows: Value, size: int, backward: bool, *of: Value, **more: Any
) -> Value:
    """The outputs of all steps by an operator of ONNX. of: weights, of the state as well, biases
    and peepholes, each without the axis of directions."""
    parts: list[Value | None] = [step.emit("Unsqueeze", part, FIRST_AXIS) for part in of]
    # Between are lengths and the first states.
    parts[3:3] = [None] * 3 if len(parts) > 3 else []
    direction = "reverse" if backward else "forward"
    found = step.emit(kind, rows, *parts, hidden_size=size, direction=direction, **more)
    return step.emit("Squeeze", found, np.array([1], np.int64))


def _lstm_at_once(step: Step, weights: Lstm, rows: Value) -> Value:
    """Gates in ONNX's order: input, output, forget, cell."""
    gates = [weights.gates()[number] for number in (0, 3, 1, 2)]

    def joined(base: int, which: Sequence[tuple[int, bool]]) -> Value:
        parts = [weights.signed(step.real(weights.place(base, g)), n) for g, n in which]
        return step.emit("Concat", *parts, axis=0)

    size = weights.units()
    biases = step.emit("Concat", joined(BIASES, gates), np.zeros(4 * size, np.float32), axis=0)
    parts = [joined(WEIGHTS, gates), joined(RECURRENT, gates), biases]
    if weights.has(PEEPHOLES, 1):
        # Of the input gate, which may be the forget gate's, of the output and of the forget gate.
        parts.append(joined(PEEPHOLES, [gates[0], (2, False), (1, False)]))
    return _at_once(step, "LSTM", rows, size, bool(weights.first), *parts)


def _lstm_outputs(step: Step, weights: Lstm, rows: Value, count: int, batch: int) -> Value:
    tanh = ACTIVATIONS.get(step.options.FusedActivationFunction()) == "tanh"
    if tanh and not (weights.norms or weights.has(PROJECTION) or step.options.CellClip() > 0):
        return _lstm_at_once(step, weights, rows)
    recurrent = weights.joined(RECURRENT)
    return _walk(
        step,
        weights.projected(rows),
        count,
        weights.start(batch),
        lambda row, state: weights(row, state, recurrent),
        backward=bool(weights.first),
    )


def _give_rows(step: Step, value: Value, time_major: bool, place: int = 0) -> None:
    turned = value if time_major else step.values.turned(value, [1, 0, 2], step.label)
    step.give(turned, place=place)


def lstm(step: Step) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    _need_float(step)
    time_major = bool(step.options.TimeMajor())
    rows, count, batch = _rows(step, time_major)
    weights = Lstm(step, 0, step.has(NORMS + 1))
    _give_rows(step, _lstm_outputs(step, weights, rows, count, batch), time_major)


def lstm_of_both(step: Step) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM."""
    _need_float(step)
    if step.has(SECOND_INPUT):
        raise Unsupported("it takes a second input", EXPORT)
    time_major = bool(step.options.TimeMajor())
    rows, count, batch = _rows(step, time_major)
    found = [
        _lstm_outputs(step, Lstm(step, first, norms=False), rows, count, batch)
        for first in (0, BACKWARD)
    ]
    _give_both(step, found, time_major)


def _give_both(step: Step, found: Sequence[Value], time_major: bool) -> None:
    if step.options.MergeOutputs():
        _give_rows(step, step.emit("Concat", *found, axis=2), time_major)
        return
    for place, value in enumerate(found):
        _give_rows(step, value, time_major, place)


def single_lstm(step: Step) -> None:
    """LSTM: one step, whose states the network takes and gives."""
    _need_float(step)
    if step.options.KernelType():
        raise Unsupported("it is of the old form with five inputs", EXPORT)
    weights = Lstm(step, 0, step.has(NORMS + 1))
    states = step.values.states
    state = tuple(states.variable(step, place) for place in (OUTPUT_STATE, CELL_STATE))
    state = weights(weights.projected(step.real(0)), state, weights.joined(RECURRENT))
    for place, value in zip((OUTPUT_STATE, CELL_STATE), state, strict=True):
        states.assign_variable(step, place, value)
    step.give(state[0])


def _rnn_move(step: Step, first: int) -> tuple[Callable[[Value], Value], Callable[..., State]]:
    """What is multiplied at once, and a step: act(W x + R h + b)."""
    weights, recurrent = _turned(step, first), _turned(step, first + 1)

    def projected(x: Value) -> Value:
        return step.emit("Add", step.emit("MatMul", x, weights), step.real(first + 2))

    def move(row: Value, state: State) -> State:
        value = step.emit("Add", row, step.emit("MatMul", state[0], recurrent))
        return (_activated(step, value, step.options.FusedActivationFunction()),)

    return projected, move


def _rnn_outputs(step: Step, first: int, rows: Value, count: int, batch: int) -> Value:
    function = ACTIVATIONS.get(step.options.FusedActivationFunction(), "")
    if function in ("tanh", "relu"):
        size = step.shape(first)[0]
        parts = [step.real(first), step.real(first + 1)]
        biases = step.emit("Concat", step.real(first + 2), np.zeros(size, np.float32), axis=0)
        return _at_once(
            step, "RNN", rows, size, first > 1, *parts, biases, activations=[function.capitalize()]
        )
    projected, move = _rnn_move(step, first)
    zeros = np.zeros((batch, step.shape(first)[0]), np.float32)
    state = (step.network.constant(zeros, step.label),)
    return _walk(step, projected(rows), count, state, move, backward=first > 1)


def rnn(step: Step) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    _need_float(step)
    time_major = bool(step.options.TimeMajor())
    rows, count, batch = _rows(step, time_major)
    _give_rows(step, _rnn_outputs(step, 1, rows, count, batch), time_major)


def rnn_of_both(step: Step) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN."""
    _need_float(step)
    if step.has(9):
        raise Unsupported("it takes a second input", EXPORT)
    time_major = bool(step.options.TimeMajor())
    rows, count, batch = _rows(step, time_major)
    found = [_rnn_outputs(step, first, rows, count, batch) for first in (1, 5)]
    _give_both(step, found, time_major)


def single_rnn(step: Step) -> None:
    """RNN: one step, whose state the network takes and gives."""
    _need_float(step)
    projected, move = _rnn_move(step, 1)
    (value,) = move(projected(step.real(0)), (step.values.states.variable(step, 4),))
    step.values.states.assign_variable(step, 4, value)
    step.give(value)


def svdf(step: Step) -> None:
    """A filter over features, then one over the last frames, which the network takes and gives."""
    _need_float(step)
    options, emit = step.options, step.emit
    filters, memory = step.shape(2)
    batch, rank = step.shape(0)[0], options.Rank()
    if rank < 1 or filters % rank:
        raise Unsupported(f"{filters} filters of rank {rank}", EXPORT)
    shape = np.array([batch, filters, memory], np.int64)
    before = emit("Reshape", step.values.states.variable(step, 4), shape)
    places = np.arange(1, memory, dtype=np.int64)
    newest = emit("MatMul", step.real(0), _turned(step, 1))
    newest = emit("Unsqueeze", newest, np.array([2], np.int64))
    frames = emit("Concat", emit("Gather", before, places, axis=2), newest, axis=2)
    flat = emit("Reshape", frames, np.array([batch, filters * memory], np.int64))
    step.values.states.assign_variable(step, 4, flat)
    total = emit("ReduceSum", emit("Mul", frames, step.real(2)), np.array([2]), keepdims=0)
    ranks = np.array([batch, filters // rank, rank], np.int64)
    total = emit("ReduceSum", emit("Reshape", total, ranks), np.array([2]), keepdims=0)
    if step.has(3):
        total = emit("Add", total, step.real(3))
    step.give(_activated(step, total, options.FusedActivationFunction()))


RECURRENT_OPERATORS: dict[str, Converter] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": lstm_of_both,
    "BIDIRECTIONAL_SEQUENCE_RNN": rnn_of_both,
    "LSTM": single_lstm,
    "RNN": single_rnn,
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
}
