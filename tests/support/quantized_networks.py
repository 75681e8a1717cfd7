"""Quantized ONNX networks written by hand: QuantizeLinear and DequantizeLinear around operators."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


class Quantized:
    """Collects nodes; values are names. The network has one input "x" of float32."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0, dtype: type = np.uint8) -> None:
        self.random = np.random.default_rng(seed)
        self.shape, self.dtype = shape, dtype
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray | np.generic) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def bytes_of(self, x: str, scale: float, zero: int) -> str:
        """QuantizeLinear."""
        return self.node("QuantizeLinear", x, *self.of(scale, zero))

    def real(self, x: str, scale: float, zero: int) -> str:
        """DequantizeLinear."""
        return self.node("DequantizeLinear", x, *self.of(scale, zero))

    def rounded(self, x: str, scale: float, zero: int) -> str:
        """Both: what a quantized network does to a tensor."""
        return self.real(self.bytes_of(x, scale, zero), scale, zero)

    def of(self, scale: float, zero: int) -> tuple[str, str]:
        return self.constant(np.float32(scale)), self.constant(np.array(zero, self.dtype))

    def weights(self, *shape: int, axis: int = 0, zero: int = 0, single: bool = False) -> str:
        """int8 weights of which one output channel is about 1 for inputs of about 1."""
        channels = 1 if single else shape[axis]
        numbers = self.random.integers(-127, 128, shape).astype(np.int8)
        fan = np.prod(shape) / shape[axis]
        scale = (self.random.uniform(0.5, 1.5, channels) / 73 / np.sqrt(fan)).astype(np.float32)
        zeros = np.full(channels, zero, np.int8)
        if single:
            scale, zeros = np.array(scale[0]), np.array(zeros[0])
        self.scale_of_weights = scale
        return self.node(
            "DequantizeLinear", *(self.constant(v) for v in (numbers, scale, zeros)), axis=axis
        )

    def rounded_weights(self, *shape: int) -> str:
        """Weights of float32 that the network quantizes itself, as training writes them."""
        real = self.random.uniform(-0.1, 0.1, shape).astype(np.float32)
        scale = np.abs(real).max(axis=tuple(range(1, len(shape)))) / 127
        steps = [self.constant(v) for v in (scale, np.zeros(shape[0], np.int8))]
        whole = self.node("QuantizeLinear", self.constant(real), *steps, axis=0)
        return self.node("DequantizeLinear", whole, *steps, axis=0)

    def conv(self, x: str, *shape: int, scale: float, weight_zero: int = 0, single: bool = False,
             bias: bool = True, **attributes: object) -> str:  # fmt: skip
        """A convolution of weights of ``shape``; ``scale`` is that of its input."""
        weights = self.weights(*shape, zero=weight_zero, single=single)
        inputs = [x, weights]
        if bias:
            scales = np.float32(scale) * self.scale_of_weights
            numbers = self.random.integers(-500, 500, shape[0]).astype(np.int32)
            inputs.append(
                self.node("DequantizeLinear", self.constant(numbers), self.constant(scales), axis=0)
            )
        return self.node("Conv", *inputs, **attributes)

    def model(self, *outputs: str) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        results = dict.fromkeys(outputs, TensorProto.FLOAT)
        return network(self.nodes, image, results, self.constants)


def network(
    nodes: list[onnx.NodeProto],
    given: onnx.ValueInfoProto,
    outputs: dict[str, int],
    constants: list[onnx.TensorProto],
) -> onnx.ModelProto:
    """A checked model; outputs have types, their shapes follow."""
    results = [helper.make_tensor_value_info(name, of, None) for name, of in outputs.items()]
    graph = helper.make_graph(nodes, "quantized", [given], results, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made = onnx.shape_inference.infer_shapes(made, strict_mode=True)
    onnx.checker.check_model(made)
    return made


def as_written(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime makes of a network when it fuses nothing: every operator in float32."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(value) for value in session.run(None, {session.get_inputs()[0].name: x})]
