"""What passes over Relax functions share: what stands behind names, and new values for variables.

``lookup`` is what a variable is bound to, or None: ``lookup_binding`` of a mutator, or ``get`` of
``dict(bindings_of(function))``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from .kernel_calls import bindings_of
from .operators import operator_of

Lookup = Callable[[Any], Any]


def resolve(expr: Any, lookup: Lookup) -> Any:
    """What an expression stands for, seen through names and items of tuples that are written out.

    Returns a constant, a tuple, or the variable that an operator's result or an argument is bound
    to; an expression that is none of them as it is.
    """
    if isinstance(expr, relax.TupleGetItem):
        whole = resolve(expr.tuple_value, lookup)
        return resolve(whole.fields[expr.index], lookup) if isinstance(whole, relax.Tuple) else expr
    if not isinstance(expr, relax.Var):
        return expr
    value = lookup(expr)
    if not isinstance(value, (relax.Var, relax.Tuple, relax.TupleGetItem, GenericConst)):
        return expr
    found = resolve(value, lookup)
    # An item of an operator's result has no name but this.
    return expr if isinstance(found, relax.TupleGetItem) else found


def value_of(expr: Any, lookup: Lookup) -> Any:
    """What computes an expression: the call behind its names, or what ``resolve`` gives where
    nothing does."""
    found = resolve(expr, lookup)
    value = lookup(found) if isinstance(found, relax.Var) else None
    return found if value is None else value


def is_constant(expr: Any, lookup: Lookup) -> bool:
    """Whether ``constant_of`` gives numbers; it copies none."""
    found = value_of(expr, lookup)
    while operator_of(found) == "relax.permute_dims":
        found = value_of(found.args[0], lookup)
    return isinstance(found, GenericConst)


def constant_of(expr: Any, lookup: Lookup) -> np.ndarray | None:
    """The numbers of a constant, seen through names and turned axes; None for anything else."""
    found = value_of(expr, lookup)
    if isinstance(found, GenericConst):
        return found.value.numpy()
    if operator_of(found) != "relax.permute_dims":
        return None
    source = constant_of(found.args[0], lookup)
    axes = found.attrs.axes and [int(axis) for axis in found.attrs.axes]
    return None if source is None else source.transpose(axes)


def is_of_two_tensors(expr: Any, lookup: Lookup) -> bool:
    """Whether an expression is a product of two tensors neither of which is constant."""
    return operator_of(expr) == "relax.matmul" and not any(
        is_constant(operand, lookup) for operand in expr.args
    )


def constant_like(values: np.ndarray) -> Any:
    """A constant of the values' own type: of float64 ``relax.const`` makes float32."""
    return relax.const(np.ascontiguousarray(values), str(values.dtype))


class Names:
    """What the variables of a function stand for, before it is rewritten, and how often each is
    used: by how many bindings, and as the result."""

    def __init__(self, function: relax.Function) -> None:
        self._bound = dict(bindings_of(function))
        self._uses: Counter[Any] = Counter()
        result = function.body.body
        for value in (*self._bound.values(), result):
            if value is not None and (value is result or not isinstance(value, relax.Var)):
                free = relax.analysis.free_vars(value)
                self._uses.update(resolve(var, self.lookup) for var in free)

    def lookup(self, var: Any) -> Any:
        """What a variable is bound to, or None."""
        return self._bound.get(var)

    def uses(self, expr: Any) -> int:
        """How often an expression is used; names of what ``resolve`` sees through count as that."""
        return self._uses[resolve(expr, self.lookup)]


def calls_any(mod: tvm.IRModule, operators: Collection[str]) -> bool:
    """Whether ``main`` calls one of some operators."""
    return any(operator_of(value) in operators for _, value in bindings_of(mod["main"]))


def rebind(mutator: Any, var: relax.Var, expr: Any, name: str = "") -> None:
    """Bind ``expr`` in the place of ``var``, by its name where no other is given; an output of its
    block stays one."""
    inside = isinstance(var, relax.DataflowVar)
    emit = mutator.builder_.emit if inside else mutator.builder_.emit_output
    mutator.set_var_remap(var, emit(expr, name or str(var.name)))


def bind(mutator: Any, var: relax.Var, value: Any) -> None:
    """``rebind``, or no more than another variable in the place of ``var``: a second name for a
    tensor would end the kernel that makes it."""
    if isinstance(value, relax.Var) and isinstance(var, relax.DataflowVar):
        mutator.set_var_remap(var, value)
    else:
        rebind(mutator, var, value)


def rewritten(mod: tvm.IRModule, mutator: Any) -> tvm.IRModule:
    """A module with what a mutator, made of it, makes of each of its Relax functions."""
    for variable, function in mod.functions_items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return mutator.builder_.get()
