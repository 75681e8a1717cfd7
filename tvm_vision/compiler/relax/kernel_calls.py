"""The calls of TensorIR functions in a Relax function: what they make, and who uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm import ir, relax, tirx

# How TVM's fusion sees a function (its attribute op_pattern), by TVM's names: up to injective ones
# it joins them to each other; reductions (sums, maxima) take in what is before them; out-fusable
# ones (products, means, pools) take in what follows them element by element, up to broadcasts;
# opaque ones stay alone.
ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, OUT_FUSABLE, OPAQUE = 0, 1, 2, 3, 4, 8
# Of one kernel. Whoever asks what a kernel's result is made of goes back through all of them, some
# calls of Python deep for each, and Python's own limit is a thousand.
MOST_CALLS = 100


class KernelCalls:
    """The calls in a function, in order.

    Attributes:
        bound: (variable, call) of each call of a TensorIR function.
        users: variable -> the functions called with it; None for any other use.
        made: the variables that such calls are bound to.
    """

    def __init__(self, main: relax.Function) -> None:
        self.bound: list[tuple[Any, relax.Call]] = []
        self.users: dict[Any, list[Any]] = {}
        for var, value in bindings_of(main):
            self._add(var, value)
        self.made = {var for var, _ in self.bound}

    def _add(self, var: Any, value: Any) -> None:
        called = None
        if is_kernel_call(value):
            called = value.args[0]
            self.bound.append((var, value))
        self.users.setdefault(var, [])
        for used in relax.analysis.free_vars(value):
            self.users.setdefault(used, []).append(called)


def patterns_of(functions: Mapping[Any, tirx.PrimFunc]) -> dict[Any, int]:
    """The pattern of each function, by the same keys."""
    return {gv: int((f.attrs or {}).get("op_pattern", OPAQUE)) for gv, f in functions.items()}


def bindings_of(function: relax.Function) -> Iterator[tuple[Any, Any]]:
    """(variable, value) of each binding in order; None as the value of a match."""
    for block in function.body.blocks:
        for binding in block.bindings:
            yield binding.var, getattr(binding, "value", None)


def is_kernel_call(expr: Any) -> bool:
    """Whether an expression calls a TensorIR function."""
    return isinstance(expr, relax.Call) and getattr(expr.op, "name", "") == "relax.call_tir"


def called_function(expr: Any) -> str | None:
    """Name of the module's function that ``expr`` calls, directly or by call_tir; else None."""
    if is_kernel_call(expr):
        return str(expr.args[0].name_hint)
    if isinstance(expr, relax.Call) and isinstance(expr.op, ir.GlobalVar):
        return str(expr.op.name_hint)
    return None
