"""Weights of convolutions with the channels of each place of the window side by side.

A product takes its terms in the order in which the weights have them. In the model's order (OIHW)
the places of the window come first, and each term's pixel and channel have to be found by division,
its padding decided. With OHWI a tile of terms is of one place of the window: all that differs
between its terms is the channel, and the image stays in its order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import operator_of
from .rewriting import constant_of, rewritten

LEAST_CHANNELS = 8  # of the image: fewer than a tile of terms has
VECTOR = 4  # channels that are fetched at once


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        weights = constant_of(call.args[1], self.lookup_binding) if _has_window(call) else None
        if weights is None:
            return call
        turned = relax.const(np.ascontiguousarray(weights.transpose(0, 2, 3, 1)))
        attrs = call.attrs
        return relax.op.nn.conv2d(
            call.args[0],
            turned,
            list(attrs.strides),
            list(attrs.padding),
            list(attrs.dilation),
            int(attrs.groups),
            "NCHW",
            "OHWI",
            "NCHW",
            "float32",
        )


def _has_window(call: Any) -> bool:
    """Whether a call is a dense convolution of float32, channels first, of more than a pixel."""
    if operator_of(call) != "relax.nn.conv2d":
        return False
    attrs, weights = call.attrs, call.args[1].ty
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or "NCHW"))
    if layouts != ("NCHW", "OIHW", "NCHW") or int(attrs.groups) != 1 or weights.shape is None:
        return False
    _, channels, height, width = (int(size) for size in weights.shape.values)
    return (
        str(weights.dtype.dtype) == "float32"
        and height * width > 1
        and channels >= LEAST_CHANNELS
        and channels % VECTOR == 0
    )


def weights_by_window(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such weights wherever they are constants."""
    return rewritten(mod, _Rewriter(mod))
