"""Operators of our own, which TVM has not: calls by name until the target is known.

A front end writes them as ``call_dps_packed``, whose types are those of its results; here each
becomes a kernel for the current target. Behind the name may stand what is no tensor, as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.target import Target

from ...topi.deformed_taps import TapForm, deformed_taps
from ...topi.forms import TextForm
from ...topi.placed_max import PoolForm, placed_max
from ...topi.regions import RegionForm, regions
from ...topi.suppression import suppression
from ..tir.cast_buffers import LOADS_AND_STORES
from .recurrences import recurrent_kernel

CALL = "relax.call_dps_packed"
# Of a builder, a call, and the text behind its name.
Legalize = Callable[[relax.BlockBuilder, relax.Call, str], relax.Expr]


def _suppression(builder: relax.BlockBuilder, call: relax.Call, _text: str) -> relax.Expr:
    most = int(call.ty.fields[0].shape[1])
    return suppression(builder, list(call.args[1].fields), most)


def _of_form(name: str, form_of: type[TextForm], compute: Callable[..., Any]) -> Legalize:
    """``compute(tensors, form, on_gpu)``, its form behind the call's name; what is read where, and
    the shares of what is read, stay float32."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call, text: str) -> relax.Expr:
        form = form_of.from_json(text)
        on_gpu = "gpu" in Target.current().keys
        return builder.call_te(
            lambda *tensors: compute(list(tensors), form, on_gpu),
            *call.args[1].fields,
            primfunc_name_hint=name,
            primfunc_attrs={LOADS_AND_STORES: True},
        )

    return legalize


OPERATORS: dict[str, Legalize] = {
    "tvm_vision.deformed_taps": _of_form(
        "deformed_taps", TapForm, lambda of, *how: deformed_taps(of[0], of[1:], *how)
    ),
    "tvm_vision.placed_max": _of_form(
        "placed_max", PoolForm, lambda of, *how: placed_max(*of, *how)
    ),
    "tvm_vision.recurrence": recurrent_kernel,
    "tvm_vision.regions": _of_form("regions", RegionForm, lambda of, *how: regions(*of, *how)),
    "tvm_vision.suppression": _suppression,
}


@relax.expr_functor.mutator
class _Legalizer(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if getattr(call.op, "name", "") != CALL:
            return call
        name, _, text = str(call.args[0].global_symbol).partition(" ")
        legalize = OPERATORS.get(name)
        return call if legalize is None else legalize(self.builder_, call, text)


@tvm.transform.module_pass(opt_level=0, name="LegalizeOwnOperators")
class LegalizeOwnOperators:
    """Kernels for the current target in place of the calls of OPERATORS."""

    def transform_module(self, mod: tvm.IRModule, context: Any) -> tvm.IRModule:
        mutator = _Legalizer(mod)
        for gv, function in mod.functions_items():
            if isinstance(function, relax.Function):
                mutator.builder_.update_func(gv, mutator.visit_expr(function))
        return mutator.builder_.finalize()
