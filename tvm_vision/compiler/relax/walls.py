"""Walls between the calls that must not become one kernel: opaque calls, taken out after fusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_vision.topi.copy import copy_kernel
from tvm_vision.tvm_compat.relax import set_type

from .kernel_calls import MOST_CALLS, OPAQUE, KernelCalls, called_function, is_kernel_call

WALL = "fusion_wall"
# Of a variable, the arguments of its call that fusion must leave apart.
Cuts = dict[Any, set[Any]]


def fused_calls(mod: tvm.IRModule) -> tvm.IRModule:
    """``mod`` with what FuseOps makes of its calls, and without what nobody calls."""
    passes = [relax.transform.FuseOps(), relax.transform.DeadCodeElimination()]
    now = tvm.transform.PassContext.current()
    config = {**now.config, "relax.FuseOps.max_depth": MOST_CALLS}
    with tvm.transform.PassContext(
        now.opt_level, now.required_pass, now.disabled_pass, now.instruments, config
    ):
        return tvm.transform.Sequential(passes)(mod)


def with_walls(mod: tvm.IRModule, cuts: Cuts) -> tvm.IRModule:
    """``mod`` with a wall before each argument that is cut off."""
    places: dict[Any, list[int]] = {}
    walls: dict[tuple[Any, ...], Any] = {}
    functions = dict(mod.functions_items())
    taken = {gv.name_hint for gv in functions}
    for var, call in KernelCalls(mod["main"]).bound:
        found = [i for i, a in enumerate(call.args[1].fields) if a in cuts.get(var, ())]
        places[var] = found
        for at in found:
            key = _shape(call.args[1].fields[at].ty)
            if key not in walls:
                name = next(n for i in range(len(taken) + 1) if (n := f"{WALL}_{i}") not in taken)
                taken.add(name)
                walls[key] = tvm.ir.GlobalVar(name)
                function = copy_kernel(*key).with_attr("op_pattern", OPAQUE)
                functions[walls[key]] = function
                set_type(walls[key], function.ty)

    def walled(var: Any, call: relax.Call, builder: relax.BlockBuilder) -> relax.Call:
        fields = list(call.args[1].fields)
        for at in places.get(var, ()):
            of = fields[at].ty
            fields[at] = builder.emit(relax.call_tir(walls[_shape(of)], [fields[at]], of))
        return relax.Call(call.op, [call.args[0], relax.Tuple(fields)], call.attrs, call.ty_args)

    if not walls:
        return mod
    return rewritten_calls(tvm.IRModule(functions, attrs=mod.attrs), walled)


def without_walls(mod: tvm.IRModule) -> tvm.IRModule:
    """``mod`` with what is behind each wall in its place."""

    def opened(_var: Any, call: relax.Call, _builder: relax.BlockBuilder) -> relax.Expr:
        return call.args[1].fields[0] if str(called_function(call)).startswith(WALL) else call

    opened_up = rewritten_calls(mod, opened)
    kept = {gv: f for gv, f in opened_up.functions_items() if not gv.name_hint.startswith(WALL)}
    return tvm.IRModule(kept, attrs=mod.attrs)


Change = Callable[[Any, relax.Call, relax.BlockBuilder], relax.Expr]


def rewritten_calls(mod: tvm.IRModule, change: Change) -> tvm.IRModule:
    """``mod`` with what ``change`` makes of each call of a TensorIR function in ``main``."""
    rewriter = _Rewriter(mod)
    main = mod.get_global_var("main")
    rewriter.builder_.update_func(main, rewriter.rewritten(mod[main], change))
    return rewriter.builder_.get()


@mutator
class _Rewriter(PyExprMutator):
    def rewritten(self, main: relax.Function, change: Change) -> relax.Function:
        self._change = change
        return self.visit_expr(main)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._bound = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        return self._change(self._bound, call, self.builder_) if is_kernel_call(call) else call


def _shape(of: Any) -> tuple[tuple[int, ...], str]:
    return tuple(int(n.value) for n in of.shape), str(of.dtype)
