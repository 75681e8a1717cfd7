"""Quantized tensors that are concatenated share one scale, so that a concatenation moves bytes.

onnxruntime gives each tensor the scale of its own range. Where tensors of different scales meet in
a concatenation, each value is rounded a second time there: for what is read elsewhere too that is a
kernel over all of the result, which no convolution takes in. Of ranges that differ little the
widest serves all; a tensor of less than a quarter of it, two of eight bits, keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx

from .graph import makers_of, readers_of

MOST_WIDER = 4.0  # a shared range than a tensor's own
_BYTE = np.iinfo(np.int8)


@dataclass(frozen=True)
class _Range:
    """The real numbers from ``low`` to ``high`` that 256 bytes stand for."""

    low: float
    high: float

    @classmethod
    def of(cls, scale: float, zero_point: int) -> _Range:
        return cls((_BYTE.min - zero_point) * scale, (_BYTE.max - zero_point) * scale)

    @property
    def span(self) -> float:
        return self.high - self.low

    def scale(self) -> np.float32:
        return np.float32(self.span / (_BYTE.max - _BYTE.min))

    def zero_point(self) -> np.int8:
        return np.int8(np.clip(round(_BYTE.min - self.low / self.scale()), _BYTE.min, _BYTE.max))


def share_scales(model: onnx.ModelProto) -> None:
    """Give the inputs and results of concatenations one scale and zero point, in place.

    model: in the QDQ form of onnxruntime's quantizer, int8 with one scale for each activation.
    """
    graph = model.graph
    constants = {each.name: each for each in graph.initializer}
    params = {
        node.input[1]: node.input[2]
        for node in graph.node
        if node.op_type == "QuantizeLinear" and len(node.input) == 3
    }
    changed = set()
    for group in _groups(graph, params):
        ranges = {name: _range(constants, name, params[name]) for name in group}
        found = {name: each for name, each in ranges.items() if each is not None}
        for name, shared in _widened(found).items():
            _set(constants[name], np.asarray(shared.scale()))
            _set(constants[params[name]], np.asarray(shared.zero_point()))
            changed.add(name)
    if changed:
        _rescale_biases(graph, constants, changed)


def _groups(graph: onnx.GraphProto, params: dict[str, str]) -> list[list[str]]:
    """Names of scales that concatenations tie together, more than one each."""
    makers, readers = makers_of(graph), readers_of(graph)
    tied: dict[str, set[str]] = {}
    for node in graph.node:
        if node.op_type != "Concat":
            continue
        before = [makers.get(name) for name in node.input]
        after = readers.get(node.output[0], [])
        names = {
            each.input[1]
            for each in before
            if each is not None and each.op_type == "DequantizeLinear" and each.input[1] in params
        }
        if [each.op_type for each in after] == ["QuantizeLinear"]:
            _tie(tied, names | {after[0].input[1]})
    return [sorted(group) for group in {id(g): g for g in tied.values()}.values() if len(group) > 1]


def _tie(tied: dict[str, set[str]], names: set[str]) -> None:
    whole = set(names).union(*(tied[name] for name in names if name in tied))
    tied.update(dict.fromkeys(whole, whole))


def _range(constants: dict[str, onnx.TensorProto], scale: str, zero_point: str) -> _Range | None:
    """Of one scale for a tensor of int8; None for any other."""
    if scale not in constants or zero_point not in constants:
        return None
    step, zero = (onnx.numpy_helper.to_array(constants[name]) for name in (scale, zero_point))
    if step.dtype != np.float32 or zero.dtype != np.int8 or step.size != 1:
        return None
    return _Range.of(float(step.reshape(())), int(zero.reshape(())))


def _widened(ranges: dict[str, _Range]) -> dict[str, _Range]:
    """The range that all get, for each that gets another one."""
    while len(ranges) > 1:
        whole = _Range(min(r.low for r in ranges.values()), max(r.high for r in ranges.values()))
        kept = {name: r for name, r in ranges.items() if r.span * MOST_WIDER >= whole.span}
        if len(kept) == len(ranges):
            return dict.fromkeys(ranges, whole)
        ranges = kept
    return {}


def _rescale_biases(
    graph: onnx.GraphProto, constants: dict[str, onnx.TensorProto], changed: set[str]
) -> None:
    """Biases are whole numbers of the scales of sums, so that kernels add them to these."""
    for image, weights, bias in _sums(graph, makers_of(graph)):
        if image.input[1] not in changed or not all(name in constants for name in bias.input):
            continue
        whole, before, step = (
            onnx.numpy_helper.to_array(constants[name])
            for name in (bias.input[0], bias.input[1], image.input[1])
        )
        scale = (onnx.numpy_helper.to_array(constants[weights.input[1]]) * step).astype(np.float32)
        if whole.dtype != np.int32 or before.size != scale.size:
            continue
        rounded = np.rint(whole * before.astype(np.float64) / scale.reshape(before.shape))
        _set(constants[bias.input[0]], rounded.astype(np.int32))
        _set(constants[bias.input[1]], scale.reshape(before.shape))


def _sums(
    graph: onnx.GraphProto, makers: dict[str, onnx.NodeProto]
) -> Iterator[tuple[onnx.NodeProto, onnx.NodeProto, onnx.NodeProto]]:
    """What dequantizes image, weights and bias of each sum; a bias of its own, as it changes."""
    read = [name for node in graph.node for name in node.input]
    for node in graph.node:
        if node.op_type in ("Conv", "ConvTranspose", "Gemm") and len(node.input) == 3:
            parts = [makers.get(name) for name in node.input]
            whole = [p for p in parts if p is not None and p.op_type == "DequantizeLinear"]
            if len(whole) == 3 and read.count(node.input[2]) == 1:
                yield whole[0], whole[1], whole[2]


def _set(constant: onnx.TensorProto, value: np.ndarray) -> None:
    shape = tuple(constant.dims)
    constant.CopyFrom(onnx.numpy_helper.from_array(value.reshape(shape), constant.name))
