"""TVM's ONNX importer with three changes: variables keep the names of the ONNX nodes, it goes on
after an operator that it cannot convert, so that one error names them all, and operators of any
number of tensors are taken in pairs.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import numpy as np
import onnx
from tvm import relax
from tvm.ir.expr import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, onnx_input

from ...error_lines import first_line
from ..node_names import node_name, variable_hint
from ..refusals import CUT, OTHER_SIZES, Refusal, RefusedNodes, Remedy
from ..relax_names import name_bindings
from .graph import Unsupported, opset_of
from .input_rules import check_inputs, check_places
from .own_operators import OWN_CONVERTERS

FIX_PARAMETERS = "make constants of the inputs that decide about its shapes"
# How TVM writes an operator into a message.
_OPERATOR = re.compile(r'ir\.Op\(.*?name="([^"]+)".*?support_level=\d+\)')
# What TVM writes where the types of a node's inputs contradict each other: its own words for these.
_TYPES_OF_TVM = re.compile(r"\bR\.|\bT\.int\d|\bmetadata\[|\brelax\.")
MOST_SHOWN = 8  # numbers of a list: a shape has no more
# Opsets to read operators as at least: PyTorch's exporter writes reductions of a later one, which
# onnxruntime takes.
_LEAST_OPSET = {"ScatterElements": 18, "ScatterND": 18}
# What TVM stacks to one tensor and reduces: a copy of all, and more tensors than a kernel may see.
_PAIRWISE = {
    "Max": relax.op.maximum,
    "Min": relax.op.minimum,
    "Sum": relax.op.add,
    "Mean": relax.op.add,
}


class Importer(ONNXGraphImporter):
    """Converts the nodes of one graph; each node must have a name that no other node has."""

    def __init__(self, model: onnx.ModelProto, shapes: dict[str, list[int]]) -> None:
        super().__init__(shapes, "float32")
        graph = model.graph
        self._types = {
            value.name: value.type.tensor_type for value in [*graph.value_info, *graph.output]
        }
        self._results = {node.name: list(node.output) for node in graph.node}
        self._refusals: list[Refusal] = []
        self._inside_branch = False
        # Variables that converters bound themselves, as Clip's does, with the node they belong to.
        self.bound: dict[relax.Var, str] = {}

    def from_onnx(self, graph: Any, opset: int) -> Any:
        """The IRModule of the graph. Raises RefusedNodes, or what TVM raises."""
        try:
            return super().from_onnx(graph, opset)
        except Exception:
            # A builder that is dropped with an open block prints a warning.
            with contextlib.suppress(Exception):
                self.bb._end_block()
            raise

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Nothing beforehand: each node is tried, and what fails is gathered."""

    def _construct_nodes(self, graph: Any) -> None:
        super()._construct_nodes(graph)
        if self._refusals:
            raise RefusedNodes(self._refusals)

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        name = attrs["tvm_custom"]["name"]
        if op_name == "Concat":
            inputs = _some(inputs)
        try:
            check_inputs(op_name, inputs, attrs)
            if op_name in _PAIRWISE and not all(isinstance(v, GenericConst) for v in inputs):
                value = self._in_pairs(op_name, inputs)
            elif op_name in OWN_CONVERTERS:
                value = OWN_CONVERTERS[op_name](self.bb, inputs, attrs)
            elif op_name == "Gather" and _takes_fixed_places(inputs[0], inputs[1]):
                value = _taken(inputs[0], inputs[1], attrs.get("axis", 0))
            else:
                opset = max(opset, _LEAST_OPSET.get(op_name, 0))
                value = super()._convert_operator(op_name, inputs, attrs, opset)
            # What comes next asks for its type.
            value = self.bb.normalize(value)
            missing = self._missing_results(value, name)
            if missing:
                raise NotImplementedError(missing)
        except Exception as error:  # the converters raise every kind there is
            self._refusals.append(Refusal(op_name, name, *_reason_and_remedy(error, inputs)))
            return self._placeholder(name)
        return value if self._inside_branch else self._named(value, name)

    def _convert_subgraph(self, bb: Any, graph: Any) -> Any:
        outer, self._inside_branch = self._inside_branch, True
        try:
            return super()._convert_subgraph(bb, graph)
        finally:
            self._inside_branch = outer

    def _in_pairs(self, op_name: str, inputs: Any) -> Any:
        """Max, Min, Sum or Mean, broadcast like the operators of two tensors."""
        pairs = _PAIRWISE[op_name]
        value = functools.reduce(lambda a, b: self.bb.normalize(pairs(a, b)), list(inputs))
        if op_name != "Mean":
            return value
        return relax.op.divide(value, relax.const(len(inputs), value.ty.dtype))

    def _named(self, value: Any, name: str) -> Any:
        """``value``, with each tensor in it that has no variable yet bound to one."""
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._named(field, name) for field in value.fields])
        if _without_elements(value):
            return relax.const(
                np.zeros([int(size) for size in value.ty.shape], str(value.ty.dtype))
            )
        if isinstance(value, relax.Var):
            self.bound.setdefault(value, name)
        computed = isinstance(value, (relax.Call, relax.TupleGetItem))
        if computed and isinstance(value.ty, (relax.TensorType, relax.TupleType)):
            return self.bb.emit(value, name_hint=variable_hint(name))
        return value

    def _missing_results(self, value: Any, name: str) -> str:
        """What is wrong where a converter returns fewer results than the node has; else nothing."""
        wanted = len(self._results.get(name, ()))
        fields = getattr(value.ty, "fields", None)
        found = 1 if fields is None else len(fields)
        return f"TVM has {found} of its {wanted} results" if found < wanted else ""

    def _placeholder(self, name: str) -> Any:
        """Variables of the types that the node's results have, for the nodes that follow."""
        # An output that is left out has the empty name; any type does for it.
        any_type = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ()).tensor_type
        types = [
            self._types.get(result) if result else any_type
            for result in self._results.get(name, ())
        ]
        if not types or any(t is None or not t.HasField("shape") for t in types):
            raise RefusedNodes(self._refusals)
        fields = [_variable(t) for t in types]
        return fields[0] if len(fields) == 1 else relax.Tuple(fields)


def convert(model: onnx.ModelProto, shapes: dict[str, list[int]]) -> Any:
    """The IRModule of ``model``, whose nodes are named; raises RefusedNodes or what TVM raises."""
    opset = opset_of(model)
    importer = Importer(model, shapes)
    module = importer.from_onnx(model.graph, opset)
    return name_bindings(module, lambda var: node_name(var.name) or importer.bound.get(var))


def _takes_fixed_places(data: Any, indices: Any) -> bool:
    """Whether indices are known when the model is imported, and what they are taken from is not."""
    known = isinstance(indices, GenericConst) and not isinstance(data, GenericConst)
    shape = getattr(data.ty, "shape", None) if isinstance(data.ty, relax.TensorType) else None
    return known and shape is not None and all(hasattr(size, "value") for size in shape)


def _taken(data: Any, indices: Any, axis: int) -> Any:
    """Gather of indices that are known: TVM's importer counts negative ones in the network."""
    size, places = int(data.ty.shape[axis].value), indices.value.numpy()
    check_places(places, size)
    places = np.where(places < 0, places + size, places).astype(np.int32)
    return relax.op.take(data, relax.const(places, "int32"), axis)


def _without_elements(value: Any) -> bool:
    """True for a tensor one of whose sizes is 0: there is nothing to compute."""
    shape = getattr(value.ty, "shape", None) if isinstance(value.ty, relax.TensorType) else None
    return shape is not None and any(getattr(size, "value", None) == 0 for size in shape)


def _some(inputs: Any) -> Any:
    """The inputs that have elements, or all where none has."""
    kept = onnx_input()
    kept.extend(value for value in inputs if not _without_elements(value))
    return kept if len(kept) else inputs


def _variable(tensor: onnx.TypeProto.Tensor) -> relax.Var:
    shape = [size.dim_value for size in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return relax.Var("refused", relax.TensorType(shape, dtype))


def _reason_and_remedy(error: BaseException, inputs: Any) -> tuple[str, Remedy]:
    if isinstance(error, Unsupported):
        return error.reason, error.remedy
    first = _OPERATOR.sub(r"\1", first_line(error)).rstrip(".")
    if isinstance(error, KeyError):
        return f"the attribute {first} is missing", Remedy("export the model again")
    if isinstance(error, NotImplementedError) and first.endswith("not implemented"):
        return "TVM has no such operator", CUT
    if "float dtype" in first:
        return first, Remedy("cast its inputs to float32, and its results back")
    # TVM's words for what is an input of the operator and no constant.
    if "dynamic" in first.lower() or "ShapeExpr" in first or "MatchCast" in first:
        return first, Remedy(FIX_PARAMETERS, CUT)
    types = [_written(value) for value in inputs if getattr(value, "ty", None) is not None]
    if _TYPES_OF_TVM.search(first) and types and all(types):
        return f"inputs of {' and '.join(types)} do not go together", OTHER_SIZES
    return first, CUT


def _written(value: Any) -> str:
    """A tensor's type as users know it, or the numbers of a short list; empty where its shape is
    not known."""
    kind = value.ty
    shape = getattr(kind, "shape", None) if isinstance(kind, relax.TensorType) else None
    if shape is None or not all(hasattr(size, "value") for size in shape):
        return ""
    sizes = [int(size.value) for size in shape]
    if isinstance(value, GenericConst) and str(kind.dtype) == "int64" and len(sizes) == 1:
        numbers = value.value.numpy().tolist()
        if len(numbers) <= MOST_SHOWN:
            return str(numbers)
    return f"{kind.dtype} ({', '.join(map(str, sizes))})"
