"""What is the same for all pixels, convolved once for all of them.

Networks put one vector beside what they know of each pixel: the mean of the image (the pooling of
ASPP, Chen et al. 2017), the features of a whole cloud beside those of its points (PointNet, Qi et
al. 2017), what a policy is told to do, the state of a robot on its map. They repeat it over all
pixels, concatenate, and convolve. A convolution is linear: its share of the weights multiplies the
vector once, and the result is added to what the rest gives, at each pixel.

So it is of products, along all axes but the last, and along each axis for itself: a row that is
repeated down an image stays a row. Where zeros lie around an image, what is at its border is not
what is within, and the axis stays as it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .repeats import Once, Repeats, Shape
from .rewriting import (
    calls_any,
    constant_like,
    constant_of,
    is_constant,
    rebind,
    rewritten,
    value_of,
)

OP = relax.op

# Operators, and their layouts of data and weights.
_CONVOLUTIONS: dict[str, tuple[Any, str, str]] = {
    "relax.nn.conv1d": (OP.nn.conv1d, "NCW", "OIW"),
    "relax.nn.conv2d": (OP.nn.conv2d, "NCHW", "OIHW"),
    "relax.nn.conv3d": (OP.nn.conv3d, "NCDHW", "OIDHW"),
}
_PRODUCT = "relax.matmul"
LINEAR = frozenset({*_CONVOLUTIONS, _PRODUCT})

# Multiplications that are worth an addition to a result.
FOR_AN_ADDITION = 4


def repeated_parts(
    mod: tvm.IRModule, least: int, operators: Collection[str] = LINEAR
) -> tvm.IRModule:
    """``main`` with convolutions and products of what is repeated done once, where that saves
    ``least`` multiplications; the module itself where none does. operators: those of LINEAR that
    are."""
    if not calls_any(mod, operators):
        return mod
    rewriter = _Rewriter(mod)
    rewriter.least, rewriter.operators = least, operators
    changed = rewritten(mod, rewriter)
    return relax.transform.DeadCodeElimination()(changed) if rewriter.found else mod


@dataclass(frozen=True)
class _Sum:
    """A convolution, or a product, by the axes of what it reads.

    Attributes:
        call: it.
        read, result: shapes.
        channel: the axis that is added up, of what is read.
        kernel: the window along the others; 1 along that of images, and in a product.
        padded: whether zeros lie around, along each.
    """

    call: relax.Call
    read: Shape
    result: Shape
    channel: int
    kernel: Shape
    padded: tuple[bool, ...]

    @classmethod
    def of(cls, call: relax.Call) -> _Sum | None:
        """Of a call; None where a result is not the sum over all channels, each with a weight."""
        read, weights, result = map(fixed_shape, (*call.args[:2], call))
        dtypes = {str(each.ty.dtype) for each in (call, *call.args)}
        if read is None or weights is None or result is None or len(dtypes) > 1:
            return None
        if not dtypes.pop().startswith("float"):
            return None
        rank, attrs = len(read), call.attrs
        if operator_of(call) == _PRODUCT:
            if len(weights) != 2 or rank < 2:
                return None
            return cls(call, read, result, rank - 1, (1,) * rank, (False,) * rank)
        _, *layouts = _CONVOLUTIONS[operator_of(call)]
        found = [str(attrs.data_layout), str(attrs.kernel_layout)]
        out = str(attrs.out_layout or layouts[0])
        if found != layouts or out != layouts[0] or int(attrs.groups) != 1:
            return None
        padding = [int(size) for size in attrs.padding]
        padded = [any(padding[axis :: rank - 2]) for axis in range(rank - 2)]
        return cls(call, read, result, 1, (1, 1, *weights[2:]), (False, False, *padded))

    def form(self, once: Shape) -> Shape:
        """What is read of something repeated: where zeros lie around as it is. 1 for channels."""
        axes = enumerate(zip(once, self.read, self.padded, strict=True))
        return tuple(
            1 if axis == self.channel else read if padded else own
            for axis, (own, read, padded) in axes
        )  # fmt: skip

    def result_of(self, form: Shape) -> Shape:
        """The shape of what something repeated gives."""
        axes = enumerate(zip(form, self.read, self.result, strict=True))
        return tuple(
            size if axis == self.channel or own == read else 1
            for axis, (own, read, size) in axes
        )  # fmt: skip

    def multiplications(self, form: Shape, channels: int) -> int:
        """Of something repeated, of so many channels."""
        taps = zip(form, self.read, self.kernel, strict=True)
        window = math.prod(size for own, read, size in taps if own == read)
        return channels * window * math.prod(self.result_of(form))

    def share(self, weights: np.ndarray, form: Shape, channels: list[int]) -> np.ndarray:
        """The weights of some channels; along axes that are repeated those of a window added up."""
        if operator_of(self.call) == _PRODUCT:
            return weights[channels]
        axes = [axis for axis in range(2, len(form)) if form[axis] != self.read[axis]]
        taken = weights[:, channels]
        if not axes:
            return taken
        return taken.sum(axis=tuple(axes), keepdims=True, dtype=np.float64).astype(weights.dtype)

    def on(self, value: Any, form: Shape, weights: Any) -> relax.Call:
        """The same, of something repeated, which is there once."""
        attrs = self.call.attrs
        if operator_of(self.call) == _PRODUCT or form[2:] == self.read[2:]:
            return relax.Call(self.call.op, [value, weights], attrs)
        rank = len(self.read) - 2
        convolution, data, kernel = _CONVOLUTIONS[operator_of(self.call)]
        whole = [own == read for own, read in zip(form, self.read, strict=True)][2:]
        strides, dilation = (
            [int(size) if is_whole else 1 for size, is_whole in zip(sizes, whole, strict=True)]
            for sizes in (attrs.strides, attrs.dilation)
        )
        padding = [int(size) for size in attrs.padding]  # none along what is repeated
        assert len(padding) == 2 * rank
        return convolution(
            value, weights, strides, padding, dilation, 1, data, kernel, data, attrs.out_dtype
        )


@dataclass(frozen=True)
class _Part:
    """A part of what is read: the tensor, what it is once, and its channels among all."""

    value: Any
    once: Once
    channels: range


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    least: int
    operators: Collection[str]
    found = False

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._repeats = Repeats(self.lookup_binding)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        linear = _Sum.of(binding.value) if operator_of(binding.value) in self.operators else None
        total = None if linear is None else self._total(linear, str(binding.var.name))
        if total is None:
            super().visit_var_binding_(binding)
        else:
            self.found = True
            rebind(self, binding.var, total)
        var = self.visit_expr(binding.var)
        self._repeats.add(var, value_of(var, self.lookup_binding))

    def _total(self, linear: _Sum, name: str) -> Any:
        """The sum of what parts give; None where it is better off as it is."""
        if not is_constant(linear.call.args[1], self.lookup_binding):
            return None
        groups: dict[Shape, list[_Part]] = {}
        for part in self._parts(linear):
            groups.setdefault(linear.form(part.once.shape), []).append(part)
        once = {f: parts for f, parts in groups.items() if self._is_worth(linear, f, parts)}
        if not once:
            return None
        weights = constant_of(linear.call.args[1], self.lookup_binding)
        assert weights is not None

        def emit(value: Any) -> Any:
            return self.builder_.emit(value, name)

        def given(form: Shape, parts: list[_Part], values: list[Any]) -> Any:
            channels = [channel for part in parts for channel in part.channels]
            value = values[0] if len(parts) == 1 else emit(OP.concat(values, linear.channel))
            share = constant_like(linear.share(weights, form, channels))
            return emit(linear.on(value, form, share))

        sums = [given(f, parts, self._as(linear, f, parts, emit)) for f, parts in once.items()]
        # The small ones first.
        sums.sort(key=lambda value: math.prod(fixed_shape(value) or ()))
        rest = sorted(
            (part for f, parts in groups.items() if f not in once for part in parts),
            key=lambda part: part.channels.start,
        )
        total = functools.reduce(lambda a, b: emit(OP.add(a, b)), sums)
        if rest:
            return OP.add(given(linear.read, rest, [part.value for part in rest]), total)
        return OP.broadcast_to(total, linear.result)

    def _parts(self, linear: _Sum) -> list[_Part]:
        """What is read, in parts where it is concatenated along its channels."""
        source = self.visit_expr(linear.call.args[0])
        parts, begin = [], 0
        for field in self._fields(source, linear.channel) or [source]:
            once, shape = self._repeats.once(field), fixed_shape(field)
            if once is None or shape is None:
                return []
            end = begin + shape[linear.channel]
            parts.append(_Part(field, once, range(begin, end)))
            begin = end
        return parts

    def _fields(self, source: Any, axis: int) -> list[Any]:
        """What is concatenated along an axis, also before axes were turned, or others of them
        reshaped; none for anything else."""
        value, shape = value_of(source, self.lookup_binding), fixed_shape(source) or ()
        if operator_of(value) == "relax.concat" and value.attrs.axis is not None:
            whole = value_of(value.args[0], self.lookup_binding)
            along = int(value.attrs.axis) % len(shape) == axis
            return list(whole.fields) if along and isinstance(whole, relax.Tuple) else []
        if operator_of(value) == "relax.permute_dims":
            given = value.attrs.axes or range(len(shape))[::-1]
            order = [int(place) % len(shape) for place in given]
            fields = self._fields(value.args[0], order[axis])
            return [self._emitted(OP.permute_dims(field, order)) for field in fields]
        before = fixed_shape(value.args[0]) if operator_of(value) == "relax.reshape" else None
        for place, size in enumerate(before or ()):
            outer = math.prod((before or ())[:place])
            if size == shape[axis] and outer == math.prod(shape[:axis]):
                part = (*shape[:axis], -1, *shape[axis + 1 :])
                fields = self._fields(value.args[0], place)
                return [self._emitted(OP.reshape(field, part)) for field in fields]
        return []

    def _emitted(self, value: Any) -> Any:
        var = self.builder_.emit(value)
        self._repeats.add(var, value_of(var, self.lookup_binding))
        return var

    def _is_worth(self, linear: _Sum, form: Shape, parts: list[_Part]) -> bool:
        """Whether multiplying parts by themselves saves enough."""
        channels = sum(len(part.channels) for part in parts)
        whole, once = (
            linear.multiplications(linear.read, channels),
            linear.multiplications(form, channels),
        )
        return whole - once >= self.least + FOR_AN_ADDITION * math.prod(linear.result)

    def _as(self, linear: _Sum, form: Shape, parts: list[_Part], emit: Any) -> list[Any]:
        """What parts repeat, as far as ``form`` has it once."""
        made = []
        for part in parts:
            shape = [*form]
            shape[linear.channel] = len(part.channels)
            value = part.once.make(emit)
            made.append(
                value if fixed_shape(value) == tuple(shape) else emit(OP.broadcast_to(value, shape))
            )
        return made
