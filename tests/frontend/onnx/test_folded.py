"""Constants that follow from constants are those that onnxruntime computes, or stay nodes."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.frontend.onnx.fold import folded
from tvm_vision.frontend.onnx.known_sizes import KnownSizes

OPSET = 21
RANDOM = np.random.default_rng(4)
Arrays = list[np.ndarray | None]


def real(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return RANDOM.integers(1, 9, shape).astype(dtype)


IMAGE, SCALES = real(1, 2, 5, 6), np.array([1, 1, 1.7, 0.6], np.float32)
BYTES, LENGTHS = numbers("uint8", 1, 2, 5, 6), np.array([3, 5], np.int32)
STATE = {"hidden_size": 4, "direction": "bidirectional"}
WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
FLOOR, ALIGNED = {"nearest_mode": "floor"}, {"coordinate_transformation_mode": "align_corners"}


def gates(count: int) -> Arrays:
    return [
        real(5, 2, 3),
        real(2, count * 4, 3),
        real(2, count * 4, 4),
        real(2, count * 8),
        LENGTHS,
    ]


NORM: Arrays = [IMAGE, real(2), real(2), real(2), real(2) ** 2]
# Operator, inputs, attributes, and the operator set where it is not the newest of the table.
NODES: dict[str, tuple[Any, ...]] = {
    "nearest": ("Resize", [IMAGE, None, SCALES], FLOOR),
    "nearest, aligned": ("Resize", [IMAGE, None, SCALES], ALIGNED),
    "linear, aligned": ("Resize", [IMAGE, None, SCALES], {"mode": "linear", **ALIGNED}),
    "cubic, aligned": ("Resize", [IMAGE, None, SCALES], {"mode": "cubic", **ALIGNED}),
    "bytes between bytes": ("Resize", [BYTES, None, SCALES], {"mode": "linear"}),
    "windows cut off": ("LpPool", [IMAGE], WINDOW),
    "largest of windows cut off": ("MaxPool", [IMAGE], WINDOW),
    "means of windows cut off": ("AveragePool", [IMAGE], WINDOW),
    "neighbours": ("LRN", [9 * IMAGE], {"size": 3}),
    "LSTM": ("LSTM", gates(4), STATE),
    "GRU": ("GRU", gates(3), STATE),
    "RNN": ("RNN", gates(1), STATE),
    "zeros": ("DynamicQuantizeLinear", [np.zeros(4, np.float32)], {}),
    "bytes of others": ("DynamicQuantizeLinear", [real(9)], {}),
    "between pixels": (
        "GridSample", [IMAGE, real(1, 4, 5, 2)], {"mode": "cubic", "padding_mode": "border"},
    ),
    "far below": ("LogSoftmax", [np.array([[90, -90, 0]], np.float16)], {}),
    "squares": ("ReduceSumSquare", [numbers("int32", 3, 4), np.array([0])], {}),
    "product beyond": ("ReduceProd", [numbers("int32", 30)], {}),
    "product": ("ReduceProd", [numbers("int64", 4)], {}),
    "mean of integers": ("ReduceMean", [numbers("int32", 3, 4)], {}),
    "sum of bytes": ("ReduceSum", [numbers("int32", 3, 4), np.array([1])], {}),
    "running sum": ("CumSum", [numbers("int32", 9), np.array(0)], {"exclusive": 1}),
    "power": ("Pow", [numbers("int32", 9), real(9) ** 2], {}),
    "negative remainder": ("Mod", [-numbers("int64", 9), numbers("int64", 9)], {}),
    "negative quotient": ("Div", [-numbers("int32", 9), numbers("int32", 9)], {}),
    "halves": ("Round", [np.arange(-3, 3, 0.5, np.float32)], {}),
    "bytes of negatives": ("Cast", [np.array([-1.5, 300.2], np.float32)], {"to": 2}),
    "four bits": (
        "Cast", [np.array([0.5, -1.5, 7.6, 20], np.float32)], {"to": TensorProto.INT4},
    ),
    "softmax of old": ("Softmax", [IMAGE], {"axis": 1}, 11),
    "logarithm of old": ("LogSoftmax", [IMAGE], {"axis": 1}, 11),
    "largest of old": ("Hardmax", [IMAGE], {"axis": 1}, 11),
    "norm": ("BatchNormalization", NORM, {}, 11),
    "softmax": ("Softmax", [IMAGE], {"axis": 1}),
    "ties": ("TopK", [numbers("float32", 20) // 4, np.array([7])], {}),
    "the last of equals": ("ArgMax", [numbers("int32", 20) // 4], {"select_last_index": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("known", [False, True], ids=["computed", "known by sizes"])
def test_as_onnxruntime_computes_them(name: str, known: bool) -> None:
    operator, arrays, attributes, *older = NODES[name]
    opset = older[0] if older else OPSET
    names = ["" if array is None else f"i{place}" for place, array in enumerate(arrays)]
    given = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    schema = onnx.defs.get_schema(operator, opset)
    count = {"BatchNormalization": 1}.get(
        operator, max(schema.min_output, min(2, schema.max_output))
    )
    results = [f"o{place}" for place in range(count)]
    four_bits = attributes.get("to") == TensorProto.INT4
    nodes = [helper.make_node(operator, names, results, "node", **attributes)]
    if four_bits:  # numpy has no arrays of them for onnxruntime
        nodes.append(helper.make_node("Cast", ["o0"], ["wide"], to=TensorProto.INT8))
    ends = ["wide"] if four_bits else results
    model = helper.make_model(
        helper.make_graph(
            nodes, "test", [], [onnx.ValueInfoProto(name=end) for end in ends],
            [numpy_helper.from_array(array, name) for name, array in given.items()],
        ),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=10,
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    wanted = dict(zip(ends, session.run(None, {}), strict=True))
    typed = onnx.shape_inference.infer_shapes(model)
    found = KnownSizes(typed).values if known else _constants(folded(model))
    for end in set(found) & set(ends):
        assert found[end].dtype == wanted[end].dtype
        np.testing.assert_allclose(
            found[end].astype("f8"), wanted[end].astype("f8"), rtol=1e-3, atol=1e-5
        )


def _constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
