"""Constants folded by onnxsim, as far as it can be trusted with a model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import onnx

from .graph import inferred, with_input_shapes
from .tools import ToolError, run

LOGGER = logging.getLogger(__name__)


def simplified(
    proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto | None:
    """The model for these shapes of its inputs, with its constants folded.

    None where onnxsim fails, returns a broken model, dies of it or takes too long.
    """
    if _has_empty_values(proto, shapes):
        LOGGER.debug("not simplified: onnxsim dies of tensors without elements")
        return None
    given = {name: list(shape) for name, shape in shapes.items()}
    try:
        result: onnx.ModelProto = run("simplify", proto, shapes=given)
    except ToolError as error:
        LOGGER.debug("onnxsim cannot simplify the model: %s", error)
        return None
    same = [v.name for v in result.graph.output] == [v.name for v in proto.graph.output]
    return result if same else None


def _has_empty_values(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether something that the graph computes has no elements, as far as shapes can be told."""
    model = inferred(with_input_shapes(proto, shapes))
    return any(
        size.HasField("dim_value") and size.dim_value == 0
        for value in (*model.graph.value_info, *model.graph.output)
        for size in value.type.tensor_type.shape.dim
    )
