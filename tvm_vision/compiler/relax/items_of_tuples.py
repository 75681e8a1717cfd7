"""Items of tuples that are written out, by the names of what they are.

TVM takes a batch normalization apart into a tuple, of which the first item is used. An item looks
like nothing that could be fused, so that what follows would be a kernel of its own.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .rewriting import resolve, rewritten


def items_of_tuples(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such items in place of them; each keeps the name of a node that it had as an
    item."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod)))


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        bound = dict(bindings_of(mod["main"]))
        # Of variables within a block, what they are items of; and the names those get.
        self._items: dict[Any, Any] = {}
        self._named: dict[Any, str] = {}
        for var, value in bound.items():
            if isinstance(value, relax.TupleGetItem) and isinstance(var, relax.DataflowVar):
                found = resolve(var, bound.get)
                if isinstance(found, relax.DataflowVar) and not found.same_as(var):
                    self._items[var] = found
                    if isinstance(bound.get(found), relax.Call):
                        self._named.setdefault(found, str(var.name))

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var = binding.var
        if var in self._items:
            self.set_var_remap(var, self.visit_expr(self._items[var]))
        elif var in self._named:
            made = self.builder_.emit(self.visit_expr(binding.value), self._named[var])
            self.set_var_remap(var, made)
        else:
            super().visit_var_binding_(binding)
