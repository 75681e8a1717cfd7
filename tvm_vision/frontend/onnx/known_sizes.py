"""Types of values that follow from other values, node by node.

ONNX's inference follows sums and products of sizes, and not what else older exports compute of them
(windows that are shifted, positions that are resized): what is behind stays open, and one round of
inference and folding learns of one layer. Here each node's types are inferred with the values of
its inputs, where these are known, and its own value is computed, where that is small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.shape_inference import infer_node_outputs

# Elements; larger values are no sizes.
MOST = 1024
# What computes no size, and takes ONNX's reference seconds for a thousand elements, written in
# Python as it is: positions that are resized took it 15.
NOT_OF_SIZES = frozenset(
    {"Resize", "Upsample", "GridSample", "AffineGrid", "RoiAlign", "MaxRoiPool", "DeformConv"}
    | {"Conv", "ConvInteger", "ConvTranspose", "QLinearConv", "Col2Im", "MaxUnpool", "LRN"}
    | {"AveragePool", "MaxPool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}
    | {"LSTM", "GRU", "RNN", "DFT", "STFT", "NonMaxSuppression", "Attention"}
)
# What ONNX's reference computes otherwise than onnxruntime: places between pixels, windows that end
# behind the last element, what lies behind the end of a sequence, the scale of zeros alone, and
# logarithms of what rounds to 0.
_OTHERWISE = frozenset(
    {"Resize", "Upsample", "GridSample", "LpPool", "LRN", "LSTM", "GRU", "RNN"}
    | {"DynamicQuantizeLinear", "LogSoftmax"}
)
# The same before an operator set: softmaxes over all axes behind one, and norms.
_OTHERWISE_BEFORE = {"Softmax": 13, "Hardmax": 13, "BatchNormalization": 14}
_FOUR_BITS = (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
_UNKNOWN = NOT_OF_SIZES | frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    | {"RandomUniformLike", "Dropout"}
)


class KnownSizes:
    """Types and small values of a graph whose nodes stand in their order.

    Attributes:
        types: of values by their names.
        values: of results of nodes.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self._opsets = [entry for entry in model.opset_import if not entry.domain]
        self._version = max((entry.version for entry in self._opsets), default=0)
        self.types: dict[str, onnx.TypeProto] = {}
        self.values: dict[str, np.ndarray] = {}
        self._data: dict[str, onnx.TensorProto] = {}
        for tensor in graph.initializer:
            self._data[tensor.name] = tensor
            self.types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for value in (*graph.input, *graph.value_info, *graph.output):
            self.types.setdefault(value.name, value.type)
        for node in graph.node:
            if not node.domain and not any(a.HasField("g") or a.graphs for a in node.attribute):
                self._learn(node)

    def _learn(self, node: onnx.NodeProto) -> None:
        if any(shape_of(self.types.get(name)) is None for name in node.output if name):
            self._infer(node)
        if (
            node.op_type in _UNKNOWN
            or is_computed_otherwise(node, self._version)
            or not all(map(self._is_small, filter(None, node.output)))
        ):
            return
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            self._data[node.output[0]] = node.attribute[0].t
            return
        if node.op_type in ("Shape", "Size"):
            known = shape_of(self.types.get(node.input[0])) is not None
        else:
            known = all(name in self._data for name in node.input if name)
        if known:
            self._compute(node)

    def _is_small(self, name: str) -> bool:
        shape = shape_of(self.types.get(name))
        return shape is not None and math.prod(shape) <= MOST

    def _infer(self, node: onnx.NodeProto) -> None:
        given = {name: self.types[name] for name in node.input if name in self.types}
        try:
            schema = defs.get_schema(node.op_type, self._version, "")
            found = infer_node_outputs(
                schema, node, given, {n: self._data[n] for n in node.input if n in self._data},
                opset_imports=self._opsets,
            )  # fmt: skip
        except Exception:  # C++ raises every kind there is; the type stays open
            return
        for name, of in found.items():
            if of.HasField("tensor_type"):
                self.types[name] = of

    def _compute(self, node: onnx.NodeProto) -> None:
        try:
            results = list(self._results(node))
        except Exception:  # what the reference cannot compute is no value
            return
        for name, result in zip(node.output, results, strict=False):
            if name and isinstance(result, np.ndarray) and result.size <= MOST:
                # Sums of integers are of 64 bits in the reference.
                kind = self.types[name].tensor_type.elem_type
                value = result.astype(helper.tensor_dtype_to_np_dtype(kind), copy=False)
                self.values[name] = value
                self._data[name] = numpy_helper.from_array(value, name)

    def _results(self, node: onnx.NodeProto) -> Iterator[np.ndarray]:
        from onnx.reference import ReferenceEvaluator

        if node.op_type in ("Shape", "Size"):
            yield self._measured(node)
            return
        inputs = {name: numpy_helper.to_array(self._data[name]) for name in node.input if name}
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        fed = [helper.make_empty_tensor_value_info(name) for name in inputs]
        graph = helper.make_graph([node], "node", fed, outputs)
        model = helper.make_model(graph, opset_imports=self._opsets)
        made: Any = iter(ReferenceEvaluator(model).run(None, inputs))
        for name in node.output:
            # A scalar of numpy is a result too; a list is a sequence.
            yield next(made)[...] if name else np.zeros(0)

    def _measured(self, node: onnx.NodeProto) -> np.ndarray:
        shape = shape_of(self.types[node.input[0]]) or ()
        if node.op_type == "Size":
            return np.array(math.prod(shape), np.int64)
        part = {entry.name: entry.i for entry in node.attribute}
        return np.array(shape[part.get("start", 0) : part.get("end", len(shape))], np.int64)


def is_computed_otherwise(node: onnx.NodeProto, opset: int) -> bool:
    """Whether ONNX's reference gives other results than onnxruntime does."""
    if node.op_type == "Cast":
        # It leaves off what is behind the point, where onnxruntime rounds.
        return any(entry.name == "to" and entry.i in _FOUR_BITS for entry in node.attribute)
    return node.op_type in _OTHERWISE or opset < _OTHERWISE_BEFORE.get(node.op_type, 0)


def shape_of(of: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """The sizes of a tensor's type; None where one is not known."""
    if of is None or not of.HasField("tensor_type") or not of.tensor_type.HasField("shape"):
        return None
    sizes = of.tensor_type.shape.dim
    if not all(size.HasField("dim_value") for size in sizes):
        return None
    return tuple(size.dim_value for size in sizes)
