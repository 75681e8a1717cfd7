"""Operators on constants, computed at once with numpy.

TVM's own FoldConstant compiles each such operator with LLVM, 25 to 80 ms apiece: for the bounds of
clips, the biases of convolutions and the weights that a layout turns, that is seconds a network.
What is not in the tables here is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .operators import fixed_shape, operator_of, pad_widths
from .rewriting import Lookup, constant_of, resolve, rewritten, value_of

Array = Any

# What a Relax operator with some attributes makes of constants, before it has the result's shape;
# None where it is not known here.
Fold = Callable[[Sequence[Array], Any], Array | None]


def _of_sums(numbers: Callable[..., Array]) -> Fold:
    """Of real numbers, added up in float64: LLVM would do it in their own type, float16 for one."""

    def fold(args: Sequence[Array], attrs: Any) -> Array | None:
        if not np.issubdtype(args[0].dtype, np.floating):
            return None
        axes = None if attrs.axis is None else tuple(int(axis) for axis in attrs.axis)
        return numbers(args[0].astype(np.float64), axis=axes, keepdims=bool(attrs.keepdims))

    return fold


FOLDS: dict[str, Fold] = {
    "relax.mean": _of_sums(np.mean),
    "relax.sum": _of_sums(np.sum),
    "relax.variance": _of_sums(np.var),
    "relax.isnan": lambda args, attrs: np.isnan(args[0]),
    "relax.where": lambda args, attrs: np.where(*args),
    "relax.reshape": lambda args, attrs: args[0],
    "relax.expand_dims": lambda args, attrs: args[0],
    "relax.squeeze": lambda args, attrs: args[0],
    "relax.astype": lambda args, attrs: args[0],
    "relax.add": lambda args, attrs: args[0] + args[1],
    "relax.subtract": lambda args, attrs: args[0] - args[1],
    "relax.multiply": lambda args, attrs: args[0] * args[1],
    "relax.negative": lambda args, attrs: -args[0],
    "relax.sqrt": lambda args, attrs: np.sqrt(args[0]),
    "relax.maximum": lambda args, attrs: np.maximum(*args),
    "relax.minimum": lambda args, attrs: np.minimum(*args),
    "relax.less": lambda args, attrs: np.less(*args),
    "relax.take": lambda args, attrs: _taken(args, attrs.axis),
}


def _taken(args: Sequence[Array], axis: Any) -> Array | None:
    data, places = args
    axis = None if axis is None else int(axis)
    size = data.size if axis is None else data.shape[axis]
    # What another place means, TVM's modes say.
    inside = np.all((places >= 0) & (places < size))
    return np.take(data, places, axis) if inside else None


def _transposed(args: Sequence[Array], attrs: Any) -> Array:
    return args[0].transpose(attrs.axes and [int(axis) for axis in attrs.axes])


def _padded(args: Sequence[Array], attrs: Any) -> Array | None:
    if attrs.pad_mode != "constant":
        return None
    return np.pad(args[0], np.reshape(pad_widths(attrs), (-1, 2)), constant_values=attrs.pad_value)


def _dequantized(args: Sequence[Array], attrs: Any) -> Array | None:
    """Of whole numbers in float32, as TVM computes it: both steps are exact but the product."""
    data, scale, zero = args
    if not np.issubdtype(data.dtype, np.integer) or str(attrs.out_dtype) != "float32":
        return None
    if np.ndim(scale) or np.ndim(zero):
        along = [1] * data.ndim
        along[int(attrs.axis)] = -1
        scale, zero = (v.reshape(along if v.size > 1 else ()) for v in (scale, zero))
    return (data.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale


# What layouts do to weights, and weights of bytes in float32. The passes that choose layouts look
# for weights behind these, so that they fold once that is done.
MOVES: dict[str, Fold] = {
    "relax.dequantize": _dequantized,
    "relax.permute_dims": _transposed,
    "relax.nn.pad": _padded,
    "relax.reshape": FOLDS["relax.reshape"],
}
_ALL = FOLDS | MOVES


def _pass(name: str, folds: Mapping[str, Fold]) -> Any:
    def run(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        return rewritten(mod, _Folder(mod, folds))

    return tvm.transform.module_pass(run, opt_level=0, name=name)


# Passes: operators of a table on constants become constants, in every Relax function.
fold_constants = _pass("FoldConstantsWithNumpy", FOLDS)
fold_moves = _pass("FoldMovesWithNumpy", MOVES)


@mutator
class _Folder(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, folds: Mapping[str, Fold]) -> None:
        super().__init__(mod)
        self._folds = folds

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if operator_of(call) == "relax.shape_to_tensor":
            return _sizes(call)
        if operator_of(call) == "relax.strided_slice":
            return _sliced(call, constant_of(call.args[0], self.lookup_binding))
        found = _folded(call, self._folds, lambda arg: constant_of(arg, self.lookup_binding))
        # Without a type it would make int32 of int64.
        return call if found is None else relax.const(found, str(call.ty.dtype))


def _folded(
    call: relax.Call, folds: Mapping[str, Fold], numbers: Callable[[Any], Array | None]
) -> Array | None:
    """What a call makes of constants by a table; numbers: of an argument, None of no constant."""
    fold, shape = folds.get(operator_of(call)), fixed_shape(call)
    if fold is None or shape is None:
        return None
    tensors = [arg for arg in call.args if not isinstance(arg.ty, relax.ShapeType)]
    values = [numbers(tensor) for tensor in tensors]
    if any(value is None for value in values):
        return None
    result = fold(values, call.attrs)
    if result is None:
        return None
    return np.ascontiguousarray(result, dtype=str(call.ty.dtype)).reshape(shape)


def numbers_behind(expr: Any, lookup: Lookup) -> Array | None:
    """The numbers that an expression stands for where it is made of constants alone, also by
    operators that would make more of them than there were; None for any other."""
    known = constant_of(expr, lookup)
    if known is not None:
        return known
    value = value_of(expr, lookup)
    if operator_of(value) == "relax.broadcast_to":
        few, shape = numbers_behind(value.args[0], lookup), fixed_shape(value)
        return None if few is None or shape is None else np.broadcast_to(few, shape)
    if operator_of(value) == "relax.concat":
        parts = getattr(resolve(value.args[0], lookup), "fields", ())
        found = [numbers_behind(part, lookup) for part in parts]
        each = [part for part in found if part is not None]
        whole = len(each) == len(parts) > 0
        return np.concatenate(each, int(value.attrs.axis)) if whole else None
    return _folded(value, _ALL, lambda arg: numbers_behind(arg, lookup))


def _sizes(call: relax.Call) -> relax.Expr:
    """The sizes of a fixed shape as a constant; those of another as they are."""
    values = call.args[0].ty.values
    if not values or not all(hasattr(size, "value") for size in values):
        return call
    return relax.const(np.array([int(size.value) for size in values]), str(call.ty.dtype))


def _sliced(call: relax.Call, data: Array | None) -> relax.Expr:
    """A part of a constant; a part of anything else, or one that runs backwards, as it is."""
    found = [_whole_numbers(argument) for argument in call.args[1:]]
    numbers = [each for each in found if each is not None]
    if data is None or fixed_shape(call) is None or len(numbers) < len(found):
        return call
    axes, begin, end, *strides = numbers
    steps = strides[0] if strides else [1] * len(axes)
    if min(steps, default=1) < 1:
        return call
    part = [slice(None)] * data.ndim
    for axis, *bounds in zip(axes, begin, end, steps, strict=True):
        part[axis] = slice(*bounds)
    return relax.const(np.ascontiguousarray(data[tuple(part)]), str(call.ty.dtype))


def _whole_numbers(argument: relax.Expr) -> list[int] | None:
    """The numbers of a tuple that is written out; None of anything else."""
    if not isinstance(argument, relax.Tuple):
        return None
    values = [getattr(field, "value", None) for field in argument.fields]
    found = [getattr(value, "value", value) for value in values]
    whole = [value for value in found if isinstance(value, int)]
    return whole if len(whole) == len(found) else None
