"""Weights of convolutions with the channels of each place of the window side by side.

A product takes its terms in the order in which the weights have them. In the model's order (OIHW,
OIDHW) the places of the window come first, and each term's pixel and channel have to be found by
division, its padding decided. With OHWI or ODHWI a tile of terms is of one place of the window: all
that differs between its terms is the channel, and the image stays in its order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import operator_of
from .rewriting import constant_of, rewritten

LEAST_CHANNELS = 8  # of the image: fewer than a tile of terms has
VECTOR = 4  # channels that are fetched at once
_CONVOLUTIONS = {
    "relax.nn.conv2d": (relax.op.nn.conv2d, "HW"),
    "relax.nn.conv3d": (relax.op.nn.conv3d, "DHW"),
}


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        weights = constant_of(call.args[1], self.lookup_binding) if _has_window(call) else None
        if weights is None:
            return call
        convolution, axes = _CONVOLUTIONS[operator_of(call)]
        attrs = call.attrs
        return convolution(
            call.args[0],
            relax.const(np.ascontiguousarray(np.moveaxis(weights, 1, -1))),
            list(attrs.strides),
            list(attrs.padding),
            list(attrs.dilation),
            int(attrs.groups),
            f"NC{axes}",
            f"O{axes}I",
            f"NC{axes}",
            "float32",
        )


def _has_window(call: Any) -> bool:
    """Whether a call is a dense convolution of float32, channels first, of more than a pixel."""
    operator = operator_of(call)
    if operator not in _CONVOLUTIONS:
        return False
    attrs, weights, axes = call.attrs, call.args[1].ty, _CONVOLUTIONS[operator][1]
    data = str(attrs.data_layout)
    layouts = (data, str(attrs.kernel_layout), str(attrs.out_layout or data))
    if layouts != (f"NC{axes}", f"OI{axes}", f"NC{axes}") or int(attrs.groups) != 1:
        return False
    if weights.shape is None:
        return False
    outputs, channels, *window = (int(size) for size in weights.shape.values)
    return (
        str(weights.dtype.dtype) == "float32"
        and outputs > 1  # else it is no product
        and math.prod(window) > 1
        and channels >= LEAST_CHANNELS
        and channels % VECTOR == 0
    )


def weights_by_window(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such weights wherever they are constants."""
    return rewritten(mod, _Rewriter(mod))
