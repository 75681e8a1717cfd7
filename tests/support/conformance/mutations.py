"""Node tests changed at random: other ranks and sizes, attributes at their edges, inputs left out
or made constants, other types and opsets, bodies around them. onnxruntime judges which of them are
models, and what they come to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_vision.frontend.onnx.graph import is_plain, least_ir_version

from .onnx_cases import TYPES, Case, as_type

WHOLE = (-3, -2, -1, 0, 1, 2, 3, 4)
REAL = (0.0, -1.0, 0.5, 1.0, 2.0, 1e-6, 100.0)
OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
SIZES = (0, 1, 2, 3, 5)
# Values of attributes that are words.
WORDS = (
    *("linear", "nearest", "cubic", "bilinear", "half_pixel", "align_corners", "asymmetric"),
    *("pytorch_half_pixel", "floor", "ceil", "round_prefer_ceil", "SAME_UPPER", "SAME_LOWER"),
    *("VALID", "NOTSET", "constant", "reflect", "edge", "wrap", "zeros", "border", "reflection"),
    *("DCR", "CRD", "add", "mul", "max", "min", "none", "mean", "sum", "LEFT", "RIGHT"),
    *("forward", "reverse", "bidirectional", "tanh", "avg", "output_half_pixel"),
)


class Mutator:
    """Changes a case in a few ways, which follow from the seed and the name of the case."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = np.random.default_rng([seed, zlib.crc32(name.encode())])

    def changed(self, case: Case) -> Case:
        """A copy of a case, changed in one to three ways; its outputs are those of before."""
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        changed = replace(case, model=model, inputs=dict(case.inputs))
        ways: Sequence[Callable[[Case], None]] = (
            self._rank, self._size, self._attribute, self._attribute, self._left_out,
            self._constant, self._listed, self._type, self._opset, self._values,
        )  # fmt: skip
        for _ in range(1 + int(self._random.integers(3))):
            self._one(ways)(changed)
        wrap = self._one((None, None, None, self._in_function, self._in_branch, self._aliased))
        if wrap is not None:
            wrap(changed)
        for value in model.graph.output:
            value.ClearField("type")
        del model.graph.value_info[:]
        return changed

    def _one(self, of: Any) -> Any:
        found = list(of)
        return found[self._random.integers(len(found))] if found else None

    def _reshaped(self, case: Case, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        """Give all inputs of one shape another."""
        name = self._one(case.inputs)
        if name is None:
            return
        shape = case.inputs[name].shape
        for other, array in list(case.inputs.items()):
            if array.shape == shape:
                self._set(case, other, np.resize(array, change(shape)))

    def _rank(self, case: Case) -> None:
        which = self._random.integers(4)
        rank = int(self._random.integers(0, 6))

        def change(shape: tuple[int, ...]) -> tuple[int, ...]:
            if which == 0:
                return (1, *shape)
            if which == 1:
                return shape[1:]
            if which == 2:
                return (2, *shape)
            return (*shape, *[2] * 5)[:rank]

        self._reshaped(case, change)

    def _size(self, case: Case) -> None:
        place, size = self._random.random(), int(self._one(SIZES))

        def change(shape: tuple[int, ...]) -> tuple[int, ...]:
            axis = int(place * len(shape))
            return tuple(size if i == axis else old for i, old in enumerate(shape))

        self._reshaped(case, change)

    def _values(self, case: Case) -> None:
        name = self._one(case.inputs)
        if name is not None and case.inputs[name].dtype.kind in "fi":
            # ONNX's formulas divide by the scale of nothing but zeros, where operators do not.
            sign = self._one((-1, 10) if "_expanded" in case.name else (-1, 10, 0))
            self._set(case, name, (case.inputs[name] * sign).astype(case.inputs[name].dtype))

    def _set(self, case: Case, name: str, array: np.ndarray) -> None:
        case.inputs[name] = array
        for value in case.model.graph.input:
            if value.name == name:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                value.CopyFrom(helper.make_tensor_value_info(name, kind, array.shape))

    def _attribute(self, case: Case) -> None:
        node = self._one(case.model.graph.node)
        entry = self._one(node.attribute) if node is not None else None
        if entry is None:
            return
        if self._random.random() < 0.25:
            node.attribute.remove(entry)
        elif entry.type == onnx.AttributeProto.INT:
            entry.i = int(self._one(WHOLE))
        elif entry.type == onnx.AttributeProto.FLOAT:
            entry.f = float(self._one(REAL))
        elif entry.type == onnx.AttributeProto.INTS and entry.ints:
            entry.ints[self._random.integers(len(entry.ints))] = int(self._one(WHOLE))
        elif entry.type == onnx.AttributeProto.STRING:
            entry.s = str(self._one(WORDS)).encode()

    def _left_out(self, case: Case) -> None:
        node = self._one(case.model.graph.node)
        if node is None or len(node.input) < 2:
            return
        place = int(self._random.integers(1, len(node.input)))
        name = node.input[place]
        if place == len(node.input) - 1:
            del node.input[place]
        else:
            node.input[place] = ""
        if not any(name in other.input for other in case.model.graph.node):
            self._forget(case, name)

    def _forget(self, case: Case, name: str) -> None:
        case.inputs.pop(name, None)
        kept = [value for value in case.model.graph.input if value.name != name]
        del case.model.graph.input[:]
        case.model.graph.input.extend(kept)

    def _constant(self, case: Case) -> None:
        """An input becomes a weight, or the result of a node."""
        name = self._one(case.inputs)
        if name is None or len(case.inputs) < 2:
            return
        tensor = numpy_helper.from_array(case.inputs[name], name)
        self._forget(case, name)
        if self._random.random() < 0.5:
            case.model.graph.initializer.append(tensor)
            return
        nodes = list(case.model.graph.node)
        del case.model.graph.node[:]
        constant = helper.make_node("Constant", [], [name], value=tensor)
        case.model.graph.node.extend([constant, *nodes])

    def _listed(self, case: Case) -> None:
        """Weights listed among the inputs, as files of old versions have them."""
        listed = {value.name for value in case.model.graph.input}
        for tensor in case.model.graph.initializer:
            if tensor.name not in listed:
                case.model.graph.input.append(
                    helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )

    def _type(self, case: Case) -> None:
        name = self._one(case.inputs)
        if name is None:
            return
        old, kind = case.inputs[name].dtype, str(self._one(TYPES))
        for other, array in list(case.inputs.items()):
            if array.dtype == old:
                self._set(case, other, as_type(array, kind))
        for tensor in case.model.graph.initializer:
            value = numpy_helper.to_array(tensor)
            if value.dtype == old:
                tensor.CopyFrom(numpy_helper.from_array(as_type(value, kind), tensor.name))

    def _opset(self, case: Case) -> None:
        version = int(self._one(OPSETS))
        for entry in case.model.opset_import:
            if is_plain(entry.domain):
                entry.version = version
        case.model.ir_version = least_ir_version(case.model)

    def _in_function(self, case: Case) -> None:
        """All nodes within a function that the model brings along."""
        graph = case.model.graph
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [value.name for value in graph.input if value.name not in weights]
        inputs += sorted(weights)
        outputs = [value.name for value in graph.output]
        imports = list(case.model.opset_import)
        body = helper.make_function("ours", "Body", inputs, outputs, list(graph.node), imports)
        case.model.functions.append(body)
        case.model.opset_import.append(helper.make_opsetid("ours", 1))
        case.model.ir_version = max(case.model.ir_version, 8)
        del graph.node[:]
        graph.node.append(helper.make_node("Body", inputs, outputs, domain="ours"))

    def _in_branch(self, case: Case) -> None:
        """All nodes within both branches of a condition that is known."""
        graph = case.model.graph
        branches = {}
        for which in ("then", "else"):
            nodes = []
            for node in graph.node:
                step = onnx.NodeProto()
                step.CopyFrom(node)
                made = {name for n in graph.node for name in n.output if name}
                step.input[:] = [f"{which}.{n}" if n in made else n for n in node.input]
                step.output[:] = [f"{which}.{n}" if n else n for n in node.output]
                nodes.append(step)
            results = [helper.make_empty_tensor_value_info(f"{which}.{value.name}")
                       for value in graph.output]  # fmt: skip
            branches[f"{which}_branch"] = helper.make_graph(nodes, which, [], results)
        outputs = [value.name for value in graph.output]
        known = numpy_helper.from_array(np.array(bool(self._random.integers(2))), "known")
        graph.initializer.append(known)
        del graph.node[:]
        graph.node.append(helper.make_node("If", ["known"], outputs, **branches))

    def _aliased(self, case: Case) -> None:
        """The default domain by its other name."""
        for entry in case.model.opset_import:
            if not entry.domain:
                entry.domain = "ai.onnx"
        for node in case.model.graph.node:
            if not node.domain:
                node.domain = "ai.onnx"
