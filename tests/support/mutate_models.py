"""A program: imports damaged copies of small models, one after another, and says what became of
each. What ends it, or takes too long, is found by the line that it printed last.

    python mutate_models.py FIRST COUNT
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time
import traceback
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.errors import TvmVisionError
from tvm_vision.frontend.onnx.load import import_onnx

MEMORY = 8 << 30
FOREIGN = "com.microsoft"
SECONDS = 20.0
SIZES = (0, 1, -1, 2, 7, 255, 1 << 16, 1 << 30, 1 << 31, 1 << 40, 1 << 62, -(1 << 31), -(1 << 62))
KINDS = (*TensorProto.DataType.values(), 99, -1, 1 << 30)


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    count = int(np.prod(shape))
    return numpy_helper.from_array(np.linspace(-1, 1, count, dtype="float32").reshape(shape), name)


def _whole(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def _real(name: str, *values: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.float32), name)


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shape: tuple[int, ...]
) -> onnx.ModelProto:
    (output,) = nodes[-1].output
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(output)],
        weights,
    )
    graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def small_models() -> list[onnx.ModelProto]:
    """Models that between them have attributes and constants of most kinds."""
    node = helper.make_node
    image = (1, 4, 8, 8)
    return [
        _model(
            [
                node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], strides=[1, 1],
                     pads=[1, 1, 1, 1], dilations=[1, 1], group=2),
                node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2],
                     pads=[0, 0, 0, 0], dilations=[1, 1], ceil_mode=0),
                node("Clip", ["p", "low", "high"], ["y"]),
            ],
            [_weight("w", 4, 2, 3, 3), _weight("b", 4),
             numpy_helper.from_array(np.float32(0), "low"),
             numpy_helper.from_array(np.float32(6), "high")],
            image,
        ),
        _model(
            [
                node("ConvTranspose", ["x", "w"], ["t"], strides=[2, 2], pads=[0, 0, 0, 0],
                     output_padding=[0, 0], dilations=[1, 1], group=1),
                node("AveragePool", ["t"], ["a"], kernel_shape=[3, 3], strides=[2, 2],
                     count_include_pad=1),
                node("Resize", ["a", "", "scales"], ["r"], mode="nearest"),
                node("LRN", ["r"], ["y"], size=3),
            ],
            [_weight("w", 4, 2, 2, 2), _real("scales", 1, 1, 2, 2)],
            image,
        ),
        _model(
            [
                node("Pad", ["x", "pads"], ["p"], mode="constant"),
                node("Slice", ["p", "from", "to", "axes", "steps"], ["s"]),
                node("Tile", ["s", "times"], ["t"]),
                node("DepthToSpace", ["t"], ["y"], blocksize=2, mode="DCR"),
            ],
            [_whole("pads", 0, 0, 1, 1, 0, 0, 1, 1), _whole("from", 1, 1), _whole("to", 7, 9),
             _whole("axes", 2, 3), _whole("steps", 1, 2), _whole("times", 1, 2, 1, 1)],
            image,
        ),
        _model(
            [
                node("Split", ["x", "parts"], ["left", "right"], axis=1),
                node("Concat", ["right", "left"], ["c"], axis=1),
                node("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1]),
                node("Reshape", ["t", "shape"], ["r"], allowzero=0),
                node("Gather", ["r", "index"], ["g"], axis=1),
                node("MatMul", ["g", "w"], ["m"]),
                node("Softmax", ["m"], ["y"], axis=-1),
            ],
            [_whole("parts", 1, 3), _whole("shape", 0, 16, -1), _whole("index", 0, 3, 15),
             _weight("w", 16, 5)],
            image,
        ),
        _model(
            [
                node("Shape", ["x"], ["s"], start=0, end=2),
                node("ConstantOfShape", ["s"], ["c"], value=_real("v", 2.0)),
                node("Flatten", ["x"], ["f"], axis=1),
                node("Gemm", ["f", "w"], ["g"], alpha=1.0, beta=1.0, transA=0, transB=1),
                node("Add", ["g", "c"], ["a"]),
                node("Unsqueeze", ["a", "axes"], ["u"]),
                node("Expand", ["u", "wide"], ["e"]),
                node("ReduceMean", ["e"], ["m"], axes=[1], keepdims=1),
                node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
            ],
            [_weight("w", 4, 256), _whole("axes", 1), _whole("wide", 1, 3, 4)],
            image,
        ),
        _model(
            [
                node("TopK", ["x", "k"], ["top", "at"], axis=3),
                node("Range", ["from", "to", "by"], ["r"]),
                node("OneHot", ["r", "depth", "values"], ["h"], axis=-1),
                node("ReduceSum", ["h"], ["total"], keepdims=0),
                node("Mul", ["top", "total"], ["y"]),
            ],
            [_whole("k", 2), *(numpy_helper.from_array(np.array(v, np.int64), n)
                               for n, v in (("from", 0), ("to", 5), ("by", 1), ("depth", 4))),
             _real("values", 0, 1)],
            image,
        ),
        _model(
            [
                node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1),
                node("DequantizeLinear", ["q", "scale", "zero"], ["d"], axis=1),
                node("InstanceNormalization", ["d", "w", "w"], ["i"], epsilon=1e-5),
                node("SpaceToDepth", ["i"], ["y"], blocksize=2),
            ],
            [numpy_helper.from_array(np.float32(0.1), "scale"),
             numpy_helper.from_array(np.int8(3), "zero"), _weight("w", 4)],
            image,
        ),
    ]  # fmt: skip


def foreign_model() -> onnx.ModelProto:
    """One with nodes of onnxruntime's own domain."""
    bits = {"K": 32, "N": 4, "bits": 4, "block_size": 16}
    nodes = [
        helper.make_node("FusedGemm", ["x", "w", "b"], ["g"], activation="LeakyRelu",
                         activation_alpha=0.2, transB=1, domain=FOREIGN),
        helper.make_node("MatMulNBits", ["g", "q", "s"], ["m"], domain=FOREIGN, **bits),
        helper.make_node("SkipLayerNormalization", ["m", "m", "c"], ["y"], epsilon=1e-5,
                         domain=FOREIGN),
    ]  # fmt: skip
    packed = numpy_helper.from_array(np.arange(64, dtype=np.uint8).reshape(4, 2, 8), "q")
    weights = [_weight("w", 32, 8), _weight("b", 32), packed, _weight("s", 8), _weight("c", 4)]
    graph = helper.make_graph(
        nodes,
        "foreign",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))],
        weights,
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(FOREIGN, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


class Mutator:
    """Damages one place of a model, or a few."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def damaged(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A copy of a model with a few places changed."""
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        ways = [self._attribute, self._weight_shape, self._weight_type, self._weight_data,
                self._weight_value, self._input, self._wiring]  # fmt: skip
        for _ in range(1 + int(self._random.integers(2))):
            ways[self._random.choice(len(ways), p=[0.3, 0.1, 0.1, 0.1, 0.25, 0.1, 0.05])](copy)
        return copy

    def _one(self, of: Iterable[Any]) -> Any:
        found = list(of)
        return found[self._random.integers(len(found))] if found else None

    def _attribute(self, model: onnx.ModelProto) -> None:
        node = self._one(model.graph.node)
        entry = self._one(node.attribute)
        if entry is None:
            return
        if entry.ints:
            entry.ints[self._random.integers(len(entry.ints))] = self._one(SIZES)
            if self._random.random() < 0.3:
                entry.ints[:] = [self._one(SIZES)] * int(self._random.integers(0, 6))
        elif entry.type == onnx.AttributeProto.INT:
            entry.i = self._one(SIZES)
        elif entry.type == onnx.AttributeProto.FLOAT:
            entry.f = self._one([float("nan"), float("inf"), -1e38, 0.0])
        elif entry.type == onnx.AttributeProto.STRING:
            entry.s = self._one([b"", b"\xff\xfe", b"linear", b"x" * 1000])
        else:
            entry.t.dims[:] = [self._one(SIZES)]

    def _weight_shape(self, model: onnx.ModelProto) -> None:
        tensor = self._one(model.graph.initializer)
        if tensor is not None and tensor.dims:
            tensor.dims[self._random.integers(len(tensor.dims))] = self._one(SIZES)

    def _weight_type(self, model: onnx.ModelProto) -> None:
        tensor = self._one(model.graph.initializer)
        if tensor is not None:
            with contextlib.suppress(ValueError):
                tensor.data_type = self._one(KINDS)

    def _weight_data(self, model: onnx.ModelProto) -> None:
        tensor = self._one(model.graph.initializer)
        if tensor is not None:
            tensor.raw_data = tensor.raw_data[: self._random.integers(len(tensor.raw_data) + 1)]

    def _weight_value(self, model: onnx.ModelProto) -> None:
        tensor = self._one(model.graph.initializer)
        values = numpy_helper.to_array(tensor).copy() if _is_whole(tensor) else None
        if values is not None:
            values.flat[self._random.integers(values.size)] = self._one(SIZES)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    def _input(self, model: onnx.ModelProto) -> None:
        kind = model.graph.input[0].type.tensor_type
        if self._random.random() < 0.3:
            kind.elem_type = self._one([k for k in KINDS if 0 <= k < 1 << 30])
        else:
            self._one(kind.shape.dim).dim_value = self._one(SIZES)

    def _wiring(self, model: onnx.ModelProto) -> None:
        node, names = self._one(model.graph.node), [v.name for v in model.graph.value_info]
        if node.input:
            node.input[self._random.integers(len(node.input))] = self._one([*names, "x", ""])


def _is_whole(tensor: onnx.TensorProto | None) -> bool:
    """Whether a weight is of integers, and not damaged already."""
    if tensor is None or tensor.data_type != TensorProto.INT64:
        return False
    return len(tensor.raw_data) == 8 * int(np.prod(list(tensor.dims))) > 0


def main() -> None:
    first, count = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    models = small_models()
    for seed in range(first, first + count):
        print(seed, end=" ", flush=True)
        damaged = Mutator(seed).damaged(models[seed % len(models)])
        began = time.perf_counter()
        try:
            import_onnx(damaged)
            said = "imported"
        except TvmVisionError as error:
            said = str(error)
            assert said and "\n" not in said, f"more than a line: {said!r}"
        except Exception:
            traceback.print_exc()
            said = "TRACEBACK"
        seconds = time.perf_counter() - began
        print(f"{seconds:.1f} s {'SLOW ' if seconds > SECONDS else ''}{said[:300]}", flush=True)


if __name__ == "__main__":
    main()
