"""What models declare of their inputs and outputs, in the forms that exporters write and ONNX's
checker refuses: sizes of -1, outputs of unknown shape, inputs of unknown rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from ...errors import UnsupportedModelError
from .graph import graph_inputs, inferred, inner_graphs


def complete_declarations(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto:
    """``model`` with open sizes in place of impossible ones, and outputs with the type they have.

    shapes: input name -> shape that the caller gives. It stands where the model declares none, and
        where it declares a size of 0. The model itself may be changed.

    An output whose type does not follow from the inputs stays as it is.

    Raises UnsupportedModelError for an input whose rank nobody says.
    """
    complete_inputs(model, shapes)
    if not all(map(_is_typed, model.graph.output)):
        model = _with_outputs(model)
    return model


def complete_inputs(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """The same of the inputs alone, in place, and open sizes for impossible ones of any value.

    Raises UnsupportedModelError for an input whose rank nobody says.
    """
    for value in _declared(model.graph):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_value < 0:
                size.ClearField("dim_value")
    for value in graph_inputs(model):
        _complete_input(value, shapes.get(value.name))


def _declared(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    """All declarations of tensors in a graph and in the graphs of its nodes."""
    for value in [*graph.input, *graph.value_info, *graph.output]:
        if value.type.HasField("tensor_type"):
            yield value
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from _declared(inner)


def _complete_input(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> None:
    if not value.type.HasField("tensor_type"):
        return  # refused with its own words
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        if given is None:
            raise UnsupportedModelError(
                f"fixed shapes are needed, and the model says none for input '{value.name}': "
                f"pass input_shapes={{'{value.name}': (...)}}, or --input-shape {value.name}:..."
            )
        for _ in given:
            tensor.shape.dim.add()
        tensor.shape.SetInParent()
    for size in tensor.shape.dim if given is not None else ():
        # A network for no pictures is none that anybody wants, and some exporters write 0 for any.
        if size.HasField("dim_value") and size.dim_value == 0:
            size.ClearField("dim_value")


def _is_typed(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return kind is not None
    return bool(value.type.tensor_type.elem_type) and value.type.tensor_type.HasField("shape")


def _with_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """With the types of outputs as they follow from the inputs."""
    typed = inferred(model)
    found = {value.name: value for value in [*typed.graph.output, *typed.graph.value_info]}
    for value in model.graph.output:
        if _is_typed(value):
            continue
        if value.name in found and _is_typed(found[value.name]):
            value.CopyFrom(found[value.name])
    return model


def declared_somehow(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy for ONNX's checker, which wants a type and a rank of every output, whatever they are;
    the model itself where it has them."""
    if all(map(_is_typed, model.graph.output)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.output:
        if not _is_typed(value):
            kind = value.type.tensor_type
            kind.elem_type = kind.elem_type or onnx.TensorProto.FLOAT
            kind.shape.SetInParent()
    return copy
