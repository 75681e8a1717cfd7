"""Zeros around a tensor that a convolution reads become its padding, which costs no kernel.

Exporters write them apart where a framework's "same" is not even on both sides, and where layers of
padding stand before convolutions without any. What else reads the wider tensor keeps it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .operators import operator_of, pad_widths
from .rewriting import value_of

_WINDOWS = {
    "relax.nn.conv1d": relax.op.nn.conv1d,
    "relax.nn.conv2d": relax.op.nn.conv2d,
    "relax.nn.conv3d": relax.op.nn.conv3d,
}


def pads_into_windows(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such padding in convolutions; the module itself where there is none."""
    rewriter = _Rewriter(mod)
    rewriter.found = False
    main = mod.get_global_var("main")
    made = rewriter.visit_expr(mod[main])
    if not rewriter.found:
        return mod
    rewriter.builder_.update_func(main, made)
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


@mutator
class _Rewriter(PyExprMutator):
    found: bool

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        window, attrs = _WINDOWS.get(operator_of(call)), call.attrs
        if window is None:
            return call
        pad = value_of(call.args[0], self.lookup_binding)
        around = _zeros_around(pad, str(attrs.data_layout))
        if around is None:
            return call
        self.found = True
        padding = np.array([int(width) for width in attrs.padding]).reshape(2, -1) + around
        return window(
            pad.args[0], call.args[1], list(attrs.strides), list(map(int, padding.flat)),
            list(attrs.dilation), int(attrs.groups), str(attrs.data_layout),
            str(attrs.kernel_layout), str(attrs.out_layout), attrs.out_dtype or None,
        )  # fmt: skip


def _zeros_around(pad: Any, layout: str) -> np.ndarray | None:
    """How many zeros a call puts before and after each axis of windows, in the order of axes: (2,
    axes); None where it puts others, elsewhere, or takes some away."""
    if operator_of(pad) != "relax.nn.pad" or str(pad.attrs.pad_mode) != "constant":
        return None
    if float(pad.attrs.pad_value) != 0.0 or len(layout) != pad.args[0].ty.ndim:
        return None
    widths = np.array(pad_widths(pad.attrs)).reshape(-1, 2)
    windows = [axis for axis, name in enumerate(layout) if name in "DHW"]
    others = [axis for axis in range(len(layout)) if axis not in windows]
    if (widths < 0).any() or widths[others].any():
        return None
    return widths[windows].T
