"""Turns of axes that move nothing in memory become reshapes, which need no kernel.

Where only axes of one element change places, as after a global pool with channels last, the numbers
stay where they are. Reshapes of reshapes become one, or none where they end as they began, so that
none of them is fused to a kernel.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax

from .operators import operator_of
from .rewriting import value_of


def fold_transposes(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such turns as reshapes."""
    rewriter = _Rewriter(mod)
    main = mod.get_global_var("main")
    rewriter.builder_.update_func(main, rewriter.visit_expr(mod[main]))
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if isinstance(binding.var, relax.DataflowVar) and operator_of(binding.value):
            value = self.visit_expr(binding.value)
            if isinstance(value, relax.Var):
                # A second name for a tensor would end the kernel that makes it.
                self.set_var_remap(binding.var, value)
                return
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not (operator_of(call) == "relax.reshape" or _moves_nothing(call)):
            return call
        source = call.args[0]
        before = value_of(source, self.lookup_binding)
        if operator_of(before) == "relax.reshape":
            source = before.args[0]
        if tvm_ffi.structural_equal(source.ty.shape, call.ty.shape):
            return source
        return relax.op.reshape(source, call.ty.shape)


def _moves_nothing(call: relax.Call) -> bool:
    """Whether a call turns axes, and those of more than one element keep their order."""
    if operator_of(call) != "relax.permute_dims" or call.args[0].ty.shape is None:
        return False
    extents = call.args[0].ty.shape.values
    axes = [int(axis) for axis in call.attrs.axes or reversed(range(len(extents)))]
    moved = [axis for axis in axes if getattr(extents[axis], "value", None) != 1]
    return moved == sorted(moved)
