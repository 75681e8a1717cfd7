"""One operator of a TFLite graph, as its conversion sees it: inputs, attributes, results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..onnx.graph import Unsupported
from ..refusals import Cut, Remedy
from .network import EXPORT, Network, Value
from .read import Operator, Quantization, Tensor
from .values import FIRST, LAST, Values, is_rounded, real_numbers, to_first

Converter = Callable[["Step"], None]
# By their numbers in the schema.
ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "sign_bit"}
_BOUNDS = {"relu": (0.0, np.inf), "relu_n1_to_1": (-1.0, 1.0), "relu6": (0.0, 6.0)}


class Step:
    """Looks at one operator, and gives its results."""

    def __init__(self, operator: Operator, values: Values) -> None:
        self.operator = operator
        self.values = values
        self.network: Network = values.network
        self.label = values.label(operator.outputs[0]) if operator.outputs else operator.kind

    @property
    def options(self) -> Any:
        if self.operator.options is None:
            raise Unsupported("its attributes are missing", EXPORT)
        return self.operator.options

    @property
    def count(self) -> int:
        """How many inputs it has."""
        return len(self.operator.inputs)

    def has(self, place: int) -> bool:
        return place < self.count and self.operator.inputs[place] >= 0

    def index(self, place: int) -> int:
        if not self.has(place):
            raise Unsupported(f"its input {place} is missing", EXPORT)
        return self.operator.inputs[place]

    def tensor(self, place: int) -> Tensor:
        return self.values.tensors[self.index(place)]

    def result(self, place: int = 0) -> Tensor:
        return self.values.tensors[self.operator.outputs[place]]

    def real(self, place: int, order: str = LAST) -> Value:
        """The numbers of an input."""
        return self.values.real(self.index(place), order)

    def stored(self, place: int, order: str = LAST) -> Value:
        """An input as it is kept."""
        return self.values.stored(self.index(place), order)

    def shape(self, place: int) -> tuple[int, ...]:
        """The sizes of an input in the file's order."""
        index = self.index(place)
        data = self.values.array(index)
        if data is not None:
            return data.shape
        if not self.values.is_first(index):
            return self.network.shape(self.stored(place))
        sizes = self.network.shape(self.stored(place, FIRST))
        return (sizes[0], *sizes[2:], sizes[1])

    def array(self, place: int) -> np.ndarray | None:
        """The numbers of an input that is a constant; None where it is computed."""
        return self.values.array(self.index(place))

    def numbers(self, place: int, what: str) -> list[int]:
        """The whole numbers of an input that decides about shapes. Raises Unsupported."""
        found = self.array(place)
        if found is None:
            raise Unsupported(f"{what} depend on the data", Remedy("make constants of them", Cut()))
        return [int(number) for number in found.reshape(-1)]

    def number(self, place: int, what: str) -> int:
        """The only one. Raises Unsupported."""
        found = self.numbers(place, what)
        if len(found) != 1:
            raise Unsupported(f"{what} are {len(found)} numbers in place of one", EXPORT)
        return found[0]

    def order(self, *places: int) -> str:
        """The order of axes to go on in: channels first where an input is so."""
        return (
            FIRST
            if any(self.has(p) and self.values.is_first(self.index(p)) for p in places)
            else LAST
        )

    def axis(self, axis: int, rank: int, order: str = LAST) -> int:
        """An axis of the file in an order of axes. Raises Unsupported where there is none such."""
        if not -rank <= axis < rank:
            raise Unsupported(f"axis {axis} of {rank} is named", EXPORT)
        axis %= rank
        return to_first(rank).index(axis) if order == FIRST and rank > 2 else axis

    def emit(self, kind: str, *inputs: Any, **attributes: Any) -> Value:
        return self.network.emit(kind, *inputs, label=self.label, **attributes)

    def emit_all(self, kind: str, *inputs: Any, count: int, **attributes: Any) -> list[Value]:
        return self.network.emit_all(kind, *inputs, label=self.label, count=count, **attributes)

    def give(self, value: Value, order: str = LAST, *, place: int = 0, activation: int = 0) -> None:
        """Numbers as a result, after the activation of that number in the schema."""
        self.values.set_real(
            self.operator.outputs[place],
            self._activated(value, activation, self.result(place)),
            order,
        )

    def keep(self, value: Value, order: str = LAST, *, place: int = 0) -> None:
        """A result as it is kept."""
        self.values.set_stored(self.operator.outputs[place], value, order)

    def moves(self, *places: int) -> bool:
        """Whether what is kept of these inputs means the same in the result: it can be moved."""
        out = self.result()
        return all(_alike(self.tensor(place), out) for place in places)

    def weights(self, place: int, perm: list[int]) -> Value:
        """An input of weights, its axes in the order of ``perm``.

        Where the operator computes with integers, so are these, with their scales beside them.
        """
        tensor, data = self.tensor(place), self.array(place)
        if data is None:
            return self.values.turned(self.real(place), perm, self.label)
        if len(perm) != data.ndim:
            raise Unsupported(f"its weights have {data.ndim} axes", EXPORT)
        by = tensor.quantization
        if by is None or data.dtype.kind == "f":
            return self.network.constant(data.transpose(perm), self.values.label(tensor.index))
        if not is_rounded(self.result()) or data.dtype not in (np.int8, np.uint8):
            real = real_numbers(data, by).transpose(perm)
            return self.network.constant(real, self.values.label(tensor.index))
        axis = 0 if by.per_tensor else perm.index(by.axis)
        return self._dequantized(data.transpose(perm), by, axis, tensor.index)

    def bias(self, place: int) -> Value | None:
        """An input of one number a channel; None where there is none."""
        if not self.has(place):
            return None
        tensor, data = self.tensor(place), self.array(place)
        by = tensor.quantization
        if data is None or by is None or data.dtype != np.int32 or not is_rounded(self.result()):
            return self.real(place)
        return self._dequantized(data, by, 0, tensor.index)

    def _dequantized(self, data: np.ndarray, by: Quantization, axis: int, index: int) -> Value:
        label = self.values.label(index)
        value = self.network.constant(data, label)
        scale = by.scale[0] if by.per_tensor else by.scale
        zero = by.zero_point.astype(data.dtype)
        point = None if data.dtype == np.int32 else (zero[0] if by.per_tensor else zero)
        # Not emit: of a constant it would be computed at once.
        return self.network.kept("DequantizeLinear", value, scale, point, label=label, axis=axis)

    def _activated(self, value: Value, number: int, out: Tensor) -> Value:
        name = ACTIVATIONS.get(number, f"activation {number}")
        if name == "none":
            return value
        if name == "tanh":
            return self.emit("Tanh", value)
        if name not in _BOUNDS:
            raise Unsupported(f"it ends with {name}", "apply it by an operator of its own")
        low, high = _BOUNDS[name]
        if is_rounded(out) and _within(out, low, high):
            return value
        return self.clipped(value, low, high)

    def clipped(self, value: Value, low: float, high: float) -> Value:
        """A value kept within bounds."""
        dtype = self.network.dtype(value)
        if dtype.kind != "f":
            raise Unsupported(f"it ends with an activation of {dtype}", EXPORT)
        if (low, high) == (0.0, np.inf):
            return self.emit("Relu", value)
        return self.emit("Clip", value, np.array(low, dtype), np.array(high, dtype))


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether the same integers stand for the same numbers in both."""
    if not is_rounded(one) and not is_rounded(other):
        return True
    a, b = one.quantization, other.quantization
    if a is None or b is None or one.dtype != other.dtype:
        return False
    return bool(a.scale[0] == b.scale[0] and a.zero_point[0] == b.zero_point[0])


def _within(tensor: Tensor, low: float, high: float) -> bool:
    """Whether what a tensor's integers can stand for lies within bounds, half a step aside."""
    by = tensor.quantization
    assert by is not None
    limits = np.iinfo(tensor.dtype)
    scale, zero = float(by.scale[0]), int(by.zero_point[0])
    least, most = (limits.min - zero) * scale, (limits.max - zero) * scale
    return least >= low and most < high + scale / 2
