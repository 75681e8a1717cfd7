"""Shape inference by value, in a process of its own: shapes are computed, long values are not."""

import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.frontend.onnx.worker import LONG, infer

SIZE = 1 << 23


def model_of(nodes, inputs, outputs, **constants):
    held = [numpy_helper.from_array(np.asarray(v, np.int64), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sizes_of(model):
    values = [*model.graph.value_info, *model.graph.output]
    return {v.name: [size.dim_value for size in v.type.tensor_type.shape.dim] for v in values}


@pytest.fixture
def flags():
    """A row of flags as numbers, beside a reshape by sizes that are computed."""
    nodes = [
        helper.make_node("Cast", ["flags"], ["numbers"], to=TensorProto.INT64),
        helper.make_node("Add", ["numbers", "numbers"], ["twice"]),
        helper.make_node("Slice", ["twice", "from", "to"], ["part"]),
        helper.make_node("Shape", ["image"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "order"], ["turned"]),
        helper.make_node("Reshape", ["image", "turned"], ["reshaped"]),
    ]
    inputs = [
        helper.make_tensor_value_info("flags", TensorProto.BOOL, [SIZE]),
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [3, 4, 5]),
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("part", "reshaped")]
    numbers = {"order": [2, 0, 1], "from": [1], "to": [LONG + 3]}
    return model_of(nodes, inputs, outputs, **numbers)


def test_long_values_are_not_computed_and_shapes_are(flags):
    started = time.process_time()
    made = infer(flags)
    # Element by element it takes seconds and gigabytes.
    assert time.process_time() - started < 1
    sizes = sizes_of(made)
    assert (sizes["twice"], sizes["part"], sizes["reshaped"]) == ([SIZE], [LONG + 2], [5, 3, 4])
    assert [node.domain for node in made.graph.node] == [""] * 6
    assert made.opset_import == flags.opset_import
    onnx.checker.check_model(made)
