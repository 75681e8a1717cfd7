"""Reshapes behind products, moved behind what is computed element by element.

Exporters write products of matrices between reshapes: what is added to one after it, a residual
for one, cannot become a part of its kernel then, and takes one of its own. Behind it the reshape
is a view, which needs no kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import operator_of
from .rewriting import constant_of, value_of

_OF_ONE = {f"relax.{name}" for name in ("nn.relu", "nn.silu", "sigmoid", "tanh", "erf", "exp")}
_OF_TWO = {
    f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
}
_SUMS = {f"relax.{name}" for name in ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv2d_transpose")}


def sink_reshapes(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with reshapes of products behind the elementwise operators that follow them."""
    rewriter = _Rewriter(mod)
    main = mod.get_global_var("main")
    rewriter.builder_.update_func(main, rewriter.visit_expr(mod[main]))
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        if name not in _OF_ONE | _OF_TWO:
            return call
        for place, argument in enumerate(call.args):
            before = value_of(argument, self.lookup_binding)
            whole = _shape(call)
            if operator_of(before) != "relax.reshape" or -1 in whole or _shape(argument) != whole:
                continue
            source = before.args[0]
            if not self._of_sum(source):
                continue
            others = [self._like(a, source, call) for a in call.args]
            others[place] = source
            if None not in others:
                inner = self.builder_.emit(relax.Call(call.op, others, call.attrs))
                return relax.op.reshape(inner, call.ty.shape)
        return call

    def _of_sum(self, expr: Any) -> bool:
        """Whether a product made it, with nothing after but operators of single elements."""
        found = value_of(expr, self.lookup_binding)
        name = operator_of(found)
        if name in _OF_ONE | _OF_TWO:
            return any(self._of_sum(a) for a in found.args if _shape(a) == _shape(found))
        return name in _SUMS

    def _like(self, other: Any, source: Any, call: relax.Call) -> Any:
        """Another operand for a result of the shape of ``source``; None where there is none."""
        shape, given, whole = _shape(source), _shape(other), _shape(call)
        if given == whole:
            return self.builder_.emit(relax.op.reshape(other, shape))
        if math.prod(given) == 1:
            return self.builder_.emit(relax.op.reshape(other, ()))
        # A value for each place of the last axis, which both have.
        value = constant_of(other, self.lookup_binding)
        last = whole[-1]
        if value is None or value.size != last or given[-1] != last or shape[-1] != last:
            return None
        return relax.const(np.ascontiguousarray(value.reshape(last)))


def _shape(expr: Any) -> tuple[int, ...]:
    """The extents of a tensor; those of anything else, or not known, are as of no other."""
    shape = getattr(getattr(expr, "ty", None), "shape", None)
    extents = [getattr(extent, "value", None) for extent in getattr(shape, "values", [None])]
    return tuple(-1 if extent is None else int(extent) for extent in extents)
