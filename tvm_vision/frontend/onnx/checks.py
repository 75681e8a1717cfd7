"""What ONNX's checker takes and nobody can compute: weights that do not fill their shapes, types
that do not exist, sizes beyond all memory, weights in files that lack them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from ...error_lines import first_line
from ...errors import InputError, UnsupportedModelError
from ...package.tensors import ITEM_BYTES
from ..limits import MOST_ELEMENTS
from ..refusals import CUT, OTHER_SIZES, NodesRefused, Refusal
from .graph import attribute, inner_graphs, nodes_in, reads
from .tools import ToolError, light_step

# Of what follows from weights alone: an ONNX file cannot hold more either.
MOST_CONSTANT_BYTES = (1 << 31) - 1
# What inference says first of an error within a node, and what has nodes of the model's within.
_WITHIN, _WITH_GRAPHS = "Inference error(s)", ("If", "Loop", "Scan")
# As ONNX's inference says which node it cannot infer.
_CONTRADICTION = re.compile(
    r"\(op_type:(?P<operator>[^,]*), node name: (?P<node>.*?)\): "
    r"\[(?:Shape|Type)InferenceError\] (?P<reason>.*)"
)
# Attributes of a Constant that is text.
_TEXTS = frozenset({"value_string", "value_strings"})
_LIST = onnx.defs.OpSchema.FormalParameterOption.Variadic
_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


def tensors_in(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """All weights and constants of a graph and of the graphs in its nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from tensors_of(graph.node)


def tensors_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[TensorProto]:
    """All constants in the attributes of nodes, and in the graphs there."""
    for node in nodes:
        for entry in node.attribute:
            yield from ([entry.t] if entry.HasField("t") else [])
            yield from entry.tensors
            for sparse in [entry.sparse_tensor] if entry.HasField("sparse_tensor") else []:
                yield from (sparse.values, sparse.indices)
        for inner in inner_graphs(node):
            yield from tensors_in(inner)


def check_tensors(graph: onnx.GraphProto) -> None:
    """Raises UnsupportedModelError unless every weight has a known type and as many values as its
    shape says, and every input and output a known type, inputs one that a package has."""
    for tensor in tensors_in(graph):
        _check_tensor(tensor)
    for value in [*graph.input, *graph.output]:
        kind = value.type.tensor_type.elem_type
        if value.type.HasField("tensor_type") and kind and kind not in _TYPES:
            raise UnsupportedModelError(
                f"a data type that ONNX has is needed, and '{value.name}' is of the unknown type "
                f"{kind}: export the model again"
            )
    # Outputs of text are of nodes that are refused by name, and can be cut off.
    for value in graph.input:
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            raise UnsupportedModelError(
                f"tensors of numbers are needed, and the input '{value.name}' is one of strings: "
                "export the model without what reads text, and let the program around it do that"
            )
        if value.type.tensor_type.elem_type:
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            check_type("input", value.name, dtype.name)


def check_type(what: str, name: str, dtype: str) -> None:
    """Raises UnsupportedModelError where an input or output is of a type that no package has, as
    numbers of four bits and of eight with a point."""
    if dtype not in ITEM_BYTES:
        raise UnsupportedModelError(
            f"inputs and outputs of {', '.join(ITEM_BYTES)} are needed, and the {what} '{name}' is "
            f"of {dtype}: cast it within the model"
        )


def check_text(model: onnx.ModelProto) -> None:
    """Raises NodesRefused for the nodes that read text, as labels that a network looks up, or make
    it of numbers. Not for those behind them, which go with them. UnsupportedModelError for an
    output that is text, as labels that are written beside it."""
    texts = {each.name for each in model.graph.initializer if each.data_type == TensorProto.STRING}
    for node in nodes_in(model.graph):
        written = node.op_type == "Constant" and {entry.name for entry in node.attribute} & _TEXTS
        if written or any(each.data_type == TensorProto.STRING for each in tensors_of([node])):
            texts.update(filter(None, node.output))
    refused = [
        Refusal(node.op_type, node.name, "its values are text, and tensors here are numbers", CUT)
        for node in model.graph.node
        if not texts.isdisjoint(reads(node))
        or (node.op_type == "Cast" and attribute(node, "to") == TensorProto.STRING)
    ]
    if refused:
        raise NodesRefused(refused)
    for value in model.graph.output:
        if value.name in texts:
            raise UnsupportedModelError(
                f"tensors of numbers are needed, and the output '{value.name}' is one of strings: "
                "export the model without it"
            )


def check_outputs(model: onnx.ModelProto) -> None:
    """Raises UnsupportedModelError for a model that gives nothing, as some exporters write one of
    what they could not follow."""
    if not model.graph.output:
        raise UnsupportedModelError(
            "a model with outputs is needed, and this one has none: export it again, and look what "
            "the exporter says"
        )


def check_lists(model: onnx.ModelProto) -> None:
    """Raises UnsupportedModelError where a value is left out of an operator's list of inputs.

    ONNX's checker takes it, and its inference and TVM read what is not there: an Einsum so ended
    the process.
    """
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in nodes_in(model.graph):
        empty = max((at for at, name in enumerate(node.input) if not name), default=-1)
        key = (node.op_type, versions.get(node.domain, 0), node.domain)
        if empty < 0 or not onnx.defs.has(*key):
            continue
        formal = onnx.defs.get_schema(*key).inputs
        if formal[min(empty, len(formal) - 1)].option == _LIST:
            raise UnsupportedModelError(
                f"values are needed for all inputs of {node.op_type} at "
                f"'{node.name or node.output[0]}', and input {empty} has no name: export the model "
                "again"
            )


def _check_tensor(tensor: TensorProto) -> None:
    name, shape = tensor.name, tuple(tensor.dims)
    if tensor.data_type not in _TYPES:
        raise UnsupportedModelError(
            f"a data type that ONNX has is needed, and the weight '{name}' is of the unknown type "
            f"{tensor.data_type}: export the model again"
        )
    if any(size < 0 for size in shape):
        raise UnsupportedModelError(
            f"sizes of at least 0 are needed, and the weight '{name}' has the shape {shape}: "
            "export the model again"
        )
    if tensor.HasField("raw_data") and tensor.data_type != TensorProto.STRING:
        needed, found = _bytes_of(tensor), len(tensor.raw_data)
        if needed != found:
            raise UnsupportedModelError(
                f"{needed} bytes are needed for the weight '{name}' of shape {shape}, and it has "
                f"{found}: the model is damaged, export it again"
            )
        return
    try:
        numpy_helper.to_array(tensor)
    except Exception as error:  # numpy and onnx raise every kind there is
        raise UnsupportedModelError(
            f"as many values as its shape {shape} says are needed for the weight '{name}' "
            f"({first_line(error)}): the model is damaged, export it again"
        ) from None


def _bytes_of(tensor: TensorProto) -> int:
    """How many bytes the values of a tensor take in a file."""
    name = helper.tensor_dtype_to_np_dtype(tensor.data_type).name
    digits = re.match(r"[a-z]+(\d+)", name)
    return -(-math.prod(tensor.dims) * (int(digits[1]) if digits else 8) // 8)


def load_weights(model: onnx.ModelProto, path: Path) -> None:
    """Read the weights that a model keeps in files beside its own.

    Raises InputError for a file that is not there or that has too few bytes.
    """
    for tensor in tensors_in(model.graph):
        if external_data_helper.uses_external_data(tensor) and tensor.data_type in _TYPES:
            _check_place(tensor, path)
    external_data_helper.load_external_data_for_model(model, str(path.parent))


def _check_place(tensor: TensorProto, path: Path) -> None:
    """Raises InputError unless the bytes of a tensor are where it says; notes how many they are."""
    place = {entry.key: entry for entry in tensor.external_data}
    location = place["location"].value if "location" in place else ""
    needed = _bytes_of(tensor)
    try:
        offset = int(place["offset"].value) if "offset" in place else 0
        length = int(place["length"].value) if "length" in place else needed
    except ValueError:
        offset = length = -1
    if offset < 0 or length != needed:
        raise InputError(
            f"{needed} bytes are needed for the weight '{tensor.name}', and '{path}' says that "
            f"they are {length} from byte {offset} of '{location}': export the model again"
        )
    file = path.parent / location
    # Only what is a file has a size: a pipe would be waited for.
    held = file.stat().st_size if location and file.is_file() else None
    if held is None or held < offset + needed:
        found = "no such file is there" if held is None else f"the file has {held}"
        raise InputError(
            f"{needed} bytes from byte {offset} of '{location}' are needed for the weight "
            f"'{tensor.name}' of '{path}', and {found}: copy all files of the model"
        )
    if "length" not in place:
        tensor.external_data.add(key="length", value=str(needed))


def check_inputs_fit(model: onnx.ModelProto) -> None:
    """Raises NodesRefused for the first node whose inputs or attributes contradict each other by
    the rules of its operator: onnxruntime loads no such model, and TVM may read it in its own way.

    model: one whose inputs have fixed shapes, and that declares no others.
    """
    try:
        light_step("infer", model, strict=True, by_values=False)
    except ToolError as error:
        found = _CONTRADICTION.search(str(error))
        if found is None or "existing" in found["reason"]:
            return
        # Of an operator that ONNX writes as a function: there defaults are missing.
        if found["reason"].startswith(_WITHIN) and found["operator"] not in _WITH_GRAPHS:
            return
        reason = found["reason"].rstrip(".")
        reason = f"it contradicts itself: {reason[:1].lower()}{reason[1:]}"
        raise NodesRefused(
            [Refusal(found["operator"], found["node"], reason, OTHER_SIZES)]
        ) from None


def check_sizes(typed: onnx.ModelProto) -> None:
    """Raises UnsupportedModelError for values that are too large to be computed or kept.

    typed: a model with the shapes of its values, as far as they are known.
    """
    graph = typed.graph
    known = {v.name: v.type.tensor_type for v in [*graph.value_info, *graph.output, *graph.input]}
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        fixed = all(name in constants for name in node.input if name)
        constants.update(node.output if fixed else ())
        for name in node.output:
            tensor = known.get(name)
            if tensor is None or not tensor.HasField("shape"):
                continue
            shape = tuple(size.dim_value for size in tensor.shape.dim)
            elements = math.prod(shape)
            if elements > MOST_ELEMENTS or min(shape, default=0) < 0:
                raise UnsupportedModelError(
                    f"tensors of at most {MOST_ELEMENTS} elements are needed, and {node.op_type} "
                    f"'{node.name}' makes one of {shape}: use a smaller size"
                )
            if fixed and elements * _itemsize(tensor.elem_type) > MOST_CONSTANT_BYTES:
                raise UnsupportedModelError(
                    f"constants of at most {MOST_CONSTANT_BYTES} bytes are needed, and "
                    f"{node.op_type} '{node.name}' makes one of {shape}: use a smaller size"
                )


def drop_false_shapes(model: onnx.ModelProto, typed: onnx.ModelProto) -> None:
    """Take out of a model what it declares of values within it, where that is not so.

    typed: the same model with what follows from its inputs, whatever it declares.
    """
    known = {value.name: value for value in typed.graph.value_info}
    kept = [v for v in model.graph.value_info if v.name not in known or _agree(v, known[v.name])]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)


def _agree(one: onnx.ValueInfoProto, other: onnx.ValueInfoProto) -> bool:
    a, b = one.type.tensor_type, other.type.tensor_type
    if not (a.HasField("shape") and b.HasField("shape")):
        return a.elem_type == b.elem_type
    sizes = zip(a.shape.dim, b.shape.dim, strict=False)
    return (
        a.elem_type == b.elem_type
        and len(a.shape.dim) == len(b.shape.dim)
        and all(
            x.dim_value == y.dim_value
            for x, y in sizes
            if x.HasField("dim_value") and y.HasField("dim_value")
        )
    )


def _itemsize(kind: int) -> int:
    return helper.tensor_dtype_to_np_dtype(kind).itemsize if kind in _TYPES else 1
