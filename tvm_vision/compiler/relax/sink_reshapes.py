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
from tvm import relax, tirx

from .kernel_calls import OUT_FUSABLE, is_kernel_call, patterns_of
from .operators import UNARY, operator_of
from .rewriting import constant_of, resolve, rewritten, value_of

_OF_ONE = {f"relax.{name}" for name in UNARY}
_OF_TWO = {
    f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
}
_SUMS = {f"relax.{name}" for name in ("matmul", "nn.conv2d", "nn.conv2d_transpose")}


# Axes of an image whose channels lie in blocks: what follows on those is in that order already.
BLOCKED = 5


def sink_reshapes(mod: tvm.IRModule, written: bool = False) -> tvm.IRModule:
    """``main`` with reshapes of products behind the elementwise operators that follow them.

    Args:
        written: whether products that are functions already count, as those of processors are.
    """
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod, written)))


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, written: bool) -> None:
        super().__init__(mod)
        functions = mod.functions.items() if written else ()
        self._patterns = patterns_of({gv: f for gv, f in functions if isinstance(f, tirx.PrimFunc)})
        # Variables that a product made, with nothing after but operators of single elements, and
        # which of them came how late.
        self._of_sum: dict[Any, int] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._name = str(binding.var.name)
        super().visit_var_binding_(binding)
        self._note(self.visit_expr(binding.var))

    def _note(self, var: relax.Var) -> None:
        """Whether what a variable is bound to comes of a product; its operands are known."""
        found = value_of(var, self.lookup_binding)
        name = operator_of(found)
        if name in _SUMS or self._is_written_sum(found) or (
            name in _OF_ONE | _OF_TWO
            and any(resolve(a, self.lookup_binding) in self._of_sum for a in found.args
                    if _shape(a) == _shape(found))
        ):  # fmt: skip
            self._of_sum.setdefault(var, len(self._of_sum))

    def _is_written_sum(self, expr: Any) -> bool:
        """Whether it is a product of rows that is a function already."""
        if not is_kernel_call(expr) or len(_shape(expr)) >= BLOCKED:
            return False
        return self._patterns.get(expr.args[0]) == OUT_FUSABLE

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        if name not in _OF_ONE | _OF_TWO:
            return call
        for place, source in self._reshaped_sums(call):
            others = [self._like(a, source, call) for a in call.args]
            others[place] = source
            if None not in others:
                inner = self.builder_.emit(relax.Call(call.op, others, call.attrs), self._name)
                self._note(inner)
                return relax.op.reshape(inner, call.ty.shape)
        return call

    def _reshaped_sums(self, call: relax.Call) -> list[tuple[int, Any]]:
        """Which operands are reshapes of what products made, and of what: the latest first, whose
        kernel can take the operator in, where an earlier one has another reader mostly. None where
        the latest is no reshape."""
        found, whole = [], _shape(call)
        direct = -1
        for place, argument in enumerate(call.args):
            if -1 in whole or _shape(argument) != whole:
                continue
            source = argument
            while operator_of(value_of(source, self.lookup_binding)) == "relax.reshape":
                source = value_of(source, self.lookup_binding).args[0]
            number = self._of_sum.get(resolve(source, self.lookup_binding), -1)
            if _shape(source) == whole:  # of there and back nothing is left
                direct = max(direct, number)
            else:
                found.append((number, place, source))
        found = sorted((one for one in found if one[0] > direct), key=lambda one: -one[0])
        return [(place, source) for _, place, source in found]

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
