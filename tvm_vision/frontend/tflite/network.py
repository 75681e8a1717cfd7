"""The ONNX graph that is made of a TFLite one: nodes, constants, and the type of every value.

Types follow node by node from the inputs, so that nothing depends on what the file says of values
within it. What follows from constants alone is computed at once, as arithmetic of shapes is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from ...error_lines import first_line
from ..limits import MOST_ELEMENTS
from ..onnx.graph import Unsupported
from ..refusals import CUT

# The first that has LayerNormalization, and in which axes of reductions are attributes as TVM has
# them.
OPSET = 17
# Elements of a result that is computed at once, and of a constant that shapes may follow from.
MOST_FOLDED = 1 << 20
MOST_OF_A_SHAPE = 64
EXPORT = "export the network again"
_OPSETS = [helper.make_opsetid("", OPSET)]
Value = str


class Network:
    """Gathers nodes. A value is the name of one in the graph."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        """reserved: names that no value gets, those of inputs and outputs."""
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[Value, np.ndarray] = {}
        self._types: dict[Value, onnx.TypeProto] = {}
        self._taken = set(reserved)
        self._inputs: list[Value] = []

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self._nodes)

    def input(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Value:
        """A new input of the graph, of that very name."""
        self._types[name] = _type(np.dtype(dtype), shape)
        self._inputs.append(name)
        return name

    def constant(self, array: np.ndarray, label: str) -> Value:
        """A weight."""
        name = self.fresh(label)
        self._constants[name] = array
        self._types[name] = _type(array.dtype, array.shape)
        return name

    def array(self, value: Value) -> np.ndarray | None:
        """The numbers of a constant; None for what is computed."""
        return self._constants.get(value)

    def shape(self, value: Value) -> tuple[int, ...]:
        return tuple(size.dim_value for size in self._types[value].tensor_type.shape.dim)

    def dtype(self, value: Value) -> np.dtype:
        return helper.tensor_dtype_to_np_dtype(self._types[value].tensor_type.elem_type)

    def emit(self, operator: str, *inputs: Any, label: str, **attributes: Any) -> Value:
        """A node of one result; arrays among its inputs become constants, None is left out."""
        return self.emit_all(operator, *inputs, label=label, count=1, **attributes)[0]

    def kept(self, operator: str, *inputs: Any, label: str, **attributes: Any) -> Value:
        """``emit``, but of constants too it stays a node, as the scales of weights must."""
        node = self._node(operator, inputs, label, 1, attributes)
        self._nodes.append(node)
        return node.output[0]

    def emit_all(
        self, operator: str, *inputs: Any, label: str, count: int, **attributes: Any
    ) -> list[Value]:
        """A node of ``count`` results. Raises Unsupported where ONNX cannot have it."""
        node = self._node(operator, inputs, label, count, attributes)
        sizes = [math.prod(self.shape(output)) for output in node.output]
        known = all(name in self._constants for name in node.input if name)
        if known and max(sizes) <= MOST_FOLDED:
            self._fold(node)
        else:
            self._nodes.append(node)
        return list(node.output)

    def block(
        self, nodes: list[onnx.NodeProto], results: dict[Value, tuple[int, ...]]
    ) -> list[Value]:
        """Nodes that belong together, whose own values have sizes that data decides; their results
        are float32 of these shapes."""
        self._nodes += nodes
        self._types |= {name: _type(np.dtype("float32"), shape) for name, shape in results.items()}
        return list(results)

    def _node(
        self, operator: str, inputs: Any, label: str, count: int, attributes: dict[str, Any]
    ) -> onnx.NodeProto:
        """A node whose results have types."""
        names = [self._named(value, label) for value in inputs]
        outputs = [self.fresh(f"{label}/{operator}") for _ in range(count)]
        node = helper.make_node(operator, names, outputs, name=outputs[0], **attributes)
        self._types |= self._inferred(node)
        return node

    def model(self, outputs: list[tuple[str, Value]]) -> onnx.ModelProto:
        """The model whose outputs are values under other names, with the weights that it uses."""
        ends = [helper.make_node("Identity", [value], [name], name=name) for name, value in outputs]
        nodes = _used([*self._nodes, *ends], {name for name, _ in outputs})
        read = {name for node in nodes for name in node.input}
        graph = helper.make_graph(
            nodes,
            "tflite",
            [helper.make_value_info(name, self._types[name]) for name in self._inputs],
            [helper.make_value_info(name, self._types[value]) for name, value in outputs],
            [
                numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
                for name, array in self._constants.items()
                if name in read
            ],
        )
        return helper.make_model(graph, opset_imports=_OPSETS, ir_version=8)

    def _named(self, value: Any, label: str) -> str:
        if value is None:
            return ""
        return value if isinstance(value, str) else self.constant(np.asarray(value), label)

    def _inferred(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        schema = defs.get_schema(node.op_type, OPSET)
        types = {name: self._types[name] for name in node.input if name}
        data = {
            name: numpy_helper.from_array(array, name)
            for name in types
            if (array := self._constants.get(name)) is not None and array.size <= MOST_OF_A_SHAPE
        }
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=_OPSETS, ir_version=8
            )
        except Exception as error:  # what a node asks for can be wrong in as many ways as it says
            raise Unsupported(f"its inputs do not fit it ({first_line(error)})", EXPORT) from None
        for name in node.output:
            shape = found[name].tensor_type.shape.dim if name in found else None
            if shape is None or any(not size.HasField("dim_value") for size in shape):
                raise Unsupported(
                    "the shape of its result depends on the data",
                    CUT,
                )
            sizes = [size.dim_value for size in shape]
            if math.prod(sizes) > MOST_ELEMENTS or min(sizes, default=1) < 0:
                raise Unsupported(f"it makes a tensor of {sizes}", "use a smaller size")
        return {name: found[name] for name in node.output}

    def _fold(self, node: onnx.NodeProto) -> None:
        """Compute a node of constants."""
        from onnx.reference import ReferenceEvaluator

        names = list(dict.fromkeys(name for name in node.input if name))
        graph = helper.make_graph(
            [node],
            "folded",
            [helper.make_value_info(name, self._types[name]) for name in names],
            [helper.make_value_info(name, self._types[name]) for name in node.output],
        )
        evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=_OPSETS))
        feed = {name: self._constants[name] for name in names}
        for name, result in zip(node.output, evaluator.run(None, feed), strict=True):
            self._constants[name] = np.asarray(result)

    def fresh(self, label: str) -> str:
        """A name that no value has."""
        name, number = label, 0
        while name in self._taken:
            number += 1
            name = f"{label}.{number}"
        self._taken.add(name)
        return name


def _type(dtype: np.dtype, shape: tuple[int, ...]) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), shape)


def _used(nodes: list[onnx.NodeProto], wanted: set[str]) -> list[onnx.NodeProto]:
    """The nodes, in order, that something wanted follows from."""
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]
