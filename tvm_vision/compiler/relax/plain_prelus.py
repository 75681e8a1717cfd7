"""PReLU as operators that all passes know: of one slope a leaky ReLU, of others what is above 0 and
the slopes times what is below.

PyTorch's has one slope unless more are asked for. As an operator of its own with slopes along an
axis it follows no convolution that stores its channels in another place, and that of one slope,
which an exporter puts on the last axis, none at all.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import calls_any, constant_like, constant_of, rewritten, value_of

_PRELU = "relax.nn.prelu"


def plain_prelus(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` without PReLU of constant slopes."""
    return rewritten(mod, _Rewriter(mod)) if calls_any(mod, [_PRELU]) else mod


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._name = str(binding.var.name)
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        return self._plain(call) if operator_of(call) == _PRELU else call

    def _plain(self, call: relax.Call) -> relax.Expr:
        x = call.args[0]
        given = value_of(call.args[1], self.lookup_binding)
        # Importers give them one axis, before constants are folded.
        source = given.args[0] if operator_of(given) == "relax.reshape" else given
        shape, slopes = fixed_shape(x), constant_of(source, self.lookup_binding)
        if shape is None or slopes is None or slopes.size == 0:
            return call
        slopes = slopes.reshape(-1)
        first = slopes[0]
        if (slopes == first).all():
            return relax.op.nn.leakyrelu(x, float(first))
        behind = len(shape) - 1 - int(call.attrs.axis) % len(shape)
        of_axis = constant_like(slopes.reshape(-1, *[1] * behind))
        zero = relax.const(0, str(x.ty.dtype))
        below = self._emit(relax.op.minimum(x, zero))
        return relax.op.add(
            self._emit(relax.op.nn.relu(x)), self._emit(relax.op.multiply(below, of_axis))
        )

    def _emit(self, value: Any) -> Any:
        return self.builder_.emit(value, self._name)
