"""Numbers that scale a moved factor of a product scale the product.

Attention scales queries, and in some exports keys, where they are turned and cut: a kernel of its
own for each. Scaled after, the product of both is a part of the product's kernel, and what is left
before it only moves, which the product can do as it reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import Names, constant_of, is_constant, rewritten, value_of
from .views import VIEWS

_TURNS = ("relax.permute_dims", "relax.reshape", "relax.expand_dims", "relax.squeeze")


def scale_products(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such numbers behind products of two tensors that are no weights."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod)))


def factor_of(found: Any, lookup: Any) -> tuple[Any, float] | None:
    """What a call multiplies or divides by one number of float32, and by which; None for another.

    The number is finite and not 0, and the result has the tensor's shape.
    """
    if operator_of(found) not in ("relax.multiply", "relax.divide"):
        return None
    for place in (1, 0) if operator_of(found) == "relax.multiply" else (1,):
        value = constant_of(found.args[place], lookup)
        if value is None or value.size != 1 or value.dtype != np.float32:
            continue
        number = float(value.reshape(()))
        if operator_of(found) == "relax.divide":
            number = 1 / number if number else 0.0
        other = found.args[1 - place]
        if number and np.isfinite(number) and fixed_shape(other) == fixed_shape(found):
            return other, number
    return None


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_function_(self, function: relax.Function) -> relax.Expr:
        self._names = Names(function)
        return super().visit_function_(function)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if operator_of(call) != "relax.matmul" or any(
            is_constant(argument, self._names.lookup) for argument in call.args
        ):
            return self.visit_expr_post_order(call)
        factors = [self._unscaled(argument) for argument in call.args]
        scale = np.float32(factors[0][1] * factors[1][1])
        if all(number == 1 for _, number in factors) or not (scale and np.isfinite(scale)):
            return self.visit_expr_post_order(call)
        made = self.builder_.emit(relax.Call(call.op, [f for f, _ in factors], call.attrs))
        return relax.op.multiply(made, relax.const(scale))

    def _unscaled(self, expr: Any) -> tuple[Any, float]:
        """A factor without what scales it, and the number; 1 where nothing does."""
        given = expr
        moves: list[Any] = []
        found = value_of(expr, self._names.lookup)
        while self._names.uses(expr) == 1:
            by = factor_of(found, self._names.lookup)
            if by is not None and operator_of(value_of(by[0], self._names.lookup)) in VIEWS:
                tensor = self.visit_expr(by[0])
                for move in reversed(moves):
                    tensor = self.builder_.emit(
                        relax.Call(move.op, [tensor, *move.args[1:]], move.attrs)
                    )
                return tensor, by[1]
            if operator_of(found) not in _TURNS:
                break
            moves.append(found)
            expr = found.args[0]
            found = value_of(expr, self._names.lookup)
        return self.visit_expr(given), 1.0
