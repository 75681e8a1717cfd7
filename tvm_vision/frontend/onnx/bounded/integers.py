"""Arithmetic on whole numbers that are followed, where it leaves them so."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..graph import Unsupported, attribute
from .extents import Extent, whole_numbers
from .graph import BoundedGraph
from .rules import axes_of

# The result, or None where it cannot be followed: then it is computed as a tensor.
Followed = np.ndarray | None
IntegerRule = Callable[[onnx.NodeProto, BoundedGraph, list[np.ndarray]], Followed]
# Before operator set 12 no minimum is one of integers: exporters take it of float32.
_TYPES = tuple(np.dtype(name) for name in ("int64", "int32", "float32", "float64"))


def _each(
    operation: Callable[[BoundedGraph, Extent, Extent], Extent | None],
) -> IntegerRule:
    """A rule for each pair of elements."""

    def rule(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
        def two(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            first, second = np.broadcast_arrays(first, second)
            result = np.empty(first.shape, object)
            for index in np.ndindex(first.shape):
                result[index] = operation(graph, first[index], second[index])
            return result

        result = reduce(two, values)
        return None if any(number is None for number in result.flat) else result

    return rule


def _product(graph: BoundedGraph, one: Extent, other: Extent) -> Extent | None:
    if one.fixed:
        return other.times(one.constant)
    return one.times(other.constant) if other.fixed else None


def _quotient(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    """Of integers without its remainder, of other numbers where there is none."""
    whole = graph.dtype(graph.inputs(node)[0]).kind != "f"

    def divided(graph: BoundedGraph, one: Extent, other: Extent) -> Extent | None:
        if not other.fixed or not other.constant:
            return None
        if one.fixed and whole:
            return Extent(int(np.trunc(one.constant / other.constant)))
        if other.constant > 0 and whole:
            return graph.quotient(one, other.constant)
        return one.divided(other.constant)

    return _each(divided)(node, graph, values)


def _rest(graph: BoundedGraph, one: Extent, other: Extent) -> Extent | None:
    """What is left of a number behind a division by another; None where a sign is not known."""
    if not other.fixed or other.constant < 1 or graph.ranges.least(one) < 0:
        return None
    quotient = graph.quotient(one, other.constant)
    return one - quotient.times(other.constant) if quotient is not None else None


def _over_axes(operation: Callable[[BoundedGraph, Extent, Extent], Extent | None]) -> IntegerRule:
    """A rule for a reduction of all elements of a vector."""

    def rule(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
        if values[0].ndim != 1 or not values[0].size:
            return None
        total = values[0][0]
        for number in values[0][1:]:
            total = operation(graph, total, number) if total is not None else None
        if total is None:
            return None
        result = np.empty([1] if attribute(node, "keepdims", 1) else [], object)
        result[...] = total
        return result

    return rule


def _same(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    return values[0]


def _negative(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    return _each(lambda g, one, _: one.times(-1))(node, graph, [values[0], values[0]])


def _concat(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    return np.concatenate(values, attribute(node, "axis", 0))


def _gather(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    places = graph.constant(graph.inputs(node)[1])
    if places is None:
        return None
    return _array(np.take(values[0], places, attribute(node, "axis", 0)))


def _slice(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    names = graph.inputs(node)
    listed = [attribute(node, name) for name in ("starts", "ends", "axes")]
    if listed[0] is None:
        listed = [graph.constant(name) if name else None for name in names[1:]]
        if listed[0] is None or listed[1] is None:
            return None
    starts, ends, axes, steps = (*listed, None, None)[:4]
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    result = values[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # ONNX says "to the first" by the smallest number there is.
        stop = None if step < 0 and end < -result.shape[axis] else int(end)
        part = [slice(None)] * result.ndim
        part[int(axis)] = slice(int(start), stop, int(step))
        result = result[tuple(part)]
    return result


def _reshape(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    shape = graph.constant(graph.inputs(node)[1])
    return None if shape is None else values[0].reshape([int(size) for size in shape])


def _transpose(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    return values[0].transpose(attribute(node, "perm"))


def _squeeze(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    axes = axes_of(node, graph)
    return values[0].squeeze(None if axes is None else tuple(axes))


def _unsqueeze(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    return np.expand_dims(values[0], tuple(axes_of(node, graph) or ()))


def _where(node: onnx.NodeProto, graph: BoundedGraph, values: list[np.ndarray]) -> Followed:
    condition = graph.constant(graph.inputs(node)[0])
    if condition is None:
        return None
    return _array(np.where(condition, values[1], values[2]))


def _array(value: Any) -> np.ndarray:
    """numpy gives the element itself for an array of no axes."""
    if isinstance(value, np.ndarray):
        return value
    result = np.empty((), object)
    result[()] = value
    return result


# Inputs that are no integers to be followed but parameters.
_FIRST_ONLY = frozenset(
    "Gather Slice Reshape Squeeze Unsqueeze ReduceMax ReduceMin ReduceProd ReduceSum".split()
)

INTEGERS: dict[str, IntegerRule] = {
    "Add": _each(lambda g, a, b: a + b),
    "Cast": _same,
    "Ceil": _same,
    "Concat": _concat,
    "Div": _quotient,
    "Floor": _same,
    "Gather": _gather,
    "Identity": _same,
    "Max": _each(lambda g, a, b: g.larger(a, b)),
    "Min": _each(lambda g, a, b: g.smaller(a, b)),
    "Mod": _each(_rest),
    "Mul": _each(_product),
    "Neg": _negative,
    "ReduceMax": _over_axes(lambda g, a, b: g.larger(a, b)),
    "ReduceMin": _over_axes(lambda g, a, b: g.smaller(a, b)),
    "ReduceProd": _over_axes(_product),
    "ReduceSum": _over_axes(lambda g, a, b: a + b),
    "Reshape": _reshape,
    "Round": _same,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _each(lambda g, a, b: a - b),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}

_COMPARED: dict[str, Callable[[BoundedGraph, Extent, Extent], bool | None]] = {
    "Equal": lambda g, a, b: _equal(g, a, b),
    "Greater": lambda g, a, b: _negated(_no_more(g, a, b)),
    "GreaterOrEqual": lambda g, a, b: _no_more(g, b, a),
    "Less": lambda g, a, b: _negated(_no_more(g, b, a)),
    "LessOrEqual": lambda g, a, b: _no_more(g, a, b),
}


def _no_more(graph: BoundedGraph, one: Extent, other: Extent) -> bool | None:
    if graph.ranges.no_more(one, other):
        return True
    return False if graph.ranges.no_more(other + Extent(1), one) else None


def _negated(known: bool | None) -> bool | None:
    return None if known is None else not known


def _equal(graph: BoundedGraph, one: Extent, other: Extent) -> bool | None:
    if one == other:
        return True
    apart = _no_more(graph, one + Extent(1), other) or _no_more(graph, other + Extent(1), one)
    return False if apart else None


def followed(node: onnx.NodeProto, graph: BoundedGraph) -> str | None:
    """The result of a node on integers that are followed; None where it has to be computed."""
    names = graph.inputs(node)
    rule, compare = INTEGERS.get(node.op_type), _COMPARED.get(node.op_type)
    if (rule is None and compare is None) or any(graph.axes(name) for name in names):
        return None
    wanted = names[:1] if node.op_type in _FIRST_ONLY else names
    values = [graph.numbers(name) for name in wanted]
    if node.op_type == "Where":
        values[0] = np.zeros(0)
    if any(value is None for value in values):
        return None
    known = [value for value in values if value is not None]
    try:
        if compare is not None:
            return _compared(node, graph, known, compare)
        assert rule is not None
        result = rule(node, graph, known)
    except (ValueError, IndexError) as error:
        raise Unsupported(f"sizes that do not fit ({error})", "export the model again") from None
    if result is None or not _are_held(graph, result, dtype := _type_of(node, graph)):
        return None
    return graph.new_numbers(result, dtype)


def _type_of(node: onnx.NodeProto, graph: BoundedGraph) -> np.dtype:
    if node.op_type == "Cast":
        return helper.tensor_dtype_to_np_dtype(attribute(node, "to"))
    return graph.dtype(graph.inputs(node)[1 if node.op_type == "Where" else 0])


def _are_held(graph: BoundedGraph, numbers: np.ndarray, dtype: np.dtype) -> bool:
    """Whether a type has all numbers that these can be."""
    if dtype not in _TYPES:
        return False
    held = whole_numbers(dtype)
    return all(
        graph.ranges.least(number) in held and graph.ranges.most(number) in held
        for number in numbers.flat
    )


def _compared(
    node: onnx.NodeProto,
    graph: BoundedGraph,
    values: list[np.ndarray],
    compare: Callable[[BoundedGraph, Extent, Extent], bool | None],
) -> str | None:
    first, second = np.broadcast_arrays(*values)
    found = [compare(graph, a, b) for a, b in zip(first.flat, second.flat, strict=True)]
    if any(part is None for part in found):
        return None
    return graph.constant_of(np.array(found, bool).reshape(first.shape))
