"""Pools move before the concatenation that they read, where that is along channels within pixels.

A pool takes each channel for itself, so that pools of the parts, concatenated, are the same. With
channels last no concatenation is in place: before a pool it is a kernel that reads and writes all
of what the pool then makes smaller. After it, it is smaller, and most often the selection of a
convolution (graph/fuse_data_movement.py).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import operator_of
from .rewriting import rebind, resolve

_POOLS = ("relax.nn.max_pool2d", "relax.nn.avg_pool2d")


def pools_before_concats(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with pools of what is concatenated for them alone before the concatenation."""
    main = mod.get_global_var("main")
    rewriter = _Rewriter(mod)
    rewriter.parts = _parts(mod[main])
    if not rewriter.parts:
        return mod
    rewriter.builder_.update_func(main, rewriter.visit_expr(mod[main]))
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


def _parts(main: relax.Function) -> dict[Any, tuple[list[Any], int]]:
    """What each such pool, by its variable, reads, and the axis it is concatenated along."""
    bound = dict(bindings_of(main))
    uses = Counter(v for value in bound.values() for v in relax.analysis.free_vars(value))
    uses.update(relax.analysis.free_vars(main.body.body))
    found = {}
    for var, pool in bound.items():
        if operator_of(pool) not in _POOLS:
            continue
        read = resolve(pool.args[0], bound.get)
        concat: Any = bound.get(read) if isinstance(read, relax.Var) else None
        if operator_of(concat) != "relax.concat" or uses[read] != 1:
            continue
        parts = resolve(concat.args[0], bound.get)
        axis = int(concat.attrs.axis or 0) % pool.args[0].ty.ndim
        if isinstance(parts, relax.Tuple) and _within_pixels(pool, axis):
            found[var] = (list(parts.fields), axis)
    return found


def _within_pixels(pool: relax.Call, axis: int) -> bool:
    """Whether an axis is that of channels, with more than one element before it."""
    layout, shape = str(pool.attrs.layout), pool.args[0].ty.shape
    if str(pool.attrs.out_layout or layout) != layout or shape is None:
        return False
    sizes = [getattr(size, "value", 0) for size in shape.values]
    return layout.find("C") == axis and math.prod(map(int, sizes[:axis])) > 1


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    parts: dict[Any, tuple[list[Any], int]]

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var not in self.parts:
            super().visit_var_binding_(binding)
            return
        pool, (parts, axis) = binding.value, self.parts[binding.var]
        pooled = [
            self.builder_.emit(relax.Call(pool.op, [self.visit_expr(part)], pool.attrs))
            for part in parts
        ]
        rebind(self, binding.var, relax.op.concat(pooled, axis))
