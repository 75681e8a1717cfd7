"""Which nodes of the model a fused kernel computes.

A front end names the variable of each binding after the node that it comes from. Fusion drops these
names, and merges groups that are alike; so each call inside a group is found again, by its
function and its arguments, among the calls from before the fusion.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from ...frontend.node_names import node_name
from .kernel_calls import bindings_of, called_function

Scope = dict[Any, Hashable]
# By the name of the variable that several calls in one are bound to: the nodes of all of them.
Nodes = Mapping[str, Sequence[str]]


class NodeNames:
    """The calls in ``main`` of ``calls``, before fusion, each with its node, or with those that
    ``joined`` has for it."""

    def __init__(self, calls: tvm.IRModule, joined: Nodes | None = None) -> None:
        # (function, identities of its arguments) -> (identity of its result, nodes), in order.
        self._calls: dict[Hashable, deque[tuple[Hashable, Sequence[str]]]] = defaultdict(deque)
        scope = _outer_scope(calls)
        for position, (var, value) in enumerate(bindings_of(calls["main"])):
            name = called_function(value)
            if name is None:
                scope[var] = _identity(value, scope)
                continue
            equal = self._calls[name, _identity(value.args[1], scope)]
            # Equal calls have one result: fusion may give a reader any of them.
            scope[var] = equal[0][0] if equal else ("call", position)
            nodes = (joined or {}).get(str(var.name)) or [node_of(var, value)]
            equal.append((scope[var], nodes))

    def of_calls(self, fused: tvm.IRModule) -> list[list[str]]:
        """The nodes in each call in ``main`` of ``fused``, in order and without repetition.

        fused: the same module, before or after FuseOps. Where a call is not found, its function's
        name stands for the node.
        """
        remaining = {key: deque(found) for key, found in self._calls.items()}
        functions = {gv.name_hint: f for gv, f in fused.functions_items()}
        scope = _outer_scope(fused)
        names = []
        for var, value in bindings_of(fused["main"]):
            name = called_function(value)
            if name is None:
                scope[var] = _identity(value, scope)
                continue
            found: list[str] = []
            group = functions.get(name)
            if isinstance(group, relax.Function):
                inner = dict(
                    zip(group.params, (_identity(a, scope) for a in value.args), strict=True)
                )
                scope[var] = self._inside(group, inner, remaining, found)
            else:
                scope[var] = _match(value, name, scope, remaining, found)
            names.append(list(dict.fromkeys(found)))
        return names

    def _inside(
        self, group: relax.Function, scope: Scope, remaining: dict[Any, Any], found: list[str]
    ) -> Hashable:
        for var, value in bindings_of(group):
            name = called_function(value)
            if name is None:
                scope[var] = _identity(value, scope)
            else:
                scope[var] = _match(value, name, scope, remaining, found)
        return _identity(group.body.body, scope)


def _match(
    call: Any, name: str, scope: Scope, remaining: dict[Any, Any], found: list[str]
) -> Hashable:
    """The identity of a call's result; its nodes are added to ``found``."""
    matches = remaining.get((name, _identity(call.args[1], scope)))
    if not matches:
        found.append(name)
        return ("unknown", name)
    # Equal calls are told apart by their order; the last one may serve again.
    identity, nodes = matches.popleft() if len(matches) > 1 else matches[0]
    found.extend(nodes)
    return identity


def node_of(var: Any, call: Any) -> str:
    """The node that a call is bound for, or else the name of what it calls."""
    return node_name(str(var.name)) or str(called_function(call))


def _outer_scope(mod: tvm.IRModule) -> Scope:
    return {param: ("input", i) for i, param in enumerate(mod["main"].params)}


def _identity(expr: Any, scope: Scope) -> Hashable:
    """What ``expr`` is, in terms that fusion does not change."""
    if isinstance(expr, relax.Var):
        return scope.get(expr)
    if isinstance(expr, GenericConst):
        return ("constant", expr.value.__chandle__())
    if isinstance(expr, relax.Tuple):
        return ("tuple", *(_identity(field, scope) for field in expr.fields))
    if isinstance(expr, relax.TupleGetItem):
        of = _identity(expr.tuple_value, scope)
        # A tuple made in place is seen through: fusion removes it.
        if isinstance(of, tuple) and of[0] == "tuple":
            return of[1 + expr.index]
        return ("item", of, expr.index)
    return str(expr)
