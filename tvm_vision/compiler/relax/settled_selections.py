"""Selections that are settled: where(x == c, a, b) is b where x is never c.

The importer writes them around a maximum of floats, as TVM's first number for it is the last finite
one, which infinities are not above. Behind a ReLU, a sigmoid or a softmax there are none; without
the selections a maximum stays in blocks of channels, and images of rows stay images.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .operators import fixed_shape, operator_of
from .rewriting import Names, bind, calls_any, constant_of, rewritten, value_of

# From the least to the largest value of an operator, whatever it is given.
RANGES = {
    **dict.fromkeys("relax.nn.relu relax.exp relax.abs relax.sqrt relax.square".split(),
                    (0.0, math.inf)),
    **dict.fromkeys("relax.sigmoid relax.nn.softmax".split(), (0.0, 1.0)),
    **dict.fromkeys("relax.tanh relax.sin relax.cos relax.erf".split(), (-1.0, 1.0)),
    **dict.fromkeys("relax.nn.silu relax.nn.gelu relax.nn.gelu_tanh".split(), (-1.0, math.inf)),
    "relax.nn.softplus": (0.0, math.inf),
    "relax.nn.relu6": (0.0, 6.0),
}  # fmt: skip
# Whose values are some of those of their first argument.
CHOSEN = frozenset(
    f"relax.{name}"
    for name in "max min reshape permute_dims expand_dims squeeze broadcast_to strided_slice "
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d".split()
)
EVERYTHING = (-math.inf, math.inf)
# What rounding moves a value out of its range by, at the most.
ROUNDING = 1.0
# Operators behind each other that are gone through.
MOST_STEPS = 32


def settled_selections(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` without selections by a number that a value never is."""
    return rewritten(mod, _Rewriter(mod)) if calls_any(mod, ["relax.where"]) else mod


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._names = Names(mod["main"])

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        found = _settled(binding.value, self._names, MOST_STEPS)
        if found is None:
            super().visit_var_binding_(binding)
        else:
            bind(self, binding.var, self.visit_expr(found))


def _settled(value: Any, names: Names, steps: int) -> Any:
    """What a selection always is; None of one that is not settled, and of anything else."""
    if operator_of(value) != "relax.where":
        return None
    condition, _, other = value.args
    condition = value_of(condition, names.lookup)
    if operator_of(condition) != "relax.equal":
        return None
    numbers = constant_of(condition.args[1], names.lookup)
    if numbers is None or numbers.size != 1 or str(other.ty.dtype) != str(value.ty.dtype):
        return None
    if fixed_shape(other) is None or fixed_shape(other) != fixed_shape(value):
        return None
    low, high = _range(condition.args[0], names, steps)
    number = float(numbers.reshape(()))
    return None if low - ROUNDING <= number <= high + ROUNDING else other


def _range(expr: Any, names: Names, steps: int) -> tuple[float, float]:
    value = value_of(expr, names.lookup)
    name = operator_of(value)
    if name in RANGES:
        return RANGES[name]
    if steps == 0:
        return EVERYTHING
    if name in CHOSEN:
        return _range(value.args[0], names, steps - 1)
    if name == "relax.where":
        other = _settled(value, names, steps - 1)
        return EVERYTHING if other is None else _range(other, names, steps - 1)
    if name == "relax.concat" and isinstance(value.args[0], relax.Tuple):
        parts = [_range(part, names, steps - 1) for part in value.args[0].fields]
        return min(low for low, _ in parts), max(high for _, high in parts)
    return EVERYTHING
