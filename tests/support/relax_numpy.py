"""What Relax functions of moves, products and sums compute, by numpy, operator by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax
from tvm.ir.expr import GenericConst

from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.operators import fixed_shape, operator_of


def run_by_numpy(main: relax.Function, *inputs: np.ndarray) -> Any:
    """The result of a function of one dataflow block: an array, or a tuple of them."""
    values: dict[Any, Any] = dict(zip(main.params, inputs, strict=True))
    for var, value in bindings_of(main):
        values[var] = _value(value, values)
    return _value(main.body.body, values)


def _value(expr: Any, values: dict[Any, Any]) -> Any:
    if isinstance(expr, relax.Var):
        return values[expr]
    if isinstance(expr, GenericConst):
        return expr.value.numpy()
    if isinstance(expr, relax.Tuple):
        return tuple(_value(field, values) for field in expr.fields)
    if isinstance(expr, relax.TupleGetItem):
        return _value(expr.tuple_value, values)[expr.index]
    tensors = [_value(a, values) for a in expr.args if isinstance(a, (relax.Var, GenericConst))]
    return _OPERATORS[operator_of(expr)](expr, *tensors)


def _like(call: Any, x: np.ndarray, *_: Any) -> np.ndarray:
    return x.reshape(fixed_shape(call))


def _turned(call: Any, x: np.ndarray) -> np.ndarray:
    return x.transpose(None if call.attrs.axes is None else [int(a) for a in call.attrs.axes])


def _taken(call: Any, x: np.ndarray, place: np.ndarray) -> np.ndarray:
    return np.take(x, place, axis=int(call.attrs.axis))


def _sliced(call: Any, x: np.ndarray) -> np.ndarray:
    axes, begins, ends, *steps = ([int(n.value) for n in given.fields] for given in call.args[1:])
    index: list[Any] = [slice(None)] * x.ndim
    for at, axis in enumerate(axes):
        index[axis] = slice(begins[at], ends[at], steps[0][at] if steps else 1)
    return x[tuple(index)]


def _split(call: Any, x: np.ndarray) -> list[np.ndarray]:
    pieces = call.attrs.indices_or_sections
    ends = [int(end) for end in pieces] if isinstance(pieces, tvm_ffi.Array) else int(pieces)
    return np.split(x, ends, int(call.attrs.axis))


def _softmax(call: Any, x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(int(call.attrs.axis), keepdims=True))
    return shares / shares.sum(int(call.attrs.axis), keepdims=True)


def _sum(function: Callable[..., Any]) -> Callable[..., Any]:
    def of(call: Any, x: np.ndarray) -> np.ndarray:
        axes = tuple(int(axis) for axis in call.attrs.axis)
        return function(x, axis=axes, keepdims=bool(call.attrs.keepdims))

    return of


def _clipped(call: Any, x: np.ndarray) -> np.ndarray:
    low, high = (float(end.value) for end in call.args[1:])
    return np.clip(x, low, high)


def _by(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, *tensors: function(*tensors)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "relax.reshape": _like,
    "relax.expand_dims": _like,
    "relax.squeeze": _like,
    "relax.permute_dims": _turned,
    "relax.take": _taken,
    "relax.strided_slice": _sliced,
    "relax.split": _split,
    "relax.clip": _clipped,
    "relax.mean": _sum(np.mean),
    "relax.sum": _sum(np.sum),
    "relax.max": _sum(np.max),
    "relax.min": _sum(np.min),
    "relax.variance": _sum(np.var),
    "relax.nn.softmax": _softmax,
    "relax.matmul": _by(np.matmul),
    "relax.add": _by(np.add),
    "relax.subtract": _by(np.subtract),
    "relax.multiply": _by(np.multiply),
    "relax.divide": _by(np.divide),
    "relax.negative": _by(np.negative),
    "relax.maximum": _by(np.maximum),
    "relax.minimum": _by(np.minimum),
    "relax.exp": _by(np.exp),
    "relax.sqrt": _by(np.sqrt),
    "relax.nn.relu": _by(lambda x: np.maximum(x, 0)),
}
