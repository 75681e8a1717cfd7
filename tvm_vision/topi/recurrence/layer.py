"""A recurrent layer in its kernel: its sizes and buffers, and what a step makes of a number of the
state, by the formulas of ONNX's operators LSTM-22, GRU-22 and RNN-22."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from ..by_hand import local
from .form import RecurrentForm, RecurrentTile


def computed_in(dtype: str) -> str:
    """Halves are computed in float32, like everywhere."""
    return "float32" if dtype == "float16" else dtype


class Layer:
    """The sizes of a layer and the buffers of its kernel, as ``recurrence`` has them."""

    def __init__(
        self, form: RecurrentForm, tile: RecurrentTile,
        steps: int, batch: int, directions: int, size: int, inputs: list[Any], results: list[Any],
    ) -> None:  # fmt: skip
        self.form, self.tile = form, tile
        self.steps, self.batch, self.directions, self.size = steps, batch, directions, size
        left = iter(inputs)
        self.projected = next(left)
        self.starts = [next(left) for _ in range(form.states)]
        self.weights = [next(left) for _ in form.products]
        self.bias = next(left) if form.biased else None
        self.peepholes = next(left) if form.peepholes else None
        self.lengths = next(left) if form.ended else None
        self.results, self.between = results[: 1 + form.states], results[1 + form.states :]
        stored = str(self.projected.dtype)
        self.dtype = computed_in(stored)
        self.stored = stored

    @property
    def blocks(self) -> int:
        """Tasks of a direction."""
        return -(-self.batch // self.tile.sequences)

    def first_of(self, block: Any) -> Any:
        """The first sequence of a task: the last task begins earlier, and does some again."""
        if self.batch % self.tile.sequences == 0:
            return block * self.tile.sequences
        return tirx.min(block * self.tile.sequences, T.int32(self.batch - self.tile.sequences))

    def step_at(self, turn: Any, direction: Any) -> Any:
        """The step that a direction comes to."""
        if len(self.form.ways) == 1:
            return turn if self.form.ways[0] > 0 else self.steps - 1 - turn
        return turn + direction * (self.steps - 1 - 2 * turn)

    def read(self, buffer: Any, *at: Any) -> Any:
        """A number of a buffer in the type that is computed in."""
        value = buffer[at]
        return value if self.stored == self.dtype else tirx.Cast(self.dtype, value)

    def input_of(self, step: Any, sequence: Any, direction: Any, unit: Any, gate: int) -> Any:
        """What the input of a step adds to a gate of a number of the state."""
        column = (direction * self.form.gates + gate) * self.size + unit
        return self.read(self.projected, step, sequence, column)

    def write(self, buffer: Any, value: Any, *at: Any) -> None:
        """Put a number into a result."""
        buffer[at] = value if self.stored == self.dtype else tirx.Cast(self.stored, value)

    def local(self, size: int, scope: str = "local") -> Any:
        """A buffer of a task's own."""
        return local(self.dtype, size, scope)


@dataclass
class Cell:
    """What becomes of one number of the state in a step.

    Attributes:
        step, sequence, direction, unit: which.
        of_input: of a gate, what the input adds to it.
        product: of a gate, what the state adds to it.
        states: buffers of the old states, and where the number is in them.
        new: the buffer that the new output goes to, and where; cells are replaced. It may be the
            old one.
        scratch: a buffer for what is held meanwhile.
        lane: where in a vector the number is.
    """

    layer: Layer
    step: Any
    sequence: Any
    direction: Any
    unit: Any
    of_input: Callable[[int], Any]
    product: Callable[[int], Any]
    states: list[tuple[Any, Any]]
    new: tuple[Any, Any]
    scratch: Any
    lane: Any = 0
    held: int = 0

    def write(self) -> None:
        """Statements that write the new states."""
        self.held = 0
        value = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.layer.form.operator]()
        buffer, place = self.new
        buffer[place] = self._chosen(value, self._old(0))

    def write_result(self) -> None:
        """The statement that writes the result of the step, behind ``write``."""
        buffer, place = self.new
        result = self._chosen(buffer[place], tirx.const(0.0, self.layer.dtype))
        at = (self.step, self.sequence, self.direction, self.unit)
        self.layer.write(self.layer.results[0], result, *at)

    def reset_state(self) -> Any:
        """A GRU's state times its reset gate, before the last product."""
        return self._activated(0, self._gate(1)) * self._old(0)

    def _old(self, which: int) -> Any:
        buffer, place = self.states[which]
        return buffer[place]

    def _chosen(self, inside: Any, behind: Any) -> Any:
        """One value in a sequence, another behind its end."""
        if self.layer.lengths is None:
            return inside
        return tirx.Select(self.step < self.layer.lengths[self.sequence], inside, behind)

    def _gate(self, gate: int, product: Any = None) -> Any:
        return self.of_input(gate) + (self.product(gate) if product is None else product)

    def _activated(self, which: int, value: Any) -> Any:
        clip = self.layer.form.clip
        if clip:
            limit = tirx.const(clip, self.layer.dtype)
            value = tirx.max(tirx.min(value, limit), -limit)
        return self.layer.form.functions[which].of(self._held(value))

    def _held(self, value: Any) -> Any:
        """A value that is read more than once: by itself it would be computed each time, and what
        it is made of each time of those."""
        place = self.held * self.layer.tile.lanes + self.lane
        self.held += 1
        self.scratch[place] = value
        return self.scratch[place]

    def _lstm(self) -> Any:
        """Gates in the order input, output, forget, cell."""
        form = self.layer.form
        into = self._activated(0, self._peeped(0, 0))
        # What comes in goes out, where the two gates are coupled.
        if form.coupled:
            kept = tirx.const(1.0, self.layer.dtype) - into
        else:
            kept = self._activated(0, self._peeped(2, 2))
        cell = kept * self._old(1) + into * self._activated(1, self._gate(3))
        cells, place = self.states[1]
        cells[place] = self._chosen(cell, self._old(1))
        # This gate sees the new cell; what goes out of the cell is not clipped.
        out = self._activated(0, self._peeped(1, 1))
        return out * form.functions[2].of(self._old(1))

    def _peeped(self, gate: int, which: int) -> Any:
        layer, value = self.layer, self._gate(gate)
        if layer.peepholes is None:
            return value
        weight = layer.read(layer.peepholes, self.direction, which * layer.size + self.unit)
        return value + weight * self._old(1)

    def _gru(self) -> Any:
        """Gates in the order update, reset, hidden."""
        layer = self.layer
        update = self._activated(0, self._gate(0))
        product = self.product(2)
        if layer.form.reset_after:
            if layer.bias is not None:
                product = product + layer.read(layer.bias, self.direction, self.unit)
            product = self._activated(0, self._gate(1)) * product
        new = self._activated(1, self._gate(2, product))
        return (tirx.const(1.0, layer.dtype) - update) * new + update * self._old(0)

    def _rnn(self) -> Any:
        return self._activated(0, self._gate(0))
