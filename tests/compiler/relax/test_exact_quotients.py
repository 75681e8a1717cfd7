"""Whole parts of quotients, as peaks of maps are decoded, against numpy on both targets."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from support.covering import covering
from tvm_vision.frontend.onnx.load import import_onnx

WIDTHS = np.array([3, 7, 41, 47, 55, 61, 80, 107, 160, 333], np.float32)
ROWS = 400


def model_of(step: str, divisor: str) -> tuple[object, list[np.ndarray]]:
    """Places at the beginning of each row of maps of all WIDTHS, and their rows."""
    places = np.arange(ROWS, dtype=np.float32)[:, np.newaxis] * WIDTHS
    inputs = {"places": places}
    constants = {}
    if divisor == "number":
        places = inputs["places"] = places[:, 3:4]
        constants["widths"] = WIDTHS[3]
    else:
        (inputs if divisor == "input" else constants)["widths"] = WIDTHS
    more = {"to": TensorProto.INT64} if step == "Cast" else {}
    nodes = [
        helper.make_node("Div", ["places", "widths"], ["quotient"]),
        helper.make_node(step, ["quotient"], ["rows"], **more),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        for name, value in inputs.items()
    ]
    kind = TensorProto.INT64 if step == "Cast" else TensorProto.FLOAT
    output = helper.make_tensor_value_info("rows", kind, places.shape)
    weights = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "rows", ends, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, list(inputs.values())


@pytest.mark.parametrize(
    ("step", "divisor", "target"),
    covering(["Cast", "Floor", "Ceil"], ["number", "constant", "input"], ["llvm", "vulkan"]),
)
def test_rows_of_a_map_are_whole(step: str, divisor: str, target: str) -> None:
    model, arrays = model_of(step, divisor)
    for options in ({}, {"precision": "fp16"}) if target == "vulkan" else ({},):
        (found,) = executor(import_onnx(model), target, **options)(*arrays)
        assert (found == np.arange(ROWS)[:, np.newaxis]).all()


def test_other_quotients_are_as_they_are() -> None:
    """Between whole numbers, with rests, below 0 and by 0."""
    x = np.array([[1, 2.5, -7, 0, np.inf, 1e30, 5, -5, np.nan, 1]], np.float32)
    nodes = [
        helper.make_node("Div", ["x", "d"], ["q"]), helper.make_node("Floor", ["q"], ["y"]),
    ]  # fmt: skip
    d = np.array([[3, 0.5, 2, 5, 2, 3, 0, 0, 1, np.inf]], np.float32)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in "xdy"]
    graph = helper.make_graph(nodes, "g", ends[:2], ends[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with np.errstate(all="ignore"):
        wanted = np.floor(x / d)
    for target in ("llvm", "vulkan"):
        (found,) = executor(import_onnx(model), target)(x, d)
        np.testing.assert_array_equal(found, wanted)
