"""Inputs of an ONNX model as constants, and the inputs that a refusal could be spared by."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..input_values import InputValues, check_names, value_array
from ..refusals import Refusal, Remedy
from .graph import graph_inputs, makers_of, node_called, reads

# Elements of an input that may say how to compute rather than be computed with.
FEW = 8


def with_input_values(
    model: onnx.ModelProto, values: InputValues, shapes: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """Make weights of some inputs, in place; the shapes that are for the other inputs.

    shapes: input name -> shape, for sizes that the model leaves open.

    Raises InputError where a value does not fit, or is of no input.
    """
    inputs = {value.name: value for value in graph_inputs(model)}
    check_names(values, inputs)
    for name, value in values.items():
        tensor = inputs[name].type.tensor_type
        declared = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        if name in shapes and len(declared) in (0, len(shapes[name])):
            declared = [int(size) for size in shapes[name]]
        array = value_array(name, value, _dtype(tensor), declared)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    kept = [value for value in model.graph.input if value.name not in values]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return {name: list(shape) for name, shape in shapes.items() if name not in values}


def _dtype(tensor: onnx.TypeProto.Tensor) -> np.dtype:
    # An input without a type is refused with its own words.
    return helper.tensor_dtype_to_np_dtype(tensor.elem_type or onnx.TensorProto.FLOAT)


def naming_inputs(
    refusals: Sequence[Refusal], model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> list[Refusal]:
    """Refusals whose remedy names the small inputs that the node depends on: with a value for them
    it may be had.

    shapes: of all inputs.
    """
    found = []
    for refusal in refusals:
        names = _deciding(model, shapes, {refusal.node})
        advice = (f"give {_advice(names)}",) if names else ()
        remedy = Remedy(*advice, refusal.remedy)
        found.append(replace(refusal, remedy=remedy))
    return found


def advice(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> str:
    """Which values may be given, and how, of the small inputs of a model; nothing where it has
    none."""
    names = _deciding(model, shapes, {node.name for node in model.graph.node})
    return _advice(names) if names else ""


def _advice(names: Sequence[str]) -> str:
    options = " ".join(f"--input-value {name}=..." for name in names)
    python = ", ".join(f"'{name}': ..." for name in names)
    plural, quoted = "s" if len(names) > 1 else "", ", ".join(f"'{name}'" for name in names)
    return f"the value{plural} of {quoted} by {options} (input_values={{{python}}})"


def _deciding(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], nodes: Collection[str]
) -> list[str]:
    """Small inputs that some nodes, or what they were made of, depend on."""
    makers = makers_of(model.graph)
    known = {node.name: node for node in model.graph.node}
    wanted = [known[name] for name in (node_called(node, known) for node in nodes) if name]
    seen: set[str] = set()
    while wanted:
        for name in reads(wanted.pop()):
            if name not in seen:
                seen.add(name)
                wanted += [makers[name]] if name in makers else []
    inputs = graph_inputs(model)
    small = [v.name for v in inputs if v.name in seen and _is_small(v, shapes[v.name])]
    return small if len(small) < len(inputs) else []


def _is_small(value: onnx.ValueInfoProto, shape: Sequence[int]) -> bool:
    """Whether an input may be meant to be a number, or a short list, of its own."""
    real = np.issubdtype(_dtype(value.type.tensor_type), np.floating)
    return len(shape) < 2 and math.prod(shape) <= (1 if real else FEW)
