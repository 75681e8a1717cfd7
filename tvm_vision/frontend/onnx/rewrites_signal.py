"""Rewrites of Fourier transforms to products with matrices that are known, and of sequences whose
rows move by what data says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from .graph import GraphEditor, NodeBuilder, Rewrite, Unsupported, attribute, constant_input

Nodes = Sequence[onnx.NodeProto] | None


def fourier_matrix(
    rows: int, length: int, *, parts: int, inverse: bool, onesided: bool
) -> np.ndarray:
    """What a signal is multiplied with: (rows, parts, frequencies, results) of float64.

    rows: samples of the signal that count. length: of the transform. parts: 1 for real signals, 2
    for complex ones. A onesided inverse takes the frequencies of a real signal and gives it back,
    1 result; all others have 2. The formula is that of ONNX's DFT-20.
    """
    if inverse and onesided:
        return _real_inverse(rows, length)
    count = length // 2 + 1 if onesided else length
    angles = 2 * np.pi * np.outer(np.arange(rows), np.arange(count)) / length
    turn, scale = (angles, 1 / length) if inverse else (-angles, 1.0)
    matrix = np.empty((rows, parts, count, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = np.cos(turn), np.sin(turn)
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -np.sin(turn), np.cos(turn)
    return matrix * scale


def _real_inverse(rows: int, length: int) -> np.ndarray:
    angles = 2 * np.pi * np.outer(np.arange(rows), np.arange(length)) / length
    matrix = np.empty((rows, 2, length, 1))
    # Each frequency stands for its mirror image as well, but for those that are their own.
    mirrored = np.full((rows, 1), 2.0)
    mirrored[0] = 1
    if length % 2 == 0 and rows > length // 2:
        mirrored[length // 2] = 1
    matrix[:, 0, :, 0], matrix[:, 1, :, 0] = np.cos(angles), -np.sin(angles)
    return matrix * mirrored[:, :, None, None] / length


def dft(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A discrete Fourier transform along one axis, as a product of matrices."""
    shape = graph.shape(node.input[0])
    given = constant_input(node, graph, 2) if graph.opset >= 20 else attribute(node, "axis", 1)
    axis = int(np.asarray(-2 if given is None else given).item()) % len(shape)
    inverse, onesided = (bool(attribute(node, name, 0)) for name in ("inverse", "onesided"))
    size, asked = shape[axis], constant_input(node, graph, 1)
    length = 2 * (size - 1) if inverse and onesided else size
    length = length if asked is None else int(asked.item())
    rows = min(size, length // 2 + 1 if inverse and onesided else length)
    matrix = fourier_matrix(
        rows, length, parts=shape[-1], inverse=inverse, onesided=onesided
    ).astype(graph.dtype(node.input[0]))
    steps, last = NodeBuilder(graph, node), len(shape) - 2
    # The axis comes before the parts of the numbers.
    order = [a for a in range(last + 1) if a != axis] + [axis, last + 1]
    value = steps.part(node.input[0], 0, rows, axis) if rows < size else node.input[0]
    value = steps("Transpose", value, perm=order)
    others = [shape[a] for a in order[:-2]]
    value = steps.reshape(value, (*others, rows * shape[-1]))
    value = steps("MatMul", value, matrix.reshape(rows * shape[-1], -1))
    value = steps.reshape(value, (*others, *matrix.shape[2:]))
    return steps.finish(steps("Transpose", value, perm=[int(a) for a in np.argsort(order)]))


def stft(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Fourier transforms of windows that move over a signal: a convolution."""
    step, window, asked = (constant_input(node, graph, index) for index in (1, 2, 3))
    if step is None or (window is None and asked is None):
        raise Unsupported("neither a window nor its length is given", "give one of them")
    length = len(window) if window is not None else int(np.asarray(asked).item())
    shape, dtype = graph.shape(node.input[0]), graph.dtype(node.input[0])
    batch, _, parts = shape if len(shape) == 3 else (*shape, 1)
    matrix = fourier_matrix(
        length, length, parts=parts, inverse=False, onesided=bool(attribute(node, "onesided", 1))
    )
    if window is not None:
        matrix = matrix * np.asarray(window, np.float64).reshape(-1, 1, 1, 1)
    frequencies = matrix.shape[2]
    weight = matrix.transpose(2, 3, 1, 0).reshape(frequencies * 2, parts, length).astype(dtype)
    steps = NodeBuilder(graph, node)
    value = steps.reshape(node.input[0], (batch, shape[1], parts))
    value = steps("Transpose", value, perm=[0, 2, 1])
    value = steps("Conv", value, weight, kernel_shape=[length], strides=[int(step.item())])
    count = (shape[1] - length) // int(step.item()) + 1
    value = steps.reshape(value, (batch, frequencies, 2, count))
    return steps.finish(steps("Transpose", value, perm=[0, 3, 1, 2]))


def reverse_sequence(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The first steps of each sequence of a batch turned round, as many as it has."""
    times, batches = attribute(node, "time_axis", 0), attribute(node, "batch_axis", 1)
    shape = graph.shape(node.input[0])
    steps, count = NodeBuilder(graph, node), shape[times]
    place = np.arange(count, dtype=np.int64)
    length = steps.axes("Unsqueeze", steps.cast(node.input[1], np.int64), [1])
    turned = steps("Sub", length, place + 1)
    place_used = steps("Where", steps("Less", place, length), turned, place)
    order = [batches, times, *(a for a in range(len(shape)) if a not in (times, batches))]
    value = steps("Transpose", node.input[0], perm=order)
    value = _rows_of_batches(steps, value, place_used, [shape[a] for a in order], count)
    return steps.finish(steps("Transpose", value, perm=[int(a) for a in np.argsort(order)]))


def _rows_of_batches(
    steps: NodeBuilder, value: str, places: str, shape: Sequence[int], count: int
) -> str:
    """Rows of (batch, rows, ...), for each of a batch those at its ``count`` places."""
    batch, rows = shape[0], shape[1]
    firsts = np.arange(batch, dtype=np.int64).reshape(-1, 1) * rows
    flat = steps.reshape(steps("Add", places, firsts), (batch * count,))
    value = steps("Gather", steps.reshape(value, (batch * rows, *shape[2:])), flat, axis=0)
    return steps.reshape(value, (batch, count, *shape[2:]))


def tensor_scatter(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A cache with rows written into it, for each of a batch from a place of its own."""
    shape, new = graph.shape(node.input[0]), graph.shape(node.input[1])
    axis = attribute(node, "axis", -2) % len(shape)
    steps, rows, count = NodeBuilder(graph, node), shape[axis], new[axis]
    order = [0, axis, *(a for a in range(1, len(shape)) if a != axis)]
    first = np.zeros((shape[0], 1), np.int64)
    start = (
        steps.axes("Unsqueeze", steps.cast(node.input[2], np.int64), [1])
        if len(node.input) > 2 and node.input[2]
        else steps("Identity", first)
    )
    places = steps("Sub", np.arange(rows, dtype=np.int64), start)
    if attribute(node, "mode", "linear") == "circular":
        places = steps("Mod", places, np.array(rows, np.int64))
    inside = steps("Less", places, np.array(count, np.int64))
    zero = np.zeros((), np.int64)
    inside = steps("And", inside, steps("Not", steps("Less", places, zero)))
    places = steps("Where", inside, places, zero)
    old, fresh = (steps("Transpose", name, perm=order) for name in node.input[:2])
    taken = _rows_of_batches(steps, fresh, places, [new[a] for a in order], rows)
    inside = steps.reshape(inside, (shape[0], rows, *[1] * (len(shape) - 2)))
    value = steps("Where", inside, taken, old)
    return steps.finish(steps("Transpose", value, perm=[int(a) for a in np.argsort(order)]))


SIGNAL_REWRITES: dict[str, Rewrite] = {
    "DFT": dft,
    "ReverseSequence": reverse_sequence,
    "STFT": stft,
    "TensorScatter": tensor_scatter,
}
