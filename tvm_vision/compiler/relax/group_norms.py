"""Group normalizations step by step: mean, what differs from it, the mean of its squares.

TVM's kernel takes the mean of squares less the square of the mean. Of numbers far from 0 that
leaves rounding errors, or less than none, whose root is NaN; where channels are last it takes the
mean over the wrong pixels.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from .operators import operator_of
from .rewriting import rewritten


def group_norms_in_steps(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with its group normalizations as sums and elementwise operators."""
    return rewritten(mod, _GroupNorms(mod))


@relax.expr_functor.mutator
class _GroupNorms(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != "relax.nn.group_norm":
            return call
        x, gamma, beta = call.args
        shape, attrs = [int(extent) for extent in x.ty.shape], call.attrs
        channel, groups = int(attrs.channel_axis) % len(shape), int(attrs.num_groups)
        emit, op = self.builder_.emit, relax.op
        split = [groups, shape[channel] // groups]
        x = emit(op.reshape(x, [*shape[:channel], *split, *shape[channel + 1 :]]))
        places = [int(axis) % len(shape) for axis in attrs.axes]
        axes = sorted([channel + 1, *(axis + (axis > channel) for axis in places)])
        x = emit(op.subtract(x, op.mean(x, axes, keepdims=True)))
        variance = op.mean(op.multiply(x, x), axes, keepdims=True)
        epsilon = relax.const(np.array(attrs.epsilon, str(call.ty.dtype)))
        x = emit(op.multiply(x, op.rsqrt(op.add(variance, epsilon))))
        x = emit(op.reshape(x, shape))
        of_channels = [shape[channel], *[1] * (len(shape) - 1 - channel)]
        if attrs.scale:
            x = emit(op.multiply(x, op.reshape(gamma, of_channels)))
        return emit(op.add(x, op.reshape(beta, of_channels))) if attrs.center else x
