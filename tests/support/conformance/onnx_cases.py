"""The node tests of the onnx package as plain data: model, inputs, expected outputs, tolerance."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

PLAIN = {
    TensorProto.BOOL,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
    TensorProto.FLOAT16,
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
}

TYPES = {onnx.helper.tensor_dtype_to_np_dtype(kind).name: kind for kind in sorted(PLAIN)}

REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

# Operator -> inputs that decide about shapes and axes. In a network they are constants, in these
# tests they are inputs like any other: here they become weights of the model, as in a network.
PARAMETERS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "GRU": (4,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "LSTM": (4,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "RNN": (4,),
    "Range": (0, 1, 2),
    **{f"Reduce{kind}": (1,) for kind in REDUCTIONS},
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "STFT": (1, 2, 3),
    "Squeeze": (1,),
    "Tile": (1, 2),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}


@dataclass(frozen=True)
class Case:
    """One test. ``skipped`` says why it is outside of what is compared, or is empty."""

    name: str
    operator: str
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: tuple[np.ndarray, ...] = ()
    rtol: float = 1e-3
    atol: float = 1e-7
    skipped: str = ""


@cache
def node_cases() -> dict[str, Case]:
    """Every node test of the installed onnx package, by name.

    A test whose name ends in ``_expanded`` holds the body of a function operator; it counts for
    that operator.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found = {test.name: test for test in load_model_tests(kind="node")}
    originals = {
        name: _model(test).graph.node[0] for name, test in found.items() if "_expanded" not in name
    }
    return {
        name: _case(test, originals[name.partition("_expanded")[0]])
        for name, test in sorted(found.items())
    }


def _model(test: Any) -> onnx.ModelProto:
    if test.model is not None:
        return test.model
    return onnx.load(Path(test.model_dir) / "model.onnx")


def _case(test: Any, node: onnx.NodeProto) -> Case:
    """``node`` is the operator that is tested; in an expanded test the model holds its body."""
    model, operator = _model(test), node.op_type
    skipped = _why_skipped(model)
    if skipped:
        return Case(test.name, operator, model, skipped=skipped)
    given, expected = _data(test, model)
    model, inputs = _with_members(model, given)
    model, inputs = _with_parameters(model, node, inputs)
    outputs = itertools.chain.from_iterable(map(_arrays, expected))
    return Case(test.name, operator, model, inputs, tuple(outputs), test.rtol, test.atol)


def _why_skipped(model: onnx.ModelProto) -> str:
    for value in [*model.graph.input, *model.graph.output]:
        kind = value.type.WhichOneof("value")
        if kind not in ("tensor_type", "sequence_type"):
            return f"{kind.removesuffix('_type')} as an input or output"
        tensor = _element(value)
        if tensor.elem_type not in PLAIN:
            return f"dtype {TensorProto.DataType.Name(tensor.elem_type).lower()}"
    for value in model.graph.input:
        if any(not size.HasField("dim_value") for size in value.type.tensor_type.shape.dim):
            return "input without a fixed shape"
    return ""


def _element(value: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor:
    """The type of a tensor, or of those in a sequence."""
    if value.type.HasField("sequence_type"):
        return value.type.sequence_type.elem_type.tensor_type
    return value.type.tensor_type


def _data(test: Any, model: onnx.ModelProto) -> tuple[dict[str, Any], list[Any]]:
    """Inputs by name and expected outputs in order, from memory or from the files of old wheels."""
    if test.data_sets is not None:
        given, expected = test.data_sets[0]
    else:
        folder = Path(test.model_dir) / "test_data_set_0"
        given, expected = (
            [
                _loaded(folder / f"{kind}_{number}.pb", value)
                for number, value in enumerate(getattr(model.graph, kind))
            ]
            for kind in ("input", "output")
        )
    names = [value.name for value in model.graph.input]
    return dict(zip(names, given, strict=True)), list(expected)


def _loaded(path: Path, value: onnx.ValueInfoProto) -> Any:
    if value.type.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    return onnx.load_tensor(path)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def _arrays(value: Any) -> list[np.ndarray]:
    """A tensor, or the tensors of a sequence."""
    return list(map(_array, value)) if isinstance(value, list) else [_array(value)]


def _with_members(
    model: onnx.ModelProto, given: dict[str, Any]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with an input for each tensor of a sequence, and the inputs by their names.

    No caller of a compiled network passes sequences; within one there are those that it makes.
    """
    changed, inputs = onnx.ModelProto(), {}
    changed.CopyFrom(model)
    del changed.graph.input[:], changed.graph.node[:]
    for value in model.graph.input:
        arrays = _arrays(given[value.name])
        if not value.type.HasField("sequence_type"):
            inputs[value.name] = arrays[0]
            changed.graph.input.append(value)
            continue
        names = [f"{value.name}_{number}" for number in range(len(arrays))]
        inputs |= dict(zip(names, arrays, strict=True))
        kind = _element(value).elem_type
        changed.graph.input.extend(
            onnx.helper.make_tensor_value_info(name, kind, array.shape)
            for name, array in zip(names, arrays, strict=True)
        )
        operator = "SequenceConstruct" if names else "SequenceEmpty"
        changed.graph.node.append(onnx.helper.make_node(operator, names, [value.name]))
    changed.graph.node.extend(model.graph.node)
    return changed, inputs


def _with_parameters(
    model: onnx.ModelProto, node: onnx.NodeProto, inputs: dict[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with the inputs of PARAMETERS as weights, and the inputs that remain."""
    positions = PARAMETERS.get(node.op_type, ())
    fixed = [name for index, name in enumerate(node.input) if name and index in positions]
    if not fixed:
        return model, inputs
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.input[:]
    changed.graph.input.extend(value for value in model.graph.input if value.name not in fixed)
    changed.graph.initializer.extend(numpy_helper.from_array(inputs[name], name) for name in fixed)
    return changed, {name: array for name, array in inputs.items() if name not in fixed}


def as_type(array: np.ndarray, kind: str) -> np.ndarray:
    """The values in another type, as far as they fit there."""
    dtype = np.dtype(kind)
    if dtype.kind == "u":
        array = np.abs(array.astype(np.float64))
    if dtype.kind in "iu" and array.dtype.kind == "f":
        limits = np.iinfo(dtype)
        array = np.clip(np.round(array * 3), limits.min, limits.max)
    return array.astype(dtype)
