"""Quotients of which the whole part is taken: what divides without a rest gives a whole number.

A place on a map divided by the map's width is its row, as detectors of peaks compute it, and what
is just below a whole number the row before. GPUs divide with an error of up to 2.5 units in the
last place (Vulkan specification, "Precision of Individual Operations"), and a product with 1 / 47
is as far off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tvm
from tvm import relax, te, tirx, topi

from .kernel_calls import bindings_of
from .operators import operator_of
from .rewriting import constant_of, resolve, rewritten, value_of

STEPS = ("relax.floor", "relax.ceil", "relax.trunc")
# What gives one of its operands, by the place of the first: a Cast has a choice before it, for what
# is not finite.
CHOICES = {"relax.where": 1, "relax.clip": 0, "relax.maximum": 0, "relax.minimum": 0}
FLOATS = ("float16", "float32")


def exact_quotients(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with quotients whose whole part is taken as they would be if they were exact."""
    bindings = dict(bindings_of(mod["main"]))
    return rewritten(mod, _Quotients(mod, set(_quotients_in_steps(bindings))))


def _quotients_in_steps(bindings: Mapping[Any, Any]) -> Iterator[Any]:
    """Variables of quotients whose whole part is taken."""
    waiting = [call.args[0] for call in bindings.values() if _takes_whole_part(call)]
    while waiting:
        source = resolve(waiting.pop(), bindings.get)
        value = value_of(source, bindings.get)
        kind = operator_of(value)
        if kind == "relax.divide" and str(value.ty.dtype) in FLOATS:
            yield source
        if kind in CHOICES:
            waiting.extend(value.args[CHOICES[kind] :])


def _takes_whole_part(call: Any) -> bool:
    kind = operator_of(call)
    return kind in STEPS or (kind == "relax.astype" and "int" in str(call.ty.dtype))


@relax.expr_functor.mutator
class _Quotients(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, meant: Collection[Any]) -> None:
        super().__init__(mod)
        self._meant, self._is_meant = meant, False

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._is_meant = binding.var in self._meant
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        is_meant = self._is_meant
        call = self.visit_expr_post_order(call)
        if operator_of(call) == "relax.floor_divide" and str(call.ty.dtype) in FLOATS:
            return relax.op.floor(self.builder_.emit(self._exact(call)))
        return self._exact(call) if is_meant and operator_of(call) == "relax.divide" else call

    def _exact(self, call: relax.Call) -> relax.Call:
        above, below = call.args
        divisor = constant_of(below, self.lookup_binding)
        if divisor is not None and not divisor.shape:
            below = tirx.const(float(divisor), str(divisor.dtype))
        return self.builder_.call_te(
            exact_quotient, above, below, primfunc_name_hint="exact_quotient"
        )


def exact_quotient(above: te.Tensor, below: Any) -> te.Tensor:
    """above / below, which is whole where the nearest whole number times ``below`` is ``above``.

    below: a tensor of a shape that is broadcast with ``above``'s, or a number.
    """
    near = topi.divide(above, below)
    whole = topi.floor(topi.add(near, tirx.const(0.5, above.dtype)))
    return topi.where(topi.equal(topi.multiply(whole, below), above), whole, near)
