"""Padding while layouts change: TVM turns no layout through the operator, so that channels last
would be turned back before each and again behind it. It does through pools. One of a single pixel,
which has the same shape, stands for padding meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax

from .operators import fixed_shape, operator_of, pad_widths, padded_alike
from .rewriting import calls_any, rewritten

_PAD = "relax.nn.pad"
# By dimensions of the image.
_POOLS: dict[int, tuple[str, Callable[..., relax.Expr]]] = {
    4: ("relax.nn.max_pool2d", relax.op.nn.max_pool2d),
    5: ("relax.nn.max_pool3d", relax.op.nn.max_pool3d),
}
_OPERATORS = {name for name, _ in _POOLS.values()}
# The distance of the pool's pixels, of which there is one alone, marks it along the first axis, and
# along the last tells which padding it stands for.
_SIGN = 1 << 20


class PadsAsPools:
    """What is put in place of padding of images and volumes NC…, and back."""

    def __init__(self) -> None:
        self.pads: list[relax.Call] = []

    def put(self, mod: tvm.IRModule) -> tvm.IRModule:
        """``main`` with pools in place of padding around the pixels."""
        return rewritten(mod, _Pools(mod, self.pads)) if calls_any(mod, [_PAD]) else mod

    def take_back(self, mod: tvm.IRModule) -> tvm.IRModule:
        """``main`` with the padding again, of the axes that pixels are by then."""
        return rewritten(mod, _Pads(mod, self.pads)) if self.pads else mod


@relax.expr_functor.mutator
class _Pools(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, pads: list[relax.Call]) -> None:
        super().__init__(mod)
        self.pads = pads

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        shape = fixed_shape(call) if operator_of(call) == _PAD else None
        if shape is None or len(shape) not in _POOLS:
            return call
        images, channels, *pixels = pad_widths(call.attrs)
        if any((*images, *channels)) or min(map(min, pixels)) < 0:
            return call
        axes, (_, pool) = len(shape) - 2, _POOLS[len(shape)]
        distances = [_SIGN, *[1] * (axes - 2), len(self.pads) + 1]
        self.pads.append(call)
        around = [width for of_axes in zip(*pixels, strict=True) for width in of_axes]
        return pool(call.args[0], [1] * axes, [1] * axes, around, distances)


@relax.expr_functor.mutator
class _Pads(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, pads: list[relax.Call]) -> None:
        super().__init__(mod)
        self.pads = pads

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) not in _OPERATORS or int(call.attrs.dilation[0]) != _SIGN:
            return call
        attrs = self.pads[int(call.attrs.dilation[-1]) - 1].attrs
        pixels = iter(pad_widths(attrs)[2:])
        widths = [next(pixels) if axis in "DHW" else (0, 0) for axis in str(call.attrs.layout)]
        return padded_alike(attrs, call.args[0], widths)
