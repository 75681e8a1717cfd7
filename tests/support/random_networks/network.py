"""A network that grows step by step, and the steps that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET, IR_VERSION = 20, 9
FEWEST, MOST = 4, 14  # steps of a network
LARGEST = 1 << 15  # elements of a tensor
WIDE_LARGEST = 1 << 20
WIDTHS = (32, 48, 64, 100, 128, 192)  # channels and features of wide networks
WINDOWS = ("Conv", "MaxPool", "AveragePool", "LpPool")
Shape = tuple[int, ...]
Step = Callable[["Network", str], "str | None"]
STEPS: dict[int, list[Step]] = {}


def step(*ranks: int, weight: int = 1) -> Callable[[Step], Step]:
    """Marks what a network may do with a tensor of these ranks, weight times as often."""

    def mark(function: Step) -> Step:
        for rank in ranks:
            STEPS.setdefault(rank, []).extend([function] * weight)
        return function

    return mark


class Network:
    """A graph that grows. Each method that adds something returns the name of the result, or None
    where the operator cannot take its inputs."""

    def __init__(self, seed: int, wide: bool = False) -> None:
        """wide: layers are as wide as those of networks that are used, and their kernels' tiles
        several."""
        self.random = np.random.default_rng(seed)
        self.wide = wide
        self.largest = WIDE_LARGEST if wide else LARGEST
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, Shape] = {}
        self.kinds: dict[str, int] = {}
        self.inner: set[str] = set()  # tensors within a step, which no other step reads
        # Of what depends on no input: weights, and what is computed of shapes.
        self.values: dict[str, onnx.TensorProto] = {}

    # Chance.
    def one_of(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def maybe(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def width(self, *few: int) -> int:
        """Channels, or features, that a layer makes: one of these, of wide networks of others."""
        return int(self.one_of(*(WIDTHS if self.wide else few)))

    def between(self, low: int, high: int) -> int:
        """Both included."""
        return int(self.random.integers(low, high + 1))

    # Growth.
    def input(self, name: str, shape: Shape) -> str:
        self.shapes[name], self.kinds[name] = shape, TensorProto.FLOAT
        return name

    def constant(self, value: Any, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        array = np.asarray(value, dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        self.values[name] = self.weights[-1]
        self.shapes[name] = array.shape
        self.kinds[name] = helper.np_dtype_to_tensor_dtype(array.dtype)
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(scale * self.random.standard_normal(shape))

    def whole(self, *values: int) -> str:
        return self.constant(values, "int64")

    def add(self, operator: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> Any:
        """One name, or with ``outputs`` a list; None where an input is, or where no shape fits."""
        if None in inputs or not self._window_fits(operator, inputs, attributes):
            return None
        names = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        node = helper.make_node(operator, list(inputs), names, **attributes)
        constants = [self.values[name] for name in dict.fromkeys(inputs) if name in self.values]
        known = [
            helper.make_tensor_value_info(name, self.kinds[name], self.shapes[name])
            for name in dict.fromkeys(inputs)
            if name
        ]
        graph = helper.make_graph(
            [node], "one", known, [helper.make_empty_tensor_value_info(n) for n in names], constants
        )
        try:
            model = onnx.shape_inference.infer_shapes(
                _model(graph), check_type=True, strict_mode=True, data_prop=True
            )
        except onnx.shape_inference.InferenceError:
            return None
        found = {}
        for value in model.graph.output:
            sizes = value.type.tensor_type.shape.dim
            shape = tuple(size.dim_value for size in sizes)
            if min(shape, default=1) < 1 or np.prod(shape, dtype=np.int64) > self.largest:
                return None
            found[value.name] = (shape, value.type.tensor_type.elem_type)
        for name, (shape, kind) in found.items():
            self.shapes[name], self.kinds[name] = shape, kind
        self.nodes.append(node)
        self._compute(node)
        return names if outputs > 1 else names[0]

    def _window_fits(
        self, operator: str, inputs: tuple[str | None, ...], attributes: dict[str, Any]
    ) -> bool:
        """False where a window is larger than what it looks at, or the last begins in the padding
        behind that: ONNX's inference has one of them then, and onnxruntime none."""
        if operator not in WINDOWS or str(attributes.get("auto_pad", "")).startswith("SAME"):
            return True
        sizes = self.shapes[str(inputs[0])][2:]
        kernel = attributes.get("kernel_shape") or self.shapes[str(inputs[1])][2:]
        pads = attributes.get("pads", [0] * 2 * len(sizes))
        dilations = attributes.get("dilations", [1] * len(sizes))
        strides = attributes.get("strides", [1] * len(sizes))
        for i, size in enumerate(sizes):
            room = size + pads[i] + pads[i + len(sizes)] - (kernel[i] - 1) * dilations[i] - 1
            last = -(-room // strides[i]) * strides[i] if attributes.get("ceil_mode") else 0
            if room < 0 or last >= size + pads[i]:
                return False
        return True

    def _compute(self, node: onnx.NodeProto) -> None:
        """Keep the value of a result that no input of the network decides."""
        if node.op_type == "Shape":
            known = {node.input[0]: np.empty(self.shapes[node.input[0]], "float32")}
        elif self.values.keys() >= set(filter(None, node.input)):
            known = {n: numpy_helper.to_array(self.values[n]) for n in node.input if n}
        else:
            return
        ends = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "one", [onnx.ValueInfoProto(name=n) for n in known], ends)
        found = ReferenceEvaluator(_model(graph)).run(None, known)
        for name, value in zip(node.output, found, strict=True):
            self.values[name] = numpy_helper.from_array(np.asarray(value), name)

    def floats(self) -> list[str]:
        """Tensors to go on with, those of late first."""
        made = [name for node in self.nodes for name in node.output]
        return [
            n
            for n in ["x", *made][::-1]
            if self.kinds.get(n) == TensorProto.FLOAT
            and n not in self.values
            and n not in self.inner
        ]

    def others(self, shape: Shape) -> list[str]:
        return [name for name in self.floats() if self.shapes[name] == shape]

    def grow(self, count: int) -> None:
        tries = 0
        while count and tries < 200:
            tries += 1
            late = self.floats()
            value = late[min(int(self.random.exponential(1.2)), len(late) - 1)]
            choices = STEPS.get(len(self.shapes[value]))
            nodes, weights = len(self.nodes), len(self.weights)
            if choices and self.one_of(*choices)(self, value) is not None:
                count -= 1
            else:  # what was begun is no part of it
                del self.nodes[nodes:], self.weights[weights:]

    def model(self) -> onnx.ModelProto:
        """Its outputs: what nothing reads, and at times a tensor between."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        ends = [name for name in made if name not in read]
        if len(made) > 3 and self.maybe(0.3):
            ends.append(self.one_of(*[n for n in made if n not in ends] or ends))
        outputs = [
            helper.make_tensor_value_info(name, self.kinds[name], self.shapes[name])
            for name in dict.fromkeys(ends)
        ]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shapes["x"])]
        return _model(helper.make_graph(self.nodes, "random", inputs, outputs, self.weights))


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
