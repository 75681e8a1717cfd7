"""A TFLite file as plain values: tensors, weights as arrays, and operators in order.

The file is a flatbuffer: offsets and lengths in it can be anything in a damaged one. The schema's
classes read within the file or raise; what they do not look at is checked here, before anything of
a size that the file names is made.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from flatbuffers.number_types import Int32Flags

from ...error_lines import first_line
from ...errors import InputError, TvmVisionError, UnsupportedModelError
from ...file_kinds import TFLITE, need
from ..limits import MOST_ELEMENTS
from .densify import densified

# By the number that the schema gives them; those that are absent have no numpy type.
DTYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16",
    9: "int8", 10: "float64", 12: "uint64", 15: "uint32", 16: "uint16", 17: "int4",
}  # fmt: skip
MAX_RANK = 8
MAX_GRAPHS = 256
IDENTIFIER = b"TFL3"
_BUILTIN_CODE = 10  # where an OperatorCode's table says where its builtin_code is
T = TypeVar("T")


@dataclass(frozen=True)
class Quantization:
    """real = (integer - zero_point) * scale; one of each, or one for each index along ``axis``."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int

    @property
    def per_tensor(self) -> bool:
        return self.scale.size == 1


@dataclass(frozen=True)
class Tensor:
    """A value of the graph. Sizes that are open are -1 in ``signature`` and 1 in ``shape``."""

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    dtype: str
    quantization: Quantization | None
    data: np.ndarray | None
    is_variable: bool


@dataclass(frozen=True)
class Operator:
    """One operator. ``options``: the schema's table of its attributes, None where it has none;
    ``custom_options``: the bytes of one that is not built in. An input left out is -1."""

    kind: str
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    custom_options: bytes


@dataclass(frozen=True)
class TfliteModel:
    """The first graph of a file; ``inputs`` and ``outputs`` have names of their own.

    others: the graphs that it calls, if any, in the file's order.
    called: what the file's signature calls its inputs and outputs, by their names here.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    others: tuple[TfliteModel, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)


def read_tflite(path: str | os.PathLike[str]) -> TfliteModel:
    """The content of a file.

    Raises InputError where it cannot be read or is another kind of file, UnsupportedModelError
    where it is damaged.
    """
    need(Path(path), "a TFLite file", TFLITE)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({first_line(error)}): check the file") from None
    if data[4:8] != IDENTIFIER:
        _damaged(path, f"it has not {IDENTIFIER.decode()} at byte 4")
    try:
        return _Reader(data).model()
    except TvmVisionError:
        raise
    except _Damaged as error:
        _damaged(path, str(error))
    except Exception as error:  # what lies beyond the file's end raises every kind there is
        _damaged(path, f"{type(error).__name__}: {first_line(error)}")


class _Damaged(Exception):
    """Raised with what is wrong, in words to follow "a whole TFLite file is needed, and"."""


def _damaged(path: str | os.PathLike[str], found: str) -> NoReturn:
    raise UnsupportedModelError(
        f"a whole TFLite file is needed, and in '{path}' {found}: copy or export it again"
    )


class _Reader:
    """Reads one file."""

    def __init__(self, data: bytes) -> None:
        import tflite

        self._data = data
        self._model = tflite.Model.GetRootAs(data, 0)

    def model(self) -> TfliteModel:
        graphs = self._model.SubgraphsLength()
        if not 1 <= graphs <= MAX_GRAPHS:
            raise _Damaged(f"there are {graphs} graphs")
        self._buffers = list(self._tables(self._model.BuffersLength, self._model.Buffers))
        self._codes = [
            self._code(code)
            for code in self._tables(self._model.OperatorCodesLength, self._model.OperatorCodes)
        ]
        first, *others = [self._graph(self._model.Subgraphs(number)) for number in range(graphs)]
        if not first.outputs:
            raise _Damaged("the graph has no outputs")
        return replace(first, others=tuple(others), called=self._called(first.tensors))

    def _called(self, tensors: Sequence[Tensor]) -> dict[str, str]:
        """Names of the first graph's signature, where these say more than the tensors' own."""
        found: dict[str, str] = {}
        for signature in self._tables(self._model.SignatureDefsLength, self._model.SignatureDefs):
            if signature.SubgraphIndex():
                continue
            for length, entry in (
                (signature.InputsLength, signature.Inputs),
                (signature.OutputsLength, signature.Outputs),
            ):
                for named in self._tables(length, entry):
                    name = (named.Name() or b"").decode("utf-8", "replace")
                    if named.TensorIndex() >= len(tensors):
                        raise _Damaged(f"its signature names tensor {named.TensorIndex()}")
                    tensor = tensors[named.TensorIndex()].name
                    if name and name not in tensor:
                        found[tensor] = name
        return found

    def _graph(self, graph: Any) -> TfliteModel:
        named: set[str] = set()
        tensors = tuple(
            self._tensor(index, tensor, named)
            for index, tensor in enumerate(self._tables(graph.TensorsLength, graph.Tensors))
        )
        operators = tuple(
            self._operator(operator, len(tensors))
            for operator in self._tables(graph.OperatorsLength, graph.Operators)
        )
        inputs = self._indices(graph.InputsLength, graph.InputsAsNumpy, len(tensors))
        outputs = self._indices(graph.OutputsLength, graph.OutputsAsNumpy, len(tensors))
        if -1 in (*inputs, *outputs):
            raise _Damaged("an input or output of a graph is left out")
        return TfliteModel(
            tensors,
            operators,
            tuple(tensors[i] for i in inputs),
            tuple(tensors[i] for i in outputs),
        )

    def _tables(self, length: Callable[[], int], item: Callable[[int], T]) -> Iterator[T]:
        """The tables of a vector, each of which takes four bytes at the least."""
        count = length()
        if 4 * count > len(self._data):
            raise _Damaged(f"a list has {count} entries")
        return (item(index) for index in range(count))

    def _numbers(self, length: Callable[[], int], values: Callable[[], Any]) -> np.ndarray:
        """The numbers of a vector; numpy refuses one that is longer than the file."""
        return values() if length() else np.zeros(0, np.int32)

    def _indices(
        self, length: Callable[[], int], values: Callable[[], Any], count: int
    ) -> tuple[int, ...]:
        found = tuple(int(index) for index in self._numbers(length, values))
        for index in found:
            if not -1 <= index < count:
                raise _Damaged(f"tensor {index} of {count} is used")
        return found

    def _code(self, code: Any) -> tuple[str, bool]:
        """The name of an operator, and whether it is a custom one."""
        # Files of old writers have the first number alone, which ends at 127, and ai-edge-quantizer
        # writes the second alone. BuiltinCode() of the package gives the first for numbers below.
        at = code._tab.Offset(_BUILTIN_CODE)
        second = code._tab.Get(Int32Flags, at + code._tab.Pos) if at else 0
        number = max(second, code.DeprecatedBuiltinCode())
        name = builtin_names().get(number)
        if name == "CUSTOM":
            return (code.CustomCode() or b"").decode("utf-8", "replace") or "unnamed", True
        return name or f"operator {number}", False

    def _operator(self, operator: Any, count: int) -> Operator:
        opcode = operator.OpcodeIndex()
        if opcode >= len(self._codes):
            raise _Damaged(f"operator kind {opcode} of {len(self._codes)} is used")
        kind, custom = self._codes[opcode]
        custom_options = b""
        if custom and operator.CustomOptionsLength():
            custom_options = operator.CustomOptionsAsNumpy().tobytes()
        return Operator(
            kind=kind,
            custom=custom,
            inputs=self._indices(operator.InputsLength, operator.InputsAsNumpy, count),
            outputs=self._indices(operator.OutputsLength, operator.OutputsAsNumpy, count),
            options=_options(operator),
            custom_options=custom_options,
        )

    def _tensor(self, index: int, tensor: Any, named: set[str]) -> Tensor:
        shape = self._shape(tensor.ShapeLength, tensor.ShapeAsNumpy)
        signature = self._shape(tensor.ShapeSignatureLength, tensor.ShapeSignatureAsNumpy)
        name = _unique((tensor.Name() or b"").decode("utf-8", "replace") or "tensor", named)
        dtype = DTYPES.get(tensor.Type(), f"type {tensor.Type()}")
        if any(size < 0 for size in shape) or math.prod(shape) > MOST_ELEMENTS:
            raise _Damaged(f"'{name}' has the shape {shape}")
        return Tensor(
            index=index,
            name=name,
            shape=shape,
            signature=signature if len(signature) == len(shape) else shape,
            dtype="int8" if dtype == "int4" else dtype,
            quantization=self._quantization(tensor.Quantization(), name, shape),
            data=self._constant(tensor, name, shape, dtype),
            is_variable=bool(tensor.IsVariable()),
        )

    def _shape(self, length: Callable[[], int], values: Callable[[], Any]) -> tuple[int, ...]:
        if length() > MAX_RANK:
            raise _Damaged(f"a tensor has {length()} axes")
        return tuple(int(size) for size in self._numbers(length, values))

    def _quantization(self, found: Any, name: str, shape: tuple[int, ...]) -> Quantization | None:
        if found is None or not found.ScaleLength():
            return None
        scale = np.array(self._numbers(found.ScaleLength, found.ScaleAsNumpy), np.float32)
        zeros = self._numbers(found.ZeroPointLength, found.ZeroPointAsNumpy)
        zeros = np.array(zeros if len(zeros) else [0], np.int64)
        axis = int(found.QuantizedDimension())
        # Of files that were simulated before they were quantized.
        if not scale.any():
            return None
        along = shape[axis] if 0 <= axis < len(shape) else -1
        fits = scale.size == 1 or scale.size == along
        if (
            not fits
            or zeros.size not in (1, scale.size)
            or not (np.isfinite(scale) & (scale > 0)).all()
        ):
            raise _Damaged(f"'{name}' of shape {shape} has {scale.size} scales, some unusable")
        return Quantization(scale, np.broadcast_to(zeros, scale.shape).copy(), axis)

    def _constant(
        self, tensor: Any, name: str, shape: tuple[int, ...], dtype: str
    ) -> np.ndarray | None:
        number = tensor.Buffer()
        if number >= len(self._buffers):
            raise _Damaged(f"'{name}' is in buffer {number} of {len(self._buffers)}")
        content = self._content(self._buffers[number], name)
        count = math.prod(shape)
        if content is None and not count and dtype in DTYPES.values():
            # Of nothing there is nothing to say, as of the sizes of a scalar.
            return np.zeros(shape, "int8" if dtype == "int4" else dtype)
        if content is None or dtype not in DTYPES.values():
            return None
        if tensor.Sparsity() is not None:
            return densified(tensor.Sparsity(), _values(content, dtype, -1), shape, _Damaged)
        needed = -(-count // 2) if dtype == "int4" else count * np.dtype(dtype).itemsize
        if len(content) != needed:
            raise _Damaged(f"'{name}' of {dtype}{list(shape)} has {len(content)} bytes")
        return _values(content, dtype, count).reshape(shape)

    def _content(self, buffer: Any, name: str) -> bytes | memoryview | None:
        """The bytes of a weight; None for what is computed."""
        if buffer.DataLength():
            return memoryview(buffer.DataAsNumpy())
        # Of files above 2 GiB: behind the flatbuffer.
        start, size = buffer.Offset(), buffer.Size()
        if start <= 1 or size == 0:
            return None
        if start + size > len(self._data):
            raise _Damaged(f"the weight '{name}' ends at byte {start + size} of {len(self._data)}")
        return memoryview(self._data)[start : start + size]


def _values(content: bytes | memoryview, dtype: str, count: int) -> np.ndarray:
    """The numbers in some bytes; two of int4 share one, the first below."""
    if dtype != "int4":
        return np.frombuffer(content, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    pairs = np.frombuffer(content, np.int8)
    low, high = np.left_shift(pairs, 4) >> 4, pairs >> 4
    return np.stack([low, high], -1).reshape(-1)[: count if count >= 0 else None]


def _options(operator: Any) -> Any:
    """The table of an operator's attributes, of the schema's class; None where it has none."""
    import tflite

    for number, table, names in (
        (operator.BuiltinOptionsType(), operator.BuiltinOptions(), tflite.BuiltinOptions),
        (operator.BuiltinOptions2Type(), operator.BuiltinOptions2(), tflite.BuiltinOptions2),
    ):
        name = next((key for key, value in vars(names).items() if value == number), "NONE")
        if table is not None and name != "NONE":
            options = getattr(tflite, name)()
            options.Init(table.Bytes, table.Pos)
            return options
    return None


@functools.cache
def builtin_names() -> dict[int, str]:
    """The names of the operators that the schema has, by number."""
    import tflite

    found = vars(tflite.BuiltinOperator).items()
    return {number: name for name, number in found if isinstance(number, int)}


def _unique(name: str, taken: set[str]) -> str:
    fresh, number = name, 0
    while fresh in taken:
        number += 1
        fresh = f"{name}.{number}"
    taken.add(fresh)
    return fresh
