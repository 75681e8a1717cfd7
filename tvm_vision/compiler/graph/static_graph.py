"""The static graph: kernels in order, the tensors they take, and which tensors share memory.

This is the form between Relax and the package. Lowering makes it, conversion to half precision
rewrites it, the memory plan gives every tensor its storage, and ``describe`` writes it down for
the executor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .memory_plan import LiveRange, MemoryPlan, plan_memory
from .operations import count_operations

# Every tensor begins at a multiple of so many bytes: what any device may ask of a binding's offset.
ALIGNMENT = 256
# Bits of the types whose names do not end in them.
_OTHER_BITS = {"bool": 8, "bfloat16": 16}


@dataclass
class Tensor:
    """One tensor: its shape in elements and its type.

    ``root`` is the position of the tensor whose memory it uses: its own, or, for a view (a reshape,
    a part of a concatenation), that of the tensor behind it; ``offset`` is where it begins there,
    in bytes.
    """

    shape: tuple[int, ...]
    dtype: str
    root: int
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Size in bytes, elements packed."""
        return math.prod(self.shape) * dtype_bytes(self.dtype)


@dataclass
class KernelCall:
    """One call of ``function(*inputs, *outputs)``; ``nodes`` names the network's nodes in it."""

    function: str
    inputs: list[int]
    outputs: list[int]
    nodes: list[str] = field(default_factory=list)

    @property
    def tensors(self) -> list[int]:
        """What it is called with, in the function's order."""
        return [*self.inputs, *self.outputs]


@dataclass
class StaticGraph:
    """A network as kernels over tensors; inputs, outputs and keys of ``params`` are positions.

    ``functions`` holds the TensorIR function of every name that ``kernels`` use. Each output is
    written by a kernel and is neither an input, a parameter, nor another output.
    """

    tensors: list[Tensor] = field(default_factory=list)
    kernels: list[KernelCall] = field(default_factory=list)
    params: dict[int, np.ndarray] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)

    def add_tensor(self, shape: Iterable[int], dtype: str, view_of: int | None = None) -> int:
        """Append a tensor, as a view of another one or with memory of its own; its position."""
        position = len(self.tensors)
        behind = None if view_of is None else self.tensors[view_of]
        place = (position, 0) if behind is None else (behind.root, behind.offset)
        self.tensors.append(Tensor(tuple(shape), dtype, *place))
        return position

    def add_workspaces(self, of: Callable[[str], Iterable[tuple[Iterable[int], str]]]) -> None:
        """Give kernels tensors for what their launches share, shapes and types by function.

        They are outputs: a kernel writes them before it reads them.
        """
        for kernel in self.kernels:
            kernel.outputs = [
                *kernel.outputs,
                *(self.add_tensor(shape, dtype) for shape, dtype in of(kernel.function)),
            ]

    def root(self, tensor: int) -> int:
        """The tensor whose memory ``tensor`` uses."""
        return self.tensors[tensor].root

    def roots(self, kernel: KernelCall) -> list[int]:
        """Of each tensor that a kernel is called with, the one whose memory it uses."""
        return [self.root(tensor) for tensor in kernel.tensors]

    def move(self, root: int, to: int, offset: int) -> None:
        """Let everything that lies in the memory of ``root`` lie in that of ``to``, from ``offset``
        bytes on."""
        for tensor in self.tensors:
            if tensor.root == root:
                tensor.root, tensor.offset = to, tensor.offset + offset

    def lines(self) -> Iterator[str]:
        """The graph for people: a line for each kernel, then the functions."""
        for kernel in self.kernels:
            made = ", ".join(self._shown(t) for t in kernel.outputs)
            given = ", ".join(self._shown(t) for t in kernel.inputs)
            yield f"{made} = {kernel.function}({given})  # {', '.join(kernel.nodes)}"
        yield f"return {', '.join(self._shown(t) for t in self.outputs)}"
        for name, function in sorted(self.functions.items()):
            yield from ("", f"# {name}", str(function))

    def _shown(self, tensor: int) -> str:
        of = self.tensors[tensor]
        place = "" if of.root == tensor else f" in %{of.root}+{of.offset}"
        kind = "const " if tensor in self.params else ""
        return f"{kind}%{tensor}{place}: {of.dtype}[{', '.join(map(str, of.shape))}]"


@dataclass(frozen=True)
class GraphMemory:
    """Bytes of device memory: parameters, everything else (inputs and outputs too), both."""

    weights: int
    activations: int

    @property
    def peak(self) -> int:
        """All of it: memory is taken once, before the first run."""
        return self.weights + self.activations


def dtype_bytes(dtype: str) -> int:
    """Bytes of an element of ``dtype`` as TVM spells it. Raises ValueError for odd widths."""
    digits = "".join(c for c in dtype if c.isdigit())
    bits = _OTHER_BITS.get(dtype) or (int(digits) if digits else 0)
    if bits == 0 or bits % 8:
        raise ValueError(f"expected a type of whole bytes, got '{dtype}'")
    return bits // 8


def drop_unused(graph: StaticGraph) -> StaticGraph:
    """The same graph without kernels, tensors and functions on which no output depends."""
    needed = {graph.root(t) for t in graph.outputs}
    kernels: list[KernelCall] = []
    for kernel in reversed(graph.kernels):
        if needed.intersection(graph.root(t) for t in kernel.outputs):
            needed.update(graph.root(t) for t in kernel.inputs)
            kernels.append(kernel)
    kernels.reverse()
    named = [*graph.inputs, *graph.outputs]
    named += [t for kernel in kernels for t in kernel.tensors]
    used = sorted({*named, *(graph.root(t) for t in named)})
    place = {old: new for new, old in enumerate(used)}
    old_tensors = [graph.tensors[t] for t in used]
    return StaticGraph(
        tensors=[Tensor(t.shape, t.dtype, place[t.root], t.offset) for t in old_tensors],
        kernels=[
            KernelCall(
                k.function, [place[t] for t in k.inputs], [place[t] for t in k.outputs], k.nodes
            )
            for k in kernels
        ],
        params={place[t]: value for t, value in graph.params.items() if t in place},
        inputs=[place[t] for t in graph.inputs],
        outputs=[place[t] for t in graph.outputs],
        functions={k.function: graph.functions[k.function] for k in kernels},
    )


def live_ranges(graph: StaticGraph, steps: Sequence[int] | None = None) -> dict[int, LiveRange]:
    """Range of steps for which the memory of each intermediate tensor must be kept, by root.

    steps: of each kernel, never falling; without them each kernel is a step of its own. What is
    needed in one step shares no memory. Inputs, outputs and parameters keep their memory and are
    left out.
    """
    kept = {graph.root(t) for t in (*graph.inputs, *graph.outputs, *graph.params)}
    ranges: dict[int, LiveRange] = {}
    for step, kernel in zip(steps or range(len(graph.kernels)), graph.kernels, strict=True):
        for root in graph.roots(kernel):
            if root in kept:
                continue
            first = ranges[root].first if root in ranges else step
            ranges[root] = LiveRange(graph.tensors[root].nbytes, first, step)
    return ranges


def describe(
    graph: StaticGraph,
    steps: Sequence[int] | None = None,
    matrices: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], GraphMemory]:
    """The graph as plain data with planned storage, and the memory it needs.

    steps: see ``live_ranges``. matrices: which cooperative matrices functions multiply, of those
        that do.
    """
    ranges = live_ranges(graph, steps)
    operations = {name: count_operations(func) for name, func in graph.functions.items()}
    matrices = matrices or {}
    plan = plan_memory(list(ranges.values()))
    storages, storage_of = _storages(graph, list(ranges), plan)
    tensors = [
        {
            "shape": list(t.shape),
            "dtype": t.dtype,
            "storage": storage_of[t.root],
            "offset": t.offset,
        }
        for t in graph.tensors
    ]
    kernels = [
        {
            "function": kernel.function,
            "args": kernel.tensors,
            "num_outputs": len(kernel.outputs),
            "nodes": list(kernel.nodes),
            **({} if (n := operations.get(kernel.function)) is None else {"operations": n}),
            **({"matrices": matrices[kernel.function]} if kernel.function in matrices else {}),
        }
        for kernel in graph.kernels
    ]
    plain = {
        "storages": storages,
        "tensors": tensors,
        "params": {f"p{i}": tensor for i, tensor in enumerate(graph.params)},
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "kernels": kernels,
    }
    weights = sum(storages[storage_of[t]] for t in graph.params)
    return plain, GraphMemory(weights, sum(storages) - weights)


def _storages(
    graph: StaticGraph, planned: Sequence[int], plan: MemoryPlan
) -> tuple[list[int], dict[int, int]]:
    """Sizes of all storages, and root -> storage: the planned ones, then one for each rest."""
    storages = list(plan.sizes)
    storage_of = dict(zip(planned, plan.storage_of, strict=True))
    for position, tensor in enumerate(graph.tensors):
        if tensor.root == position and position not in storage_of:
            storage_of[position] = len(storages)
            storages.append(tensor.nbytes)
    return storages, storage_of
