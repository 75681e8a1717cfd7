"""A pad of what a reshape divided: a kernel of its own, for TVM mixes up the pads of its axes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tvm import sym, tirx
from tvm.ir import Range

from support.compiled import executor_of
from tvm_vision.compiler import compile_model
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx


def padded_pixels(size, pads):
    """DepthToSpace of 16 channels, then a Pad of the last two axes: top, left, bottom, right."""
    both = [0, 0, *pads[:2], 0, 0, *pads[2:]]
    nodes = [
        helper.make_node("DepthToSpace", ["x"], ["d"], blocksize=2, mode="DCR"),
        helper.make_node("Pad", ["d", "pads"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("pads", TensorProto.INT64, [8], both)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("size", "pads"), [((4, 4), (1, 1, 1, 1)), ((6, 4), (3, 1, 0, 2))])
def test_what_is_padded_is_what_was_read(size, pads):
    model = padded_pixels(size, pads)
    compiled = compile_model(*import_onnx(model), target="vulkan")
    executor = executor_of(compiled)
    image = np.random.default_rng(1).random((1, 16, *size), dtype=np.float32)
    executor.run(x=image)
    (wanted,) = Reference(model).run({"x": image}).values()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)


def test_tvm_still_mixes_up_the_pads():
    """Where this fails, TVM has been mended and shifted_reads can go."""
    i = tirx.Var("i", "int32")
    place = (i % 100 - 10) // 20 * 4 + (i % 10 - 1) // 2
    (simple,) = sym.iter_map_simplify([place], {i: Range(0, 512)})
    # The first pixel within the pads, by Python's arithmetic, which is that of the expressions.
    assert eval(str(place), {"i": 11}) == 0
    assert eval(str(simple), {"i": 11}) != 0
