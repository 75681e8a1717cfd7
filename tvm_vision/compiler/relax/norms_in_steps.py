"""Normalizations step by step: mean, what differs from it, the mean of its squares.

TVM's kernel of a group normalization takes the mean of squares less the square of the mean. Of
numbers far from 0 that leaves rounding errors, or less than none, whose root is NaN; where channels
are last it takes the mean over the wrong pixels. Its kernel of a layer normalization is good, but
for rows so long that a workgroup of a GPU alone is slow: those are means and variances, which
``sums_in_steps`` takes apart. So are those of float64, for which it has no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import constant_like, constant_of, rewritten
from .sums_in_steps import varies_in_steps
from .whole_rows import Rows

_TAKEN = ("float16", "float32")  # by TVM's kernel of a layer normalization


def norms_in_steps(
    mod: tvm.IRModule, groups: int | None, is_joined: Callable[[Rows], bool] | None = None
) -> tvm.IRModule:
    """``main`` with its group normalizations as sums and elementwise operators, its layer
    normalizations of float64, and for GPUs those of long rows, too.

    Args:
        groups: workgroups of sums that occupy a GPU; None for processors.
        is_joined: whether all that is made of rows will be one kernel; None for processors.
    """
    return rewritten(mod, _Norms(mod, groups, is_joined))


@relax.expr_functor.mutator
class _Norms(relax.PyExprMutator):
    def __init__(
        self, mod: tvm.IRModule, groups: int | None, is_joined: Callable[[Rows], bool] | None
    ) -> None:
        super().__init__(mod)
        self._groups = groups
        self._is_joined = is_joined
        self._name = ""

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._name = str(binding.var.name)
        super().visit_var_binding_(binding)

    def _emit(self, value: Any) -> Any:
        """A variable of the name of what it is a step of."""
        return self.builder_.emit(value, self._name)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) == "relax.nn.group_norm":
            return self._group_norm(call)
        if operator_of(call) == "relax.nn.layer_norm":
            return self._layer_norm(call)
        return call

    def _group_norm(self, call: relax.Call) -> relax.Expr:
        x, gamma, beta = call.args
        shape, attrs = [int(extent) for extent in x.ty.shape], call.attrs
        channel, groups = int(attrs.channel_axis) % len(shape), int(attrs.num_groups)
        emit, op = self._emit, relax.op
        split = [groups, shape[channel] // groups]
        x = emit(op.reshape(x, [*shape[:channel], *split, *shape[channel + 1 :]]))
        places = [int(axis) % len(shape) for axis in attrs.axes]
        axes = sorted([channel + 1, *(axis + (axis > channel) for axis in places)])
        long = self._is_long(x, axes) or self._is_apart(x, axes)
        normal = self._normal(x, axes, attrs.epsilon, long)
        # Before the reshape back, so that they can be a part of the same kernel.
        of_channels = [*[1] * channel, *split, *[1] * (len(shape) - 1 - channel)]
        gamma, beta = (self._reshaped(own, of_channels) for own in (gamma, beta))
        return op.reshape(self._placed(normal, gamma, beta, attrs), shape)

    def _layer_norm(self, call: relax.Call) -> relax.Expr:
        x, gamma, beta = call.args
        shape = fixed_shape(x)
        if shape is None:
            return call
        axes = sorted(int(axis) % len(shape) for axis in call.attrs.axes)
        behind = axes == list(range(len(shape) - len(axes), len(shape)))
        long = self._is_long(x, axes)
        if not behind or (str(x.ty.dtype) in _TAKEN and not long):
            return call
        x = self._normal(x, axes, call.attrs.epsilon, long)
        return self._placed(x, gamma, beta, call.attrs)

    def _normal(self, x: Any, axes: Sequence[int], epsilon: float, long: bool) -> Any:
        """``x`` with a mean of 0 and a variance of 1 along axes.

        Args:
            long: whether its rows are, of which the variance is taken apart.
        """
        emit, op = self._emit, relax.op
        variance = emit(op.variance(x, axes, keepdims=True)) if long else None
        x = emit(op.subtract(x, emit(op.mean(x, axes, keepdims=True))))
        if variance is None:
            variance = emit(op.mean(emit(op.multiply(x, x)), axes, keepdims=True))
        added = emit(op.add(variance, relax.const(epsilon, str(x.ty.dtype))))
        # Not by the root's reciprocal: of a variance of 0 that is beyond fp16.
        return emit(op.divide(x, emit(op.sqrt(added))))

    def _is_long(self, x: Any, axes: Sequence[int]) -> bool:
        return self._groups is not None and varies_in_steps(x, axes, self._groups)

    def _reshaped(self, own: Any, shape: Sequence[int]) -> Any:
        """A scale or shift in another shape; of a constant a constant, which others see through."""
        value = constant_of(own, self.lookup_binding)
        if value is None:
            return relax.op.reshape(own, shape)
        return constant_like(value.reshape(shape))

    def _is_apart(self, x: Any, axes: Sequence[int]) -> bool:
        """Whether sums and what is made of them are kernels of their own: what differs from the
        mean is not worth one, too."""
        shape = tuple(int(extent) for extent in x.ty.shape)
        of_sum = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        return self._is_joined is not None and not self._is_joined(Rows(shape, of_sum))

    def _placed(self, x: Any, gamma: Any, beta: Any, attrs: Any) -> Any:
        """With another deviation and mean, where attributes say so."""
        emit, op = self._emit, relax.op
        x = emit(op.multiply(x, gamma)) if attrs.scale else x
        return emit(op.add(x, beta)) if attrs.center else x
