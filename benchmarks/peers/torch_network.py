"""An ONNX model as a PyTorch module: only the operators that the networks here have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional

from .engine import Unusable

Attributes = dict[str, Any]


class TorchNetwork(nn.Module):
    """Runs the nodes in order. Raises Unusable for an operator that is not in the table."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        self._constants = {
            w.name: np.array(numpy_helper.to_array(w)) for w in model.graph.initializer
        }
        self._input = model.graph.input[0].name
        self._outputs = [value.name for value in model.graph.output]
        self._steps: list[tuple[Any, list[str], list[str]]] = []
        for i, node in enumerate(model.graph.node):
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            step = self._step(node.op_type, attributes, list(node.input))
            if isinstance(step, nn.Module):
                self.add_module(f"node{i}", step)
            inputs = [name for name in node.input if name and name not in self._constants]
            self._steps.append((step, inputs, list(node.output)))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = {self._input: image}
        for step, inputs, outputs in self._steps:
            result = step(*(values[name] for name in inputs))
            several = result if isinstance(result, (tuple, list)) else (result,)
            values.update(zip(outputs, several, strict=True))
        return tuple(values[name] for name in self._outputs)

    def _step(self, kind: str, attributes: Attributes, inputs: list[str]) -> Any:
        constants = [self._constants.get(name) for name in inputs]
        if kind == "Conv":
            return _convolution(attributes, *constants[1:])
        if kind == "Gemm":
            return _linear(*constants[1:])
        if kind in ("Add", "Mul") and any(c is not None for c in constants):
            constant = next(c for c in constants if c is not None)
            return _WithConstant(torch.add if kind == "Add" else torch.mul, constant)
        if kind not in STEPS:
            raise Unusable(f"no form of {kind} for PyTorch here")
        return STEPS[kind](attributes, constants)


class _WithConstant(nn.Module):
    """A binary operator whose second operand moves and changes type with the module."""

    def __init__(self, function: Callable[..., torch.Tensor], constant: np.ndarray) -> None:
        super().__init__()
        self._function = function
        self.register_buffer("constant", torch.from_numpy(constant))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x, self.constant)


def _convolution(attributes: Attributes, weight: Any, bias: Any) -> nn.Conv2d:
    groups = attributes.get("group", 1)
    cout, per_group = weight.shape[:2]
    layer = nn.Conv2d(
        per_group * groups, cout, attributes["kernel_shape"], attributes["strides"],
        attributes["pads"][:2], groups=groups,
    )  # fmt: skip
    return _with_weights(layer, weight, bias)


def _linear(weight: Any, bias: Any) -> nn.Linear:
    return _with_weights(nn.Linear(weight.shape[1], weight.shape[0]), weight, bias)


def _with_weights(layer: Any, weight: Any, bias: Any) -> Any:
    layer.weight = nn.Parameter(torch.from_numpy(weight), requires_grad=False)
    layer.bias = nn.Parameter(torch.from_numpy(bias), requires_grad=False)
    return layer


def _pool(attributes: Attributes, constants: Any) -> nn.Module:
    return nn.MaxPool2d(
        attributes["kernel_shape"], attributes["strides"], attributes["pads"][:2],
        ceil_mode=bool(attributes.get("ceil_mode", 0)),
    )  # fmt: skip


def _clip(attributes: Attributes, constants: Any) -> nn.Module:
    low, high = float(constants[1]), float(constants[2])
    return nn.ReLU6(inplace=False) if (low, high) == (0, 6) else nn.Hardtanh(low, high)


def _slice(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int] | None = None
) -> Callable[[torch.Tensor], torch.Tensor]:
    if any(step != 1 for step in steps or ()):
        raise Unusable("no form of Slice with steps for PyTorch here")

    def step(x: torch.Tensor) -> torch.Tensor:
        for start, end, axis in zip(starts, ends, axes, strict=True):
            x = x.narrow(axis, start, min(end, x.shape[axis]) - start)
        return x

    return step


def _cast(attributes: Attributes, constants: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(attributes["to"])
    wanted = torch.from_numpy(np.zeros(1, numpy_type)).dtype
    return lambda x: x.to(wanted)


STEPS: dict[str, Callable[[Attributes, Any], Any]] = {
    "Add": lambda a, c: torch.add,
    "ArgMax": lambda a, c: lambda x: torch.argmax(x, a["axis"], bool(a["keepdims"])),
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda a, c: lambda *parts: torch.cat(parts, a["axis"]),
    "Exp": lambda a, c: torch.exp,
    "Flatten": lambda a, c: lambda x: torch.flatten(x, a["axis"]),
    "GlobalAveragePool": lambda a, c: nn.AdaptiveAvgPool2d(1),
    "LeakyRelu": lambda a, c: nn.LeakyReLU(a["alpha"]),
    "MaxPool": _pool,
    "Relu": lambda a, c: nn.ReLU(),
    "Reshape": lambda a, c: lambda x: x.reshape(tuple(c[1].tolist())),
    "Resize": lambda a, c: (
        lambda x: functional.interpolate(x, scale_factor=tuple(c[2].tolist()[2:]), mode="nearest")
    ),
    "Sigmoid": lambda a, c: torch.sigmoid,
    "Slice": lambda a, c: _slice(*(value.tolist() for value in c[1:])),
    "Split": lambda a, c: lambda x: torch.split(x, c[1].tolist(), a["axis"]),
    "Transpose": lambda a, c: lambda x: x.permute(a["perm"]),
}
