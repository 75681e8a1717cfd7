"""The image's channels filled up to a vector: four where a network takes three.

A convolution that reads channels last fetches vectors of them. Of three channels it can fetch none:
each half is found, tested and loaded by itself. The kernel that turns the input to channels last
writes a fourth channel of zeros at no cost, and the weights get zeros for it when the network is
compiled.
"""

from __future__ import annotations

import tvm
from tvm import relax

from .operators import is_int8, operator_of
from .rewriting import rewritten, value_of

VECTOR = 4


@relax.expr_functor.mutator
class _Padding(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not _is_dense_channels_last(call):
            return call
        image, weights = call.args
        channels = int(image.ty.shape.values[-1])
        missing = -channels % VECTOR
        if missing == 0 or not self._is_transposed(image):
            return call
        image = self._padded(image, image.ty.ndim - 1, missing)
        weights = self._padded(weights, weights.ty.ndim - 2, missing)
        return self.builder_.normalize(
            relax.Call(call.op, [image, weights], call.attrs, call.ty_args)
        )

    def _is_transposed(self, image: relax.Expr) -> bool:
        """Whether a tensor comes from a kernel that turns its axes, which can write zeros too."""
        return operator_of(value_of(image, self.lookup_binding)) == "relax.permute_dims"

    def _padded(self, value: relax.Expr, axis: int, missing: int) -> relax.Var:
        widths = [0] * (2 * value.ty.ndim)
        widths[2 * axis + 1] = missing
        return self.builder_.emit(relax.op.nn.pad(value, widths))


def _is_dense_channels_last(call: relax.Call) -> bool:
    if operator_of(call) not in ("relax.nn.conv2d", "relax.nn.conv3d") or is_int8(call):
        return False
    attrs = call.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, int(attrs.groups))
    return layouts in (("NHWC", "HWIO", 1), ("NDHWC", "DHWIO", 1))


def pad_channels(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with whole vectors of channels in convolutions of what was turned to them."""
    return rewritten(mod, _Padding(mod))
