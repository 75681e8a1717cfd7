"""Constants folded by onnxsim, as far as it can be trusted with a model."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ..refusals import RefusedNodes
from .computed_weights import with_weights_computed
from .contributed import standard_operators
from .fold import folded, with_sizes_folded
from .graph import (
    GraphEditor,
    Unsupported,
    attribute,
    fixed_values,
    graph_inputs,
    inferred,
    nodes_in,
    with_input_shapes,
)
from .known_sizes import shape_of
from .stand_ins import READING, put_back, with_stand_ins
from .tools import ToolError, run, without_large_values

LOGGER = logging.getLogger(__name__)
# A network that needs more has not been seen.
MAX_RUNS = 4
# Passes of onnxsim that change what a network computes. The zeros before a mean of windows are
# counted, and those of its own padding are not: as one padding all of them are.
WRONG = ("fuse_pad_into_pool",)


def simplified(
    proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto | None:
    """The model for these shapes of its inputs, with its constants folded.

    None where onnxsim fails, returns a broken model, dies of it or takes too long.
    """
    proto = with_weights_computed(proto)
    typed = inferred(with_input_shapes(without_large_values(proto), shapes))
    if _has_empty_values(typed):
        LOGGER.debug("not simplified: onnxsim dies of tensors without elements")
        return None
    result = _simplified_once(proto, shapes)
    # What one run fixes may be what the next one needs. Most models are fixed after the first.
    before, after = sys.maxsize, _open_values(result)
    for _ in range(MAX_RUNS - 1):
        if result is None or not 0 < after < before:
            break
        again = _simplified_once(result, shapes)
        before, after = after, _open_values(again)
        result = again if again is not None and after < before else result
    # What it finds to have no elements it computes all the same, and TVM dies of some of that; of
    # an operator set that is newer than itself it folds nothing, and sizes stay open.
    if result is None or not (
        _open_values(result) or _has_empty_values(inferred(without_large_values(result)))
    ):
        return result
    return folded(result)


def _simplified_once(
    proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto | None:
    light, away = with_stand_ins(proto)
    try:
        result = _run(_with_sizes(light, shapes), shapes, without=READING) if away else None
        if result is None or not put_back(result, away):
            result = _run(_with_sizes(proto, shapes), shapes)
    except Unsupported as error:
        LOGGER.debug("not simplified: onnxsim would join reshapes: %s", error)
        return None
    if result is None:
        return None
    if changed := _changed_values(result):
        LOGGER.debug("not simplified: onnxsim gives '%s' another shape", changed[0])
        return None
    # Newer versions of it write operators that onnxruntime alone has, as Attention.
    with contextlib.suppress(RefusedNodes):
        result = standard_operators(result, shapes)
    if others := _domains(result) - _domains(proto):
        LOGGER.debug("not simplified: onnxsim writes operators of %s", sorted(others))
        return None
    # What passes an input on it may leave out and call the input as the result was.
    same = _ends(result) == _ends(proto)
    return result if same else None


def _domains(model: onnx.ModelProto) -> set[str]:
    """Where the operators of a model are from."""
    return {node.domain for node in nodes_in(model.graph)}


def _ends(model: onnx.ModelProto) -> list[list[str]]:
    """The names of a model's inputs and of its outputs."""
    return [
        [value.name for value in values] for values in (graph_inputs(model), model.graph.output)
    ]


def _with_sizes(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """What follows from shapes alone, folded: onnxsim has onnxruntime compute each such node, of
    which older exports have thousands, and takes ten times as long as this."""
    made = with_sizes_folded(with_input_shapes(model, shapes))
    made = _with_sizes_in_reshapes(made)
    weights = {tensor.name for tensor in made.graph.initializer}
    # What was inferred is forgotten: onnxsim infers more, and believes what it is told.
    for values, kept in (
        (made.graph.value_info, [v for v in model.graph.value_info if v.name not in weights]),
        (made.graph.output, model.graph.output),
    ):
        del values[:]
        values.extend(kept)
    return made


def _run(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], without: Sequence[str] = ()
) -> onnx.ModelProto | None:
    """What onnxsim makes of a model; None where it refuses."""
    given = {name: list(shape) for name, shape in shapes.items()}
    try:
        made: onnx.ModelProto = run("simplify", model, shapes=given, without=[*WRONG, *without])
    except ToolError as error:
        LOGGER.debug("onnxsim cannot simplify the model: %s", error)
        return None
    return made


def _open_values(model: onnx.ModelProto | None) -> int:
    """How many results of nodes have no fixed shape that is known."""
    if model is None:
        return 0
    graph = inferred(without_large_values(model)).graph
    fixed = fixed_values(graph)
    return sum(bool(name) and name not in fixed for node in graph.node for name in node.output)


def _changed_values(model: onnx.ModelProto) -> list[str]:
    """Names of values that do not have the sizes that onnxsim says they have: it knew them before
    it made another network of it."""
    light = without_large_values(model)
    light.graph.ClearField("value_info")
    found = _fixed_sizes(inferred(light).graph)
    said = _fixed_sizes(model.graph)
    return [name for name, sizes in said.items() if found.get(name, sizes) != sizes]


def _fixed_sizes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    sizes = {value.name: shape_of(value.type) for value in graph.value_info}
    return {name: known for name, known in sizes.items() if known is not None}


def _with_sizes_in_reshapes(typed: onnx.ModelProto) -> onnx.ModelProto:
    """A model with sizes in place of a Reshape's zeros: onnxsim leaves out the first of two, and
    the zeros stand for sizes that the first one gives. It makes Reshapes of its own around the
    matrices of a product with bias, too.

    typed: with the types of its values. Raises Unsupported where these are not known behind another
    Reshape.
    """
    graph = GraphEditor(typed)
    reshaped = {
        name for node in typed.graph.node if node.op_type == "Reshape" for name in node.output
    }
    told = reshaped | fixed_values(typed.graph)
    nodes, changed = [], False
    for node in typed.graph.node:
        shape = graph.constant(node.input[1]) if _copies_sizes(node) else None
        if shape is None or not np.any(shape == 0) or node.input[0] not in told:
            nodes.append(node)
            continue
        before = graph.shape(node.input[0])
        sizes = [before[axis] if size == 0 else size for axis, size in enumerate(shape)]
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.input[1] = graph.make_constant(np.array(sizes, np.int64), node.input[1])
        nodes.append(plain)
        changed = True
    return graph.with_nodes(typed, nodes) if changed else typed


def _copies_sizes(node: onnx.NodeProto) -> bool:
    """Whether a node reshapes, with 0 for a size that stays."""
    reshapes = node.op_type == "Reshape" and len(node.input) > 1
    return reshapes and not attribute(node, "allowzero", 0)


def _has_empty_values(model: onnx.ModelProto) -> bool:
    """Whether something that the graph computes has no elements, as far as shapes can be told."""
    return any(
        size.HasField("dim_value") and size.dim_value == 0
        for value in (*model.graph.value_info, *model.graph.output)
        for size in value.type.tensor_type.shape.dim
    )
