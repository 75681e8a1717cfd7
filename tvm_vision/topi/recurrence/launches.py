"""A recurrent layer of one sequence on a GPU: workgroups share a state, and a step is a launch."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from ..by_hand import barrier, launched
from .layer import Cell, Layer

MOST_TOGETHER = 96  # weights of a thread that are on their way together


class Launches:
    """Each slice of a workgroup's threads has all of its numbers, and adds up a part of each
    product; then the first slice does the rest of the step.

    States lie in memory between steps, the outputs of the step before and of this one beside each
    other. Vulkan promises nothing of workgroups that wait for one another, launches do.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.numbers, self.slices = layer.tile.numbers, layer.tile.slices
        self.gates = range(layer.form.gates)
        self.outputs, *self.cells = layer.between
        self.of_slice = layer.size // layer.tile.vector // self.slices
        most = max(1, MOST_TOGETHER // (len(self.gates) * layer.tile.vector))
        fitting = (n for n in range(most, 0, -1) if self.of_slice % n == 0)
        self.together = next(fitting)

    def statements(self) -> None:
        """Write all results."""
        layer, threads = self.layer, self.layer.tile.threads
        parts = -(-layer.size // self.numbers)
        launch = {"blockIdx.x": layer.directions * parts, "threadIdx.x": threads}
        with T.serial(0, layer.steps) as turn, launched(launch) as at:
            block, thread = at["blockIdx.x"], at["threadIdx.x"]
            self.turn, self.direction = turn, block // parts
            self.step = layer.step_at(turn, self.direction)
            self.thread, self.slice = thread % self.numbers, thread // self.numbers
            self.counted = block % parts * self.numbers + self.thread
            self.unit = tirx.min(self.counted, T.int32(layer.size - 1))
            self.shared = layer.local(layer.size, "shared")
            self.parts = layer.local(threads * len(self.gates), "shared")
            self.sums, self.inputs = (layer.local(len(self.gates)) for _ in range(2))
            self.kept = [layer.local(1) for _ in range(layer.form.states)]
            self.weights = layer.local(len(self.gates) * self.together * layer.tile.vector)
            self._step(thread)

    def _step(self, thread: Any) -> None:
        """What needs no state is on its way before a thread waits for the states."""
        first = self.slice * self.of_slice
        self._fetch_weights(first)
        for gate in self.gates:
            place = (self.step, 0, self.direction, self.unit)
            self.inputs[gate] = self.layer.input_of(*place, gate)
        for which, kept in enumerate(self.kept):
            kept[0] = self._before(which, self.unit)
        self._fetch_states(thread)
        for gate in self.gates:
            self.sums[gate] = tirx.const(0.0, self.layer.dtype)
        self._multiply(first)
        if self.together < self.of_slice:
            with T.serial(1, self.of_slice // self.together) as turn:
                self._fetch_weights(first + turn * self.together)
                self._multiply(first + turn * self.together)
        self._add_slices()
        with T.If(tirx.And(self.slice == 0, self.counted < self.layer.size)), T.Then():
            self._write()

    def _before(self, which: int, unit: Any) -> Any:
        """A number of a state as the step before left it."""
        at = (self.direction, 0, unit)
        between = (self.turn % 2, *at)
        left = self.cells[0][at] if which else self.outputs[between]
        given = self.layer.read(self.layer.starts[which], *at)
        return tirx.Select(self.turn == 0, given, left)

    def _fetch_states(self, thread: Any) -> None:
        """Share all outputs of the step before with the workgroup."""
        size, threads = self.layer.size, self.layer.tile.threads
        for number in range(-(-size // threads)):
            unit = number * threads + thread

            def fetch(unit: Any = unit) -> None:
                self.shared[unit] = self._before(0, unit)

            _where((number + 1) * threads > size, unit < size, fetch)
        barrier()

    def _fetch_weights(self, first: Any) -> None:
        """Those of some vectors of a state from ``first`` on, of each gate."""
        vector = self.layer.tile.vector
        vectors = self.layer.size // vector
        for block, gate in itertools.product(range(self.together), self.gates):
            with T.vectorized(0, vector) as lane:
                at = (self.direction, gate * vectors + first + block, self.unit, lane)
                weight = self.layer.read(self.layer.weights[0], *at)
                self.weights[(gate * self.together + block) * vector + lane] = weight

    def _multiply(self, first: Any) -> None:
        """Add these weights' products to the sums."""
        vector, sums = self.layer.tile.vector, self.sums
        for k, gate in itertools.product(range(self.together * vector), self.gates):
            weight = self.weights[gate * self.together * vector + k]
            sums[gate] = sums[gate] + weight * self.shared[first * vector + k]

    def _add_slices(self) -> None:
        """Make the sums of slices those of all; the slices share the gates."""
        for gate in self.gates:
            self.parts[self._part(gate, self.slice)] = self.sums[gate]
        barrier()
        for turn in range(-(-len(self.gates) // self.slices)):
            gate = turn * self.slices + self.slice

            def add(gate: Any = gate) -> None:
                terms = [self.parts[self._part(gate, of)] for of in range(self.slices)]
                self.parts[self._part(gate, 0)] = functools.reduce(operator.add, terms)

            _where((turn + 1) * self.slices > len(self.gates), gate < len(self.gates), add)
        barrier()

    def _part(self, gate: Any, of: Any) -> Any:
        return (gate * self.slices + of) * self.numbers + self.thread

    def _write(self) -> None:
        layer, at = self.layer, (self.direction, 0, self.unit)
        new, scratch = layer.local(1), layer.local(layer.form.gates)
        cell = Cell(
            layer, self.step, 0, self.direction, self.unit,
            lambda gate: self.inputs[gate], lambda gate: self.parts[self._part(gate, 0)],
            [(kept, 0) for kept in self.kept], (new, 0), scratch,
        )  # fmt: skip
        cell.write()
        cell.write_result()
        states, between = [new, *self.kept[1:]], (1 - self.turn % 2, *at)
        self.outputs[between] = new[0]
        for state, left in zip(states[1:], self.cells, strict=True):
            left[at] = state[0]
        with T.If(self.turn == layer.steps - 1), T.Then():
            for state, result in zip(states, layer.results[1:], strict=True):
                layer.write(result, state[0], *at)


def _where(needed: bool, condition: Any, write: Callable[[], None]) -> None:
    """A statement under a condition, where that is needed."""
    if needed:
        with T.If(condition), T.Then():
            write()
    else:
        write()
