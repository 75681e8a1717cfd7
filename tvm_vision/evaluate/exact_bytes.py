"""ONNX models whose sums of bytes onnxruntime adds without overflow on any processor.

Processors without VNNI add two products of uint8 and int8 in 16 bits, which large weights of int8
overflow. So weights of int8 become uint8, with them and their zero points 128 higher: the same
numbers, which those processors widen first. onnxruntime's own option for this
("session.x64quantprecision") is not used: it ends the process where a zero point is left out, and
makes models that it refuses of those which multiply int8 by int8.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..frontend.onnx.graph import attribute, given, inner_graphs

_MIDDLE = 128  # what uint8 is above int8


class _Operand(NamedTuple):
    """Places among the inputs of an operator: of weights, of their zero point and their scale, of
    what they are multiplied by and of its zero point; None where an operator has no such input,
    as those that make uint8 of floats themselves."""

    weight: int
    zero: int
    scale: int | None
    other: int | None = None
    other_zero: int | None = None


_OPERANDS = {
    "ConvInteger": (_Operand(1, 3, None, 0, 2),),
    "DequantizeLinear": (_Operand(0, 2, 1),),
    "DynamicQuantizeLSTM": (_Operand(1, 9, 8), _Operand(2, 11, 10)),
    "DynamicQuantizeMatMul": (_Operand(1, 3, 2),),
    "MatMulInteger": (_Operand(1, 3, None, 0, 2),),
    "MatMulIntegerToFloat": (_Operand(1, 5, 3, 0, 4),),
    "QAttention": (_Operand(1, 7, 4, 0, 6),),
    "QGemm": (_Operand(3, 5, 4, 0, 2),),
    "QLinearConv": (_Operand(3, 5, 4, 0, 2),),
    "QLinearMatMul": (_Operand(3, 5, 4, 0, 2),),
}  # fmt: skip


# Of operators that do not keep the type of their first input: the one whose type they keep.
_KEPT = {"QLinearConcat": 1, "QLinearWhere": 1, "QuantizeLinear": 2, "Where": 1}


class _Scope:
    """What is known of the values of a graph or function, and of the graphs around it."""

    def __init__(self, nodes: Any, around: _Scope | None = None) -> None:
        self.nodes = nodes
        self.tensors: ChainMap[str, TensorProto] = _within(around and around.tensors)
        self.kinds: ChainMap[str, int] = _within(around and around.kinds)
        self.makers: ChainMap[str, onnx.NodeProto] = _within(around and around.makers)
        for node in nodes:
            self.makers.update(dict.fromkeys(node.output, node))
            value = attribute(node, "value") if node.op_type == "Constant" else None
            if value is not None:
                self.tensors[node.output[0]] = value

    def kind(self, name: str) -> int:
        """The type of a value; UNDEFINED where it does not follow from what makes it."""
        for _ in range(len(self.makers) + 1):  # of a graph in a ring there is no end
            if name in self.tensors:
                return self.tensors[name].data_type
            node = self.makers.get(name)
            if self.kinds.get(name) or node is None:
                break
            if node.op_type == "DynamicQuantizeLinear":
                return int(TensorProto.UINT8)
            if node.op_type == "Cast":
                return int(attribute(node, "to", TensorProto.UNDEFINED))
            place = _KEPT.get(node.op_type, 0)
            if node.op_type == "QuantizeLinear" and not given(node, place):
                return int(attribute(node, "output_dtype", 0) or TensorProto.UINT8)
            name = given(node, place)
        return self.kinds.get(name, int(TensorProto.UNDEFINED))


def _within(around: Any) -> Any:
    return ChainMap() if around is None else around.new_child()


def may_overflow(model: onnx.ModelProto) -> bool:
    """Whether a model, or one without large values, multiplies weights of int8 by uint8."""
    return any(True for _ in _overflowing(model))


def with_exact_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model whose weights that are multiplied by uint8 are uint8 as well."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    constants: dict[_Scope, list[onnx.NodeProto]] = {}
    for scope, node, operand in list(_overflowing(copy)):
        constants.setdefault(scope, []).extend(_raise(scope, node, operand))
    for scope, made in constants.items():
        nodes = [*made, *scope.nodes]
        del scope.nodes[:]
        scope.nodes.extend(nodes)
    return copy


def _overflowing(
    model: onnx.ModelProto,
) -> Iterator[tuple[_Scope, onnx.NodeProto, _Operand]]:
    for scope in _scopes(model):
        for node in scope.nodes:
            for operand in _OPERANDS.get(node.op_type, ()):
                if _overflows(scope, node, operand):
                    yield scope, node, operand


def _overflows(scope: _Scope, node: onnx.NodeProto, operand: _Operand) -> bool:
    weight = scope.tensors.get(given(node, operand.weight))
    if weight is None or weight.data_type != TensorProto.INT8:
        return False
    like = _like(node, operand)
    if like and like not in scope.tensors:
        return False
    if operand.other is None or operand.other_zero is None:
        return True
    other = given(node, operand.other_zero) or given(node, operand.other)
    return scope.kind(other) == TensorProto.UINT8


def _like(node: onnx.NodeProto, operand: _Operand) -> str:
    """What says the shape of a zero point: itself, or the scale; "" where it is of one number."""
    scale = "" if operand.scale is None else given(node, operand.scale)
    return given(node, operand.zero) or scale


def _scopes(model: onnx.ModelProto) -> Iterator[_Scope]:
    yield from _scopes_of(model.graph, None)
    for function in model.functions:
        yield _Scope(function.node)


def _scopes_of(graph: onnx.GraphProto, around: _Scope | None) -> Iterator[_Scope]:
    scope = _Scope(graph.node, around)
    scope.tensors.update((tensor.name, tensor) for tensor in graph.initializer)
    for value in (*graph.input, *graph.value_info):
        scope.kinds[value.name] = value.type.tensor_type.elem_type
    yield scope
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from _scopes_of(inner, scope)


def _raise(scope: _Scope, node: onnx.NodeProto, operand: _Operand) -> Iterator[onnx.NodeProto]:
    """The constants of uint8 that the node reads from now on."""
    weight = numpy_helper.to_array(scope.tensors[node.input[operand.weight]])
    like, least = _like(node, operand), np.zeros((), np.int8)
    if given(node, operand.zero):
        least = numpy_helper.to_array(scope.tensors[like])
    elif like:
        least = np.zeros(tuple(scope.tensors[like].dims), np.int8)
    node.input.extend([""] * (operand.zero + 1 - len(node.input)))
    for place, value in ((operand.weight, weight), (operand.zero, least)):
        name = f"{node.output[0]}.{place}.uint8"
        node.input[place] = name
        raised = (value.astype(np.int16) + _MIDDLE).astype(np.uint8)
        yield helper.make_node("Constant", [], [name], value=numpy_helper.from_array(raised, name))
