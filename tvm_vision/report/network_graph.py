"""A package's kernels, and what flows between them, as a drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..package import PlannedGraph, PlannedTensor
from .drawing import Box, Drawing

MOST_HOVER = 60  # nodes that are told of one kernel


@dataclass(frozen=True)
class _Written:
    """Bytes of a storage, and which box wrote them."""

    begin: int
    end: int
    box: int


def kernel_drawing(
    graph: PlannedGraph,
    inputs: Sequence[str],
    outputs: Sequence[str],
    box_of: Callable[[int], Box],
) -> Drawing:
    """Inputs, kernels and outputs; weights are not drawn.

    inputs, outputs: their names. box_of: the box of each kernel, by its position.
    """
    drawing = Drawing()
    memory: dict[int, list[_Written]] = {}

    def write(tensor: int, box: int) -> None:
        of = graph.tensors[tensor]
        begin, end = of.offset, of.offset + of.nbytes
        kept = []
        for old in memory.get(of.storage, []):
            if old.begin < begin < old.end or old.begin < end < old.end:
                kept += [
                    _Written(a, b, old.box)
                    for a, b in ((old.begin, begin), (end, old.end))
                    if old.begin <= a < b <= old.end
                ]
            elif old.end <= begin or end <= old.begin:
                kept.append(old)
        memory[of.storage] = [*kept, _Written(begin, end, box)]

    def read(tensor: int, box: int) -> None:
        of = graph.tensors[tensor]
        for part in memory.get(of.storage, []):
            if part.begin < of.offset + of.nbytes and of.offset < part.end:
                drawing.connect(part.box, box, tensor_words(of))

    for name, tensor in zip(inputs, graph.inputs, strict=True):
        write(tensor, drawing.add(_end(name, graph.tensors[tensor], "input")))
    for index, kernel in enumerate(graph.kernels):
        box = drawing.add(box_of(index))
        for tensor in kernel.reads:
            read(tensor, box)
        for tensor in kernel.writes:
            write(tensor, box)
    for name, tensor in zip(outputs, graph.outputs, strict=True):
        read(tensor, drawing.add(_end(name, graph.tensors[tensor], "output")))
    return drawing


def tensor_words(tensor: PlannedTensor) -> str:
    """Type and shape of a tensor, as in "float32 1×3×96×96"."""
    return f"{tensor.dtype} {'×'.join(map(str, tensor.shape)) or 'scalar'}"


def kernel_words(graph: PlannedGraph, index: int) -> str:
    """What a kernel is, in lines: its function, its nodes, what it reads and writes."""
    kernel = graph.kernels[index]
    weights = set(graph.params.values())
    nodes = [*kernel.nodes[:MOST_HOVER], *(["…"] if len(kernel.nodes) > MOST_HOVER else [])]
    given = [tensor_words(graph.tensors[t]) for t in kernel.reads if t not in weights]
    constants = [tensor_words(graph.tensors[t]) for t in kernel.reads if t in weights]
    made = [tensor_words(graph.tensors[t]) for t in kernel.writes]
    rows = [("nodes", nodes), ("reads", given), ("weights", constants), ("writes", made)]
    told = [f"{name}: {', '.join(words)}" for name, words in rows if words]
    return "\n".join([f"#{index} {kernel.function}", *told])


def _end(name: str, tensor: PlannedTensor, mark: str) -> Box:
    return Box(name, (tensor_words(tensor),), f"{mark} {name}", (mark, "end"))
