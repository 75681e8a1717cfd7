"""Several calls of TensorIR functions as one, before TVM's fusion joins others to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from .cancelling import cancelling
from .kernel_calls import OUT_FUSABLE, bindings_of, is_kernel_call
from .node_names import Nodes, node_of

# Calls and what they are bound to, in order.
Group = list[tuple[Any, relax.Call]]


def join_calls(
    mod: tvm.IRModule, groups: list[Group], name: str, fits: Callable[[tirx.PrimFunc], bool]
) -> tuple[tvm.IRModule, Nodes]:
    """``main`` with groups of calls as one call each, and the nodes of the model in each of these.

    What follows such a call element by element may become one kernel with it. So none ends with a
    sum that what follows takes back: fusion would not see it.

    Args:
        groups: in the order of their last calls, whose results alone are read elsewhere.
        name: what their results' names begin with.
        fits: whether there is a schedule for a function; what has none stays as it is.
    """
    taken_back = set().union(*cancelling(mod).values()) if groups else set()
    groups = [group for group in groups if group[-1][0] not in taken_back]
    while groups:
        joined, calls = _joined(mod, groups, name)
        fitting = {gv for gv in {call.args[0] for _, call in calls} if fits(joined[gv])}
        kept = [
            group for group, (_, call) in zip(groups, calls, strict=True) if call.args[0] in fitting
        ]
        if len(kept) == len(groups):
            of_groups = {
                str(var.name): list(dict.fromkeys(node_of(*each) for each in group))
                for group, (var, _) in zip(groups, calls, strict=True)
            }
            return joined, {**_nodes_of_outputs(mod["main"]), **of_groups}
        groups = kept
    return mod, {}


def _nodes_of_outputs(main: relax.Function) -> Nodes:
    """The nodes of calls that have a second name as an output of their block, by that name: it is
    the only one where ``_joined`` has written the function anew."""
    calls = {var: value for var, value in bindings_of(main) if is_kernel_call(value)}
    return {
        str(var.name): [node_of(value, calls[value])]
        for var, value in bindings_of(main)
        if isinstance(value, relax.Var) and value in calls
    }


def read_by(calls: Collection[Any], group: Collection[Any]) -> list[Any]:
    """The variables and constants that some calls read and none of a group makes."""
    found: list[Any] = []
    for call in calls:
        for field in call.args[1].fields:
            if field not in group and not any(field.same_as(other) for other in found):
                found.append(field)
    return found


def _joined(
    mod: tvm.IRModule, groups: list[Group], name: str
) -> tuple[tvm.IRModule, list[tuple[Any, relax.Call]]]:
    """``main`` with groups of calls as one each, and these, with what they are bound to."""
    others = {gv.name_hint for gv in mod.get_global_vars()}
    joiner = _Joiner(mod)
    main = mod.get_global_var("main")
    joiner.builder_.update_func(main, joiner.joined(mod[main], groups, name))
    mod = relax.transform.FuseTIR()(joiner.builder_.get())
    made = [
        (var, value)
        for var, value in bindings_of(mod["main"])
        if is_kernel_call(value) and value.args[0].name_hint not in others
    ]
    for gv in {call.args[0] for _, call in made}:
        mod.update_func(gv, mod[gv].with_attr("op_pattern", OUT_FUSABLE))
    return mod, made


@mutator
class _Joiner(PyExprMutator):
    def joined(self, main: relax.Function, groups: list[Group], name: str) -> relax.Function:
        self._name = name
        self._ends = {group[-1][0]: group for group in groups}
        self._inside = {var for group in groups for var, _ in group[:-1]}
        return self.visit_expr(main)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var = binding.var
        if var in self._ends:
            call = self._call(self._ends[var])
            inside = isinstance(var, relax.DataflowVar)
            emit = self.builder_.emit if inside else self.builder_.emit_output
            # Of a name of its own: several calls may be named after one node.
            self.set_var_remap(var, emit(call, f"{self._name}_{list(self._ends).index(var)}"))
        elif var not in self._inside:
            super().visit_var_binding_(binding)

    def _call(self, group: Group) -> relax.Call:
        read = read_by([call for _, call in group], {var for var, _ in group})
        params = [relax.Var(f"p{number}", field.ty) for number, field in enumerate(read)]
        inside = list(zip(read, params, strict=True))
        builder = relax.BlockBuilder()
        with builder.function(self._name, params):
            with builder.dataflow():
                for var, call in group:
                    fields = [
                        next(new for old, new in inside if field.same_as(old))
                        for field in call.args[1].fields
                    ]
                    arguments = [call.args[0], relax.Tuple(fields)]
                    emit = builder.emit_output if var is group[-1][0] else builder.emit
                    made = emit(relax.Call(call.op, arguments, call.attrs, call.ty_args))
                    inside.append((var, made))
            builder.emit_func_output(made)
        function = (
            builder.get()[self._name].without_attr("global_symbol").with_attr("Primitive", True)
        )
        names = [str(call.args[0].name_hint) for _, call in group]
        gv = self.builder_.add_func(function, "_".join(["fused", *names]))
        return relax.Call(gv, [self.visit_expr(field) for field in read])
