"""Kernels whose threads are few beside their work, seen in their schedules: no GPU is needed.

A thread that walks over what hundreds of others could have done shows in nothing but time, and in
that by factors of ten. What is counted are the stores that each thread makes one after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx

from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.options import CompileOptions

# A device of this many lanes is busy; small ones have fewer.
LANES = 1 << 13
# Stores of one thread after another that no launch is long for.
STEPS = 1 << 10


@dataclass(frozen=True)
class Launch:
    """What one launch of a kernel asks of a GPU.

    Attributes:
        kernel: the name of its function.
        nodes: of the network, of its first call.
        threads: of all workgroups.
        steps: stores that each makes, at the most.
    """

    kernel: str
    nodes: str
    threads: int
    steps: int

    @property
    def is_cliff(self) -> bool:
        """Whether many more threads could have shared what each does."""
        idle = LANES / max(1, min(self.threads, LANES))
        return self.steps > STEPS and idle >= 4


def launches_of(model: tvm.IRModule, target: Any, **options: Any) -> list[Launch]:
    """The launches of a network's kernels on a GPU, each function once."""
    # What other processes make is not in the module.
    here = {"kernel_cache": False, "kernel_processes": False, **options}
    network = Compilation(model, target, CompileOptions.of(here))
    run(network, last="schedule")
    nodes = {kernel.function: ", ".join(kernel.nodes) for kernel in reversed(network.graph.kernels)}
    return [
        launch
        for variable, function in network.module.functions_items()
        for launch in launches_in(variable.name_hint, nodes[variable.name_hint], function)
    ]


def launches_in(name: str, nodes: str, function: tirx.PrimFunc) -> list[Launch]:
    """The launches of a function with a schedule."""
    return [Launch(name, nodes, threads, steps) for threads, steps in _launches(function.body)]


def _launches(statement: Any) -> Iterator[tuple[int, int]]:
    """(threads, steps) of each outermost nest of loops over threads."""
    if _axis(statement) is not None:
        extents: dict[str, int] = {}
        steps = _steps(statement, extents)
        yield math.prod(extents.values()), steps
        return
    for part in _parts(statement):
        yield from _launches(part)


def _steps(statement: Any, extents: dict[str, int]) -> int:
    """The stores of a thread in a statement; the extents of threads are noted by their axis, which
    loops one in another share."""
    axis = _axis(statement)
    if axis is not None:
        extents[axis[0]] = max(axis[1], extents.get(axis[0], 1))
    steps = sum(_steps(part, extents) for part in _parts(statement))
    if isinstance(statement, (tirx.BufferStore, tirx.Evaluate)):
        return 1
    serial = isinstance(statement, tirx.For) and axis is None
    if not serial or statement.kind == tirx.ForKind.VECTORIZED:
        return steps
    return steps * _extent(statement.extent, 1)  # of what data decide nothing is known


def _axis(statement: Any) -> tuple[str, int] | None:
    """The axis of threads that a statement goes along, and its extent; None of anything else."""
    if isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.THREAD_BINDING:
        return str(statement.thread_binding.thread_tag), _extent(statement.extent)
    if isinstance(statement, tirx.AttrStmt) and str(statement.attr_key) == "thread_extent":
        return str(statement.node.thread_tag), _extent(statement.value)
    return None


def _extent(value: Any, unknown: int = LANES) -> int:
    """Of TVM's sorts and scans, whose functions take any size, there are as many threads as it
    takes."""
    return int(value.value) if isinstance(value, tirx.IntImm) else unknown


def _parts(statement: Any) -> list[Any]:
    if isinstance(statement, tirx.SeqStmt):
        return list(statement.seq)
    if isinstance(statement, s_tir.SBlockRealize):
        return [part for part in (statement.block.init, statement.block.body) if part is not None]
    if isinstance(statement, tirx.IfThenElse):
        return [part for part in (statement.then_case, statement.else_case) if part is not None]
    body = getattr(statement, "body", None)
    return [] if body is None else [body]
