"""The graph that is written: nodes on tensors of fixed shape, and what data decides about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...refusals import Cut, Refusal, Remedy
from ..branches import OWN
from ..fold import fold
from ..graph import GraphEditor, Unsupported, readers_of
from ..tools import ToolError, light_step
from .extents import Extent, Ranges, are_whole, as_extents

Axes = Mapping[int, Extent]
REMEDY = Remedy(Cut())
WRONG = Remedy("export the model again", REMEDY)
# Inference by value of more elements is slow, and says nothing about shapes.
_SMALL = 1024


class BoundedGraph:
    """New nodes, and for each value which of its axes have fewer real rows than its tensor has.

    Along such an axis the first rows are real, as many as its extent says; the others hold
    anything. A value in ``integers`` is known as extents, and has a tensor only when it is asked
    for.

    Attributes:
        nodes: what was written so far.
        ranges: of the counts.
        integers: name -> array of Extent, of whole numbers of any type.
        refused: name -> why it cannot be had.
        readers: value of the model -> the nodes that read it.
        results: the values of the model that are its outputs.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.editor = GraphEditor(model)
        self.opset = self.editor.opset
        self.nodes: list[onnx.NodeProto] = []
        self.ranges = Ranges()
        self.integers: dict[str, np.ndarray] = {}
        self.refused: dict[str, Refusal] = {}
        self._kinds: dict[str, np.dtype] = {}
        self.readers = readers_of(model.graph)
        self.results = {value.name for value in model.graph.output}
        self.node = onnx.NodeProto()
        self._axes: dict[str, dict[int, Extent]] = {}
        self._other_names: dict[str, str] = {}
        self._made: dict[Any, Any] = {}
        self._producers: dict[str, onnx.NodeProto] = {}
        # The smaller of two extents -> these.
        self._smaller: dict[Extent, tuple[Extent, Extent]] = {}

    # -- values ---------------------------------------------------------------

    def name(self, value: str) -> str:
        """What a value of the model is called here."""
        return self._other_names.get(value, value)

    def inputs(self, node: onnx.NodeProto) -> list[str]:
        """What a node of the model takes, as it is called here; "" for what is left out."""
        return [self.name(value) for value in node.input]

    def rename(self, value: str, name: str) -> None:
        """Call a value of the model otherwise from now on."""
        self._other_names[value] = name

    def axes(self, value: str) -> Axes:
        """Axes of which not all rows are real, with how many are."""
        return self._axes.get(value, {})

    def shape(self, value: str) -> tuple[int, ...]:
        """Of the tensor: sizes as they are at the most. Raises Unsupported."""
        found = self.integers.get(value)
        return self.editor.shape(value) if found is None else found.shape

    def extents(self, value: str) -> list[Extent]:
        """Each size as it is. Raises Unsupported."""
        axes = self.axes(value)
        return [axes.get(axis, Extent(size)) for axis, size in enumerate(self.shape(value))]

    def dtype(self, value: str) -> np.dtype:
        """Element type. Raises Unsupported."""
        if value in self.integers:
            return self._kinds.get(value, np.dtype(np.int64))
        return self.editor.dtype(value)

    def constant(self, value: str) -> np.ndarray | None:
        """The value of a tensor that is the same for all data, else None."""
        return self.editor.constant(value) if value else None

    def numbers(self, value: str) -> np.ndarray | None:
        """A value as an array of Extent; None where it is not known so, or how many they are."""
        if value in self.integers:
            return self.integers[value]
        known = None if self.axes(value) else self.constant(value)
        return as_extents(known) if known is not None and are_whole(known) else None

    def set_axes(self, value: str, axes: Axes) -> str:
        """Note which rows of a value are real; its name."""
        shape = self.shape(value)
        self._axes[value] = {
            axis: extent for axis, extent in axes.items() if extent != Extent(shape[axis])
        }
        return value

    def new_numbers(self, numbers: Any, dtype: Any = np.int64) -> str:
        """A value of its own for an array of Extent, of an element type; its name."""
        found = np.empty(np.shape(numbers), object)
        found[...] = numbers
        value = self.editor.fresh(f"{self.node.name}/extents")
        if all(number.fixed for number in found.flat):
            known = np.array([n.constant for n in found.flat], dtype).reshape(found.shape)
            self.editor.set_constant(value, known)
        else:
            self.integers[value] = found
            self._kinds[value] = np.dtype(dtype)
        return value

    def refuse(self, node: onnx.NodeProto, refusal: Refusal) -> None:
        """Note why the results of a node cannot be had."""
        for value in filter(None, node.output):
            name = self.editor.fresh(f"{value}/refused")
            self.rename(value, name)
            self.refused[name] = refusal

    def described(self, name: str) -> onnx.ValueInfoProto:
        """A value's name and type."""
        kind = helper.np_dtype_to_tensor_dtype(self.dtype(name))
        return helper.make_tensor_value_info(name, kind, self.shape(name))

    def output(self, value: str, name: str) -> onnx.ValueInfoProto:
        """Add an output of the model with a value."""
        described = self.described(value)
        if value == name:
            return described
        self._append(helper.make_node("Identity", [value], [name]))
        self.editor.set_type(name, described.type.tensor_type)
        described.name = name
        return described

    # -- nodes ----------------------------------------------------------------

    def __call__(
        self, operator: str, *inputs: str | np.ndarray, rows: Axes | None = None, **attrs: Any
    ) -> str:
        """Add a node of one result; its name. Arrays become constants. Raises Unsupported."""
        return self.several(operator, *inputs, results=1, rows=rows, **attrs)[0]

    def several(
        self,
        operator: str,
        *inputs: str | np.ndarray,
        results: int,
        rows: Axes | None = None,
        **attrs: Any,
    ) -> list[str]:
        """Add a node of several results; their names."""
        names = [self.tensor(v) if isinstance(v, str) else self.constant_of(v) for v in inputs]
        outputs = [self.editor.fresh(f"{self.node.name}/{operator}") for _ in range(results)]
        node = helper.make_node(operator, names, outputs, **attrs)
        self.add(node)
        for output in outputs if rows else ():
            self.set_axes(output, rows or {})
        return outputs

    def own(
        self,
        operator: str,
        *inputs: str | np.ndarray,
        types: Sequence[tuple[Any, Sequence[int]]],
        **attrs: Any,
    ) -> list[str]:
        """Add a node of an operator that only this front end has, with results of these types."""
        names = [self.tensor(v) if isinstance(v, str) else self.constant_of(v) for v in inputs]
        outputs = [self.editor.fresh(f"{self.node.name}/{operator}") for _ in types]
        self._append(helper.make_node(operator, names, outputs, domain=OWN, **attrs))
        for output, (dtype, shape) in zip(outputs, types, strict=True):
            self.editor.set_shape(output, np.dtype(dtype), shape)
        return outputs

    def again(
        self, node: onnx.NodeProto, inputs: Sequence[str], rows: Axes | None = None
    ) -> list[str]:
        """Add a node like one of the model on other inputs; the names of its results."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self.tensor(name) if name else "" for name in inputs]
        copy.output[:] = [
            self.editor.fresh(f"{node.name}/{node.op_type}") if name else "" for name in node.output
        ]
        self.add(copy)
        for output in copy.output if rows else ():
            if output:
                self.set_axes(output, rows or {})
        return list(copy.output)

    def is_known(self, node: onnx.NodeProto) -> bool:
        """Whether nothing about a node of the model is new, and its results are of fixed shape."""
        try:
            for name in filter(None, node.output):
                self.editor.shape(name)
        except Unsupported:
            return False
        return all(self.name(value) == value for value in node.input)

    def keep(self, node: onnx.NodeProto) -> Sequence[str]:
        """Add a node of the model as it is; the names of its results."""
        self._write(node)
        return node.output

    def add(self, node: onnx.NodeProto) -> None:
        """Add a node, or its results as constants. Raises Unsupported for unknown shapes."""
        if fold(node, self.editor):
            return
        self._append(node)
        for name, kind in zip(node.output, self._inferred(node), strict=True):
            if name:
                self.editor.set_type(name, kind.tensor_type)
                self._need_shape(name, node)

    def _need_shape(self, name: str, node: onnx.NodeProto) -> None:
        """Raise Unsupported where a result of a node has no fixed shape: with what is wrong in the
        model, where it contradicts itself, as some exporters' do."""
        try:
            self.editor.shape(name)
        except Unsupported:
            reason, remedy = "its shape does not follow from its inputs", REMEDY
            try:
                light_step("infer", self._alone(node), strict=True)
            except ToolError as error:
                said = str(error).rpartition("InferenceError] ")[2]
                reason, remedy = f"it fits its inputs in no way: {said}", WRONG
            raise Unsupported(reason, remedy) from None

    def _append(self, node: onnx.NodeProto) -> None:
        node.name = self.editor.fresh(f"{self.node.name}/{node.op_type}")
        self._write(node)

    def _write(self, node: onnx.NodeProto) -> None:
        self.nodes.append(node)
        self._producers.update(dict.fromkeys(node.output, node))

    def producer(self, value: str) -> onnx.NodeProto | None:
        """The node that was written for a value; None of inputs, constants and integers."""
        return self._producers.get(value)

    def constant_of(self, value: np.ndarray) -> str:
        """The name of a constant."""
        key = (value.dtype.str, value.shape, value.tobytes())
        name = f"{self.node.name}/constant"
        return str(self.once(key, lambda: self.editor.make_constant(value, name)))

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made when it is asked for by this key first."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _inferred(self, node: onnx.NodeProto) -> list[onnx.TypeProto]:
        """The types of a node's results."""
        try:
            typed = light_step("infer", self._alone(node))
        except ToolError as error:
            raise Unsupported(
                f"its shape does not follow from its inputs ({error})", REMEDY
            ) from None
        found = {v.name: v.type for v in [*typed.graph.output, *typed.graph.value_info]}
        return [found.get(name, onnx.TypeProto()) for name in node.output]

    def _alone(self, node: onnx.NodeProto) -> onnx.ModelProto:
        """A model of one node, with what is known of its inputs."""
        graph = onnx.GraphProto(name="node", node=[node])
        for name in dict.fromkeys(filter(None, node.input)):
            shape = self.shape(name)
            # Of larger weights a light model has no values.
            known = self.constant(name) if math.prod(shape) <= _SMALL else None
            if known is not None:
                graph.initializer.append(onnx.numpy_helper.from_array(known, name))
                continue
            kind = helper.np_dtype_to_tensor_dtype(self.dtype(name))
            graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        graph.output.extend(helper.make_empty_tensor_value_info(n) for n in node.output if n)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])

    # -- what rules have in common --------------------------------------------

    def tensor(self, value: str) -> str:
        """The name of a tensor with a value, which for integers is computed here."""
        if value not in self.integers:
            return value
        numbers = self.integers[value]

        def computed() -> str:
            parts = [self.reshape(self.scalar(number), [1]) for number in numbers.flat]
            whole = parts[0] if len(parts) == 1 else self("Concat", *parts, axis=0)
            return self.cast(self.reshape(whole, numbers.shape), self.dtype(value))

        return str(self.once(("tensor", value), computed))

    def scalar(self, extent: Extent) -> str:
        """The int64 scalar of an extent."""
        return str(self.once(("scalar", extent), lambda: self._summed(extent)))

    def note_scalar(self, extent: Extent, name: str) -> None:
        """Note where an extent is computed already."""
        self._made.setdefault(("scalar", extent), name)

    def _summed(self, extent: Extent) -> str:
        if extent.fixed:
            return self.constant_of(np.array(extent.constant, np.int64))
        total = ""
        for name, factor in extent.terms:
            term = name if factor == 1 else self("Mul", name, np.array(factor, np.int64))
            total = self("Add", total, term) if total else term
        constant = np.array(extent.constant, np.int64)
        return self("Add", total, constant) if extent.constant else total

    def smaller(self, one: Extent, other: Extent) -> Extent:
        """The smaller of two extents."""
        if self.ranges.no_more(one, other):
            return one
        if self.ranges.no_more(other, one):
            return other
        return self._chosen("Min", min, one, other)

    def larger(self, one: Extent, other: Extent) -> Extent:
        """The larger of two extents."""
        if self.ranges.no_more(one, other):
            return other
        if self.ranges.no_more(other, one):
            return one
        return self._chosen("Max", max, one, other)

    def quotient(self, one: Extent, divisor: int) -> Extent | None:
        """How often a divisor above 0 is in an extent; None of one that may be below 0."""
        whole = one.divided(divisor)
        least, most = self.ranges.least(one) // divisor, self.ranges.most(one) // divisor
        if whole is not None or least < 0:
            return whole

        def made() -> Extent:
            name = self("Div", self.scalar(one), np.array(divisor, np.int64))
            return self.ranges.add(name, least, most, (one,), divisor)

        found: Extent = self.once(("Div", one, divisor), made)
        return found

    def _chosen(self, operator: str, choose: Any, one: Extent, other: Extent) -> Extent:

        def made() -> Extent:
            least, most = (
                choose(limit(one), limit(other)) for limit in (self.ranges.least, self.ranges.most)
            )
            name = self(operator, self.scalar(one), self.scalar(other))
            return self.count(name, least, most, (one, other) if operator == "Min" else ())

        found: Extent = self.once(_pair(operator, one, other), made)
        if operator == "Min":
            self._smaller[found] = (one, other)
        return found

    def joined(self, extents: Sequence[Extent]) -> Extent:
        """How many rows there are of several one after the other: of the first few and what is
        left of all, all."""
        total = sum(extents, Extent())
        for extent in (extent for extent in extents if extent in self._smaller):
            for one, other in permutations(self._smaller[extent]):
                rest: Extent | None = self._made.get(_pair("Max", other - one, Extent()))
                if rest is not None and rest in extents:
                    return total - extent - rest + other
        return total

    def count(self, name: str, least: int, most: int, below: Sequence[Extent] = ()) -> Extent:
        """An int64 scalar of the graph as an extent."""
        return self.ranges.add(name, least, most, below)

    def places(self, size: int) -> np.ndarray:
        """0, 1, 2, ... of int64."""
        return np.arange(size, dtype=np.int64)

    def real(self, extent: Extent, size: int) -> str:
        """Which of ``size`` rows are real: (size,) of bool."""

        def compared() -> str:
            return self("Less", self.places(size), self.scalar(extent))

        return str(self.once(("real", extent, size), compared))

    def masked(self, value: str, axis: int, fill: Any) -> str:
        """A value with ``fill`` in the rows of an axis that are not real."""
        axes = self.axes(value)
        if axis not in axes:
            return value
        shape = self.shape(value)
        sizes = [shape[axis] if place == axis else 1 for place in range(len(shape))]
        real = self.reshape(self.real(axes[axis], shape[axis]), sizes)
        return self("Where", real, value, np.array(fill, self.dtype(value)), rows=axes)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Add a Reshape where the shape is another."""
        if tuple(shape) == self.shape(value):
            return value
        return self("Reshape", value, np.array(shape, np.int64))

    def cast(self, value: str, dtype: Any) -> str:
        """Add a Cast where the type is another."""
        if self.dtype(value) == np.dtype(dtype):
            return value
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self("Cast", value, to=kind, rows=self.axes(value))

    def on_axes(self, operator: str, value: str, axes: Sequence[int], **attrs: Any) -> str:
        """Add Squeeze, Unsqueeze or ReduceSum, whose axes are an attribute before opset 13."""
        if self.opset < 13:
            return self(operator, value, axes=list(axes), **attrs)
        return self(operator, value, np.array(axes, np.int64), **attrs)

    def part(self, value: str, axis: int, start: int, end: int) -> str:
        """The rows of an axis from ``start`` to ``end`` of the tensor."""
        if (start, end) == (0, self.shape(value)[axis]):
            return value
        places = (np.array([place], np.int64) for place in (start, end, axis))
        rows = {a: extent for a, extent in self.axes(value).items() if a != axis}
        return self("Slice", value, *places, rows=rows)

    def taken(self, value: str, axis: int, indices: str | np.ndarray, extent: Extent) -> str:
        """Rows of an axis by their place in the tensor; of these the first ``extent`` are real."""
        rows = {**self.axes(value), axis: extent}
        return self("Gather", value, indices, axis=axis, rows=rows)

    def to_size(self, value: str, axis: int, size: int) -> str:
        """A value with exactly ``size`` rows of an axis, whatever is in those that are new."""
        shape, axes = self.shape(value), dict(self.axes(value))
        axes.setdefault(axis, Extent(shape[axis]))
        if shape[axis] >= size:
            cut = self.part(value, axis, 0, size)
            return self.set_axes(cut, axes) if cut != value else value
        missing = (*shape[:axis], size - shape[axis], *shape[axis + 1 :])
        nothing = np.zeros(missing, self.dtype(value))
        if not shape[axis]:
            return self.set_axes(self("Identity", nothing), axes)
        return self("Concat", value, nothing, axis=axis, rows=axes)


def _pair(operator: str, one: Extent, other: Extent) -> tuple[Any, ...]:
    """What one of two extents is kept by."""
    return (operator, *sorted((one, other), key=lambda extent: (extent.constant, extent.terms)))
