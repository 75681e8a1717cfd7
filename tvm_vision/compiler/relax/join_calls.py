"""Several calls of TensorIR functions as one, before TVM's fusion joins others to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from .cancelling import cancelling
from .kernel_calls import (
    OUT_FUSABLE,
    KernelCalls,
    bindings_of,
    is_kernel_call,
    patterns_of,
)
from .node_names import Nodes, node_of
from .rewriting import rebind

# Calls and what they are bound to, in order.
Group = list[tuple[Any, relax.Call]]


class Calls:
    """The calls of ``main``, and who reads their results.

    Attributes:
        bound: (variable, call) of each, in order.
        of: variable -> its call, and ``order`` -> its place among them.
        sources: variable -> the variables that its call reads.
        readers: variable -> the variables of whatever reads it; None for a result of ``main``.
        patterns: variable -> how TVM's fusion sees what is called.
        apart: of the variables of sums that take back another one, these others.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        functions = {gv: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
        patterns = patterns_of(functions)
        self.bound = KernelCalls(mod["main"]).bound
        self.of = dict(self.bound)
        self.order = {var: place for place, (var, _) in enumerate(self.bound)}
        self.sources = {var: list(relax.analysis.free_vars(call)) for var, call in self.bound}
        self.readers: dict[Any, set[Any]] = {}
        for var, value in bindings_of(mod["main"]):
            for used in relax.analysis.free_vars(value):
                self.readers.setdefault(used, set()).add(var)
        for used in relax.analysis.free_vars(mod["main"].body.body):
            self.readers.setdefault(used, set()).add(None)
        self.patterns = {var: patterns[call.args[0]] for var, call in self.bound}
        self.apart = cancelling(mod)

    def tensors(self, group: Collection[Any]) -> int:
        """What one function of some calls reads and writes."""
        return 1 + len(_read_by([self.of[var] for var in group], group))

    def cancel(self, group: Collection[Any]) -> bool:
        """Whether a sum takes back what another call of a group adds."""
        return any(not self.apart.get(var, set()).isdisjoint(group) for var in group)

    def group(self, members: Collection[Any]) -> Group:
        """The calls of some variables, in order."""
        return [(var, self.of[var]) for var in sorted(members, key=self.order.__getitem__)]


def join_calls(
    mod: tvm.IRModule, calls: Calls, groups: list[Group], name: str,
    fits: Callable[[tirx.PrimFunc], bool],
) -> tuple[tvm.IRModule, Nodes]:  # fmt: skip
    """``main`` with groups of calls as one call each, and the nodes of the model in each of these.

    What follows such a call element by element may become one kernel with it. So none ends with a
    sum that what follows takes back: fusion would not see it.

    Args:
        calls: those of the module.
        groups: of these; their last calls' results alone are read elsewhere.
        name: what their results' names begin with.
        fits: whether there is a schedule for a function; what has none stays as it is.
    """
    taken_back = set().union(*calls.apart.values())
    groups = sorted(
        (group for group in groups if group[-1][0] not in taken_back),
        key=lambda group: calls.order[group[-1][0]],
    )
    while groups:
        joined, made = _joined(mod, groups, name)
        fitting = {gv for gv in {call.args[0] for _, call in made} if fits(joined[gv])}
        kept = [
            group for group, (_, call) in zip(groups, made, strict=True) if call.args[0] in fitting
        ]
        if len(kept) == len(groups):
            of_groups = {
                str(var.name): list(dict.fromkeys(node_of(*each) for each in group))
                for group, (var, _) in zip(groups, made, strict=True)
            }
            return joined, {**_nodes_of_outputs(calls, mod["main"]), **of_groups}
        groups = kept
    return mod, {}


def _nodes_of_outputs(calls: Calls, main: relax.Function) -> Nodes:
    """The nodes of calls that have a second name as an output of their block, by that name: it is
    the only one where ``_joined`` has written the function anew."""
    return {
        str(var.name): [node_of(value, calls.of[value])]
        for var, value in bindings_of(main)
        if isinstance(value, relax.Var) and value in calls.of
    }


def _read_by(calls: Collection[Any], group: Collection[Any]) -> list[Any]:
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
        self._ends = {group[-1][0]: (number, group) for number, group in enumerate(groups)}
        self._inside = {var for group in groups for var, _ in group[:-1]}
        return self.visit_expr(main)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var = binding.var
        if var in self._ends:
            number, group = self._ends[var]
            # Of a name of its own: several calls may be named after one node.
            rebind(self, var, self._call(group), f"{self._name}_{number}")
        elif var not in self._inside:
            super().visit_var_binding_(binding)

    def _call(self, group: Group) -> relax.Call:
        read = _read_by([call for _, call in group], {var for var, _ in group})
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
