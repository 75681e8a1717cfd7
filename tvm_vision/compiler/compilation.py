"""A network while it is compiled, and the form of a step of ``pipeline.PHASES``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tvm
from tvm.target import Target

from ..options import CompileOptions
from ..schedules import Chooser, TargetLimits
from .graph.static_graph import StaticGraph
from .kernels.beside import Waiting
from .precision.mixed_precision_search import Part
from .relax.node_names import Nodes
from .relax.qdq.to_int8 import bytes_wanted

RELAX, GRAPH, TIR = "relax", "graph", "tir"


@dataclass
class Compilation:
    """A network on its way.

    Attributes:
        module: RELAX, and TIR while functions are scheduled; nothing between.
        target: what it is compiled for.
        options: how.
        runs_on: what runs the kernels, where that is another than they are made for: this
            processor while the error of fp16 is measured.
        fp16_parts: which layers are stored as float16; None for all that can be.
        choose: what tuning found for a kernel.
        joined: nodes of the model, in those calls of ``main`` that are several in one.
        nodes: of the model, in each call of ``main``.
        graph: GRAPH.
        concat_axes: position of each kernel that is a concatenation -> its axis.
        steps: for each kernel, what runs side by side; None for one after the other.
        anew: whether all kernels are made, those that were made before, too.
        waiting: a process that was started to make kernels, where there is one.
        kernels: the graph's functions on their way to code.
        library: the compiled functions.
    """

    module: tvm.IRModule
    target: Target
    options: CompileOptions
    runs_on: Target | None = None
    fp16_parts: Collection[Part] | None = None
    choose: Chooser | None = None
    joined: Nodes = field(default_factory=dict)
    nodes: list[list[str]] = field(default_factory=list)
    graph: StaticGraph = field(default_factory=StaticGraph)
    concat_axes: dict[int, int] = field(default_factory=dict)
    steps: list[int] | None = None
    anew: bool = False
    waiting: Waiting | None = None
    kernels: Any = None
    library: Any = None

    @cached_property
    def limits(self) -> TargetLimits:
        """What kernels for the target may have."""
        return TargetLimits.of(self.target, self.options)

    @property
    def by_several(self) -> bool:
        """Whether several processes make kernels."""
        return self.options.kernel_processes and not self.anew

    @property
    def built_for(self) -> Target:
        """What code is made for."""
        return self.runs_on or self.target

    @property
    def on_gpu(self) -> bool:
        """Whether kernels are made for a GPU."""
        return "gpu" in self.target.keys

    @property
    def on_new_gpu(self) -> bool:
        """Whether kernels are made for a GPU that none were timed on: others keep what they had."""
        return self.on_gpu and not self.limits.device.measured

    @property
    def int8(self) -> bool:
        """Whether what is quantized is computed with int8."""
        return self.options.opt_level >= 3 and bytes_wanted(self.target, self.options.int8)

    @property
    def fp16(self) -> bool:
        """Whether tensors are stored as float16."""
        return self.options.precision == "fp16"


@dataclass(frozen=True)
class Phase:
    """One step: its name, the form it works on, what it does, and when it is taken."""

    name: str
    ir: str
    run: Callable[[Compilation], None]
    opt_level: int = 0
    when: Callable[[Compilation], bool] = lambda network: True

    def applies(self, network: Compilation) -> bool:
        """Whether the step is taken for a network."""
        return network.options.opt_level >= self.opt_level and self.when(network)
