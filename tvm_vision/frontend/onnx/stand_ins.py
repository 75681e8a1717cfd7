"""Weights that stay away while onnxsim works.

onnxsim reads, hashes and writes all of a model several times over: of ViT-B/16, 330 MB, that is
25 s of a processor. It never looks at the values of most weights, those of convolutions and
products that nothing folds, but to find equal ones. So inputs of the same names stand for them,
and equal ones are found here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper

from .graph import makers_of, readers_of
from .tools import bare

# Operators of which onnxsim's passes read no weights: there is nothing in their values to see.
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
# What its passes multiply into the weights of a convolution that stands beside it, what they may
# look through behind one, and before one, where a summand stays.
_SCALES = frozenset({"BatchNormalization", "Div", "Mul"})
_BEFORE = frozenset(
    {"Cast", "Dropout", "Flatten", "Identity", "Pad", "Reshape", "Squeeze"}
    | {"Transpose", "Unsqueeze"}
)
_SUMMANDS = frozenset({"Add", "Sub"})
_BEHIND = _BEFORE | _SUMMANDS
# They follow from types alone.
MEASURES = frozenset({"Shape", "Size"})
# The passes of onnxsim that look at weights of products: one looks for equal ones among all, one
# makes the products of one value, as queries, keys and values are, to one product of theirs.
READING = ("eliminate_duplicate_initializer", "fuse_qkv")
LEAST = 1 << 12  # bytes: weights of fewer stay
# Bytes; a summand for each channel has fewer.
MOST_OF_SUMMANDS = 1 << 16


def with_stand_ins(
    model: onnx.ModelProto,
) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """A model with inputs in place of its large weights that nothing reads, the first of equal ones
    for all, and these weights by name.

    The first is not changed, and may be the same object.
    """
    names = _unread(model.graph)
    if not names:
        return model, {}
    light, twins = bare(model), {}
    first: dict[tuple[Any, ...], onnx.TensorProto] = {}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            kept = first.setdefault(_content(tensor), tensor)
            twins[tensor.name] = kept.name
            continue
        # ``append`` would make a message of it, which has at most 2 GB.
        light.graph.initializer.add().CopyFrom(tensor)
    away = {tensor.name: tensor for tensor in first.values()}
    for name, tensor in away.items():
        stands = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
        light.graph.input.append(stands)
    _rename(light.graph, twins)
    return light, away


def put_back(model: onnx.ModelProto, away: Mapping[str, onnx.TensorProto]) -> bool:
    """Put weights in the places of their stand-ins, in the model itself, and one in the place of
    equal ones.

    False where something reads a stand-in that is none of the products and convolutions it was of:
    with numbers it would have been folded.
    """
    graph = model.graph
    used = set()
    for node in graph.node:
        plain = not node.domain and node.op_type in _PRODUCTS | _CONVOLUTIONS
        for place, name in enumerate(node.input):
            if name in away:
                if not (plain and place == 1):
                    return False
                used.add(name)
    _join_twins(graph)
    kept = [value for value in graph.input if value.name not in away]
    del graph.input[:]
    graph.input.extend(kept)
    for name, tensor in away.items():
        if name in used:
            graph.initializer.add().CopyFrom(tensor)
    return True


def _content(tensor: onnx.TensorProto) -> tuple[int, tuple[int, ...], bytes]:
    """What is equal where weights are."""
    digest = hashlib.blake2b(tensor.raw_data, digest_size=16).digest()
    return tensor.data_type, tuple(tensor.dims), digest


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Give nodes other inputs, in the graph itself."""
    for node in graph.node:
        for place, name in enumerate(node.input):
            if names.get(name, name) != name:
                node.input[place] = names[name]


def _join_twins(graph: onnx.GraphProto) -> None:
    """Of weights that are equal the first is kept, in the graph itself."""
    first: dict[bytes, onnx.TensorProto] = {}
    names: dict[str, str] = {}
    for tensor in graph.initializer:
        nameless = onnx.TensorProto()
        nameless.CopyFrom(tensor)
        nameless.ClearField("name")
        kept = first.setdefault(nameless.SerializeToString(deterministic=True), tensor)
        if kept is not tensor:
            names[tensor.name] = kept.name
    _rename(graph, names)
    kept_tensors = list(first.values())
    if names:
        del graph.initializer[:]
        for tensor in kept_tensors:
            graph.initializer.add().CopyFrom(tensor)


def _unread(graph: onnx.GraphProto) -> set[str]:
    """The names of large weights that are the second factor of convolutions and products alone, the
    first being computed."""
    if any(a.type == onnx.AttributeProto.GRAPH for node in graph.node for a in node.attribute):
        return set()
    known = {tensor.name for tensor in graph.initializer}
    large = {tensor.name for tensor in graph.initializer if is_large(tensor)}
    large.difference_update(value.name for value in (*graph.input, *graph.output))
    for node in graph.node:
        if node.op_type in MEASURES or known.issuperset(filter(None, node.input)):
            known.update(node.output)
    beside = _Neighbours(graph, known)
    for node in graph.node:
        large.difference_update(_read(node, beside))
    return large


class _Neighbours:
    """What stands before and behind a node, one after the other, with nobody else between."""

    def __init__(self, graph: onnx.GraphProto, known: set[str]) -> None:
        self.known = known
        self._makers, self._readers = makers_of(graph), readers_of(graph)
        self._outputs = {value.name for value in graph.output}
        # As networks without training add them: onnxsim leaves such sums out.
        self._zeros = {tensor.name for tensor in graph.initializer if _is_zero(tensor)}
        for node in graph.node:
            if node.op_type == "Identity" and node.input[0] in self._zeros:
                self._zeros.update(node.output)

    def scale(self, node: onnx.NodeProto) -> bool:
        """Whether a pass may multiply the weights of a convolution by a scale beside it: one that
        alone reads the result, or makes what the convolution alone reads."""
        value = node.output[0]
        while (reader := self._only_reader(value)) is not None:
            if self._is_scale(reader):
                return True
            if reader.op_type not in _BEHIND or len(self._computed(reader)) != 1:
                break
            value = reader.output[0]
        value = node.input[0]
        while self._only_reader(value) is not None and (maker := self._makers.get(value)):
            if self._is_scale(maker):
                return True
            through = maker.op_type in _BEFORE or self._adds_nothing(maker)
            if not through or len(self._computed(maker)) != 1:
                break
            (value,) = self._computed(maker)
        return False

    def _only_reader(self, value: str) -> onnx.NodeProto | None:
        readers = self._readers.get(value, ())
        return readers[0] if len(readers) == 1 and value not in self._outputs else None

    def _computed(self, node: onnx.NodeProto) -> list[str]:
        return [name for name in node.input if name and name not in self.known]

    def _adds_nothing(self, node: onnx.NodeProto) -> bool:
        return node.op_type in _SUMMANDS and not self._zeros.isdisjoint(node.input)

    def _is_scale(self, node: onnx.NodeProto) -> bool:
        return node.op_type in _SCALES and not self.known.isdisjoint(node.input)


def _read(node: onnx.NodeProto, beside: _Neighbours) -> list[str]:
    """The inputs of a node whose values may matter to a pass."""
    plain = not node.domain and node.op_type in _PRODUCTS | _CONVOLUTIONS
    plain = plain and node.input[0] not in beside.known
    if plain and node.op_type in _CONVOLUTIONS:
        plain = not beside.scale(node)
    return [name for place, name in enumerate(node.input) if not (plain and place == 1)]


def _is_zero(tensor: onnx.TensorProto) -> bool:
    """Whether all numbers of a small constant are 0."""
    content = tensor.raw_data
    return 0 < len(content) < MOST_OF_SUMMANDS and not content.strip(b"\0")


def is_large(tensor: onnx.TensorProto) -> bool:
    """Whether a weight takes enough to be worth to stay away, and has its bytes in the model."""
    whole = tensor.HasField("raw_data") and not tensor.external_data
    return whole and len(tensor.raw_data) >= LEAST and math.prod(tensor.dims) > 0
