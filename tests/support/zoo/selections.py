"""Networks that choose by numbers: a fault is told from a near tie by letting both engines choose
by the same numbers.

Where a network sorts, compares or suppresses, results a rounding apart may choose otherwise, and
what comes behind has then nothing in common. So a network is compared stretch by stretch: what a
choice reads becomes an output of ours, and the reference chooses by our numbers. Every stretch then
begins with the same choices, and has to end within the tolerance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tvm_vision.evaluate import OutputError, Reference, compare_outputs
from tvm_vision.frontend.onnx.cut import plain_onnx
from tvm_vision.frontend.onnx.graph import graph_inputs
from tvm_vision.frontend.signature import Signature

Arrays = Mapping[str, np.ndarray]
# Operators whose results jump where a number crosses another, with the inputs that decide.
CHOICES = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod"), (0, 1)),
    **dict.fromkeys(("ArgMax", "ArgMin", "Ceil", "Floor", "Hardmax", "Round", "Sign"), (0,)),
    **dict.fromkeys(("Cast", "NonZero", "TopK", "Unique"), (0,)),
    "NonMaxSuppression": (0, 1),
}
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
# How a signature says which rows of an output are real.
_REAL = re.compile(r"the first (\S+) along axis (\d+)")


class Selections:
    """A model of a file, and what its choices read."""

    def __init__(self, path: Path, shapes: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """shapes, values: of inputs, as for ``import_onnx``."""
        self._plain = plain_onnx(path, shapes, values)
        self._inputs = [value.name for value in graph_inputs(self._plain)]
        self._kinds = self._computed()
        self._nodes = [node for node in self._plain.graph.node if any(self._read_by(node))]
        self.read = list(
            dict.fromkeys(name for node in self._nodes for name in self._read_by(node))
        )

    def _computed(self) -> dict[str, int]:
        """The type of each value that depends on the inputs."""
        graph = self._plain.graph
        values = [*graph.value_info, *graph.output, *graph.input]
        kinds = {value.name: value.type.tensor_type.elem_type for value in values}
        found = {name: kinds[name] for name in self._inputs}
        for node in graph.node:
            if not found.keys().isdisjoint(node.input):
                found |= {name: kinds.get(name, 0) for name in node.output if name}
        return found

    def _read_by(self, node: onnx.NodeProto) -> Iterator[str]:
        """The numbers that a node chooses by."""
        for index in CHOICES.get(node.op_type, ()):
            name = node.input[index] if index < len(node.input) else ""
            if self._kinds.get(name) in _FLOATS:
                # A Cast of one kind of fraction to another chooses nothing.
                if node.op_type != "Cast" or self._kinds.get(node.output[0]) not in _FLOATS:
                    yield name

    def model(self) -> onnx.ModelProto:
        """The model with what its choices read as outputs, behind its own."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self._plain)
        known = {value.name: value for value in [*copy.graph.value_info, *copy.graph.input]}
        own = {value.name for value in copy.graph.output}
        for name in self.read:
            if name not in own and name not in self._inputs:
                copy.graph.output.add().CopyFrom(known[name])
        return copy

    def errors(
        self, signature: Signature, feed: Arrays, ours: Arrays, nudges: Sequence[Arrays] = ()
    ) -> Iterator[tuple[OutputError, float]]:
        """How far outputs, and what choices read, are from the reference's that chooses by our
        numbers, and how far these are from what that makes of ``nudges`` of the feed.

        signature, ours: of ``model()``.
        """
        read = [name for name in self.read if name not in self._inputs]
        wanted = self._by_ours(signature, feed, ours, read)
        others = [self._by_ours(signature, nudge, ours, read) for nudge in nudges]
        own: dict[str, float] = {}
        for other in others:
            for error in compare_outputs(other, wanted):
                own[error.name] = max(own.get(error.name, 0.0), error.error)
        for error in compare_outputs(ours, wanted):
            yield error, own.get(error.name, 0.0)

    def first_tie(self, signature: Signature, feed: Arrays, ours: Arrays) -> str:
        """The first choice that is another by our numbers than by the reference's, in a few words;
        empty where there is none."""
        chosen = [name for node in self._nodes for name in node.output if name]
        theirs = Reference(self._plain, values=chosen).run(feed)
        by_ours = self._by_ours(signature, feed, ours, chosen)
        for node in self._nodes:
            for name in node.output:
                if not name or (theirs[name].dtype.kind == "f" and node.op_type == "TopK"):
                    continue
                if theirs[name].shape != by_ours[name].shape:
                    return f"{node.op_type} '{node.name}'"
                other = int(np.count_nonzero(theirs[name] != by_ours[name]))
                if other:
                    return f"{node.op_type} '{node.name}', {other} of {theirs[name].size}"
        return ""

    def _by_ours(
        self, signature: Signature, feed: Arrays, ours: Arrays, values: list[str]
    ) -> dict[str, np.ndarray]:
        """Outputs of the reference, and ``values``, where it chooses by our numbers."""
        known = {**feed, **_real_rows(signature, ours)}
        copy = onnx.ModelProto()
        copy.CopyFrom(self._plain)
        chosen_by = {node.name: list(self._read_by(node)) for node in self._nodes}
        given = {}
        for node in copy.graph.node:
            for index, name in enumerate(node.input):
                if name in chosen_by.get(node.name, ()):
                    node.input[index] = f"{name}.given"
                    given[f"{name}.given"] = known[name], self._kinds[name]
        for name, (array, kind) in given.items():
            sizes = [None] * array.ndim
            copy.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, sizes))
        arrays = {name: array for name, (array, _) in given.items()}
        return Reference(copy, values=values).run({n: feed[n] for n in self._inputs} | arrays)


def _real_rows(signature: Signature, ours: Arrays) -> dict[str, np.ndarray]:
    """Our outputs without the rows that are not real."""
    kept = dict(ours)
    for spec in signature.outputs:
        for count, axis in _REAL.findall(spec.units):
            kept[spec.name] = kept[spec.name].take(range(int(ours[count])), int(axis))
    return kept
