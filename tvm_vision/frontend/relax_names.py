"""Names of layers on the variables of a Relax function."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .node_names import variable_hint


def name_bindings(
    module: tvm.IRModule, layer_of: Callable[[relax.Var], str | None]
) -> tvm.IRModule:
    """``module`` with each variable in a dataflow block of ``main`` named after its layer.

    layer_of: the layer whose result a variable is, or None for a step on the way to the next one
    that is: such a step gets the same name.
    """
    main = module["main"]
    renamed = _Namer(layer_of).visit_expr(main)
    module["main"] = renamed.with_attrs(main.attrs) if main.attrs else renamed
    return module


@mutator
class _Namer(PyExprMutator):
    def __init__(self, layer_of: Callable[[relax.Var], str | None]) -> None:
        super().__init__()
        self._layer_of = layer_of
        self._layers: dict[relax.Var, str | None] = {}

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.BindingBlock:
        layer = None
        for binding in reversed(block.bindings):
            layer = self._layer_of(binding.var) or layer
            self._layers[binding.var] = layer
        return super().visit_dataflow_block_(block)

    def visit_dataflow_var_def_(self, var: relax.DataflowVar) -> relax.Var:
        layer = self._layers.get(var)
        if layer is None:
            return super().visit_dataflow_var_def_(var)
        renamed = relax.DataflowVar(variable_hint(layer), var.ty)
        self.set_var_remap(var, renamed)
        return renamed
