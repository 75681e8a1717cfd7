"""The kernels of a network that can be tuned: each structure once, with how often it is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from ..compiler import StaticGraph
from ..schedules import Limits, NotThisKind, choices, kernel_key, schedule_with
from .measure import MeasureJob
from .worker import Argument

LARGEST_TABLE = 4096  # integers of a constant that candidates are measured with


@dataclass(frozen=True)
class TunableKernel:
    """A kernel with all that a search needs of it.

    Attributes:
        job: what is measured.
        calls: how often one run of the network calls it.
        decisions: what its templates offer, the default first; one alone leaves nothing to tune.
        function: the PrimFunc, without schedule.
        nodes: of the network, computed by its first call.
    """

    job: MeasureJob
    calls: int
    decisions: tuple[dict[str, Any], ...]
    function: Any
    nodes: tuple[str, ...]


def tunable_kernels(graph: StaticGraph, limits: Limits) -> list[TunableKernel]:
    """The kernels of a graph without schedules, those with the most calls first."""
    keys = {name: kernel_key(function) for name, function in graph.functions.items()}
    calls = Counter(keys[kernel.function] for kernel in graph.kernels)
    found: dict[str, TunableKernel] = {}
    for kernel in graph.kernels:
        key = keys[kernel.function]
        if key in found:
            continue
        function = graph.functions[kernel.function]
        found[key] = TunableKernel(
            job=MeasureJob(
                key,
                kernel.function,
                tvm.ir.save_json(function),
                _arguments(graph, kernel.inputs, kernel.outputs),
            ),
            calls=calls[key],
            decisions=tuple(_decisions(function, limits)),
            function=function,
            nodes=tuple(kernel.nodes),
        )
    return sorted(found.values(), key=lambda kernel: -kernel.calls)


def _arguments(
    graph: StaticGraph, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[Argument, ...]:
    def argument(tensor: int, written: bool) -> Argument:
        described = graph.tensors[tensor]
        value = graph.params.get(tensor)
        values: tuple[int, ...] = ()
        if value is not None and value.dtype.kind == "i" and value.size <= LARGEST_TABLE:
            values = tuple(value.ravel().tolist())
        return Argument(described.shape, described.dtype, written, values)

    read = [argument(tensor, False) for tensor in inputs]
    return (*read, *(argument(tensor, True) for tensor in outputs))


def _decisions(function: Any, limits: Limits) -> list[dict[str, Any]]:
    """What the templates offer, the first that applies, which is the default, before all others."""
    offered = choices(function, limits)
    for number, choice in enumerate(offered):
        try:
            schedule_with(function, limits, choice)
        except NotThisKind:
            continue
        return [choice.to_dict() for choice in offered[number:]]
    return []
