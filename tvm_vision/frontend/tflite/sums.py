"""Products, reductions and what is sorted or summed along an axis."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from onnx import TensorProto

from ..onnx.graph import Unsupported
from .network import EXPORT
from .step import Converter, Step
from .values import FIRST, LAST

# The least sum of squares that L2_NORMALIZATION divides by the root of.
LEAST_SQUARES = 1e-6


def fully_connected(step: Step) -> None:
    """Rows of the input times rows of the weights."""
    options = step.options
    if options.WeightsFormat():
        raise Unsupported("its weights are shuffled", "export the network without that")
    weights = step.weights(1, [1, 0])
    taken, made = step.network.shape(weights)
    x, shape = step.real(0), step.shape(0)
    if not taken or math.prod(shape) % taken:
        raise Unsupported(f"rows of {taken} do not fill {list(shape)}", EXPORT)
    keeps = bool(options.KeepNumDims()) and shape[-1:] == (taken,)
    rows = math.prod(shape) // taken
    if shape != (rows, taken):
        x = step.emit("Reshape", x, np.array([rows, taken], np.int64))
    value = step.emit("MatMul", x, weights)
    if (bias := step.bias(2)) is not None:
        value = step.emit("Add", value, bias)
    if keeps and shape != (rows, taken):
        value = step.emit("Reshape", value, np.array([*shape[:-1], made], np.int64))
    step.give(value, activation=options.FusedActivationFunction())


def batch_matmul(step: Step) -> None:
    factors = []
    for place, turned in ((0, step.options.AdjX()), (1, step.options.AdjY())):
        value, rank = step.real(place), len(step.shape(place))
        if rank < 2:
            raise Unsupported(f"a factor has {rank} axes", EXPORT)
        perm = [*range(rank - 2), rank - 1, rank - 2]
        factors.append(step.values.turned(value, perm, step.label) if turned else value)
    step.give(step.emit("MatMul", *factors))


def reduction(step: Step, kind: str) -> None:
    """Along constant axes. Channels stay first where the result has the same axes, or where those
    that stay keep their order."""
    rank = len(step.shape(0))
    axes = sorted({step.axis(axis, rank) for axis in step.numbers(1, "its axes")})
    keeps = bool(step.options.KeepDims())
    left = [axis for axis in range(rank) if axis not in axes]
    order = step.order(0)
    places = [step.axis(axis, rank, order) for axis in left]
    if order == FIRST and not keeps and places != sorted(places):
        order = LAST
    value = step.real(0, order)
    if not axes:
        step.give(value, order)
        return
    given = sorted(step.axis(axis, rank, order) for axis in axes)
    if step.network.dtype(value).kind == "b":
        value = step.emit("Cast", value, to=TensorProto.INT32)
        value = _reduced(step, kind, value, given, keeps)
        value = step.emit("Cast", value, to=TensorProto.BOOL)
    else:
        value = _reduced(step, kind, value, given, keeps)
    step.give(value, order if keeps else LAST)


def _reduced(step: Step, kind: str, value: str, axes: list[int], keeps: bool) -> str:
    if kind == "ReduceSum":  # the only one whose axes are an input in this operator set
        return step.emit(kind, value, np.array(axes, np.int64), keepdims=int(keeps))
    return step.emit(kind, value, axes=axes, keepdims=int(keeps))


def place_of_extreme(step: Step, kind: str) -> None:
    rank = len(step.shape(0))
    axis = step.axis(step.number(1, "its axis"), rank)
    found = step.emit(kind, step.stored(0), axis=axis, keepdims=0)
    if np.dtype(step.result().dtype) != np.int64:
        found = step.emit("Cast", found, to=TensorProto.INT32)
    step.keep(found)


def top_k(step: Step) -> None:
    count = np.array([step.number(1, "its count")], np.int64)
    x = step.stored(0) if step.moves(0) else step.real(0)
    values, places = step.emit_all("TopK", x, count, count=2, axis=-1)
    (step.keep if step.moves(0) else step.give)(values)
    step.keep(step.emit("Cast", places, to=TensorProto.INT32), place=1)


def cumsum(step: Step) -> None:
    options = step.options
    axis = np.array(step.axis(step.number(1, "its axis"), len(step.shape(0))), np.int64)
    value = step.emit(
        "CumSum", step.real(0), axis, exclusive=int(options.Exclusive()),
        reverse=int(options.Reverse()),
    )  # fmt: skip
    step.give(value)


def l2_normalization(step: Step) -> None:
    """x / √max(Σ x², 1e-6), along the last axis."""
    order = step.order(0)
    x = step.real(0, order)
    axis = step.axis(-1, len(step.network.shape(x)), order)
    squares = step.emit("ReduceSum", step.emit("Mul", x, x), np.array([axis]), keepdims=1)
    root = step.emit("Sqrt", step.emit("Max", squares, np.float32(LEAST_SQUARES)))
    activation = step.options.FusedActivationFunction()
    step.give(step.emit("Div", x, root), order, activation=activation)


def local_response_normalization(step: Step) -> None:
    """x / (bias + alpha Σ x²)^beta over 2 radius + 1 channels; ONNX has a mean in place of Σ."""
    options = step.options
    size = 2 * options.Radius() + 1
    if size < 1:
        raise Unsupported(f"its radius is {options.Radius()}", EXPORT)
    value = step.emit(
        "LRN", step.real(0, FIRST), size=size, alpha=options.Alpha() * size, beta=options.Beta(),
        bias=options.Bias(),
    )  # fmt: skip
    step.give(value, FIRST)


SUMS: dict[str, Converter] = {
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
    **{name: partial(reduction, kind=kind) for name, kind in {
        "MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax",
        "REDUCE_MIN": "ReduceMin", "REDUCE_PROD": "ReduceProd", "REDUCE_ANY": "ReduceMax",
        "REDUCE_ALL": "ReduceMin",
    }.items()},
    "ARG_MAX": partial(place_of_extreme, kind="ArgMax"),
    "ARG_MIN": partial(place_of_extreme, kind="ArgMin"),
    "TOPK_V2": top_k,
    "CUMSUM": cumsum,
    "L2_NORMALIZATION": l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
}  # fmt: skip
