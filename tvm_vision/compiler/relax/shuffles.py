"""Channels that are dealt out, as between ShuffleNet's groups, in whatever order axes are.

Exporters write them as a reshape to groups, a turn of two axes and a reshape back. TVM turns no
layout through reshapes, so that channels last would be turned back before each and again behind it.
A convolution of one pixel for each channel, which is turned like all others, stands for them
meanwhile; behind that it becomes reshapes again, of the axis that channels are by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import rewritten, value_of

CHANNELS = 1  # their axis in the model's order
# By dimensions of the image: what stands for a shuffle. The distance of the window's pixels, of
# which there is one alone, marks it along the first axis, and along the last tells the groups.
_STAND_INS: dict[int, tuple[str, Callable[..., relax.Expr]]] = {
    4: ("relax.nn.conv2d", relax.op.nn.conv2d),
    5: ("relax.nn.conv3d", relax.op.nn.conv3d),
}
_OPERATORS = {name for name, _ in _STAND_INS.values()}
_SIGN = 1 << 20


def with_stand_ins(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with convolutions in place of such reshapes and turns, of images and volumes NC…"""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _StandIns(mod)))


@relax.expr_functor.mutator
class _StandIns(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        turn = self._maker(call, "relax.reshape")
        split = self._maker(turn, "relax.permute_dims")
        if turn is None or self._maker(split, "relax.reshape") is None or turn.attrs.axes is None:
            return call
        image = split.args[0]
        sizes, grouped = fixed_shape(image), fixed_shape(split)
        if sizes is None or len(sizes) not in _STAND_INS or fixed_shape(call) != sizes:
            return call
        if grouped is None or len(grouped) != len(sizes) + 1:
            return call
        channels, groups = sizes[CHANNELS], grouped[CHANNELS]
        order = [0, 2, 1, *range(3, len(grouped))]
        if [int(axis) for axis in turn.attrs.axes] != order or groups * grouped[2] != channels:
            return call
        axes, dtype = len(sizes) - 2, str(image.ty.dtype.dtype)
        weights = relax.const(np.zeros((channels, *[1] * (axes + 1)), dtype), dtype)
        distances = [_SIGN, *[1] * (axes - 2), groups]
        _, stand_in = _STAND_INS[len(sizes)]
        return stand_in(image, weights, 1, 0, distances, channels, out_dtype=dtype)

    def _maker(self, call: Any, operator: str) -> Any:
        """What makes the argument of a call of an operator; None where that is no call, or not of
        the operator."""
        if call is None or operator_of(call) != operator:
            return None
        return value_of(call.args[0], self.lookup_binding)


@relax.expr_functor.mutator
class Shuffles(relax.PyExprMutator):
    """Reshapes and a turn in place of what ``with_stand_ins`` put there."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) not in _OPERATORS or int(call.attrs.dilation[0]) != _SIGN:
            return call
        image, groups = call.args[0], int(call.attrs.dilation[-1])
        sizes, axis = [int(size) for size in image.ty.shape], str(call.attrs.data_layout).index("C")
        each = sizes[axis] // groups
        grouped = relax.op.reshape(image, [*sizes[:axis], groups, each, *sizes[axis + 1 :]])
        order = [*range(axis), axis + 1, axis, *range(axis + 2, len(sizes) + 1)]
        turned = relax.op.permute_dims(self.builder_.emit(grouped), order)
        return relax.op.reshape(self.builder_.emit(turned), sizes)
