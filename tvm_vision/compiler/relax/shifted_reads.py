"""Pads of what a reshape divides, which must not become one kernel with it.

Where one thread index stands for all axes of a padded tensor, the index of what is read has terms
as ``(i % 10 - 1) // 2`` and ``(i % 100 - 10) // 20``. TVM's IterMapSimplify, by which FlattenBuffer
simplifies it, shifts both by the larger of the two pads, and the kernel reads other numbers:
DepthToSpace before a Pad at the top and the left did. Positive shifts, as of slices, and those of
one axis alone come out right.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, sym, tirx
from tvm.ir import Range
from tvm.ir.prim import expr as prim

from .kernel_calls import INJECTIVE, OPAQUE, bindings_of, is_kernel_call, patterns_of


def shifted_reads(mod: tvm.IRModule) -> dict[Any, set[Any]]:
    """Of each pad, by its variable, the arguments that follow from a reshape that divides."""
    functions = {gv: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    patterns = patterns_of(functions)
    divides = {gv: _divides(f) for gv, f in functions.items()}
    shifts = {gv: _shifts(f) for gv, f in functions.items()}
    divided: set[Any] = set()
    cuts: dict[Any, set[Any]] = {}
    for var, value in bindings_of(mod["main"]):
        if not is_kernel_call(value):
            continue
        function = value.args[0]
        sources = divided.intersection(relax.analysis.free_vars(value))
        if sources and shifts.get(function):
            cuts[var] = sources
        elif patterns.get(function, OPAQUE) <= INJECTIVE and (sources or divides.get(function)):
            divided.add(var)
    return cuts


def _shifts(function: tirx.PrimFunc) -> bool:
    """Whether a function reads before a place along two axes at least: a pad at their begins."""
    return any(sum(map(_is_before, load.indices)) > 1 for load, _ in _loads(function))


def _is_before(index: Any) -> bool:
    return type(index) is prim.Sub and int(getattr(index.b, "value", 0)) > 0


def _divides(function: tirx.PrimFunc) -> bool:
    """Whether a place that a function reads is a quotient of its own, as where it joins axes."""
    found: list[Any] = []
    for load, axes in _loads(function):
        analyzer = sym.Analyzer()
        for var, extent in axes.items():
            analyzer.bind(var, extent)
        for index in load.indices:
            simple = analyzer.simplify(index)
            tvm_ffi.structural_walk(simple, (prim.FloorDiv, lambda node: found.append(node)))
    return bool(found)


def _loads(function: tirx.PrimFunc) -> list[tuple[Any, dict[Any, Range]]]:
    """Every load in a function's blocks, with the ranges of the block's axes."""
    found: list[tuple[Any, dict[Any, Range]]] = []

    def see(block: Any) -> None:
        axes = {axis.var: axis.dom for axis in block.iter_vars}
        tvm_ffi.structural_walk(
            block.body, (ir.TensorLoad, lambda load: found.append((load, axes)))
        )

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, see))
    return found
