"""What passes over Relax functions share: constants behind names, and new values for variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from .operators import operator_of


def constant_of(expr: Any, lookup: Callable[[Any], Any]) -> np.ndarray | None:
    """The numbers of a constant, seen through names and turned axes; None for anything else.

    lookup: what a variable is bound to, or None.
    """
    while isinstance(expr, relax.Var):
        expr = lookup(expr)
    if isinstance(expr, GenericConst):
        return expr.value.numpy()
    if operator_of(expr) != "relax.permute_dims":
        return None
    source = constant_of(expr.args[0], lookup)
    axes = expr.attrs.axes and [int(axis) for axis in expr.attrs.axes]
    return None if source is None else source.transpose(axes)


def rebind(mutator: Any, var: relax.Var, expr: Any) -> None:
    """Bind ``expr`` in the place of ``var``, by its name; an output of its block stays one."""
    inside = isinstance(var, relax.DataflowVar)
    emit = mutator.builder_.emit if inside else mutator.builder_.emit_output
    mutator.set_var_remap(var, emit(expr, str(var.name)))
