"""Operators that compute element by element, of one tensor or of two that are broadcast."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .step import Converter, Step
from .values import LAST, to_first


def unary(step: Step, kind: str, **attributes: Any) -> None:
    order = step.order(0)
    step.give(step.emit(kind, step.real(0, order), **attributes), order)


def chain(step: Step, *kinds: str) -> None:
    """Operators of one tensor, one after another."""
    order = step.order(0)
    value = step.real(0, order)
    for kind in kinds:
        value = step.emit(kind, value)
    step.give(value, order)


def bounded(step: Step, low: float, high: float) -> None:
    order = step.order(0)
    step.give(step.clipped(step.real(0, order), low, high), order)


def square(step: Step) -> None:
    order = step.order(0)
    x = step.real(0, order)
    step.give(step.emit("Mul", x, x), order)


def hard_swish(step: Step) -> None:
    """x * min(max(x / 6 + 1 / 2, 0), 1)."""
    order = step.order(0)
    x = step.real(0, order)
    step.give(step.emit("Mul", x, step.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5)), order)


def gelu(step: Step) -> None:
    """x * Φ(x); approximately, with tanh in place of erf, where the file says so."""
    order = step.order(0)
    x = step.real(0, order)
    dtype = step.network.dtype(x).type
    if step.options.Approximate():
        cube = step.emit("Mul", step.emit("Mul", step.emit("Mul", x, x), x), dtype(0.044715))
        inner = step.emit("Mul", step.emit("Add", x, cube), dtype(np.sqrt(2 / np.pi)))
        wave = step.emit("Tanh", inner)
    else:
        wave = step.emit("Erf", step.emit("Mul", x, dtype(np.sqrt(0.5))))
    half = step.emit("Mul", x, dtype(0.5))
    step.give(step.emit("Mul", half, step.emit("Add", wave, dtype(1))), order)


def leaky_relu(step: Step) -> None:
    unary(step, "LeakyRelu", alpha=step.options.Alpha())


def prelu(step: Step) -> None:
    order = _common_order(step, 0, 1)
    x, slope = _broadcast(step, 0, order), _broadcast(step, 1, order)
    step.give(step.emit("PRelu", x, slope), order)


def softmax(step: Step) -> None:
    order = step.order(0)
    x = step.real(0, order)
    beta = step.options.Beta()
    if beta != 1:
        x = step.emit("Mul", x, np.float32(beta))
    rank = len(step.network.shape(x))
    step.give(step.emit("Softmax", x, axis=step.axis(-1, rank, order)), order)


def log_softmax(step: Step) -> None:
    order = step.order(0)
    x = step.real(0, order)
    axis = step.axis(-1, len(step.network.shape(x)), order)
    step.give(step.emit("LogSoftmax", x, axis=axis), order)


def binary(step: Step, kind: str, **attributes: Any) -> None:
    """Of two tensors, and the activation after it where the operator has one."""
    order = _common_order(step, 0, 1)
    value = step.emit(kind, _broadcast(step, 0, order), _broadcast(step, 1, order), **attributes)
    function = getattr(step.operator.options, "FusedActivationFunction", int)
    step.give(value, order, activation=function())


def floor_div(step: Step) -> None:
    """Rounded down; ONNX's division of integers cuts off."""
    order = _common_order(step, 0, 1)
    x, y = _broadcast(step, 0, order), _broadcast(step, 1, order)
    if step.network.dtype(x).kind == "f":
        step.give(step.emit("Floor", step.emit("Div", x, y)), order)
        return
    # Mod of integers has the divisor's sign in ONNX, so that this divides without a rest.
    step.give(step.emit("Div", step.emit("Sub", x, step.emit("Mod", x, y)), y), order)


def floor_mod(step: Step) -> None:
    order = _common_order(step, 0, 1)
    x, y = _broadcast(step, 0, order), _broadcast(step, 1, order)
    if step.network.dtype(x).kind == "f":
        whole = step.emit("Floor", step.emit("Div", x, y))
        step.give(step.emit("Sub", x, step.emit("Mul", whole, y)), order)
        return
    step.give(step.emit("Mod", x, y), order)


def squared_difference(step: Step) -> None:
    order = _common_order(step, 0, 1)
    apart = step.emit("Sub", _broadcast(step, 0, order), _broadcast(step, 1, order))
    step.give(step.emit("Mul", apart, apart), order)


def not_equal(step: Step) -> None:
    order = _common_order(step, 0, 1)
    same = step.emit("Equal", _broadcast(step, 0, order), _broadcast(step, 1, order))
    step.give(step.emit("Not", same), order)


def or_equal(step: Step, kind: str) -> None:
    order = _common_order(step, 0, 1)
    pair = _broadcast(step, 0, order), _broadcast(step, 1, order)
    step.give(step.emit("Or", step.emit(kind, *pair), step.emit("Equal", *pair)), order)


def atan2(step: Step) -> None:
    """The angle of (x, y), of which y is the first; 0 where both are 0."""
    order = _common_order(step, 0, 1)
    y, x = _broadcast(step, 0, order), _broadcast(step, 1, order)
    dtype = step.network.dtype(y)
    zero, half, pi = (np.array(n, dtype) for n in (0, np.pi / 2, np.pi))
    no_x = step.emit("Equal", x, zero)
    slope = step.emit("Atan", step.emit("Div", y, step.emit("Where", no_x, pi, x)))
    turn = step.emit("Where", step.emit("Less", y, zero), -pi, pi)
    behind = step.emit("Where", step.emit("Less", x, zero), step.emit("Add", slope, turn), slope)
    upright = step.emit("Mul", step.emit("Sign", y), half)
    step.give(step.emit("Where", no_x, upright, behind), order)


def add_n(step: Step) -> None:
    order = step.order(*range(step.count))
    step.give(step.emit("Sum", *(step.real(i, order) for i in range(step.count))), order)


def select(step: Step) -> None:
    """Where the first is true, of the second, else of the third; a vector chooses whole rows."""
    ranks = [len(step.shape(place)) for place in range(3)]
    if step.operator.kind == "SELECT" and ranks[0] == 1 and ranks[1] > 1:
        rows = step.emit("Reshape", step.stored(0), np.array([-1] + [1] * (ranks[1] - 1)))
        step.give(step.emit("Where", rows, step.real(1), step.real(2)))
        return
    order = _common_order(step, 0, 1, 2)
    values = [_broadcast(step, place, order) for place in range(3)]
    step.give(step.emit("Where", *values), order)


def _common_order(step: Step, *places: int) -> str:
    """Channels first where an input of the highest rank is so."""
    ranks = {place: len(step.shape(place)) for place in places}
    most = max(ranks.values())
    return step.order(*(place for place, rank in ranks.items() if rank == most and most > 2))


def _broadcast(step: Step, place: int, order: str) -> str:
    """An input that is broadcast by the file's axes, in an order of them."""
    shape = step.shape(place)
    rank = max(len(step.shape(other)) for other in range(step.count) if step.has(other))
    if order == LAST or len(shape) == rank:
        return step.real(place, order)
    if not shape or np.prod(shape) == 1:
        return step.real(place)
    wide = [1] * (rank - len(shape)) + list(shape)
    value = step.emit("Reshape", step.real(place, LAST), np.array(wide, np.int64))
    return step.values.turned(value, to_first(rank), step.label)


ELEMENTWISE: dict[str, Converter] = {
    **{name: partial(unary, kind=kind) for name, kind in {
        "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EXP": "Exp", "FLOOR": "Floor",
        "LOG": "Log", "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid", "NEG": "Neg", "RELU": "Relu",
        "ROUND": "Round", "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt", "TANH": "Tanh",
    }.items()},
    **{name: partial(binary, kind=kind) for name, kind in {
        "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "MAXIMUM": "Max", "MINIMUM": "Min",
        "POW": "Pow", "EQUAL": "Equal", "GREATER": "Greater", "LESS": "Less",
        "LOGICAL_AND": "And", "LOGICAL_OR": "Or",
    }.items()},
    "RSQRT": lambda step: chain(step, "Sqrt", "Reciprocal"),
    "RELU6": partial(bounded, low=0.0, high=6.0),
    "RELU_N1_TO_1": partial(bounded, low=-1.0, high=1.0),
    "RELU_0_TO_1": partial(bounded, low=0.0, high=1.0),
    "SQUARE": square,
    "HARD_SWISH": hard_swish,
    "GELU": gelu,
    "LEAKY_RELU": leaky_relu,
    "PRELU": prelu,
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": log_softmax,
    "FLOOR_DIV": floor_div,
    "FLOOR_MOD": floor_mod,
    "SQUARED_DIFFERENCE": squared_difference,
    "NOT_EQUAL": not_equal,
    "GREATER_EQUAL": partial(or_equal, kind="Greater"),
    "LESS_EQUAL": partial(or_equal, kind="Less"),
    "ATAN2": atan2,
    "ADD_N": add_n,
    "SELECT": select,
    "SELECT_V2": select,
}  # fmt: skip
