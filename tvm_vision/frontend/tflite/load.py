"""TFLite to ONNX: the graph of a file as a model that goes the way of every other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...error_lines import first_line
from ...errors import InputError, UnsupportedModelError
from ...package.tensors import IntegersInfo
from ..input_values import InputValues, check_names, value_array
from ..onnx.graph import Unsupported
from ..refusals import NodesRefused, Refusal
from ..signature import Signature, TensorSpec
from .complex_numbers import APART, convert_in_parts
from .network import Network, Value
from .read import Tensor, TfliteModel, read_tflite
from .states import NEXT, States, state_names
from .step import Step
from .table import converter_of, refusal_of
from .values import Values, is_rounded

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class OnnxForm:
    """A TFLite network as ONNX. steps: of each quantized input and output, by its name; called:
    what the file's signature calls them."""

    model: onnx.ModelProto
    steps: dict[str, IntegersInfo]
    called: Mapping[str, str] = field(default_factory=dict)

    def of_steps(self, signature: Signature) -> Signature:
        """What an importer says of ``model``, with the steps and what the signature says."""
        inputs, outputs = (
            tuple(self._known(spec) for spec in specs)
            for specs in (signature.inputs, signature.outputs)
        )
        return replace(signature, inputs=inputs, outputs=outputs)

    def _known(self, spec: TensorSpec) -> TensorSpec:
        name = self.called.get(spec.name)
        units = f"'{name}' in the file's signature" if name and not spec.units else spec.units
        return replace(spec, quantization=self.steps.get(spec.name), units=units)


def tflite_to_onnx(
    path: str | os.PathLike[str],
    *,
    input_shapes: Shapes | None = None,
    input_values: InputValues | None = None,
    raw_io: bool = False,
) -> OnnxForm:
    """The ONNX model of a TFLite file, with the names and the order of axes of its own inputs and
    outputs; in between, convolutions have channels first.

    Of quantized operators the integers are between DequantizeLinear and QuantizeLinear, which round
    halves to even: TFLite's kernels, which multiply by integers and shift, may be one step off in
    each layer. Weights of fp16, and int8 ones that are multiplied by real numbers, are float32.

    What a streaming network keeps from frame to frame is an input of its name here, zeros at first,
    and an output "NAME/next" for the next frame.

    input_shapes: input name -> shape, for sizes that the file leaves open; else they are 1.
    input_values: input name -> value, for small inputs that become constants.
    raw_io: whether quantized inputs and outputs are integers, as in the file, and not float32.

    Raises InputError and UnsupportedModelError with one line.
    """
    file = read_tflite(path)
    refused = [
        refusal_of(operator, operator_name(file, number))
        for number, operator in enumerate(file.operators)
        if converter_of(operator) is None
    ]
    if refused:
        raise NodesRefused(refused)
    values = entered(file, input_shapes, raw_io, fixed=input_values)
    for number, operator in enumerate(file.operators):
        convert_operator(file, number, Step(operator, values))
    return left(file, values, file.outputs, raw_io)


def entered(
    file: TfliteModel,
    input_shapes: Shapes | None,
    raw_io: bool,
    more: Iterable[Tensor] = (),
    fixed: InputValues | None = None,
) -> Values:
    """The values of a file before any operator: its inputs. more: what may be an output beside the
    file's own; fixed: values of inputs that become constants. Raises as ``tflite_to_onnx`` does."""
    ends = [*file.inputs, *file.outputs, *more]
    with _in_one_line("VAR_HANDLE", "its name"):
        states = state_names(file)
    names = {tensor.name for tensor in ends}.union(states, (state + NEXT for state in states))
    values = Values(Network(names), file.tensors, file.others)
    values.states = States(file, lambda tensor: _enter(values, tensor, tensor.shape, raw_io))
    given, constants = dict(input_shapes or {}), dict(fixed or {})
    check_names(constants, [tensor.name for tensor in file.inputs])
    for tensor in file.inputs:
        value = constants.get(tensor.name)
        _enter(values, tensor, _shape(tensor, given.pop(tensor.name, None)), raw_io, value)
    if given:
        raise InputError(
            f"input_shapes names '{next(iter(given))}', and the model's inputs are: "
            f"{', '.join(tensor.name for tensor in file.inputs)}; use their names"
        )
    values.convert = _convert_step
    return values


def left(file: TfliteModel, values: Values, ends: Sequence[Tensor], raw_io: bool) -> OnnxForm:
    """The ONNX model whose outputs are these tensors, and the states behind a frame."""
    outputs = []
    last = values.states.assigned
    known = [*file.inputs, *ends]
    known += [replace(file.tensors[index], name=state) for state, index in last.items()]
    kept = [replace(file.tensors[index], name=state + NEXT) for state, index in last.items()]
    for tensor in (*ends, *kept):
        with _in_one_line("the output", tensor.name):
            outputs.append((tensor.name, _leave(values, tensor, raw_io)))
    steps = {
        tensor.name: found for tensor in (*known, *kept) if (found := _steps(tensor)) is not None
    }
    return OnnxForm(values.network.model(outputs), steps, file.called)


def convert_operator(file: TfliteModel, number: int, step: Step) -> None:
    """Give the results of an operator, by its place in the file. Raises UnsupportedModelError."""
    with _in_one_line(step.operator.kind, operator_name(file, number)):
        _convert_step(step)


def _convert_step(step: Step) -> None:
    """Raises Unsupported for an operator of a graph that is called, and that is not there."""
    convert = converter_of(step.operator)
    if convert is None:
        refusal = refusal_of(step.operator, step.label)
        raise Unsupported(f"it calls {refusal.operator}, {refusal.reason}", refusal.remedy)
    convert_in_parts(convert, step)


@contextlib.contextmanager
def _in_one_line(kind: str, name: str) -> Iterator[None]:
    """Turns what a conversion raises into one line."""
    try:
        yield
    except Unsupported as error:
        raise NodesRefused([Refusal(kind, name, error.reason, error.remedy)]) from None
    except Exception as error:  # a damaged operator can be wrong in every way there is
        raise UnsupportedModelError(
            f"{kind} '{name}' of the TFLite file cannot be read "
            f"({type(error).__name__}: {first_line(error)}): copy or export it again"
        ) from error


def operator_name(file: TfliteModel, number: int) -> str:
    """An operator by its first result; those that have none by their place."""
    outputs = file.operators[number].outputs
    return file.tensors[outputs[0]].name if outputs and outputs[0] >= 0 else f"operator {number}"


def _shape(tensor: Tensor, given: Sequence[int] | None) -> tuple[int, ...]:
    """The sizes of an input. Raises InputError where those given do not fit."""
    if given is None:
        return tensor.shape
    sizes = tuple(int(size) for size in given)
    declared = tensor.signature
    fits = len(sizes) == len(declared) and all(
        size >= 1 and open_or in (-1, size) for size, open_or in zip(sizes, declared, strict=True)
    )
    if not fits:
        shown = ", ".join("?" if size < 0 else str(size) for size in declared)
        raise InputError(
            f"input '{tensor.name}' is ({shown}), and {sizes} does not fit it: pass a shape that "
            "agrees with it, of sizes of at least 1"
        )
    return sizes


def _enter(
    values: Values, tensor: Tensor, shape: tuple[int, ...], raw_io: bool, known: Any = None
) -> None:
    """Make a tensor an input, or a constant of what is known: as numbers that are rounded here, or
    as the file has it."""
    if tensor.dtype.startswith("type "):
        raise UnsupportedModelError(
            f"inputs of numbers are needed, and '{tensor.name}' is of TFLite's {tensor.dtype}: "
            "export the network without it"
        )
    quantized = _steps(tensor) is not None
    dtype = "float32" if quantized and not raw_io else tensor.dtype
    if known is None:
        value = values.network.input(tensor.name, dtype, shape)
    else:
        array = value_array(tensor.name, known, dtype, shape)
        value = values.network.constant(array, tensor.name)
    if raw_io and quantized and not is_rounded(tensor):
        value = _widened(values.network, value, tensor)
    if quantized and (not raw_io or not is_rounded(tensor)):
        values.set_real(tensor.index, value)
    else:
        values.set_stored(tensor.index, value)


def _leave(values: Values, tensor: Tensor, raw_io: bool) -> Value:
    """The value of an output. Raises Unsupported for complex numbers."""
    if tensor.index in values.parts:
        raise Unsupported("its numbers are complex", APART)
    if not raw_io or _steps(tensor) is None:
        return values.real(tensor.index)
    if is_rounded(tensor):
        return values.stored(tensor.index)
    return _narrowed(values.network, values.real(tensor.index), tensor)


def _steps(tensor: Tensor) -> IntegersInfo | None:
    """What the integers of an input or output stand for."""
    found = tensor.quantization
    if found is None or not found.per_tensor or np.dtype(tensor.dtype).kind not in "iu":
        return None
    return IntegersInfo(tensor.dtype, float(found.scale[0]), int(found.zero_point[0]))


def _widened(network: Network, value: Value, tensor: Tensor) -> Value:
    """The numbers of integers for which ONNX has no DequantizeLinear here."""
    steps = _steps(tensor)
    assert steps is not None
    numbers = network.emit("Cast", value, label=tensor.name, to=onnx.TensorProto.FLOAT)
    centred = network.emit("Sub", numbers, np.float32(steps.zero_point), label=tensor.name)
    return network.emit("Mul", centred, np.float32(steps.scale), label=tensor.name)


def _narrowed(network: Network, value: Value, tensor: Tensor) -> Value:
    """The other way round."""
    steps, limits = _steps(tensor), np.iinfo(tensor.dtype)
    assert steps is not None
    scaled = network.emit("Div", value, np.float32(steps.scale), label=tensor.name)
    rounded = network.emit("Round", scaled, label=tensor.name)
    moved = network.emit("Add", rounded, np.float32(steps.zero_point), label=tensor.name)
    bounds = np.float32(limits.min), np.float32(limits.max)
    kept = network.emit("Clip", moved, *bounds, label=tensor.name)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return network.emit("Cast", kept, label=tensor.name, to=to)
