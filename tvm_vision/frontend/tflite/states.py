"""State that a streaming network keeps from frame to frame: inputs here, and outputs for the next.

TFLite's variables begin with what an own graph of the file assigns to them. A package keeps nothing
between frames, so that whoever runs it feeds each frame what the last one gave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..onnx.graph import Unsupported
from .network import EXPORT, Value
from .read import Operator, Tensor, TfliteModel
from .step import Converter, Step
from .values import real_numbers

# Operators of one step, with the places of the tensors in which they keep their states.
KEPT = {"LSTM": (18, 19), "RNN": (4,), "SVDF": (4,)}
# What is added to the name of a variable for its value after a frame.
NEXT = "/next"


def state_names(file: TfliteModel) -> list[str]:
    """The names of a file's variables, in order, and of tensors that operators keep."""
    handles = [operator for operator in file.operators if operator.kind == "VAR_HANDLE"]
    names = [_shared_name(operator) for operator in handles]
    for operator in file.operators:
        places = [place for place in KEPT.get(operator.kind, ()) if place < len(operator.inputs)]
        names += [file.tensors[operator.inputs[place]].name for place in places]
    return list(dict.fromkeys(names))


class States:
    """The variables of a file. enter: makes a tensor an input of the network."""

    def __init__(self, file: TfliteModel, enter: Callable[[Tensor], None]) -> None:
        self._file, self._enter = file, enter
        self._handles: dict[int, str] = {}
        # By a variable's name, the tensor that it is read as, and the last that is assigned to it.
        self._read: dict[str, int] = {}
        self.assigned: dict[str, int] = {}

    def begin(self, step: Step) -> None:
        """Look at the graph that runs once, before all others."""
        number = step.options.InitSubgraphIndex()
        if not 1 <= number <= len(self._file.others):
            raise Unsupported(f"it calls graph {number} of {len(self._file.others) + 1}", EXPORT)
        _check_first_values(self._file.others[number - 1])

    def handle(self, step: Step) -> None:
        self._handles[step.operator.outputs[0]] = _shared_name(step.operator)

    def read(self, step: Step) -> None:
        name, tensor = self._name(step), step.result()
        source = self.assigned.get(name, self._read.get(name))
        if source is None:
            self._read[name] = tensor.index
            self._enter(replace(tensor, name=name))
        else:
            step.values.set_stored(tensor.index, step.values.stored(source))

    def assign(self, step: Step) -> None:
        name = self._name(step)
        if name not in self._read:
            raise Unsupported(f"the state '{name}' is assigned before it is read", EXPORT)
        self.assigned[name] = step.index(1)

    def variable(self, step: Step, place: int) -> Value:
        """The state in a tensor that an operator keeps. Raises Unsupported for any other tensor."""
        tensor = step.tensor(place)
        if not tensor.is_variable or tensor.data is not None:
            raise Unsupported(f"'{tensor.name}' is no state", EXPORT)
        self._enter(tensor)
        return step.real(place)

    def assign_variable(self, step: Step, place: int, value: Value) -> None:
        """Give it its value for the next frame."""
        index = step.index(place)
        step.values.set_real(index, value)
        self.assigned[step.tensor(place).name] = index

    def _name(self, step: Step) -> str:
        name = self._handles.get(step.index(0))
        if name is None:
            raise Unsupported("it is of no variable", EXPORT)
        return name


def _check_first_values(graph: TfliteModel) -> None:
    """Raise Unsupported unless a graph does nothing but assign zeros to variables."""
    for operator in graph.operators:
        if operator.kind == "VAR_HANDLE":
            continue
        data = graph.tensors[operator.inputs[1]].data if len(operator.inputs) == 2 else None
        if operator.kind != "ASSIGN_VARIABLE" or data is None:
            raise Unsupported(f"its first values are computed by {operator.kind}", EXPORT)
        by = graph.tensors[operator.inputs[1]].quantization
        if np.any(data if by is None else real_numbers(data, by)):
            raise Unsupported("its state does not begin with zeros", EXPORT)


def _shared_name(operator: Operator) -> str:
    name = operator.options.SharedName() if operator.options is not None else None
    if not name:
        raise Unsupported("its variable has no name", EXPORT)
    return name.decode("utf-8", "replace")


STATES: dict[str, Converter] = {
    "VAR_HANDLE": lambda step: step.values.states.handle(step),
    "READ_VARIABLE": lambda step: step.values.states.read(step),
    "ASSIGN_VARIABLE": lambda step: step.values.states.assign(step),
    "CALL_ONCE": lambda step: step.values.states.begin(step),
}
