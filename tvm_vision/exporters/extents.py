"""Whether boxes are pixels or parts of the image's sides, by what a network says of no image.

Where convolutions find nothing, a box of YOLO lies in the middle of its cell: the arithmetic behind
the last convolutions has the grid and the strides as constants, and its largest number is that of
the last cell, nearly the image's side, or nearly 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ..frontend.model import onnx_form
from ..frontend.onnx.graph import inferred, makers_of, with_input_shapes
from ..models.kinds.facts import Extent, Spec

# What has weights: behind the last of these there are only constants of the form of the boxes.
WEIGHTED = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
# What boxes are made of behind them. The reference computes it by whole tensors, but for what OWN
# has: others it walks through element by element, an hour for an embedding that is resized.
ARITHMETIC = frozenset(
    "Abs Add And ArgMax ArgMin BatchNormalization Cast Ceil Clip Concat Constant ConstantOfShape "
    "DequantizeLinear Div Elu Equal Exp Expand Flatten Floor Gather GatherElements GatherND "
    "Greater GreaterOrEqual HardSigmoid HardSwish Identity LeakyRelu Less LessOrEqual Log Max Mean "
    "Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Range Reciprocal ReduceMax ReduceMean "
    "ReduceMin ReduceProd ReduceSum Relu Reshape Round Shape Sigmoid Sign Size Slice Softmax "
    "Softplus Softsign Split Sqrt Squeeze Sub Sum Tanh Tile TopK Transpose Unsqueeze Where".split()
)


class Sigmoid(OpRun):
    """Of a tensor at once: of a detector's scores at 640×640 the reference's own takes a second."""

    op_domain = ""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        with np.errstate(over="ignore"):  # the reciprocal of infinity is the zero that it should be
            return (np.asarray(1 / (1 + np.exp(-x)), x.dtype),)


OWN: list[type[OpRun]] = [Sigmoid]


def extents(path: Path, inputs: Sequence[Spec]) -> Extent:
    """By the name of an output, the largest number that it has where convolutions give nothing;
    None where that cannot be told. Nothing is read before it is asked for."""
    shapes = {spec.name: tuple(spec.shape) for spec in inputs}

    @cache
    def model() -> onnx.ModelProto | None:
        try:
            found = onnx_form(path)
            read = onnx.load(found) if isinstance(found, Path) else found
            return inferred(with_input_shapes(read, shapes))
        except Exception:  # who compiles the file says what is wrong with it
            return None

    @cache
    def extent(name: str) -> float | None:
        whole = model()
        try:
            values = None if whole is None else _without_image(whole, name)
        except Exception:  # what the reference cannot run is not known
            return None
        return None if values is None or not values.size else float(np.max(values))

    return extent


def _without_image(model: onnx.ModelProto, name: str) -> np.ndarray | None:
    """An output where what has weights gives zeros; None where the image itself is in it, or what
    is no arithmetic."""
    graph = model.graph
    makers = makers_of(graph)
    weights = {tensor.name for tensor in graph.initializer}
    behind, ends, waiting = set[int](), set[str](), [name]
    while waiting:
        value = waiting.pop()
        node = makers.get(value)
        if node is None:
            if value not in weights:
                return None
        elif node.op_type in WEIGHTED:
            ends.add(value)
        elif id(node) not in behind:
            behind.add(id(node))
            waiting += filter(None, node.input)
    types = {value.name: value for value in (*graph.value_info, *graph.output)}
    if not ends or not ends <= types.keys():
        return None
    nodes = [node for node in graph.node if id(node) in behind]
    if not ARITHMETIC.issuperset(node.op_type for node in nodes):
        return None
    tail = helper.make_graph(
        nodes, "tail", [types[end] for end in sorted(ends)], [types[name]],
        [t for t in graph.initializer if any(t.name in node.input for node in nodes)],
    )  # fmt: skip
    zeros = {end: _zeros(types[end]) for end in ends}
    runner = ReferenceEvaluator(
        helper.make_model(tail, opset_imports=model.opset_import, ir_version=model.ir_version),
        new_ops=OWN,
    )
    (found,) = runner.run([name], zeros)
    return np.asarray(found)


def _zeros(value: onnx.ValueInfoProto) -> np.ndarray[Any, Any]:
    kind = value.type.tensor_type
    sizes = [size.dim_value for size in kind.shape.dim]
    return np.zeros(sizes, helper.tensor_dtype_to_np_dtype(kind.elem_type))
