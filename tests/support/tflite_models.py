"""Small TFLite files, written through the schema's own builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite

from tvm_vision.frontend.tflite.read import DTYPES, builtin_names

_TYPES = {name: number for number, name in DTYPES.items()} | {"complex64": 8, "resource": 13}
_NUMBERS = {name: number for number, name in builtin_names().items()}
# Of those whose first version LiteRT does not have.
_VERSIONS = {"BROADCAST_TO": 2}
# Where the schema numbers the tables of attributes: what it gained lately has numbers of its own.
_TABLES = (tflite.BuiltinOptions, tflite.BuiltinOptions2)
# What the attributes of an operator are called where its name does not say it.
_OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "STABLEHLO_COMPOSITE": "StableHLOCompositeOptions",
    "CONV_3D": "Conv3DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "PADV2": "PadV2Options",
    "TOPK_V2": "TopKV2Options",
    "SELECT_V2": "SelectV2Options",
    "VAR_HANDLE": "VarHandleOptions",
    "REVERSE_V2": "ReverseV2Options",
    "LEAKY_RELU": "LeakyReluOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTMOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "BIDIRECTIONAL_SEQUENCE_RNN": "BidirectionalSequenceRNNOptions",
    "LSTM": "LSTMOptions",
    "RNN": "RNNOptions",
    "SVDF": "SVDFOptions",
    "ARG_MAX": "ArgMaxOptions",
    "CONCATENATION": "ConcatenationOptions",
    "SPACE_TO_BATCH_ND": "SpaceToBatchNDOptions",
    "BATCH_TO_SPACE_ND": "BatchToSpaceNDOptions",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions",
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"),
        "ReducerOptions",
    ),
}


@dataclass
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: np.ndarray | None
    scale: Any
    zero_point: Any
    axis: int
    signature: tuple[int, ...] | None
    variable: bool


@dataclass
class _Operator:
    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Mapping[str, Any]
    custom: bytes | None


@dataclass
class Graph:
    """Tensors by number, and operators; ``bytes`` makes the file of them."""

    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    # Of a graph that another one calls: tensors that are its inputs and outputs.
    ends: tuple[Sequence[int], Sequence[int]] = ((), ())
    # What a signature calls inputs and outputs, and the numbers of these.
    signature: tuple[Mapping[str, int], Mapping[str, int]] = field(default_factory=lambda: ({}, {}))
    # Mean and deviation of the input's pixels, as TensorFlow's metadata have them.
    pixels: tuple[Sequence[float], Sequence[float]] | None = None

    def tensor(
        self,
        shape: Sequence[int] = (),
        dtype: str = "float32",
        *,
        data: Any = None,
        scale: Any = None,
        zero_point: Any = 0,
        axis: int = 0,
        signature: Sequence[int] | None = None,
        name: str = "",
        variable: bool = False,
    ) -> int:
        """The number of a new tensor; of ``data`` a weight."""
        array = None if data is None else np.asarray(data)
        if array is not None:
            shape, dtype = array.shape, dtype if dtype == "int4" else str(array.dtype)
        number = len(self.tensors)
        self.tensors.append(
            _Tensor(
                name or f"t{number}", tuple(shape), dtype, array, scale, zero_point, axis,
                None if signature is None else tuple(signature), variable,
            )
        )  # fmt: skip
        return number

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        custom: bytes | None = None,
        **options: Any,
    ) -> None:
        """A built-in operator with its attributes as the schema names them, or a custom one."""
        self.operators.append(_Operator(kind, inputs, outputs, options, custom))

    def bytes(self, inputs: Sequence[int], outputs: Sequence[int], *others: Graph) -> bytes:
        """The file, perhaps with graphs that this one calls."""
        builder = flatbuffers.Builder(1024)
        buffers = [_buffer(builder, None)]
        graphs = [self, *others]
        kinds = list(
            dict.fromkeys((o.kind, o.custom is not None) for g in graphs for o in g.operators)
        )
        ends = [(inputs, outputs), *(other.ends for other in others)]
        written = [
            graph._graph(builder, buffers, kinds, *of)
            for graph, of in zip(graphs, ends, strict=True)
        ]
        if self.pixels is not None:
            buffers.append(_buffer(builder, _normalization(*self.pixels)))
        codes = _tables(builder, [_code(builder, *kind) for kind in kinds])
        model = {
            "Version": 3,
            "OperatorCodes": codes,
            "Subgraphs": _tables(builder, written),
            "Buffers": _tables(builder, buffers),
        }
        if self.pixels is not None:
            fields = {
                "Name": builder.CreateString("TFLITE_METADATA"), "Buffer": len(buffers) - 1,
            }  # fmt: skip
            model["Metadata"] = _tables(builder, [_table(builder, "Metadata", fields)])
        if any(self.signature):
            inputs_of, outputs_of = (_called(builder, names) for names in self.signature)
            fields = {"Inputs": inputs_of, "Outputs": outputs_of}
            fields["SignatureKey"] = builder.CreateString("serving_default")
            model["SignatureDefs"] = _tables(builder, [_table(builder, "SignatureDef", fields)])
        builder.Finish(_table(builder, "Model", model), b"TFL3")
        return bytes(builder.Output())

    def _graph(
        self,
        builder: Any,
        buffers: list[int],
        kinds: Sequence[tuple[str, bool]],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> int:
        tensors = []
        for tensor in self.tensors:
            if tensor.data is not None:
                buffers.append(_buffer(builder, _stored(tensor)))
            number = len(buffers) - 1 if tensor.data is not None else 0
            tensors.append(_tensor(builder, tensor, number))
        operators = [
            _operator(builder, o, kinds.index((o.kind, o.custom is not None)))
            for o in self.operators
        ]
        parts = {
            "Tensors": _tables(builder, tensors),
            "Inputs": builder.CreateNumpyVector(np.array(inputs, np.int32)),
            "Outputs": builder.CreateNumpyVector(np.array(outputs, np.int32)),
            "Operators": _tables(builder, operators),
        }
        return _table(builder, "SubGraph", parts)

    def write(
        self, path: Path, inputs: Sequence[int], outputs: Sequence[int], *others: Graph
    ) -> Path:
        path.write_bytes(self.bytes(inputs, outputs, *others))
        return path


def _table(builder: Any, name: str, fields: Mapping[str, Any]) -> int:
    getattr(tflite, f"{name}Start")(builder)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(builder, value)
    return getattr(tflite, f"{name}End")(builder)


def _normalization(mean: Sequence[float], std: Sequence[float]) -> bytes:
    """A ModelMetadata of metadata_schema.fbs, which says how the first input's values are made."""
    builder = flatbuffers.Builder(256)
    values = [builder.CreateNumpyVector(np.array(numbers, np.float32)) for numbers in (mean, std)]

    def table(fields: Mapping[int, int], kinds: Mapping[int, int] | None = None) -> int:
        builder.StartObject(8)
        for place, kind in (kinds or {}).items():
            builder.PrependUint8Slot(place, kind, 0)
        for place, offset in fields.items():
            builder.PrependUOffsetTRelativeSlot(place, offset, 0)
        return builder.EndObject()

    options = table(dict(enumerate(values)))
    unit = table({1: options}, {0: 1})
    image = table({4: _tables(builder, [unit])})
    graph = table({2: _tables(builder, [image])})
    builder.Finish(table({3: _tables(builder, [graph])}), b"M001")
    return bytes(builder.Output())


def _called(builder: Any, names: Mapping[str, int]) -> int:
    entries = []
    for name, index in names.items():
        fields = {"Name": builder.CreateString(name), "TensorIndex": index}
        entries.append(_table(builder, "TensorMap", fields))
    return _tables(builder, entries)


def _tables(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _stored(tensor: _Tensor) -> bytes:
    assert tensor.data is not None
    if tensor.dtype != "int4":
        return tensor.data.tobytes()
    flat = np.append(tensor.data.reshape(-1), np.zeros(tensor.data.size % 2, np.int8))
    pairs = flat.astype(np.uint8).reshape(-1, 2)
    return ((pairs[:, 0] & 15) | (pairs[:, 1] << 4)).astype(np.uint8).tobytes()


def _buffer(builder: Any, content: bytes | None) -> int:
    if content is None:
        return _table(builder, "Buffer", {})
    data = builder.CreateByteVector(content)
    return _table(builder, "Buffer", {"Data": data})


def _tensor(builder: Any, tensor: _Tensor, buffer: int) -> int:
    fields = {
        "Shape": builder.CreateNumpyVector(np.array(tensor.shape, np.int32)),
        "Name": builder.CreateString(tensor.name),
    }
    if tensor.signature is not None:
        fields["ShapeSignature"] = builder.CreateNumpyVector(np.array(tensor.signature, np.int32))
    if tensor.variable:
        fields["IsVariable"] = True
    if tensor.scale is not None:
        scale = np.atleast_1d(np.array(tensor.scale, np.float32))
        zero = np.broadcast_to(np.array(tensor.zero_point, np.int64), scale.shape).copy()
        quantization = {
            "Scale": builder.CreateNumpyVector(scale),
            "ZeroPoint": builder.CreateNumpyVector(zero),
        }
        quantization["QuantizedDimension"] = tensor.axis
        fields["Quantization"] = _table(builder, "QuantizationParameters", quantization)
    return _table(
        builder, "Tensor", {**fields, "Type": _TYPES[tensor.dtype], "Buffer": buffer}
    )  # fmt: skip


def _operator(builder: Any, operator: _Operator, code: int) -> int:
    fields = {
        "Inputs": builder.CreateNumpyVector(np.array(operator.inputs, np.int32)),
        "Outputs": builder.CreateNumpyVector(np.array(operator.outputs, np.int32)),
    }
    if operator.custom is not None:
        fields["CustomOptions"] = builder.CreateByteVector(operator.custom)
    elif (name := options_name(operator.kind)) is not None:
        values = {key: _field(builder, value) for key, value in operator.options.items()}
        second = hasattr(tflite.BuiltinOptions2, name)
        place, numbers = ("BuiltinOptions", "BuiltinOptions2")[second], _TABLES[second]
        fields[place] = _table(builder, name, values)
        fields[f"{place}Type"] = getattr(numbers, name)
    return _table(builder, "Operator", {**fields, "OpcodeIndex": code})


def _field(builder: Any, value: Any) -> Any:
    """What stands for an attribute in its table: a number itself, else where it is."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, (list, tuple)):
        return builder.CreateNumpyVector(np.array(value, np.int32))
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    return value


def options_name(kind: str) -> str | None:
    """The schema's table of an operator's attributes; None where it has none."""
    plain = "".join(word.capitalize() for word in kind.split("_")) + "Options"
    name = _OPTIONS.get(kind, plain)
    return name if any(hasattr(table, name) for table in _TABLES) else None


def _code(builder: Any, kind: str, custom: bool) -> int:
    number = _NUMBERS["CUSTOM" if custom else kind]
    version = _VERSIONS.get(kind, 1)
    fields = {"BuiltinCode": number, "Version": version}
    if kind not in ("QUANTIZE", "DEQUANTIZE"):  # of which ai-edge-quantizer gives the one alone
        fields["DeprecatedBuiltinCode"] = min(number, 127)
    if custom:
        fields["CustomCode"] = builder.CreateString(kind)
    return _table(builder, "OperatorCode", fields)


def convolution() -> bytes:
    """The file of one convolution, with weights, of an image of 4×4."""
    graph = Graph()
    x, y = graph.tensor((1, 4, 4, 2)), graph.tensor((1, 4, 4, 3))
    w = graph.tensor(data=np.ones((3, 1, 1, 2), np.float32))
    b = graph.tensor(data=np.zeros(3, np.float32))
    graph.operator("CONV_2D", [x, w, b], [y], StrideH=1, StrideW=1)
    return graph.bytes([x], [y])
