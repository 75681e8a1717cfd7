"""A recurrent layer on a GPU: a workgroup goes through all steps of some sequences."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from ..by_hand import barrier, launched
from .layer import Cell, Layer

# On a loop: it stays one. Written out, its weights, the same in each step, are fetched once before
# all steps, into registers, where there are as many.
KEEP_LOOP = "keep_loop"
# Vectors of weights of a column that are on their way together, where they divide a slice's.
TOGETHER = (2, 1)


class Workgroup:
    """A thread has some numbers of the states of its workgroup's sequences, all gates of
    each. What others read lies in shared memory, the rest in registers.

    Each slice of the threads has all numbers, and adds up a part of each product; then all of them
    do the rest of a step alike, and the first one writes. Threads that are left over do the last
    number again, without writing it, so that no branch comes between barriers.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.sequences = layer.tile.sequences
        self.threads = layer.tile.threads // layer.tile.slices
        # Of a thread, counted here, so that their values are registers.
        self.numbers = range(-(-layer.size // self.threads))

    def statements(self) -> None:
        """Write all results."""
        layer, form = self.layer, self.layer.form
        blocks, threads = layer.directions * layer.blocks, layer.tile.threads
        with launched({"blockIdx.x": blocks, "threadIdx.x": threads}) as at:
            block, thread = at["blockIdx.x"], at["threadIdx.x"]
            self.thread, self.slice = thread % self.threads, thread // self.threads
            self.direction = block // layer.blocks
            self.first = layer.first_of(block % layer.blocks)
            self.shared = layer.local(self.sequences * layer.size, "shared")
            count = len(self.numbers) * self.sequences
            self.kept = [layer.local(count) for _ in range(form.states)]
            self.new = layer.local(count)
            self.scratch = layer.local(form.gates)
            self.sums = layer.local(form.gates * count)
            gates = max(form.products)
            self.fetched = layer.local(gates * layer.tile.vector * TOGETHER[0])
            if layer.tile.slices > 1:
                parts = layer.tile.threads * gates * self.sequences
                self.parts = layer.local(parts, "shared")
            for number, row in self._places():
                self._start(number, row)
            self._share(self.kept[0])
            with T.serial(0, layer.steps) as turn:
                self._step(layer.step_at(turn, self.direction))
            for number, row in self._places():
                self._finish(number, row)

    def _places(self) -> Iterator[tuple[int, int]]:
        """The numbers of a thread, of each sequence."""
        return itertools.product(self.numbers, range(self.sequences))

    def _own(self, number: int, row: int) -> int:
        return number * self.sequences + row

    def _unit(self, number: int) -> Any:
        threads, size = self.threads, self.layer.size
        unit = number * threads + self.thread
        return unit if (number + 1) * threads <= size else tirx.min(unit, T.int32(size - 1))

    def _if_own(self, number: int, write: Callable[[], None]) -> None:
        """A statement for threads of the first slice that are not left over."""
        threads, size = self.threads, self.layer.size
        which = [self.slice == 0] if self.layer.tile.slices > 1 else []
        if (number + 1) * threads > size:
            which.append(number * threads + self.thread < size)
        if which:
            with T.If(functools.reduce(tirx.And, which)), T.Then():
                write()
        else:
            write()

    def _start(self, number: int, row: int) -> None:
        for buffer, given in zip(self.kept, self.layer.starts, strict=True):
            at = (self.direction, self.first + row, self._unit(number))
            buffer[self._own(number, row)] = self.layer.read(given, *at)

    def _finish(self, number: int, row: int) -> None:
        def write() -> None:
            for buffer, result in zip(self.kept, self.layer.results[1:], strict=True):
                at = (self.direction, self.first + row, self._unit(number))
                self.layer.write(result, buffer[self._own(number, row)], *at)

        self._if_own(number, write)

    def _share(self, own: Any) -> None:
        """Let all threads read what each has, once they are done with what was there."""

        def put(number: int, row: int) -> None:
            place = row * self.layer.size + self._unit(number)
            self.shared[place] = own[self._own(number, row)]

        barrier()
        for number, row in self._places():
            self._if_own(number, partial(put, number, row))
        barrier()

    def _step(self, step: Any) -> None:
        layer = self.layer
        cells = {
            (number, row): Cell(
                layer, step, self.first + row, self.direction, self._unit(number),
                partial(layer.input_of, step, self.first + row, self.direction, self._unit(number)),
                partial(self._product, number, row),
                [(buffer, self._own(number, row)) for buffer in self.kept],
                (self.new, self._own(number, row)), self.scratch,
            )
            for number, row in self._places()
        }  # fmt: skip
        for which in range(len(layer.form.products)):
            if which:
                for (number, row), cell in cells.items():
                    self.new[self._own(number, row)] = cell.reset_state()
                self._share(self.new)
            for number in self.numbers:
                self._add_up(which, number)
        for (number, row), cell in cells.items():
            cell.write()
            self._if_own(number, cell.write_result)
            own = self._own(number, row)
            self.kept[0][own] = self.new[own]
        self._share(self.kept[0])

    def _product(self, number: int, row: int, gate: int) -> Any:
        return self.sums[self._sum(number, gate, row)]

    def _sum(self, number: int, gate: int, row: int) -> int:
        return (number * self.layer.form.gates + gate) * self.sequences + row

    def _add_up(self, which: int, number: int) -> None:
        """A product of what is shared, for one number of a thread, of all sequences."""
        layer, rows, sums = self.layer, range(self.sequences), self.sums
        vector, slices = layer.tile.vector, layer.tile.slices
        before = sum(layer.form.products[:which])
        gates, weights = range(layer.form.products[which]), layer.weights[which]
        places = [self._sum(number, before + gate, row) for gate in gates for row in rows]
        for place in places:
            sums[place] = tirx.const(0.0, layer.dtype)
        vectors = layer.size // vector
        of_slice = vectors // slices
        together = next(n for n in TOGETHER if of_slice % n == 0)
        marks = {} if layer.tile.keeps_weights(layer.form, layer.size) else {KEEP_LOOP: True}
        with T.serial(0, of_slice // together, annotations=marks) as turn:
            first = self.slice * of_slice + turn * together
            for block, gate in itertools.product(range(together), gates):
                with T.vectorized(0, vector) as lane:
                    row = gate * vectors + first + block
                    at = (self.direction, row, self._unit(number), lane)
                    place = (gate * together + block) * vector + lane
                    self.fetched[place] = layer.read(weights, *at)
            for k, row, gate in itertools.product(range(together * vector), rows, gates):
                place = self._sum(number, before + gate, row)
                state = self.shared[row * layer.size + first * vector + k]
                sums[place] = sums[place] + self.fetched[gate * together * vector + k] * state
        if slices > 1:
            self._add_slices(places)

    def _add_slices(self, places: list[int]) -> None:
        """Give the sums of all slices to each of them."""

        def part(which: int, of: Any) -> Any:
            return (which * self.layer.tile.slices + of) * self.threads + self.thread

        for which, place in enumerate(places):
            self.parts[part(which, self.slice)] = self.sums[place]
        barrier()
        for which, place in enumerate(places):
            terms = [self.parts[part(which, of)] for of in range(self.layer.tile.slices)]
            self.sums[place] = functools.reduce(operator.add, terms)
