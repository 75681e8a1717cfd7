"""Transposed convolutions as convolutions of their phases.

A transposed convolution with stride s adds, at place s·q + r of an axis, the terms
x[q - t] · w[s·t + r]: for each of its s phases r an ordinary convolution with every s-th weight,
over the same pixels. So one convolution with s times the channels, along each axis, has all phases,
and they are put side by side after it. Computed by itself it would multiply with the zeros between
pixels, s² - 1 of s² terms. With stride 1 it is one phase: a convolution with its weights turned
around, which all that knows convolutions takes.

Groups of few channels have sums so short that the phases, written once and read once more, take
longer than what is added up: they stay, and topi/transposed_convolution.py sums them in one kernel.

After Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import calls_any, constant_like, constant_of, rewritten

# Operator -> the convolution, its layouts, and those of the weights of both.
_CONVOLUTIONS: dict[str, tuple[Callable[..., relax.Expr], str, str, str]] = {
    "relax.nn.conv2d_transpose": (relax.op.nn.conv2d, "NCHW", "IOHW", "OIHW"),
    "relax.nn.conv3d_transpose": (relax.op.nn.conv3d, "NCDHW", "IODHW", "OIDHW"),
}

# Terms of a result up to which a convolution in groups is one kernel: by the models of renoir and
# phoenix 4x4/2 gains by it with 8 channels in a group and loses with 64.
MOST_IN_ONE_KERNEL = 128


def transposed_convolutions(mod: tvm.IRModule, least: int = 2, phases: bool = True) -> tvm.IRModule:
    """``main`` with convolutions for transposed ones of ``least`` axes and more whose weights are
    constants and whose sums are long, or of all channels. phases: also of those with strides."""
    operators = {name for name, (_, data, *_) in _CONVOLUTIONS.items() if len(data) >= 2 + least}
    if not calls_any(mod, operators):
        return mod
    rewriter = _Rewriter(mod)
    rewriter.operators, rewriter.phases = operators, phases
    return rewritten(mod, rewriter)


@dataclass(frozen=True)
class _Axis:
    """What becomes of an axis.

    Attributes:
        stride, taps: phases, and weights of each.
        dilation: pixels from one weight of a phase to the next.
        before, after: zeros around the image.
        steps: places of the convolution.
        first, length: the part of the phases side by side that is the result.
    """

    stride: int
    taps: int
    dilation: int
    before: int
    after: int
    steps: int
    first: int
    length: int

    @classmethod
    def of(
        cls, size: int, kernel: int, stride: int, dilation: int, padding: int, length: int
    ) -> _Axis | None:
        """``padding``: what is cut off before; None where that is more than a pixel's weights, or
        where places of a phase have weights of several."""
        taps = -(-kernel // stride)
        begin, end = padding // stride, (padding + length - 1) // stride
        before, after = dilation * (taps - 1) - begin, end - (size - 1)
        if before < 0 or after < 0 or (stride > 1 and dilation > 1):
            return None
        steps = end - begin + 1
        return cls(stride, taps, dilation, before, after, steps, padding % stride, length)


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    operators: set[str]
    phases: bool

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._name = str(binding.var.name)
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        axes = _axes_of(call, self.phases) if operator_of(call) in self.operators else None
        weights = constant_of(call.args[1], self.lookup_binding) if axes else None
        if axes is None or weights is None:
            return call
        operator, layout, _, kernel_layout = _CONVOLUTIONS[operator_of(call)]
        groups = int(call.attrs.groups)
        of_groups = [_by_phase(each, axes) for each in np.split(weights, groups)]
        phases = self.builder_.emit(
            operator(
                call.args[0], constant_like(np.concatenate(of_groups)), 1,
                [axis.before for axis in axes] + [axis.after for axis in axes],
                [axis.dilation for axis in axes], groups, layout, kernel_layout, layout,
            ),
            self._name,
        )  # fmt: skip
        if all(axis.stride == 1 for axis in axes):
            return phases
        return self._side_by_side(phases, axes, groups, weights.shape[1])

    def _side_by_side(
        self, phases: Any, axes: Sequence[_Axis], groups: int, channels: int
    ) -> relax.Expr:
        """``channels``: of the result, in each group."""
        batch, count = phases.ty.shape.values[0], len(axes)
        strides, steps = [a.stride for a in axes], [a.steps for a in axes]
        apart = relax.op.reshape(phases, [batch, groups, *strides, channels, *steps])
        # Each phase behind the place that it is of.
        places = [(3 + count + i, 2 + i) for i in range(count)]
        order = [0, 1, 2 + count, *itertools.chain.from_iterable(places)]
        turned = relax.op.permute_dims(self.builder_.emit(apart), order)
        whole = [a.steps * a.stride for a in axes]
        image = relax.op.reshape(self.builder_.emit(turned), [batch, groups * channels, *whole])
        if all(a.first == 0 and a.length == size for a, size in zip(axes, whole, strict=True)):
            return image
        return relax.op.strided_slice(
            self.builder_.emit(image), list(range(2, 2 + count)),
            [a.first for a in axes], [a.first + a.length for a in axes],
        )  # fmt: skip


def _axes_of(call: Any, phases: bool) -> list[_Axis] | None:
    """The axes of a transposed convolution of real numbers, without strides or, where ``phases``
    are wanted, with long sums or all channels in one; None for another one."""
    attrs = call.attrs
    _, layout, kernel_layout, _ = _CONVOLUTIONS[operator_of(call)]
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or layout))
    image, weights, result = (fixed_shape(e) for e in (*call.args, call))
    if layouts != (layout, kernel_layout, layout) or not (image and weights and result):
        return None
    strides, dilation, padding = (
        [int(n) for n in numbers][: len(image) - 2]
        for numbers in (attrs.strides, attrs.dilation, attrs.padding)
    )
    if "float" not in str(call.ty.dtype):
        return None
    sizes = zip(image[2:], weights[2:], strides, dilation, padding, result[2:], strict=True)
    axes = [_Axis.of(*each) for each in sizes]
    found = [axis for axis in axes if axis]
    if len(found) < len(axes):
        return None
    groups = int(attrs.groups)
    terms = image[1] // groups * math.prod(axis.taps for axis in found)
    wanted = phases and (groups == 1 or terms > MOST_IN_ONE_KERNEL)
    return found if wanted or max(strides) == 1 else None


def _by_phase(weights: np.ndarray, axes: Sequence[_Axis]) -> np.ndarray:
    """Weights (I, O, ...) as those of all phases, (phases · O, I, taps ...)."""
    count = len(axes)
    room = [(0, a.taps * a.stride - size) for a, size in zip(axes, weights.shape[2:], strict=True)]
    padded = np.pad(weights, [(0, 0), (0, 0), *room])
    inputs, outputs = weights.shape[:2]
    parted = padded.reshape(inputs, outputs, *(n for a in axes for n in (a.taps, a.stride)))
    taps, phases = (tuple(range(first, 2 + 2 * count, 2)) for first in (2, 3))
    turned = np.flip(parted, taps).transpose(*phases, 1, 0, *taps)
    return np.ascontiguousarray(turned.reshape(-1, inputs, *(a.taps for a in axes)))
