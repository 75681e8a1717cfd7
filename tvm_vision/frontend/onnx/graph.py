"""An ONNX graph to be rewritten: what is known of its values, and new nodes and constants."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..refusals import Cut, Remedy
from .light import load_light
from .tools import ToolError, light_step, typed_by_values, without_large_values

FIX_SHAPES = Remedy("pass input_shapes, or --input-shape", Cut("what data decides"))
# What names begin with that shape inference gives to sizes.
INFERRED = "unk__"
# From which opset on operators have their axes as an input: these, and reductions but ReduceSum.
AXES_AS_INPUT = {"ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}
REDUCED_AXES_AS_INPUT = 18
# Operators that only quantized networks have.
_QUANTISED = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear"}
    | {"ConvInteger", "MatMulInteger"}
)
# Operators that make none of the numbers that they give.
_MOVES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split"}
    | {"Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
# The last change of the file format that has nothing to do with new types or operators.
_LAST_IR_CHANGE = 8


def least_ir_version(model: onnx.ModelProto) -> int:
    """The oldest version of the file format that has the model's operator sets.

    What writes a file stamps it with the newest version it knows, which an older onnxruntime
    refuses whatever is in it.
    """
    needed = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
    return min(model.ir_version, max(needed, _LAST_IR_CHANGE))


def is_quantized(model: Path | onnx.ModelProto) -> bool:
    """Whether a model, or that of a file, rounds what is between its operators to int8 or uint8."""
    proto = load_light(model) if isinstance(model, Path) else model
    return not _QUANTISED.isdisjoint(node.op_type for node in proto.graph.node)


def computes_in_fp16(model: Path | onnx.ModelProto) -> bool:
    """Whether a model, or that of a file, computes with numbers of fp16, be they weights, inputs or
    cast to it, and not only moves or casts them: its sums are rounded to fp16 then."""
    proto = load_light(model) if isinstance(model, Path) else model
    half = {
        tensor.name
        for tensor in proto.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT16
    }
    half.update(
        value.name
        for value in proto.graph.input
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    )
    for node in nodes_in(proto.graph):
        reads_half = not half.isdisjoint(node.input)
        if reads_half and node.op_type not in _MOVES:
            return True
        moved = reads_half and node.op_type != "Cast"
        if moved or _type_made(node) == onnx.TensorProto.FLOAT16:
            half.update(filter(None, node.output))
    return False


def _type_made(node: onnx.NodeProto) -> int | None:
    """The type of ONNX that a Cast or a Constant of one tensor makes; None for others."""
    if node.op_type == "Constant":
        value = attribute(node, "value")
        return None if value is None else int(value.data_type)
    return attribute(node, "to") if node.op_type == "Cast" else None


def graph_inputs(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that the caller feeds: files of old IR versions list the weights among the inputs."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in weights]


def put_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Give a graph these nodes for its own, of which they may be."""
    copies = onnx.GraphProto(node=nodes)
    del graph.node[:]
    graph.node.extend(copies.node)


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The branches or the body of a node."""
    for entry in node.attribute:
        if entry.HasField("g"):
            yield entry.g
        yield from entry.graphs


def nodes_and_constants(
    graph: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto] | None = None
) -> Iterator[tuple[onnx.GraphProto, onnx.NodeProto, Mapping[str, onnx.TensorProto]]]:
    """The nodes of a graph and of its branches and bodies: of each the graph that it is in, itself,
    and by name the constants written before it, those by another name too.

    outer: of a branch or body, the constants around it.
    """
    known = {**(outer or {}), **{tensor.name: tensor for tensor in graph.initializer}}
    for node in graph.node:
        if node.op_type == "Constant":
            value = constant_value(node)
            if value is not None:
                known[node.output[0]] = numpy_helper.from_array(value)
        # As Paddle's exporter names what it might have cast.
        elif node.op_type == "Identity" and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
        yield graph, node, known
        for inner in inner_graphs(node):
            yield from nodes_and_constants(inner, known)


def is_plain(domain: str) -> bool:
    """Whether a domain is ONNX's own, by its shorter name or its longer one."""
    return domain in ("", "ai.onnx")


def opset_of(model: onnx.ModelProto | onnx.FunctionProto) -> int:
    """The version of ONNX's own operator set that is imported; 0 where none is."""
    versions = [entry.version for entry in model.opset_import if is_plain(entry.domain)]
    return max(versions, default=0)


def put_domains_plainly(
    entries: Iterable[onnx.OperatorSetIdProto | onnx.NodeProto],
) -> None:
    """Name ONNX's own domain by its shorter name, which is empty."""
    for entry in entries:
        entry.domain = "" if is_plain(entry.domain) else entry.domain


def nodes_in(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, or of a function, and of the graphs in them."""
    for node in graph.node:
        yield node
        for inner in inner_graphs(node):
            yield from nodes_in(inner)


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names of the values that a node reads, its branches and bodies too, whose own values have
    names that no other value has."""
    yield from filter(None, node.input)
    for inner in inner_graphs(node):
        yield from (value.name for value in inner.output)
        for step in inner.node:
            yield from reads(step)


def makers_of(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """The node that makes each value, by the value's name."""
    return {name: node for node in graph.node for name in node.output if name}


def readers_of(graph: onnx.GraphProto) -> dict[str, list[onnx.NodeProto]]:
    """The nodes that read each value, by the value's name: as often as they read it, in order."""
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in filter(None, node.input):
            found.setdefault(name, []).append(node)
    return found


def node_called(name: str, known: Collection[str]) -> str:
    """The node that ``name`` was made of: what replaces a node is named after it."""
    while name and name not in known:
        name = name.rpartition("/")[0]
    return name


def is_fixed(value: onnx.ValueInfoProto) -> bool:
    """Whether all sizes of a value are known."""
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(size.HasField("dim_value") for size in tensor.shape.dim)


def fixed_values(graph: onnx.GraphProto) -> set[str]:
    """Names of the results of nodes whose sizes are all known."""
    return {value.name for value in [*graph.value_info, *graph.output] if is_fixed(value)}


def with_input_shapes(
    proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto:
    """A copy with ``shapes`` for inputs; shapes that the model declares for outputs are gone."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(proto)
    for value in graph_inputs(fixed):
        sizes = value.type.tensor_type.shape.dim
        for size, given in zip(sizes, shapes.get(value.name, ()), strict=False):
            size.dim_value = given
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    return fixed


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the types of all values that follow from its inputs, as far as known.

    Raises UnsupportedModelError for a model that ends the process of shape inference.
    """
    try:
        return light_step("infer", model)
    except ToolError:  # a model that inference does not understand goes on as it is
        return model


def infer_types(model: onnx.ModelProto) -> None:
    """Put what ``inferred`` finds into the model itself, whose weights are not copied for it.

    Raises UnsupportedModelError as ``inferred``.
    """
    typed = inferred(without_large_values(model))
    _take(model.graph, typed.graph, "node", "value_info", "output")


def infer_values(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """As ``infer_types``, by values as well: small results of nodes, which are returned.

    Raises UnsupportedModelError as ``inferred``.
    """
    try:
        typed, computed = typed_by_values(without_large_values(model))
    except ToolError:  # a model that inference does not understand goes on as it is
        return {}
    _take(model.graph, typed.graph, "node", "value_info", "output")
    return computed


def _take(graph: onnx.GraphProto, other: onnx.GraphProto, *parts: str) -> None:
    """Put parts of another graph in the place of a graph's own."""
    for part in parts:
        graph.ClearField(part)
        getattr(graph, part).extend(getattr(other, part))


class Unsupported(Exception):
    """Raised for a node that TVM would import wrongly or not at all.

    reason: why, in a few words.
    remedy: what can be done about it.
    """

    def __init__(self, reason: str, remedy: str | Remedy) -> None:
        super().__init__(f"{reason}: {remedy}")
        self.reason, self.remedy = reason, Remedy(remedy)


class GraphEditor:
    """Looks at a model's values and makes nodes for rewrites; only ``put_nodes`` changes a model.

    weights: the same model with the values of its large weights, where ``model`` has none.

    Attributes:
        new_constants: of nodes that were made.
        computed: results of nodes that are known already.
    """

    def __init__(self, model: onnx.ModelProto, weights: onnx.ModelProto | None = None) -> None:
        self.opset = opset_of(model)
        self.new_constants: list[onnx.TensorProto] = []
        self.computed: Mapping[str, np.ndarray] = {}
        self._constants: dict[str, Any] = {}
        self._types: dict[str, onnx.TypeProto.Tensor] = {}
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._add(model.graph)
        if weights is not None:
            self._constants |= {tensor.name: tensor for tensor in weights.graph.initializer}

    def _add(self, graph: onnx.GraphProto) -> None:
        self._constants |= {tensor.name: tensor for tensor in graph.initializer}
        self._nodes = [*self._nodes, *graph.node]
        values = [*graph.input, *graph.value_info, *graph.output]
        self._types |= {value.name: value.type.tensor_type for value in values}
        self._taken |= set(self._constants) | set(self._types)
        self._taken.update(name for node in nodes_in(graph) for name in node.output)
        for node in graph.node:
            if node.op_type == "Constant":
                value = constant_value(node)
                if value is not None:
                    self._constants[node.output[0]] = value

    def inner(self, graph: onnx.GraphProto) -> GraphEditor:
        """The same for a branch or a body of one of its nodes, which sees its values as well. New
        constants become weights of the model."""
        editor = copy.copy(self)
        editor._constants = {**self._constants}
        editor._types = {**self._types}
        editor._add(graph)
        return editor

    def beside(self, node: onnx.NodeProto, ahead: bool) -> list[onnx.NodeProto]:
        """The nodes that read what a node gives, or those that give what it reads."""
        if ahead:
            given = set(filter(None, node.output))
            return [each for each in self._nodes if not given.isdisjoint(reads(each))]
        read = set(reads(node))
        return [each for each in self._nodes if not read.isdisjoint(each.output)]

    def is_constant(self, name: str) -> bool:
        """Whether ``constant`` knows a value, which is not read for that."""
        return name in self._constants

    def constant(self, name: str) -> np.ndarray | None:
        """The value of a weight or Constant node; None where it is computed at run time."""
        found = self._constants.get(name)
        if isinstance(found, onnx.TensorProto):
            found = self._constants[name] = numpy_helper.to_array(found)
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a value. Raises Unsupported where they are not fixed."""
        if name in self._constants:
            value = self._constants[name]
            return tuple(value.dims if isinstance(value, onnx.TensorProto) else value.shape)
        tensor = self._types.get(name)
        if tensor is None or not tensor.HasField("shape"):
            raise Unsupported(f"the shape of '{name}' is not known", FIX_SHAPES)
        if any(not size.HasField("dim_value") for size in tensor.shape.dim):
            raise Unsupported(f"the shape of '{name}' is not fixed", FIX_SHAPES)
        return tuple(size.dim_value for size in tensor.shape.dim)

    def dtype(self, name: str) -> np.dtype:
        """Element type of a value. Raises Unsupported where it is not known."""
        if name in self._constants:
            value = self._constants[name]
            if isinstance(value, onnx.TensorProto):
                return helper.tensor_dtype_to_np_dtype(value.data_type)
            return value.dtype
        tensor = self._types.get(name)
        if tensor is None or not tensor.elem_type:
            raise Unsupported(f"the type of '{name}' is not known", "export the model again")
        return helper.tensor_dtype_to_np_dtype(tensor.elem_type)

    def weights_dtype(self) -> np.dtype:
        """The type of real numbers that most weights have; float32 where there are none."""
        dtypes = [
            helper.tensor_dtype_to_np_dtype(value.data_type)
            for value in self._constants.values()
            if isinstance(value, onnx.TensorProto)
        ]
        real = [dtype for dtype in dtypes if dtype in (np.float16, np.float32, np.float64)]
        return max(set(real), key=real.count, default=np.dtype(np.float32))

    def set_type(self, name: str, tensor: onnx.TypeProto.Tensor) -> None:
        """Note the type of a value that a new node gives."""
        self._types[name] = tensor

    def set_shape(self, name: str, dtype: np.dtype, shape: Sequence[int]) -> None:
        """Note the type of a tensor that a new node gives."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.set_type(name, helper.make_tensor_type_proto(kind, shape).tensor_type)

    def make_constant(self, value: np.ndarray, like: str = "constant") -> str:
        """The name of a new weight with this value."""
        name = self.fresh(like)
        self.set_constant(name, value)
        return name

    def set_constant(self, name: str, value: np.ndarray) -> None:
        """Make the value called ``name``, whose node goes, a weight."""
        self.new_constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        self._constants[name] = value

    def with_nodes(
        self, model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]
    ) -> onnx.ModelProto:
        """A copy of ``model`` as ``put_nodes`` changes it."""
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        self.put_nodes(changed, nodes)
        return changed

    def put_nodes(
        self,
        changed: onnx.ModelProto,
        nodes: Sequence[onnx.NodeProto],
        typed: onnx.ModelProto | None = None,
    ) -> None:
        """Give a model other nodes, and the constants that were made for them.

        typed: the same model with the types of its values, which it gets.

        What was inferred of values that are constants now is forgotten, and so are the names that
        inference gave to sizes: it would keep them where it knows the sizes now.
        """
        del changed.graph.node[:]
        changed.graph.node.extend(nodes)
        changed.graph.initializer.extend(self.new_constants)
        if typed is not None:
            _take(changed.graph, typed.graph, "value_info", "output")
        constants = {tensor.name for tensor in self.new_constants}
        kept = [value for value in changed.graph.value_info if value.name not in constants]
        for value in kept:
            for size in value.type.tensor_type.shape.dim:
                if size.dim_param.startswith(INFERRED):
                    size.Clear()
        del changed.graph.value_info[:]
        changed.graph.value_info.extend(kept)

    def fresh(self, like: str) -> str:
        """A name that no value has."""
        name, number = like, self._last.get(like, 0)
        while name in self._taken:
            number += 1
            name = f"{like}.{number}"
        # A network of long sequences asks for thousands of names like one.
        self._last[like] = number
        self._taken.add(name)
        return name


class NodeBuilder:
    """The nodes that stand for one node, in order; each call adds one and returns its result."""

    def __init__(self, graph: GraphEditor, node: onnx.NodeProto) -> None:
        self.graph, self.node = graph, node
        self.nodes: list[onnx.NodeProto] = []

    def __call__(self, operator: str, *inputs: str | np.ndarray, to: str = "", **attrs: Any) -> str:
        """Add a node; arrays among its inputs become constants; ``to`` names its output."""
        like = self.node.name or self.node.output[0]  # nodes of branches and bodies have none yet
        names = [
            value if isinstance(value, str) else self.graph.make_constant(value, like)
            for value in inputs
        ]
        output = to or self.graph.fresh(f"{self.node.output[0]}/{operator}")
        self.nodes.append(helper.make_node(operator, names, [output], **attrs))
        return output

    def cast(self, value: str, dtype: np.dtype | type) -> str:
        """Add a Cast."""
        output = self.graph.fresh(f"{value}/{np.dtype(dtype).name}")
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.nodes.append(helper.make_node("Cast", [value], [output], to=to))
        return output

    def axes(self, operator: str, value: str, axes: Sequence[int], **attrs: Any) -> str:
        """Add Squeeze, Unsqueeze or a reduction, whose axes are an attribute in older opsets."""
        if self.graph.opset < AXES_AS_INPUT.get(operator, REDUCED_AXES_AS_INPUT):
            return self(operator, value, axes=list(axes), **attrs)
        return self(operator, value, np.array(axes, np.int64), **attrs)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Add a Reshape."""
        return self("Reshape", value, np.array(shape, np.int64))

    def part(self, value: str, start: int, end: int, axis: int) -> str:
        """Add a Slice along one axis, in the form of opset 10: TVM reads no other."""
        return self("Slice", value, *(np.array([place], np.int64) for place in (start, end, axis)))

    def finish(self, value: str, output: int = 0) -> list[onnx.NodeProto]:
        """The nodes, with ``value`` as the result of the node that they stand for."""
        for step in self.nodes:
            step.output[:] = [self.node.output[output] if n == value else n for n in step.output]
            step.input[:] = [self.node.output[output] if n == value else n for n in step.input]
        return self.nodes


Rewrite = Callable[[onnx.NodeProto, GraphEditor], "Sequence[onnx.NodeProto] | None"]


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute, text as str; ``default`` where the node has none."""
    for entry in node.attribute:
        if entry.name == name:
            value = helper.get_attribute_value(entry)
            return value.decode(errors="replace") if isinstance(value, bytes) else value
    return default


def attributes(node: onnx.NodeProto, names: str) -> dict[str, Any]:
    """Those of the attributes of these names, with blanks between them, that a node has."""
    found = {name: attribute(node, name) for name in names.split()}
    return {name: value for name, value in found.items() if value is not None}


def given(node: onnx.NodeProto, index: int) -> str:
    """The name of an input; "" where it is left out."""
    return node.input[index] if len(node.input) > index else ""


def constant_input(node: onnx.NodeProto, graph: GraphEditor, index: int) -> np.ndarray | None:
    """An input that is known when the model is imported; None where it is left out.

    Raises Unsupported for one that is computed at run time.
    """
    if not given(node, index):
        return None
    value = graph.constant(node.input[index])
    if value is None:
        raise Unsupported(f"its input {index} is computed at run time", "make it a constant")
    return value


def with_attributes(node: onnx.NodeProto, *without: str, **changed: Any) -> onnx.NodeProto:
    """A copy of ``node``, attributes left out or set."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    dropped = {*without, *changed}
    kept = [entry for entry in node.attribute if entry.name not in dropped]
    del copy.attribute[:]
    copy.attribute.extend(kept)
    copy.attribute.extend(helper.make_attribute(key, value) for key, value in changed.items())
    return copy


def constant_value(node: onnx.NodeProto) -> np.ndarray | None:
    """The value of a Constant node in any of its forms but text and sparse tensors."""
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        value = attribute(node, name)
        if value is not None:
            return np.array(value, dtype)
    tensor = attribute(node, "value")
    return None if tensor is None else numpy_helper.to_array(tensor)
