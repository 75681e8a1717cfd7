"""Flags made numbers and compared: the shader looks at the flag."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import tirx
from tvm.ir.prim import expr as prim

from support.conformance.conformance_worker import executor
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.vulkan.codegen.glsl.flags import compared_flag

FLAG, OTHER = tirx.Var("flag", "bool"), tirx.Var("other", "int64")


def number(value, dtype="int64"):
    return tirx.const(value, dtype)


def cast(dtype="int64", flag=FLAG):
    return prim.Cast(dtype, flag)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (prim.LT(number(0), cast()), True),
        (prim.GT(cast(), number(0)), True),
        (prim.NE(cast(), number(0)), True),
        (prim.GE(cast(), number(1)), True),
        (prim.EQ(cast(), number(1)), True),
        (prim.EQ(number(0), cast()), False),
        (prim.LT(cast(), number(1)), False),
        (prim.LE(cast(), number(0)), False),
        (prim.LT(number(0.5, "float32"), cast("float32")), True),
        (prim.LT(number(0), cast("int64", cast("int8"))), True),
        (prim.LT(prim.Broadcast(number(0), 4), cast("int64x4", tirx.Var("f", "boolx4"))), True),
        (prim.LT(number(1), cast()), None),
        (prim.EQ(cast(), number(2)), None),
        (prim.LT(number(0), OTHER), None),
        (prim.LT(OTHER, cast()), None),
        (prim.LT(number(0), cast("int64", tirx.Var("narrow", "int32"))), None),
    ],
    ids=str,
)
def test_what_a_comparison_asks(node, found):
    result = compared_flag(node)
    assert (None if result is None else result[1]) is found


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_a_choice_by_flags_in_vectors(dtype):
    """So many elements that each thread computes four of them."""
    count = 1 << 17
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("Less", ["places", "end"], ["real"]),
         helper.make_node("Where", ["real", "x", "none"], ["y"])],
        "masked",
        [helper.make_tensor_value_info("end", TensorProto.INT64, ()),
         helper.make_tensor_value_info("x", kind, (count,))],
        [helper.make_tensor_value_info("y", kind, (count,))],
        [numpy_helper.from_array(np.arange(count), "places"),
         numpy_helper.from_array(np.array(-1, dtype), "none")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    end, x = np.array(count // 2 + 3), np.arange(count).astype(dtype)
    (found,) = executor(import_onnx(model), "vulkan")(end, x)
    np.testing.assert_array_equal(found, np.where(np.arange(count) < end, x, dtype(-1)))
