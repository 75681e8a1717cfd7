"""Constants folded by onnxsim, as far as it can be trusted with a model."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence

import onnx

from .graph import fixed_values, inferred, with_input_shapes
from .tools import ToolError, run

LOGGER = logging.getLogger(__name__)
# A network that needs more has not been seen.
MAX_RUNS = 4


def simplified(
    proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto | None:
    """The model for these shapes of its inputs, with its constants folded.

    None where onnxsim fails, returns a broken model, dies of it or takes too long.
    """
    if _has_empty_values(proto, shapes):
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
    return result


def _simplified_once(
    proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto | None:
    given = {name: list(shape) for name, shape in shapes.items()}
    try:
        result: onnx.ModelProto = run("simplify", proto, shapes=given)
    except ToolError as error:
        LOGGER.debug("onnxsim cannot simplify the model: %s", error)
        return None
    same = [v.name for v in result.graph.output] == [v.name for v in proto.graph.output]
    return result if same else None


def _open_values(model: onnx.ModelProto | None) -> int:
    """How many results of nodes have no fixed shape that is known."""
    if model is None:
        return 0
    graph = inferred(model).graph
    fixed = fixed_values(graph)
    return sum(bool(name) and name not in fixed for node in graph.node for name in node.output)


def _has_empty_values(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether something that the graph computes has no elements, as far as shapes can be told."""
    model = inferred(with_input_shapes(proto, shapes))
    return any(
        size.HasField("dim_value") and size.dim_value == 0
        for value in (*model.graph.value_info, *model.graph.output)
        for size in value.type.tensor_type.shape.dim
    )
