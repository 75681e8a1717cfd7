"""As much of a TFLite file as can be compiled: all but what comes after a refused operator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import UnsupportedModelError
from ..input_values import InputValues, plain_values
from ..onnx.cut import CutModel, cut_onnx
from ..refusals import NodesRefused
from .load import OnnxForm, Shapes, convert_operator, entered, left, operator_name
from .read import Operator, Tensor, TfliteModel, read_tflite
from .step import Step
from .table import converter_of, refusal_of
from .values import Values


@dataclass(frozen=True)
class TfliteHead:
    """The part of a file that can be converted.

    form: its ONNX model: outputs are the file's as far as they are in it, then what others read.
    reasons: what cannot be converted, a line each.
    behind: the operators that are left, in order; lost: the file's outputs that follow from them;
    reads: the values that they take.
    """

    form: OnnxForm
    reasons: tuple[str, ...]
    behind: tuple[str, ...]
    lost: tuple[str, ...]
    reads: tuple[str, ...]


def tflite_head(
    path: str | os.PathLike[str],
    *,
    input_shapes: Shapes | None = None,
    input_values: InputValues | None = None,
    raw_io: bool = False,
) -> TfliteHead:
    """Convert as much of a file as there are conversions for.

    Raises what ``tflite_to_onnx`` raises for files and shapes, and UnsupportedModelError where
    nothing is left.
    """
    file = read_tflite(path)
    values = entered(file, input_shapes, raw_io, file.tensors, input_values)
    reasons: list[str] = []
    behind: list[Operator] = []
    missing: set[int] = set()
    for number, operator in enumerate(file.operators):
        reason = ""
        if missing.isdisjoint(operator.inputs):
            reason = _converted(file, number, values)
            if not reason:
                continue
            reasons.append(reason)
        behind.append(operator)
        missing.update(operator.outputs)
    ends = [tensor for tensor in file.outputs if tensor.index not in missing]
    reads = _read(file, behind, missing, values)
    wanted = [*ends, *(t for t in reads if t not in ends and t not in file.inputs)]
    if not wanted:
        raise UnsupportedModelError(
            f"nothing is left before the first operator that is refused; change that: {reasons[0]}"
        )
    return TfliteHead(
        left(file, values, wanted, raw_io),
        tuple(reasons),
        tuple(operator.kind for operator in behind),
        tuple(tensor.name for tensor in file.outputs if tensor.index in missing),
        tuple(tensor.name for tensor in reads),
    )


def _converted(file: TfliteModel, number: int, values: Values) -> str:
    """Give an operator's results; why there are none, in a line."""
    operator = file.operators[number]
    if converter_of(operator) is None:
        refused = NodesRefused([refusal_of(operator, operator_name(file, number))])
        return str(refused.without_cut())
    try:
        convert_operator(file, number, Step(operator, values))
    except NodesRefused as error:
        return str(error.without_cut())
    except UnsupportedModelError as error:
        return str(error)
    return ""


def _read(
    file: TfliteModel, behind: Sequence[Operator], missing: set[int], values: Values
) -> list[Tensor]:
    """What the operators that are left take of the values that are there, but weights."""
    indices = dict.fromkeys(index for operator in behind for index in operator.inputs if index >= 0)
    return [
        file.tensors[index]
        for index in indices
        if index not in missing and values.array(index) is None
    ]


def cut_tflite(
    path: str | os.PathLike[str],
    *,
    input_shapes: Shapes | None = None,
    input_values: InputValues | None = None,
    raw_io: bool = False,
) -> CutModel:
    """Import as much of a TFLite file as can be compiled. The rest has no form of its own.

    Raises as ``tflite_head`` and ``cut_onnx`` do.
    """
    fixed = plain_values(input_values or {})
    head = tflite_head(path, input_shapes=input_shapes, input_values=fixed, raw_io=raw_io)
    found = cut_onnx(head.form.model)
    module, signature = found.imported
    lost = tuple(dict.fromkeys([*signature.cut, *head.lost]))
    own = {tensor.name for tensor in read_tflite(path).outputs}
    kept = tuple(name for name in lost if name in own)
    signature = replace(head.form.of_steps(signature), cut=kept, input_values=fixed)
    return CutModel(
        (module, signature),
        None,
        len(head.form.model.graph.node) + len(head.behind),
        (*head.reasons, *found.reasons),
        (*found.left, *head.behind),
        tuple(dict.fromkeys([*found.reads, *head.reads])),
    )
