"""Turns of axes that move nothing in memory become reshapes, which need no kernel.

Where only axes of one element change places, as after a global pool with channels last, the numbers
stay where they are. Reshapes of reshapes become one, or none where they end as they began, so that
none of them is fused to a kernel. Arg max of a turned tensor is that along the axis as it lies,
wherever the others keep their order.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from .operators import operator_of
from .rewriting import bind, value_of


def fold_transposes(mod: tvm.IRModule, places: bool = True) -> tvm.IRModule:
    """``main`` with such turns as reshapes; ``places``: and none before arg max and arg min."""
    rewriter = _Rewriter(mod)
    rewriter.places = places
    main = mod.get_global_var("main")
    rewriter.builder_.update_func(main, rewriter.visit_expr(mod[main]))
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    places: bool

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if not operator_of(binding.value):
            super().visit_var_binding_(binding)
            return
        value = self.visit_expr(binding.value)
        bind(self, binding.var, value)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if self.places and operator_of(call) in _PLACES:
            return self._where_it_lies(call)
        if not (operator_of(call) == "relax.reshape" or _moves_nothing(call)):
            return call
        source = call.args[0]
        before = value_of(source, self.lookup_binding)
        if operator_of(before) == "relax.reshape":
            source = before.args[0]
        if tvm_ffi.structural_equal(source.ty.shape, call.ty.shape):
            return source
        return relax.op.reshape(source, call.ty.shape)

    def _where_it_lies(self, call: relax.Call) -> relax.Expr:
        """The place of the largest along the axis as it was before it was turned."""
        turn = value_of(call.args[0], self.lookup_binding)
        if operator_of(turn) != "relax.permute_dims" or call.attrs.axis is None:
            return call
        axes = [int(axis) for axis in turn.attrs.axes or reversed(range(turn.ty.ndim))]
        reduced = axes.pop(int(call.attrs.axis) % len(axes))
        extents = turn.args[0].ty.shape.values
        if not _in_order(axes, extents):
            return call
        found = self.builder_.normalize(_PLACES[operator_of(call)](turn.args[0], reduced))
        if tvm_ffi.structural_equal(found.ty, call.ty):
            return found
        return relax.op.reshape(self.builder_.emit(found), call.ty.shape)


_PLACES = {"relax.argmax": relax.op.argmax, "relax.argmin": relax.op.argmin}


def _moves_nothing(call: relax.Call) -> bool:
    """Whether a call turns axes, and those of more than one element keep their order."""
    if operator_of(call) != "relax.permute_dims" or call.args[0].ty.shape is None:
        return False
    extents = call.args[0].ty.shape.values
    axes = [int(axis) for axis in call.attrs.axes or reversed(range(len(extents)))]
    return _in_order(axes, extents)


def _in_order(axes: list[int], extents: Any) -> bool:
    """Whether those axes that have more than one element keep their order."""
    moved = [axis for axis in axes if getattr(extents[axis], "value", None) != 1]
    return moved == sorted(moved)
