"""A recurrent layer on a processor: a thread goes through all steps of some sequences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .layer import Cell, Layer

# Multiplications of a sequence: fewer are done before other threads have woken up.
WORTH_THREADS = 1 << 13


class Thread:
    """Threads share blocks of sequences. All products of a step are added up before
    a state changes, by rows of sequences times vectors of columns in registers."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.sequences = layer.tile.sequences
        # A sequence's gates, behind the last column of each product zeros of its last part.
        self.columns = [_columns(weights) for weights in layer.weights]

    def statements(self) -> None:
        """Write all results."""
        layer, form = self.layer, self.layer.form
        tasks = layer.directions * layer.blocks
        worth = tasks > 1 and layer.steps * layer.size * layer.size >= WORTH_THREADS
        with (T.parallel if worth else T.serial)(0, tasks) as task:
            self.direction = task // layer.blocks
            self.first = layer.first_of(task % layer.blocks)
            count = self.sequences * layer.size
            self.kept = [layer.local(count) for _ in range(form.states)]
            self.reset: Any = layer.local(count) if len(form.products) > 1 else None
            self.sums = [layer.local(self.sequences * width) for width in self.columns]
            self.scratch = layer.local(form.gates * layer.tile.lanes)
            self._units(self._start)
            with T.serial(0, layer.steps) as turn:
                self._step(layer.step_at(turn, self.direction))
            self._units(self._finish)

    def _start(self, row: Any, unit: Any, _lane: Any) -> None:
        for buffer, given in zip(self.kept, self.layer.starts, strict=True):
            value = self.layer.read(given, self.direction, self.first + row, unit)
            buffer[row * self.layer.size + unit] = value

    def _step(self, step: Any) -> None:
        layer = self.layer

        def cell(row: Any, unit: Any, lane: Any) -> Cell:
            place = row * layer.size + unit
            return Cell(
                layer, step, self.first + row, self.direction, unit,
                partial(layer.input_of, step, self.first + row, self.direction, unit),
                lambda gate: self._product(gate, row, unit),
                [(buffer, place) for buffer in self.kept], (self.kept[0], place),
                self.scratch, lane,
            )  # fmt: skip

        def reset(row: Any, unit: Any, lane: Any) -> None:
            self.reset[row * layer.size + unit] = cell(row, unit, lane).reset_state()

        self._add_up(0, self.kept[0])
        if self.reset is not None:
            self._units(reset)
            self._add_up(1, self.reset)

        def update(row: Any, unit: Any, lane: Any) -> None:
            of = cell(row, unit, lane)
            of.write()
            of.write_result()

        self._units(update)

    def _finish(self, row: Any, unit: Any, _lane: Any) -> None:
        for buffer, result in zip(self.kept, self.layer.results[1:], strict=True):
            value = buffer[row * self.layer.size + unit]
            self.layer.write(result, value, self.direction, self.first + row, unit)

    def _product(self, gate: int, row: Any, unit: Any) -> Any:
        """What the state adds to a gate."""
        before = self.layer.form.products[0]
        which = int(gate >= before)
        place = (gate - which * before) * self.layer.size + unit
        return self.sums[which][row * self.columns[which] + place]

    def _units(self, body: Callable[[Any, Any, Any], None]) -> None:
        """``body`` of all sequences and all numbers of a state, by vectors, and of its lane."""
        size, lanes = self.layer.size, min(self.layer.tile.lanes, self.layer.size)
        with T.serial(0, self.sequences) as row:
            with T.serial(0, size // lanes) as vector, T.vectorized(0, lanes) as lane:
                body(row, vector * lanes + lane, lane)
            if size % lanes:
                with T.serial(0, size % lanes) as rest:
                    body(row, size // lanes * lanes + rest, 0)

    def _add_up(self, which: int, state: Any) -> None:
        """A product of all sequences of the task, a part of the columns after the other."""
        layer, tile = self.layer, self.layer.tile
        _, parts, _, _ = (int(n) for n in layer.weights[which].shape)
        down = -(-self.sequences // tile.rows)
        with T.serial(0, parts) as part, T.serial(0, down) as block:
            # The last rows begin earlier, and are the same again.
            first = tirx.min(block * tile.rows, T.int32(self.sequences - tile.rows))
            self._tile(which, part, first, state)

    def _tile(self, which: int, part: Any, first: Any, state: Any) -> None:
        layer, (rows, lanes, vectors) = self.layer, self._edges()
        weights = layer.weights[which]
        sums = [[layer.local(lanes) for _ in range(vectors)] for _ in range(rows)]
        for buffer in (buffer for row in sums for buffer in row):
            with T.vectorized(0, lanes) as lane:
                buffer[lane] = tirx.const(0.0, layer.dtype)
        with T.serial(0, layer.size) as k:
            for vector in range(vectors):
                for row in range(rows):
                    with T.vectorized(0, lanes) as lane:
                        column = vector * lanes + lane
                        weight = layer.read(weights, self.direction, part, k, column)
                        term = state[(first + row) * layer.size + k] * weight
                        sums[row][vector][lane] = sums[row][vector][lane] + term
        for row in range(rows):
            for vector in range(vectors):
                with T.vectorized(0, lanes) as lane:
                    column = part * layer.tile.width + vector * lanes + lane
                    place = (first + row) * self.columns[which] + column
                    self.sums[which][place] = sums[row][vector][lane]

    def _edges(self) -> tuple[int, int, int]:
        return self.layer.tile.rows, self.layer.tile.lanes, self.layer.tile.vectors


def _columns(weights: Any) -> int:
    """Of all parts."""
    return int(weights.shape[1]) * int(weights.shape[3])
