"""LSTM, GRU and RNN: all steps in one kernel, on processors and on GPUs.

What the network writes out step by step is compiled, loaded and launched step by step as well. Here
a task, which is a thread of a processor or a workgroup of a GPU, goes through all steps of some
sequences in one direction by itself: sequences do not ask for one another. States stay where they
are made, in cache or in shared memory.

Formulas and the order of gates are those of ONNX's operators LSTM-22, GRU-22 and RNN-22.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .barrier import barrier

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# On a loop: it stays one. Written out, its weights, the same in each step, are fetched once before
# all steps, into registers: so many of them there are.
KEEP_LOOP, MOST_KEPT = "keep_loop", 192
# Vectors of weights of a column that are on their way together, where they divide a slice's.
TOGETHER = (2, 1)
# Multiplications of a sequence: fewer are done before other threads have woken up.
WORTH_THREADS = 1 << 13


@dataclass(frozen=True)
class Activation:
    """A function of gates by ONNX's name, with alpha and beta, which not all of them read."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    def of(self, x: Any) -> Any:
        """The value for a number."""

        def number(value: float) -> Any:
            return tirx.const(value, str(x.ty.dtype))

        zero, one = number(0.0), number(1.0)
        alpha, beta = number(self.alpha), number(self.beta)
        forms: dict[str, Callable[[], Any]] = {
            "Relu": lambda: tirx.max(x, zero),
            "Sigmoid": lambda: tirx.sigmoid(x),
            "Tanh": lambda: tirx.tanh(x),
            "HardSigmoid": lambda: tirx.max(zero, tirx.min(one, alpha * x + beta)),
            "LeakyRelu": lambda: tirx.Select(x < zero, alpha * x, x),
            "ThresholdedRelu": lambda: tirx.Select(x > alpha, x, zero),
            "Elu": lambda: tirx.Select(x < zero, alpha * (tirx.exp(x) - one), x),
            "Affine": lambda: alpha * x + beta,
            "ScaledTanh": lambda: alpha * tirx.tanh(beta * x),
            "Softsign": lambda: x / (one + tirx.abs(x)),
            # As the larger of 0 and x, and what is never large.
            "Softplus": lambda: tirx.max(x, zero) + tirx.log(one + tirx.exp(-tirx.abs(x))),
        }
        return forms[self.name]()


@dataclass(frozen=True)
class RecurrentForm:
    """What a recurrent layer computes.

    Attributes:
        operator: LSTM, GRU or RNN.
        ways: 1 for a direction from the first step on, -1 for one from the last.
        functions: what ONNX calls f, g and h, as many as the operator has.
        clip: gates are bounded to ±clip before a function; 0 for not at all.
        coupled: an LSTM's forget gate is 1 less its input gate.
        reset_after: a GRU's reset gate is multiplied with the product of state and weights, rather
            than with the state.
        biased: reset_after, and that product has a bias.
        peepholes: gates of an LSTM see its cells.
        ended: sequences have lengths of their own.
    """

    operator: str
    ways: tuple[int, ...]
    functions: tuple[Activation, ...]
    clip: float = 0.0
    coupled: bool = False
    reset_after: bool = False
    biased: bool = False
    peepholes: bool = False
    ended: bool = False

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RecurrentForm:
        """What ``to_json`` wrote."""
        found = json.loads(text)
        functions = tuple(Activation(**function) for function in found["functions"])
        return cls(**{**found, "ways": tuple(found["ways"]), "functions": functions})

    @property
    def gates(self) -> int:
        """Values that a step adds up for each number of a state."""
        return GATES[self.operator]

    @property
    def states(self) -> int:
        """What goes from step to step: outputs, and an LSTM's cells."""
        return 2 if self.operator == "LSTM" else 1

    @property
    def products(self) -> tuple[int, ...]:
        """The gates of each product of a step, one after the other: a GRU that resets its state
        before the last gate's product has two."""
        return (2, 1) if self.operator == "GRU" and not self.reset_after else (self.gates,)


@dataclass(frozen=True)
class RecurrentTile:
    """How a task goes through its sequences.

    Attributes:
        threads: of a workgroup; 1 on a processor.
        sequences: of a task.
        slices: groups of a workgroup's threads that share the terms of a product's sums.
        vector: weights of a column that a thread of a GPU fetches at once.
        rows, lanes, vectors: of a processor: a product's results that stay in registers, rows of
            sequences times vectors of lanes.
    """

    threads: int
    sequences: int
    slices: int = 1
    vector: int = 1
    rows: int = 1
    lanes: int = 1
    vectors: int = 1

    @property
    def width(self) -> int:
        """Columns of weights beside one another in memory of a processor."""
        return self.lanes * self.vectors

    def keeps_weights(self, form: RecurrentForm, size: int) -> bool:
        """Whether a thread of a GPU has registers for its weights of all steps."""
        return sum(form.products) * size // self.slices <= MOST_KEPT

    def shared_numbers(self, form: RecurrentForm, size: int) -> int:
        """Numbers of a workgroup in shared memory: states, and the sums of its slices."""
        sums = self.threads * max(form.products) if self.slices > 1 else 0
        return self.sequences * (size + sums)


def packed(weights: te.Tensor, form: RecurrentForm, which: int, tile: RecurrentTile) -> te.Tensor:
    """The weights of one of ``form.products`` as a task reads them.

    weights: of states, (directions, gates · size, size), as ONNX has them.

    On a processor (directions, parts, size, columns): for each number of the state its weights in
    the columns of a part, with zeros behind the last. On a GPU (directions, gates · size / vector,
    size, vector): for each gate and each vector of a state the weights of all columns.
    """
    directions, _, size = (int(n) for n in weights.shape)
    first, gates = sum(form.products[:which]), form.products[which]
    if tile.threads > 1:
        vectors = size // tile.vector

        def of_column(direction: Any, row: Any, unit: Any, lane: Any) -> Any:
            column = (first + row // vectors) * size + unit
            return weights[direction, column, row % vectors * tile.vector + lane]

        return te.compute((directions, gates * vectors, size, tile.vector), of_column, "packed")
    width, count = tile.width, gates * size

    def of_number(direction: Any, part: Any, k: Any, lane: Any) -> Any:
        column = part * width + lane
        weight = weights[direction, first * size + column, k]
        if count % width == 0:
            return weight
        return tirx.if_then_else(column < count, weight, tirx.const(0.0, weights.dtype))

    return te.compute((directions, -(-count // width), size, width), of_number, "packed")


def recurrence(
    tensors: Sequence[te.Tensor], form: RecurrentForm, tile: RecurrentTile
) -> list[te.Tensor]:
    """The outputs of all steps, and the last of each kind of state.

    tensors, real numbers but for the lengths:
        the input times its weights, with biases, (steps, batch, directions · gates · size);
        the first of each kind of state, (directions, batch, size);
        what ``packed`` gives;
        where biased, of the last gate (directions, size);
        where there are peepholes (directions, 3 · size), of gates in the order input, output,
        forget;
        where sequences end before the last step, lengths (batch,) int32: states stay as they are
        behind a sequence's end, and outputs are 0.

    Outputs are (steps, batch, directions, size), the last states (directions, batch, size).
    """
    projected, first = tensors[0], tensors[1]
    steps, batch, _ = (int(n) for n in projected.shape)
    directions, _, size = (int(n) for n in first.shape)
    shapes = [(steps, batch, directions, size), *[(directions, batch, size)] * form.states]

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        inputs, results = ([T.buffer_proxy(buffer) for buffer in those] for those in (ins, outs))
        kind = _Workgroup if tile.threads > 1 else _Thread
        layer = Layer(form, tile, steps, batch, directions, size, inputs, results)
        with IRBuilder() as builder:
            kind(layer).statements()
            return builder.get()

    made: list[te.Tensor] = te.extern(
        shapes, list(tensors), body, dtype=[projected.dtype] * len(shapes), name="recurrence"
    )
    return made


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
        self.results = results
        stored = str(self.projected.dtype)
        # Halves are computed in float32, like everywhere.
        self.dtype = "float32" if stored == "float16" else stored
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

    def write(self, buffer: Any, value: Any, *at: Any) -> None:
        """Put a number into a result."""
        buffer[at] = value if self.stored == self.dtype else tirx.Cast(self.stored, value)

    def local(self, size: int, scope: str = "local") -> Any:
        """A buffer of a task's own."""
        return T.buffer_proxy(T.decl_buffer([size], self.dtype, scope=scope))


@dataclass
class Cell:
    """What becomes of one number of the state in a step.

    Attributes:
        step, sequence, direction, unit: which.
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
        layer = self.layer
        column = (self.direction * layer.form.gates + gate) * layer.size + self.unit
        of_input = layer.read(layer.projected, self.step, self.sequence, column)
        return of_input + (self.product(gate) if product is None else product)

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


class _Workgroup:
    """On a GPU: a thread has some numbers of the states of its workgroup's sequences, all gates of
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
        block, thread = (te.thread_axis(f"{axis}Idx.x") for axis in ("block", "thread"))
        launch = [(block, layer.directions * layer.blocks), (thread, layer.tile.threads)]
        with T.frame_scope([T.attr(axis, "thread_extent", size) for axis, size in launch]):
            self.thread, self.slice = thread.var % self.threads, thread.var // self.threads
            self.direction = block.var // layer.blocks
            self.first = layer.first_of(block.var % layer.blocks)
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


class _Thread:
    """On a processor: threads share blocks of sequences. All products of a step are added up before
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
