"""Convolutions of one image that are added up, as one convolution.

What is trained as several branches (RepVGG's windows of nine pixels and of one, MobileOne's copies,
FastViT's mixers, with scaled images in between) and exported as it was trained is linear up to the
sum: w1 * x + w2 * x + s x = (w1 + w2 + s at the middle) * x. The authors' own tools do the same to
the weights (Ding et al. 2021, "RepVGG: Making VGG-style ConvNets Great Again", section 3.3).

Branches are joined where the one convolution has no more products than they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .fold_scale_axis import ROUNDS
from .kernel_calls import bindings_of
from .operators import fixed_shape, operator_of
from .rewriting import Names, constant_of, is_constant, rebind, resolve, rewritten

Array = np.ndarray
_SUMS = {"relax.add": 1.0, "relax.subtract": -1.0}
_SCALES = ("relax.multiply", "relax.divide")


@dataclass(frozen=True)
class _Branch:
    """A convolution, or an image that is only scaled, as a window over an image.

    Attributes:
        weights: of the convolution, an expression; None for an image.
        scale: what is multiplied by, float64 [1] or [outputs].
        groups: of the convolution; for an image as many as channels.
        steps: between the window's rows and columns.
        first, last: places of the window's ends along both axes, beside the pixel it is for.
    """

    weights: Any
    scale: Array
    groups: int
    steps: tuple[int, int] = (1, 1)
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class _Window:
    """Branches that read an image alike, as one convolution of it.

    Attributes:
        source: the image, a variable.
        strides: of the convolution.
        outputs, inputs: channels of the result, and of the image, that one of these reads.
        branches: what it is the sum of; the first has the fewest groups.
        products: of all branches, for a pixel of a channel of the result.
    """

    source: Any
    strides: tuple[int, int]
    outputs: int
    inputs: int
    branches: tuple[_Branch, ...]
    products: int

    @property
    def groups(self) -> int:
        """Of the convolution."""
        return self.branches[0].groups

    @property
    def is_image(self) -> bool:
        """Whether it is an image that is only scaled."""
        return self.branches[0].weights is None

    @property
    def first(self) -> tuple[int, int]:
        """The first place of the window along both axes, beside the pixel it is for."""
        rows, columns = zip(*(branch.first for branch in self.branches), strict=True)
        return min(rows), min(columns)

    @property
    def last(self) -> tuple[int, int]:
        """The last place of the window."""
        rows, columns = zip(*(branch.last for branch in self.branches), strict=True)
        return max(rows), max(columns)


@dataclass
class _Sum:
    """A sum of branches: windows, other tensors with a number for each channel, and a constant for
    each."""

    windows: list[_Window] = field(default_factory=list)
    others: list[tuple[Any, Array]] = field(default_factory=list)
    shift: Array = field(default_factory=lambda: np.zeros(1))
    inner: list[Any] = field(default_factory=list)


def join_branches(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such convolutions joined."""
    reader = _Reader(mod["main"])
    sums = _joined_sums(mod["main"], reader)
    if not sums:
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod, reader, sums)))


def _joined_sums(function: relax.Function, reader: _Reader) -> dict[Any, _Sum]:
    """By variable, the sums some of whose windows are joined."""
    found: dict[Any, _Sum] = {}
    seen: set[Any] = set()  # within a sum: what can be joined there can be joined in it
    for var, value in reversed(list(bindings_of(function))):
        made = reader.sum_of(var) if operator_of(value) in _SUMS and var not in seen else None
        if made is None:
            continue
        seen.update(made.inner)
        windows = list(_join(made.windows))
        if len(windows) < len(made.windows):
            found[var] = _Sum(windows, made.others, made.shift)
    return found


class _Reader:
    """What a sum in a function is made of."""

    def __init__(self, function: relax.Function) -> None:
        self._names = Names(function)
        self._lookup = self._names.lookup

    def sum_of(self, var: Any) -> _Sum | None:
        """The sum that a variable is; None where its type or shape is not an image's."""
        shape = fixed_shape(var)
        if shape is None or len(shape) != 4 or not str(var.ty.dtype).startswith("float"):
            return None
        result = _Sum()
        left = [(var, np.ones(1))]
        while left:
            left += reversed(self._step(*left.pop(), result, shape))
        return result

    def _step(
        self, expr: Any, scale: Array, into: _Sum, shape: tuple[int, ...]
    ) -> list[tuple[Any, Array]]:
        """Adds an expression, times a scale, to a sum; what it is a sum of is left to do."""
        var = resolve(expr, self._lookup)
        value = self._lookup(var) if isinstance(var, relax.Var) else None
        # Of what others use, too, nothing is saved. The first is the sum itself.
        call: Any = value if not into.inner or self._names.uses(var) == 1 else None
        name = operator_of(call)
        if name in _SUMS and self._is_walked(call):
            into.inner.append(var)
            return self._added(call, scale, into, shape)
        if name in _SCALES:
            scaled = self._times(call, shape)
            if scaled is not None:
                into.inner.append(var)
                return [(scaled[0], scale * scaled[1])]
        window = self._window(call, scale) if name == "relax.nn.conv2d" else None
        if window is None and isinstance(var, relax.Var):
            window = _scaled(var, scale, shape)
        if window is None:
            into.others.append((expr, scale))
        else:
            into.windows.append(window)
        return []

    def _added(
        self, call: Any, scale: Array, into: _Sum, shape: tuple[int, ...]
    ) -> list[tuple[Any, Array]]:
        """What is left to do of the terms of a sum or difference."""
        left = []
        for operand, sign in zip(call.args, (1.0, _SUMS[operator_of(call)]), strict=True):
            number = self._number(operand, shape)
            if number is not None:
                into.shift = into.shift + sign * scale * number
            elif fixed_shape(operand) == shape:
                left.append((operand, sign * scale))
            else:
                into.others.append((operand, sign * scale))
        return left

    def _times(self, call: Any, shape: tuple[int, ...]) -> tuple[Any, Array] | None:
        """What is multiplied or divided by numbers, and what it is multiplied by; None where both
        are tensors."""
        first, second = call.args
        number, product = self._number(second, shape), operator_of(call) == "relax.multiply"
        if number is None and product:
            first, number = second, self._number(first, shape)
        if number is None or fixed_shape(first) != shape:
            return None
        if not np.all(np.isfinite(number) & (number != 0)):
            return None
        return first, number if product else 1 / number

    def _is_walked(self, call: Any) -> bool:
        """Whether a sum's terms are looked at: not where one is there to round, nor where both are
        the same, as each would be walked through twice, and what it is made of four times."""
        one, other = (resolve(operand, self._lookup) for operand in call.args)
        return not one.same_as(other) and not any(map(self._rounds, call.args))

    def _rounds(self, expr: Any) -> bool:
        """Whether a constant is added in order to round, or to make all there is infinite."""
        value = constant_of(expr, self._lookup)
        return value is not None and not bool(np.all(np.abs(value) < ROUNDS))

    def _number(self, expr: Any, shape: tuple[int, ...]) -> Array | None:
        """A constant of one number, or of one for each channel, as float64 [1] or [channels]; None
        for any other."""
        of = fixed_shape(expr)
        if of is None or math.prod(of) not in (1, shape[1]):
            return None
        if math.prod(of) > 1 and (len(of) not in (3, 4) or of[-3] != shape[1]):
            return None
        value = constant_of(expr, self._lookup)
        return None if value is None else value.astype(np.float64).reshape(-1)

    def _window(self, call: Any, scale: Array) -> _Window | None:
        """A convolution with constant weights."""
        attrs, source = call.attrs, resolve(call.args[0], self._lookup)
        layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
        usual = tuple(map(str, layouts)) == ("NCHW", "OIHW", "NCHW")
        size = fixed_shape(call.args[1])
        if not usual or size is None or not isinstance(source, relax.Var):
            return None
        if str(source.ty.dtype) != str(call.ty.dtype) or not is_constant(
            call.args[1], self._lookup
        ):
            return None
        outputs, inputs, rows, columns = size
        top, left, *_ = (int(pad) for pad in attrs.padding)
        down, along = (int(step) for step in attrs.dilation)
        branch = _Branch(
            call.args[1], scale, int(attrs.groups), (down, along), (-top, -left),
            ((rows - 1) * down - top, (columns - 1) * along - left),
        )  # fmt: skip
        strides = int(attrs.strides[0]), int(attrs.strides[1])
        return _Window(source, strides, outputs, inputs, (branch,), inputs * rows * columns)

    def weights_of(self, window: _Window) -> Array:
        """Of the convolution, float64 [outputs, inputs, rows, columns]."""
        (top, left), (bottom, right) = window.first, window.last
        size = (window.outputs, window.inputs, bottom - top + 1, right - left + 1)
        result = np.zeros(size)
        for branch in window.branches:
            rows, columns = (
                slice(begin - least, end - least + 1, step)
                for begin, end, step, least in zip(
                    branch.first, branch.last, branch.steps, window.first, strict=True
                )
            )
            result[:, :, rows, columns] += self._in_groups(branch, window)
        return result

    def _in_groups(self, branch: _Branch, window: _Window) -> Array:
        """A branch's weights as of the window's groups: 0 for channels of others of its own."""
        scale = np.broadcast_to(branch.scale, (window.outputs,)).reshape(-1, 1, 1, 1)
        if branch.weights is None:
            own: Array = scale
        else:
            found = constant_of(branch.weights, self._lookup)
            assert found is not None
            own = found * scale
        if branch.groups == window.groups:
            return own
        result = np.zeros((window.outputs, window.inputs, *own.shape[2:]))
        smaller, inputs = branch.groups // window.groups, own.shape[1]
        for output in range(window.outputs):
            group = output // (window.outputs // branch.groups)
            begin = group % smaller * inputs
            result[output, begin : begin + inputs] = own[output]
        return result


def _scaled(var: Any, scale: Array, shape: tuple[int, ...]) -> _Window:
    """An image times a number for each channel, as a window of one pixel."""
    return _Window(var, (1, 1), shape[1], 1, (_Branch(None, scale, shape[1]),), 1)


def _join(windows: list[_Window]) -> Iterator[_Window]:
    """The windows, those that can be one as one."""
    alike: dict[Any, list[_Window]] = {}
    for window in windows:
        alike.setdefault((window.source, window.strides), []).append(window)
    for left in alike.values():
        left.sort(key=lambda window: (window.is_image, window.groups, -window.products))
        while left and not left[0].is_image:
            whole, *others = left
            left = []
            for other in others:
                joined = _of_both(whole, other)
                if joined is None:
                    left.append(other)
                else:
                    whole = joined
            yield whole
        yield from left


def _of_both(one: _Window, other: _Window) -> _Window | None:
    """Two windows of an image as one; None where it has more products than both."""
    if one.outputs != other.outputs or other.groups % one.groups:
        return None
    # Of one convolution that mixes channels and its image, as it is, the sum is exact, and no more
    # than a product could do.
    plain = other.is_image and bool(np.all(other.branches[0].scale == 1))
    if plain and one.groups == 1 and len(one.branches) == 1:
        return None
    products = one.products + other.products
    both = replace(one, branches=(*one.branches, *other.branches), products=products)
    rows, columns = (end - begin + 1 for begin, end in zip(both.first, both.last, strict=True))
    return both if both.inputs * rows * columns <= products else None


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, reader: _Reader, sums: dict[Any, _Sum]) -> None:
        super().__init__(mod)
        self._reader, self._sums = reader, sums

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        made = self._sums.get(binding.var)
        if made is None:
            super().visit_var_binding_(binding)
            return
        shape, dtype = fixed_shape(binding.var), str(binding.var.ty.dtype)
        assert shape is not None

        def constant(values: Array) -> Any:
            return relax.const(values.reshape(1, -1, 1, 1).astype(dtype))

        def scaled(expr: Any, scale: Array) -> Any:
            value = self.visit_expr(expr)
            return value if np.all(scale == 1) else relax.op.multiply(value, constant(scale))

        terms = [
            scaled(window.source, window.branches[0].scale)
            if window.is_image
            else self._convolved(window, shape, dtype)
            for window in made.windows
        ]
        terms += [scaled(expr, scale) for expr, scale in made.others]
        if np.any(made.shift != 0):
            terms.insert(1, constant(made.shift))
        name = str(binding.var.name)
        total, *rest = terms
        for term in rest:
            total = relax.op.add(self._named(total, name), self._named(term, name))
        rebind(self, binding.var, total)

    def _named(self, term: Any, name: str) -> Any:
        return self.builder_.emit(term, name) if isinstance(term, relax.Call) else term

    def _convolved(self, window: _Window, shape: tuple[int, ...], dtype: str) -> Any:
        """The convolution of a window, to an image of a shape."""
        source = self.visit_expr(window.source)
        given = fixed_shape(source) or ()
        # A stride may leave the last pixels out.
        ends = [
            max(0, (size - 1) * stride + end + 1 - extent)
            for size, stride, end, extent in zip(
                shape[2:], window.strides, window.last, given[2:], strict=True
            )
        ]
        begins = [-place for place in window.first]
        weights = relax.const(self._reader.weights_of(window).astype(dtype))
        return relax.op.nn.conv2d(
            source, weights, strides=list(window.strides), padding=[*begins, *ends],
            groups=window.groups,
        )  # fmt: skip
