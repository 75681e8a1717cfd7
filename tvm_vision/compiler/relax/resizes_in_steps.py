"""Images that are resized along both axes, along one after the other, for processors.

Of the four pixels that a pixel of the result lies between, two of a row come to one number; for all
rows of the image first, and for as many columns as the result has. What is left is the mean of two
rows, numbers beside each other, for which a vector is enough. At once it would be made one number
at a time, its place and its four neighbours found anew. The numbers are the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tvm
from tvm import relax, topi

from .kernel_calls import INJECTIVE, OPAQUE
from .operators import RESIZE, fixed_shape, operator_of
from .rewriting import rewritten

# How often as long a number takes along a row, as one of a vector along columns.
ALONG_ROWS = 6
# Results for which one kernel more pays.
LEAST = 1 << 14


def resizes_in_steps(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with images resized along one axis after the other."""
    return rewritten(mod, _Steps(mod))


@relax.expr_functor.mutator
class _Steps(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != RESIZE:
            return call
        before, after, attrs = fixed_shape(call.args[0]), fixed_shape(call), call.attrs
        # Integers would be cut off between the steps.
        plain = {str(tensor.ty.dtype) for tensor in (call, call.args[0])} == {"float32"}
        plain = plain and str(attrs.layout) == "NCHW" and str(attrs.method) in ("linear", "cubic")
        moved = str(attrs.coordinate_transformation_mode) == "tf_crop_and_resize"
        if before is None or after is None or not plain or moved:
            return call
        n, c, *size = before
        _, _, *wanted = after
        if size[0] == wanted[0] or size[1] == wanted[1] or n * c * wanted[0] * wanted[1] < LEAST:
            return call
        value = call.args[0]
        for axis, pattern in zip(_order(size, wanted), (OPAQUE, INJECTIVE), strict=True):
            value = self._along(value, axis, (n * c, *size), wanted[axis], attrs, pattern)
            size[axis] = wanted[axis]
        return relax.op.reshape(value, after)

    def _along(
        self, image: Any, axis: int, shape: tuple[int, ...], wanted: int, attrs: Any, pattern: int
    ) -> relax.Expr:
        """Images (n, h, w), however their axes are written, with ``wanted`` rows (0) or columns
        (1). pattern: how fusion sees it; what is read twice is made once."""
        n, h, w = shape
        layout = ("NWC", "NCW")[axis]
        view = self.builder_.emit(relax.op.reshape(image, ((n, h, w), (1, n * h, w))[axis]))
        resize = partial(
            topi.image.resize1d, roi=[0.0, 0.0], size=[wanted], layout=layout,
            method=str(attrs.method),
            coordinate_transformation_mode=str(attrs.coordinate_transformation_mode),
            rounding_method=str(attrs.rounding_method), bicubic_alpha=float(attrs.cubic_alpha),
            bicubic_exclude=int(attrs.cubic_exclude),
        )  # fmt: skip
        return self.builder_.emit(
            self.builder_.call_te(
                resize, view, primfunc_name_hint=f"resize_{('rows', 'columns')[axis]}",
                primfunc_attrs={"op_pattern": pattern},
            )
        )  # fmt: skip


def _order(size: list[int], wanted: list[int]) -> tuple[int, int]:
    """Which axis comes first: what takes less."""
    (h, w), (high, wide) = size, wanted
    columns_first = ALONG_ROWS * h * wide + high * wide
    return (1, 0) if columns_first <= high * w + ALONG_ROWS * high * wide else (0, 1)
