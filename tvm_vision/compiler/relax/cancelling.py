"""Sums that take back what a sum before them added, as rounding by a large number does: x + c - c.

Within a kernel TVM's simplifier and drivers compute with them as with real numbers, and leave x, or
c where x is taken back; that of a number added which is no number is 0. So they stay two kernels.
What is taken back of a variable by adding, as x + (rounded - x), is left to be one: there x is lost
by a last bit at the most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx
from tvm.ir import prim
from tvm.ir.expr import GenericConst

from ..tir.stores import Stores
from .kernel_calls import KernelCalls

# Of larger constants nobody makes what they add by hand.
MOST_ELEMENTS = 65536
# A sign, and what is added by it: a variable of main, a number, or shape and
# bytes of a constant.
Term = tuple[int, Any]


def cancelling(mod: tvm.IRModule) -> dict[Any, set[Any]]:
    """Of the variables of such sums, the arguments that are the sums before them."""
    forms: dict[Any, list[Term]] = {}
    terms: dict[Any, list[Term]] = {}
    found: dict[Any, set[Any]] = {}
    for var, call in KernelCalls(mod["main"]).bound:
        gv = call.args[0]
        if gv not in forms:
            forms[gv] = list(_form(mod[gv]))
        terms[var] = list(_terms(forms[gv], call)) if forms[gv] else []
        for sign, key in terms[var]:
            if isinstance(key, relax.Var) and _takes_back(sign, key, terms[var], terms):
                found.setdefault(var, set()).add(key)
    return found


def _takes_back(sign: int, inner: Any, outer: list[Term], terms: dict[Any, list[Term]]) -> bool:
    """Whether ``inner``, or what it adds or takes, goes again in the sum that it is a term of."""
    for other, key in outer:
        of_variable = isinstance(key, relax.Var)
        if of_variable and key.same_as(inner):
            if sign == -other:
                return True
            continue
        if of_variable and min(sign, other) > 0:  # TVM knows differences alone
            continue
        for own, added in terms.get(inner, ()):
            if isinstance(added, relax.Var) == of_variable and sign * own == -other:
                if added.same_as(key) if of_variable else added == key:
                    return True
    return False


def _form(function: tirx.PrimFunc) -> Iterator[Term]:
    """Both terms of a function that adds two real numbers for each of its result: the place of a
    parameter, or a number."""
    written = list(Stores(function).written.values())
    if len(written) != 1 or len(written[0]) != 1:
        return
    ((value, _),) = written[0]
    if not isinstance(value, (prim.Add, prim.Sub)) or "float" not in str(value.ty.dtype):
        return
    places = {param: place for place, param in enumerate(function.params)}
    for sign, part in ((1, value.a), (-1 if isinstance(value, prim.Sub) else 1, value.b)):
        if isinstance(part, prim.FloatImm):
            yield _number(sign, float(part.value))
        elif isinstance(part, ir.TensorLoad) and part.source in places:
            yield sign, places[part.source]


def _terms(form: list[Term], call: relax.Call) -> Iterator[Term]:
    """What a call of such a function adds, but for its own result, as sums do step by step."""
    arguments = call.args[1].fields
    for sign, added in form:
        if isinstance(added, float):
            yield sign, added
        elif added < len(arguments):
            yield from _term(sign, arguments[added])


def _term(sign: int, argument: Any) -> Iterator[Term]:
    """An argument that is added: itself, or of a constant its values; none of a large one."""
    if not isinstance(argument, GenericConst):
        yield sign, argument
        return
    values = argument.value.numpy()
    if not values.size or values.size > MOST_ELEMENTS:
        return
    if (values == values.flat[0]).all():
        yield _number(sign, float(values.flat[0]))
    else:
        yield sign, (values.shape, np.ascontiguousarray(values).tobytes())


def _number(sign: int, value: float) -> Term:
    """To add a number below 0 is to take another one."""
    return (sign, value) if value >= 0 else (-sign, -value)
