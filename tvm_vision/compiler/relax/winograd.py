"""Winograd's convolution where it is asked for or estimated to be faster: on GPUs, and what decides
for processors, whose channels lie in blocks (``nchwc/convolutions.py``).

A 3×3 convolution of stride 1 with constant weights becomes three kernels: the image transformed
tile by tile, one product of matrices for each of a transformed tile's (m+2)² numbers, and the
result transformed back, together with what follows element by element. The weights are transformed
when the network is compiled, and take (m+2)²/9 times the memory: 1.8 with m = 2, 4 with m = 4.
With m = 2 all three may be one kernel (gpu/winograd_conv.py), where channels come first.

``TVM_VISION_WINOGRAD`` chooses: ``auto`` (the default) leaves it to ``winograd_cost``, ``0``
turns it off, ``2`` and ``4`` make every convolution that can be one of F(2×2, 3×3) or F(4×4, 3×3),
``one`` one kernel of F(2×2, 3×3).
Halves know F(2×2, 3×3) alone, see docs/design/compiler.md for the errors of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target

from ...options import CompileOptions
from ...schedules import TargetLimits
from ...schedules.cpu.processor import vector_lanes
from ...topi.winograd import (
    KERNEL,
    Tiling,
    convolution,
    fill_up_weights,
    transform_image,
    transform_output,
    transform_weights,
)
from .kernel_calls import OUT_FUSABLE, bindings_of
from .operators import operator_of
from .rewriting import constant_of, rebind
from .winograd_cost import (
    LEAST_TILES,
    Choice,
    ConvShape,
    fastest,
    fastest_on_processor,
    one_kernel_fits,
    one_kernel_pays,
)

SIZES = (4, 2)  # m, the first that fits
LEAST_CHANNELS = 16  # of input and of output: with fewer the transforms are most of the work
# Channels first or last: layout of weights -> how its axes come to be (o, c, 3, 3).
_WEIGHTS = {"OIHW": (0, 1, 2, 3), "HWIO": (3, 2, 0, 1), "OHWI": (0, 3, 1, 2)}
_IMAGES = ("NCHW", "NHWC")


def winograd(
    mod: tvm.IRModule, target: Target, options: CompileOptions, matrices: bool
) -> tvm.IRModule:
    """``main`` with those convolutions of a GPU rewritten that the options say.

    matrices: whether convolutions will use cooperative matrices.
    """
    if options.winograd == "off" or "gpu" not in target.keys:
        return mod
    rewriter = _Rewriter(mod)
    rewriter.choose = winograd_tiles(target, options, matrices)
    rewriter.is_one = _one_kernel(target, options, matrices)
    rewriter.builder_.update_func(mod.get_global_var("main"), rewriter.rewrite(mod["main"]))
    return relax.transform.DeadCodeElimination()(rewriter.builder_.get())


def _one_kernel(
    target: Target, options: CompileOptions, matrices: bool
) -> Callable[[ConvShape], bool]:
    """Whether a convolution, whose channels come first, is one kernel."""
    limits = TargetLimits.of(target, options)
    fp16 = options.precision == "fp16"
    if options.winograd not in ("auto", "one") or (options.winograd == "auto" and matrices):
        return lambda layer: False
    wanted = one_kernel_fits if options.winograd == "one" else one_kernel_pays

    def is_one(layer: ConvShape) -> bool:
        enough = min(layer.inputs, layer.outputs) >= LEAST_CHANNELS
        return enough and wanted(layer, limits, fp16)

    return is_one


def winograd_tiles(target: Target, options: CompileOptions, matrices: bool) -> Choice:
    """For a convolution's shape m, or None for the convolution as it is, as the options say.

    matrices: whether convolutions will use cooperative matrices.
    """
    choice = _choice(target, options, matrices)

    def of_enough_channels(layer: ConvShape) -> int | None:
        return choice(layer) if min(layer.inputs, layer.outputs) >= LEAST_CHANNELS else None

    return of_enough_channels


def _choice(target: Target, options: CompileOptions, matrices: bool) -> Choice:
    on_gpu = "gpu" in target.keys
    way, fp16 = options.winograd, on_gpu and options.precision == "fp16"
    if way in ("off", "one") or (way == "auto" and matrices):
        return lambda layer: None
    if way != "auto":
        wanted = [m for m in SIZES if m <= (2 if fp16 else int(way))]
        return lambda layer: next((m for m in wanted if layer.tiles(m) >= LEAST_TILES), None)
    if not on_gpu:
        lanes = vector_lanes(target)
        return lambda layer: fastest_on_processor(layer, lanes)
    limits = TargetLimits.of(target, options)
    return lambda layer: fastest(layer, limits, fp16)


@mutator
class _Rewriter(PyExprMutator):
    """Rewrites a function; ``choose`` gives m for a layer, or None, ``is_one`` says whether it is
    one kernel."""

    choose: Choice
    is_one: Callable[[ConvShape], bool]

    def rewrite(self, main: relax.Function) -> relax.Function:
        self._bound = dict(bindings_of(main))
        self._images: dict[Any, relax.Var] = {}
        return self.visit_expr(main)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        result = self._convolution(value, str(var.name))
        if result is None:
            super().visit_var_binding_(binding)
            return
        rebind(self, var, result)

    def _convolution(self, call: Any, hint: str) -> Any:
        """The last of the calls that take the place of a convolution; None for what stays."""
        if operator_of(call) != "relax.nn.conv2d":
            return None
        weights = self._weights(call)
        tiling = _tiling(call) if weights is not None else None
        if weights is None or tiling is None:
            return None
        outputs, inputs = weights.shape[:2]
        layer = ConvShape(tiling.batch, inputs, outputs, tiling.height, tiling.width)
        if not tiling.channels_last and self.is_one(layer):
            return self._whole(call.args[0], weights, tiling)
        m = self.choose(layer)
        if m is None:
            return None
        tiling = tiling.of(m)
        image = self._image(call.args[0], tiling, hint)
        transposed = transform_weights(weights, m)
        if tiling.channels_last:
            factors = image, relax.const(np.ascontiguousarray(transposed.transpose(0, 2, 1)))
        else:
            factors = relax.const(transposed), image
        product = self.builder_.emit(relax.op.matmul(*factors), hint)
        return self._call(lambda x: transform_output(x, tiling), [product], "winograd_output")

    def _whole(self, x: Any, weights: np.ndarray, tiling: Tiling) -> Any:
        """The convolution as one computation."""
        filled = relax.const(fill_up_weights(transform_weights(weights, tiling.m)))
        return self._call(
            lambda x, w: convolution(x, w, tiling, weights.shape[0]),
            [self.visit_expr(x), filled],
            "winograd_convolution",
        )

    def _image(self, x: Any, tiling: Tiling, hint: str) -> relax.Var:
        """The transformed image; once for all convolutions of it that are cut alike."""
        key = (x, tiling)
        if key not in self._images:
            call = self._call(
                lambda x: transform_image(x, tiling), [self.visit_expr(x)], "winograd_image"
            )
            self._images[key] = self.builder_.emit(call, hint)
        return self._images[key]

    def _call(self, computation: Any, given: list[Any], name: str) -> Any:
        return self.builder_.call_te(
            computation, *given, primfunc_name_hint=name, primfunc_attrs={"op_pattern": OUT_FUSABLE}
        )

    def _weights(self, call: relax.Call) -> np.ndarray | None:
        """Float32 weights as (o, c, 3, 3); None where they are something else."""
        weights = constant_of(call.args[1], self._bound.get)
        axes = _WEIGHTS.get(str(call.attrs.kernel_layout))
        if weights is None or axes is None or weights.dtype != np.float32:
            return None
        weights = weights.transpose(axes)
        return weights if weights.shape[2:] == (KERNEL, KERNEL) else None


def _tiling(call: relax.Call) -> Tiling | None:
    """How a convolution would be cut, with m = 2; None for one that is not of Winograd's kind."""
    attrs, layout = call.attrs, str(call.attrs.data_layout)
    plain = layout in _IMAGES and str(attrs.out_layout or layout) == layout
    ones = [*attrs.strides, *attrs.dilation, attrs.groups]
    sizes = [getattr(size, "value", None) for size in call.ty.shape or [None]]
    shape = [int(size) for size in sizes if size is not None]
    if not plain or any(int(n) != 1 for n in ones) or len(shape) != len(sizes):
        return None
    if {str(call.ty.dtype), str(call.args[0].ty.dtype)} != {"float32"}:
        return None
    last = layout == "NHWC"
    batch, height, width = (shape[axis] for axis in ((0, 1, 2) if last else (0, 2, 3)))
    top, left = (int(n) for n in list(attrs.padding)[:2])
    return Tiling(2, batch, height, width, top, left, last)
