"""Group normalizations as one operator, along the axes that an image has.

Exporters write them as a reshape to a row for each group, an instance normalization of it and a
reshape back. A row has its elements in one order: whoever has channels last turns them for it, and
back, which takes longer than the normalization itself. The operator says which axis channels are.
One group alone is of ``norms_of_images``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import constant_like, constant_of, rebind, rewritten, value_of

CHANNELS = 1
_RESHAPE = "relax.reshape"


def group_norms(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with ``relax.nn.group_norm`` for what is written out."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Norms(mod)))


@relax.expr_functor.mutator
class _Norms(relax.PyExprMutator):
    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        super().visit_var_binding_(binding)
        if operator_of(binding.value) != _RESHAPE:
            return
        back = self._value(self.visit_expr(binding.var))
        norm = self._of_rows(back) if operator_of(back) == _RESHAPE else None
        if norm is not None:
            # Of the two nodes that it stands for the normalization.
            rebind(self, binding.var, norm, str(back.args[0].name))

    def _of_rows(self, back: relax.Call) -> relax.Expr | None:
        """For a reshape of normalized rows to the image that they are of; None for any other."""
        normal, summand = self._apart(back.args[0], "relax.add")
        normal, factor = self._apart(normal, "relax.multiply")
        found = self._normalized(normal)
        if found is None:
            return None
        row, epsilon = found
        image, (_, groups, terms) = row.args[0], fixed_shape(row)  # type: ignore[misc]
        shape = fixed_shape(image)
        if shape is None or len(shape) < 3 or fixed_shape(back) != shape or groups == 1:
            return None
        if fixed_shape(row) != (shape[0], groups, terms) or shape[CHANNELS] % groups:
            return None
        scale, shift = (_of_groups(value, groups) for value in (factor, summand))
        if scale is None or shift is None:
            return None
        dtype = str(image.ty.dtype)
        own = [np.repeat(value, shape[CHANNELS] // groups) for value in (scale, shift)]
        return relax.op.nn.group_norm(
            image,
            *(constant_like(np.asarray(value, dtype)) for value in own),
            groups,
            CHANNELS,
            list(range(CHANNELS + 1, len(shape))),
            epsilon,
            scale=factor is not None and bool((scale != 1).any()),
            center=summand is not None and bool((shift != 0).any()),
        )

    def _normalized(self, expr: Any) -> tuple[relax.Call, float] | None:
        """The reshape to rows (n, groups, terms) that an expression is less their means over their
        deviations, and what is added to their variances; None for any other."""
        difference, root = self._operands(expr, "relax.divide")
        row, mean = self._operands(difference, "relax.subtract")
        (sum_of_both,) = self._operands(root, "relax.sqrt", 1)
        variance, epsilon = self._apart(sum_of_both, "relax.add")
        of_mean = self._of_moment(mean, "relax.mean")
        of_variance = self._of_moment(variance, "relax.variance")
        rows = self._value(row)
        if epsilon is None or epsilon.size != 1 or operator_of(rows) != _RESHAPE:
            return None
        if not all(rows.same_as(self._value(of)) for of in (of_mean, of_variance)):
            return None
        return rows, float(epsilon.reshape(()))

    def _of_moment(self, expr: Any, operator: str) -> Any:
        """The rows (n, groups, terms) whose moment an expression is; None for any other."""
        call = self._value(expr)
        if operator_of(call) != operator or not call.attrs.keepdims or call.attrs.axis is None:
            return None
        axes, shape = [int(axis) for axis in call.attrs.axis], fixed_shape(call.args[0])
        is_last = shape is not None and len(shape) == 3 and axes in ([2], [-1])
        return call.args[0] if is_last else None

    def _apart(self, expr: Any, operator: str) -> tuple[Any, np.ndarray | None]:
        """What an operator is done to, and the constant it is done with; an expression of another
        one, and None."""
        operands = self._operands(expr, operator)
        for one, other in (operands, operands[::-1]):
            value = None if other is None else constant_of(other, self.lookup_binding)
            if value is not None:
                return one, value
        return expr, None

    def _operands(self, expr: Any, operator: str, count: int = 2) -> tuple[Any, ...]:
        """Of an operator; as many None of another one."""
        call = self._value(expr)
        return tuple(call.args) if operator_of(call) == operator else (None,) * count

    def _value(self, expr: Any) -> Any:
        return None if expr is None else value_of(expr, self.lookup_binding)


def _of_groups(value: np.ndarray | None, groups: int) -> np.ndarray | None:
    """Numbers that rows (n, groups, terms) are multiplied by, or that are added, one a group: zeros
    for None, which stand for nothing; None where they are others."""
    if value is None:
        return np.zeros(groups)
    if value.size == 1:
        return np.full(groups, value.reshape(()))
    shape = (1,) * (3 - value.ndim) + value.shape
    return value.reshape(groups) if shape == (1, groups, 1) else None
