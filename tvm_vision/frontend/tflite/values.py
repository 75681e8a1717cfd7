"""What stands for each tensor of a TFLite graph: its integers or numbers, channels last or first.

TFLite keeps channels last, and ONNX's convolutions take them second. What a convolution gives stays
so, from operator to operator, until one needs the order of the file: no axes are turned between
convolutions. Of a quantized tensor the integers are kept, and real numbers are made of them by
DequantizeLinear where an operator reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..onnx.graph import Unsupported
from .network import EXPORT, Network, Value
from .read import Quantization, Tensor, TfliteModel

# Orders of axes: as the file has them, and with the last axis second.
LAST, FIRST = "last", "first"
# Of other types real numbers are kept: int16 activations have steps as fine as fp16.
_ROUNDED = ("int8", "uint8")


def to_first(rank: int) -> list[int]:
    """The axes of the file in the order of channels first."""
    return [0, rank - 1, *range(1, rank - 1)]


def to_last(rank: int) -> list[int]:
    """The other way round."""
    return [0, *range(2, rank), 1]


def is_rounded(tensor: Tensor) -> bool:
    """Whether a computed tensor is kept as integers that stand for real numbers."""
    found = tensor.quantization
    return found is not None and found.per_tensor and tensor.dtype in _ROUNDED


class Values:
    """The values of tensors, by their index and order of axes."""

    def __init__(
        self, network: Network, tensors: Sequence[Tensor], others: Sequence[TfliteModel] = ()
    ) -> None:
        """others: the graphs that may be called, in the file's order, from the second on."""
        self.network = network
        self.tensors = tensors
        self.others = others
        self._stored: dict[int, dict[str, Value]] = {}
        self._real: dict[tuple[int, str], Value] = {}
        self._arrays: dict[int, np.ndarray] = {}
        # Of complex tensors the real and the imaginary parts; see ``complex_numbers``.
        self.parts: dict[int, tuple[Value, Value]] = {}
        # What a streaming network keeps; see ``states``.
        self.states: Any = None
        # Takes a Step and gives its results, whatever operator it is of.
        self.convert: Any = None

    def label(self, index: int) -> str:
        """What nodes of a tensor are called by: TFLite lists all that was fused, with ; between."""
        return self.tensors[index].name.partition(";")[0] or "tensor"

    def array(self, index: int) -> np.ndarray | None:
        """The numbers as stored of a weight, or of what follows from weights; else None."""
        found = self._arrays.get(index)
        if found is None and self.tensors[index].data is not None:
            return self.tensors[index].data
        if found is None and LAST in self._stored.get(index, {}):
            return self.network.array(self._stored[index][LAST])
        return found

    def is_first(self, index: int) -> bool:
        """Whether a tensor was computed with channels first, and not yet needed otherwise."""
        return FIRST in self._stored.get(index, {}) and LAST not in self._stored[index]

    def stored(self, index: int, order: str = LAST) -> Value:
        """The value as it is kept: integers of what is rounded."""
        found = self._stored.setdefault(index, {})
        if not found:
            data = self.array(index)
            if data is None:
                raise Unsupported(f"'{self.tensors[index].name}' is never computed", EXPORT)
            tensor = self.tensors[index]
            if tensor.quantization is not None and not is_rounded(tensor):
                data = real_numbers(data, tensor.quantization)
            found[LAST] = self.network.constant(data, self.label(index))
        if order not in found:
            ((_, value),) = found.items()
            rank = len(self.network.shape(value))
            if rank < 3:
                return value
            perm = to_first(rank) if order == FIRST else to_last(rank)
            found[order] = self.turned(value, perm, self.label(index))
        return found[order]

    def real(self, index: int, order: str = LAST) -> Value:
        """The numbers that a tensor stands for."""
        tensor = self.tensors[index]
        if not is_rounded(tensor):
            return self.stored(index, order)
        if (index, order) not in self._real:
            assert tensor.quantization is not None
            data = self.array(index)
            if data is not None:
                numbers = real_numbers(data, tensor.quantization)
                rank = numbers.ndim
                if order == FIRST and rank > 2:
                    numbers = numbers.transpose(to_first(rank))
                self._real[index, order] = self.network.constant(numbers, self.label(index))
            else:
                self._real[index, order] = self.dequantized(
                    self.stored(index, order), tensor.quantization, self.label(index)
                )
        return self._real[index, order]

    def set_stored(self, index: int, value: Value, order: str = LAST) -> None:
        """Give a tensor its value, integers where it is rounded."""
        self._stored[index] = {order: value}

    def set_real(self, index: int, value: Value, order: str = LAST) -> None:
        """Give a tensor its numbers, which are rounded where it is quantized."""
        tensor = self.tensors[index]
        if is_rounded(tensor):
            assert tensor.quantization is not None
            value = self.quantized(value, tensor.quantization, tensor.dtype, self.label(index))
        self.set_stored(index, value, order)

    def set_parts(self, index: int, parts: tuple[Value, Value]) -> None:
        """Give a complex tensor its real and imaginary parts."""
        self.set_stored(index, parts[0])
        self.parts[index] = parts

    def set_array(self, index: int, array: np.ndarray) -> None:
        """Make a tensor a constant."""
        self._arrays[index] = array

    def turned(self, value: Value, perm: Sequence[int], label: str) -> Value:
        """A value with its axes in another order."""
        if list(perm) == sorted(perm):
            return value
        return self.network.emit("Transpose", value, label=label, perm=list(perm))

    def dequantized(self, value: Value, by: Quantization, label: str) -> Value:
        dtype = self.network.dtype(value)
        scale, zero = np.float32(by.scale[0]), by.zero_point[0].astype(dtype)
        return self.network.emit("DequantizeLinear", value, scale, zero, label=label)

    def quantized(self, value: Value, by: Quantization, dtype: str, label: str) -> Value:
        scale, zero = np.float32(by.scale[0]), by.zero_point[0].astype(dtype)
        return self.network.emit("QuantizeLinear", value, scale, zero, label=label)


def real_numbers(data: np.ndarray, by: Quantization) -> np.ndarray:
    """What integers stand for, as float32."""
    shape = [1] * data.ndim
    if not by.per_tensor:
        shape[by.axis] = -1
    scale, zero = by.scale.reshape(shape), by.zero_point.reshape(shape)
    return ((data.astype(np.int64) - zero).astype(np.float32) * scale).astype(np.float32)
