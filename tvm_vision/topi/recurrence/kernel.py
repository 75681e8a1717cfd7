"""LSTM, GRU and RNN: all steps in one kernel, on processors and on GPUs.

What the network writes out step by step is compiled, loaded and launched step by step as well. Here
a task, which is a thread of a processor or a workgroup of a GPU, goes through all steps of some
sequences in one direction by itself: sequences do not ask for one another. States stay where they
are made, in cache or in shared memory.

Formulas and the order of gates are those of ONNX's operators LSTM-22, GRU-22 and RNN-22.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .form import RecurrentForm, RecurrentTile
from .launches import Launches
from .layer import Layer, computed_in
from .thread import Thread
from .workgroup import Workgroup


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

    Outputs are (steps, batch, directions, size), the last states (directions, batch, size). Where
    each step is a launch, what lies between two of them comes behind: it is nobody's result.
    """
    projected, first = tensors[0], tensors[1]
    steps, batch, _ = (int(n) for n in projected.shape)
    directions, _, size = (int(n) for n in first.shape)
    state = (directions, batch, size)
    shapes = [(steps, batch, directions, size), *[state] * form.states]
    dtypes = [str(projected.dtype)] * len(shapes)
    if tile.numbers:
        shapes += [(2, *state), *[state] * (form.states - 1)]
        dtypes += [computed_in(dtypes[0])] * form.states

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        inputs, results = ([T.buffer_proxy(buffer) for buffer in those] for those in (ins, outs))
        kind = Launches if tile.numbers else Workgroup if tile.threads > 1 else Thread
        layer = Layer(form, tile, steps, batch, directions, size, inputs, results)
        with IRBuilder() as builder:
            kind(layer).statements()
            return builder.get()

    made: list[te.Tensor] = te.extern(shapes, list(tensors), body, dtype=dtypes, name="recurrence")
    return made
