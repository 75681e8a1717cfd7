"""What fp16 do to a network's outputs, found out on this processor and in float32.

The kernels of the float32 network run one by one. A tensor that would be of fp16 is rounded to
fp16 after its kernel has written it, which is what the kernels of ``cast_buffers`` do: they
compute in float32 whatever the memory holds. So one library serves for any choice of tensors, and
what a choice leaves as it was is not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from ..graph.static_graph import KernelCall, StaticGraph, Tensor

FP32 = "float32"
# Where TVM's kernels may expect a tensor to begin, in bytes.
ALIGNMENT = 64


@dataclass(frozen=True)
class _Place:
    """Memory of one tensor: as TVM's kernels take it, and, of float32, as numpy does."""

    tensor: Any
    array: np.ndarray


class Fp16Emulation:
    """A float32 network on this processor, with some of its tensors rounded to fp16.

    Tensors are named by their position in the graph, those with memory of their own.
    """

    def __init__(self, graph: StaticGraph, library: Any) -> None:
        """graph: before tensors share memory; library: its functions, built for this processor."""
        self._graph = graph
        self._functions = {name: library[name] for name in graph.functions}
        self._exact = {
            root: _place(tensor) for root, tensor in enumerate(graph.tensors) if tensor.root == root
        }
        # Of tensors that are not as they were: what kernels write, and weights that are rounded.
        self._changed: dict[int, _Place] = {}
        for root, value in graph.params.items():
            self._exact[root].tensor.copyfrom(np.asarray(value, order="C"))

    def set_sample(self, inputs: Sequence[np.ndarray]) -> dict[int, float]:
        """Run the network in float32; the largest finite absolute value of each float32 tensor
        that a kernel writes."""
        for tensor, value in zip(self._graph.inputs, inputs, strict=True):
            self._exact[self._graph.root(tensor)].tensor.copyfrom(np.asarray(value, order="C"))
        largest = {}
        for kernel in self._graph.kernels:
            given = (self._view(tensor, self._exact) for tensor in kernel.tensors)
            self._functions[kernel.function](*given)
            for root in map(self._graph.root, kernel.outputs):
                if self._graph.tensors[root].dtype == FP32:
                    largest[root] = _largest(self._exact[root].array)
        return largest

    def exact_outputs(self) -> list[np.ndarray]:
        """The outputs for the sample that is set, in float32."""
        return self._outputs(())

    def outputs(self, fp16: Collection[int]) -> list[np.ndarray]:
        """The outputs for the sample that is set, with these tensors, all float32, rounded to
        fp16. Takes the less time the later they are in the network."""
        changed = {root for root in self._graph.params if root in fp16 and self._round(root)}
        for kernel in self._graph.kernels:
            if not changed.isdisjoint(map(self._graph.root, kernel.inputs)):
                changed.update(filter(self._differs, self._run(kernel, changed, fp16)))
            else:
                made = set(map(self._graph.root, kernel.outputs))
                changed |= {root for root in made.intersection(fp16) if self._round(root)}
        return self._outputs(changed)

    def outputs_for(self, inputs: Sequence[np.ndarray], fp16: Collection[int]) -> list[np.ndarray]:
        """The same for other inputs, for which nothing has to have been run in float32."""
        changed = {root for root in self._graph.params if root in fp16 and self._round(root)}
        for tensor, value in zip(self._graph.inputs, inputs, strict=True):
            root = self._graph.root(tensor)
            self._place_of_changed(root).tensor.copyfrom(np.asarray(value, order="C"))
            changed.add(root)
        for kernel in self._graph.kernels:
            changed |= self._run(kernel, changed, fp16)
        return self._outputs(changed)

    def _outputs(self, changed: Collection[int]) -> list[np.ndarray]:
        return [self._view(t, self._present(t, changed)).numpy() for t in self._graph.outputs]

    def _run(self, kernel: KernelCall, changed: Collection[int], fp16: Collection[int]) -> set[int]:
        """Run a kernel on what has changed; the tensors that it has written."""
        made = set(map(self._graph.root, kernel.outputs))
        for root in made:
            self._place_of_changed(root)
        arguments = [self._view(t, self._present(t, changed)) for t in kernel.inputs]
        arguments += [self._view(t, self._changed) for t in kernel.outputs]
        self._functions[kernel.function](*arguments)
        for root in made.intersection(fp16):
            values = self._changed[root].array
            values[...] = _rounded(values)
        return made

    def _round(self, root: int) -> bool:
        """Round what float32 gave; whether that changes anything."""
        known = root in self._changed and root in self._graph.params
        if not known:
            self._place_of_changed(root).array[...] = _rounded(self._exact[root].array)
        return self._differs(root)

    def _place_of_changed(self, root: int) -> _Place:
        if root not in self._changed:
            self._changed[root] = _place(self._graph.tensors[root])
        return self._changed[root]

    def _differs(self, root: int) -> bool:
        if self._graph.tensors[root].dtype != FP32:
            return True
        changed, exact = self._changed[root].array, self._exact[root].array
        # By their bits: NaN that stays is no change.
        return not np.array_equal(changed.view(np.uint32), exact.view(np.uint32))

    def _present(self, tensor: int, changed: Collection[int]) -> dict[int, _Place]:
        return self._changed if self._graph.root(tensor) in changed else self._exact

    def _view(self, tensor: int, places: dict[int, _Place]) -> Any:
        wanted, held = self._graph.tensors[tensor], places[self._graph.root(tensor)].tensor
        return held if wanted.root == tensor else held._create_view(wanted.shape, wanted.dtype)


def _place(tensor: Tensor) -> _Place:
    if tensor.dtype != FP32:
        empty = tvm.runtime.empty(tensor.shape, tensor.dtype, tvm.cpu(0))
        return _Place(empty, np.empty(0, np.float32))
    size = math.prod(tensor.shape)
    memory = np.zeros(4 * size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array = memory[start : start + 4 * size].view(np.float32).reshape(tensor.shape)
    return _Place(tvm.runtime.from_dlpack(array), array)


def _rounded(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


def _largest(values: np.ndarray) -> float:
    # Without another array of this size in the usual case, where all is finite.
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if math.isfinite(largest):
        return largest
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
